"""Draw the pictures of these pages: ``python docs/pictures/draw.py`` writes the SVG files beside this one.

Python's own library is enough, and nothing is random: the same script writes the same bytes. Colours follow the
light or dark theme of the page. Numbers in the pictures are computed here, by the formulas of the pages.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from html import escape
from pathlib import Path
from statistics import NormalDist

HERE = Path(__file__).resolve().parent
WIDTH = 600

LIGHT = {
    "page": "#f7f8fc", "frame": "#dfe3ee", "ink": "#1f2433", "muted": "#58617a", "line": "#aab2c6",
    "bin-a": "#e3e8f5", "bin-b": "#eff2fa", "one": "#2563c9", "two": "#c2541b", "same": "#1b7f4f", "differ": "#b8303a",
}  # fmt: skip
DARK = {
    "page": "#1c202e", "frame": "#333a50", "ink": "#e9ecf5", "muted": "#a7b0c6", "line": "#6d7690",
    "bin-a": "#2e3650", "bin-b": "#252b40", "one": "#82adff", "two": "#ffa670", "same": "#63d6a0", "differ": "#ff8a90",
}  # fmt: skip


def style() -> str:
    """Return the style sheet: fills and strokes by name, in both themes."""

    def colours(palette: dict[str, str]) -> str:
        return "".join(f".{name}{{fill:{c}}}.s-{name}{{stroke:{c}}}" for name, c in palette.items())

    return (
        "text{font-family:system-ui,-apple-system,'Segoe UI','Noto Sans','Liberation Sans',sans-serif}"
        ".none{fill:none}.b{font-weight:600}"
        f"{colours(LIGHT)}@media (prefers-color-scheme:dark){{{colours(DARK)}}}"
    )


class Picture:
    """An SVG under construction; classes name the colours."""

    def __init__(self, height: int, title: str, description: str) -> None:
        self.height = height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            'role="img" aria-labelledby="title description">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
            f"<style>{style()}</style>",
        ]
        self.rectangle(0.5, 0.5, WIDTH - 1, height - 1, "page s-frame", radius=12)

    def add(self, part: str) -> None:
        """Append an element."""
        self.parts.append(part)

    def rectangle(
        self, x: float, y: float, w: float, h: float, kind: str, radius: float = 0, opacity: float = 1
    ) -> None:
        """Draw a rectangle."""
        rounded = f' rx="{n(radius)}"' if radius else ""
        see_through = f' fill-opacity="{n(opacity)}"' if opacity < 1 else ""
        self.add(f'<rect x="{n(x)}" y="{n(y)}" width="{n(w)}" height="{n(h)}"{rounded} class="{kind}"{see_through}/>')

    def line(
        self, x1: float, y1: float, x2: float, y2: float, kind: str, width: float = 1.5, dashed: bool = False
    ) -> None:
        """Draw a straight line."""
        dashes = ' stroke-dasharray="4 4"' if dashed else ""
        self.add(
            f'<line x1="{n(x1)}" y1="{n(y1)}" x2="{n(x2)}" y2="{n(y2)}" class="s-{kind}" stroke-width="{n(width)}"'
            f'{dashes} stroke-linecap="round"/>'
        )

    def path(self, points: list[tuple[float, float]], kind: str, width: float = 2, opacity: float = 1) -> None:
        """Draw a curve through points, or fill the area under it."""
        way = "M" + "L".join(f"{n(x)} {n(y)}" for x, y in points)
        self.add(f'<path d="{way}" class="{kind}" stroke-width="{n(width)}" fill-opacity="{n(opacity)}"/>')

    def arrow(self, x1: float, y1: float, x2: float, y2: float, kind: str, width: float = 2) -> None:
        """Draw an arrow that ends at (x2, y2)."""
        angle = math.atan2(y2 - y1, x2 - x1)
        back = (x2 - 9 * math.cos(angle), y2 - 9 * math.sin(angle))
        self.line(x1, y1, *back, kind, width)
        side = (4.5 * math.sin(angle), -4.5 * math.cos(angle))
        corners = [(x2, y2), (back[0] + side[0], back[1] + side[1]), (back[0] - side[0], back[1] - side[1])]
        self.add(f'<polygon points="{" ".join(f"{n(x)},{n(y)}" for x, y in corners)}" class="{kind}"/>')

    def dot(self, x: float, y: float, kind: str, radius: float = 6) -> None:
        """Draw a dot."""
        self.add(f'<circle cx="{n(x)}" cy="{n(y)}" r="{n(radius)}" class="{kind} s-page" stroke-width="1.5"/>')

    def text(self, x: float, y: float, words: str, kind: str = "ink", size: int = 15, at: str = "start") -> None:
        """Write a line of text."""
        self.add(
            f'<text x="{n(x)}" y="{n(y)}" class="{kind}" font-size="{size}" text-anchor="{at}">{escape(words)}</text>'
        )

    def finish(self) -> str:
        """Return the file."""
        return "\n".join([*self.parts, "</svg>", ""])


def n(x: float) -> str:
    """Write a number short, and the same on every machine."""
    text = f"{x:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


# --- the grid --------------------------------------------------------------------------------------

BETA, MEANS, TRUTH = 0.2, (0.43, 0.47), 0.45


def answers(offset: float) -> list[float]:
    """Round both means to the middle of their bin, on the grid with this offset."""
    return [offset + (math.floor((mean - offset) / BETA) + 0.5) * BETA for mean in MEANS]


def grid() -> str:
    """Two means and a shared grid: in one bin, or in two."""
    picture = Picture(
        408,
        "Two means on a shared grid",
        "Two runs have the means 0.43 and 0.47. On one grid both lie in a bin and get the same answer, 0.40. On "
        "another grid an edge lies between them and the answers are 0.35 and 0.55.",
    )
    for top, offset, words in (
        (0, 0.10, "No edge between the means: one answer"),
        (200, 0.05, "An edge between them: two answers"),
    ):
        _panel(picture, top, offset, words)
    picture.line(24, 202, WIDTH - 24, 202, "frame", 1)
    return picture.finish()


def _panel(picture: Picture, top: float, offset: float, words: str) -> None:
    def x(value: float) -> float:
        return 30 + (value - 0.1) / 0.72 * (WIDTH - 60)

    base, height = top + 112, 30
    edges = [offset + k * BETA for k in range(-1, 6)]
    for k, edge in enumerate(edges):
        left, right = max(x(edge), 30), min(x(edge + BETA), WIDTH - 30)
        if right > left:
            picture.rectangle(left, base, right - left, height, "bin-a" if k % 2 else "bin-b")
    found = answers(offset)
    same = found[0] == found[1]
    picture.text(30, top + 32, words, f"b {'same' if same else 'differ'}", 16)
    bell = NormalDist(TRUTH, 0.035)
    curve = [(x(v / 400), base - 40 * bell.pdf(v / 400) / bell.pdf(TRUTH)) for v in range(128, 233)]
    picture.path(curve, "muted s-muted", 1.2, 0.12)
    picture.text(x(0.56), base - 18, "noise around the true mean", "muted", 13)
    for edge in edges:
        if 30 <= x(edge) <= WIDTH - 30:
            picture.line(x(edge), base - 8, x(edge), base + height + 8, "ink", 2)
    for mean, kind, name, at, shift in zip(
        MEANS, ("one", "two"), ("run 1", "run 2"), ("end", "start"), (-10, 10), strict=True
    ):
        picture.dot(x(mean), base + height / 2, kind, 7)
        picture.text(x(mean) + shift, base - 46, f"{name}: {mean:.2f}", f"b {kind}", 15, at)
    for answer in sorted(set(found)):
        kinds = [kind for kind, own in zip(("one", "two"), found, strict=True) if own == answer]
        for i, kind in enumerate(kinds):
            tick = x(answer) + 14 * (i - (len(kinds) - 1) / 2)
            picture.line(tick, base + height + 12, tick, base + height + 22, kind, 4)
        picture.text(x(answer), base + height + 42, f"answer {answer:.2f}", "b ink", 15, "middle")


# --- min(1, d / beta) -------------------------------------------------------------------------------


def separation() -> str:
    """How often an edge falls between two means: min(1, d/beta)."""
    picture = Picture(
        300,
        "The probability that the grid separates two means",
        "An edge of the grid is equally likely anywhere in an interval as long as a bin. It falls between two means at "
        "distance d in d of beta cases, so that the probability is d over beta, and 1 from d = beta on.",
    )
    left, right, y = 30, 270, 118
    d = MEANS[1] - MEANS[0]
    picture.text(left, 32, "Where can the edge lie?", "b ink", 16)
    picture.text(left, 54, "Anywhere, equally likely", "muted", 14)
    span = (right - left) * d / BETA
    begin = left + 96
    picture.rectangle(left, y, right - left, 34, "bin-a", 4)
    picture.rectangle(begin, y - 5, span, 44, "differ", 2, 0.3)
    picture.dot(begin, y + 17, "one", 7)
    picture.dot(begin + span, y + 17, "two", 7)
    picture.text(begin + span / 2, y - 15, "d", "b differ", 15, "middle")
    for end in (left, right):
        picture.line(end, y + 46, end, y + 58, "ink", 1.5)
    picture.line(left, y + 52, right, y + 52, "ink", 1.5)
    picture.text((left + right) / 2, y + 74, "β, the width of a bin", "b ink", 15, "middle")
    picture.text(left, y + 118, "Here it separates the two runs:", "muted", 14)
    picture.text(left, y + 139, f"d/β = {d:.2f}/{BETA:.2f} = {d / BETA:.2f}", "b differ", 15)

    ox, oy, w, h = 350, 232, 216, 164
    picture.text(ox - 26, 32, "Pr[two answers] = min(1, d/β)", "b ink", 15)
    for share in (0.5, 1.0):
        picture.line(ox, oy - h * share, ox + w, oy - h * share, "frame", 1)
        picture.text(ox - 8, oy - h * share + 5, f"{share:g}", "muted", 13, "end")
    picture.text(ox - 8, oy + 5, "0", "muted", 13, "end")
    one = w / 1.6  # where d = beta
    picture.path([(ox, oy), (ox + one, oy - h), (ox + w, oy - h), (ox + w, oy)], "differ", 0, 0.1)
    picture.path([(ox, oy), (ox + one, oy - h), (ox + w, oy - h)], "none s-differ", 3)
    picture.line(ox, oy, ox + w, oy, "ink", 1.5)
    picture.line(ox, oy, ox, oy - h - 8, "ink", 1.5)
    picture.line(ox + one, oy, ox + one, oy - h, "line", 1.2, dashed=True)
    picture.text(ox + one, oy + 20, "d = β", "muted", 13, "middle")
    here = (ox + one * d / BETA, oy - h * d / BETA)
    picture.line(here[0], oy, *here, "line", 1.2, dashed=True)
    picture.dot(*here, "differ", 6)
    picture.text(here[0] + 12, here[1] + 12, "this pair", "muted", 13)
    picture.text(ox + w / 2, oy + 44, "distance d of the two means", "ink", 14, "middle")
    return picture.finish()


# --- plain means -----------------------------------------------------------------------------------


def plain_means() -> str:
    """A tie stays a tie: more samples shrink the noise, and noise still decides."""
    picture = Picture(
        398,
        "Plain means decide a tie by noise",
        "Two actions are equally good. For m, 10 m and 100 m samples the estimated difference of their values scatters "
        "less and less around 0, but half of the runs still choose left and half choose right.",
    )
    runs, radius, middle = 24, 5.5, 336
    picture.text(24, 34, "Left and right are equally good. Each dot is a run.", "b ink", 16)
    picture.text(middle - 14, 64, "← chooses left", "b one", 15, "end")
    picture.text(middle + 14, 64, "chooses right →", "b two", 15)
    for label, spread, floor in (("m samples", 95.0, 116), ("10 m", 95.0 / 10**0.5, 200), ("100 m", 9.5, 324)):
        picture.text(24, floor - 4, label, "b ink", 15)
        picture.line(112, floor + 4, WIDTH - 24, floor + 4, "line", 1.2)
        stacked: Counter[int] = Counter()
        for i in range(runs):  # the run at quantile (i + 1/2)/runs of the noise, in columns beside the middle
            offset = NormalDist(0, spread).inv_cdf((i + 0.5) / runs)
            column = math.floor(offset / (2 * radius))
            at = middle + (column + 0.5) * 2 * radius, floor - 3 - 1.9 * radius * stacked[column]
            picture.dot(*at, "one" if offset < 0 else "two", radius)
            stacked[column] += 1
    picture.line(middle, 76, middle, 338, "ink", 1.5, dashed=True)
    picture.text(middle, 356, "0", "ink", 14, "middle")
    picture.text(middle, 378, "estimated value of right minus that of left", "muted", 14, "middle")
    return picture.finish()


# --- two randomnesses ------------------------------------------------------------------------------


def two_seeds() -> str:
    """One shared seed, two samples, one policy."""
    picture = Picture(
        424,
        "Two randomnesses",
        "The shared seed goes into both runs and is published. Every run has fresh samples of its own. The two "
        "policies are identical except with probability rho.",
    )
    columns = (150, 450)
    _box(picture, 300, 20, 236, 58, "same", "shared seed r", "published with the result")
    for x, kind, i in zip(columns, ("one", "two"), (1, 2), strict=True):
        _box(picture, x, 116, 176, 58, kind, f"sample seed {i}", "fresh data")
        _box(picture, x, 214, 176, 44, "ink", f"run {i}", None)
        picture.arrow(x, 174, x, 212, kind)
        picture.arrow(x, 258, x, 286, "ink")
        _policy(picture, x, 290)
    picture.line(300, 78, 300, 236, "same", 2)
    picture.arrow(300, 236, 240, 236, "same")
    picture.arrow(300, 236, 360, 236, "same")
    picture.text(300, 338, "=", "b same", 40, "middle")
    picture.text(300, 362, "except with", "same", 14, "middle")
    picture.text(300, 380, "probability ρ", "same", 14, "middle")
    return picture.finish()


def _box(
    picture: Picture, middle: float, y: float, w: float, h: float, kind: str, words: str, below: str | None
) -> None:
    picture.rectangle(middle - w / 2, y, w, h, f"{kind} s-{kind}", 8, 0.12)
    picture.text(middle, y + (25 if below else 28), words, f"b {kind}", 16, "middle")
    if below:
        picture.text(middle, y + 46, below, "muted", 14, "middle")


def _policy(picture: Picture, middle: float, y: float) -> None:
    """The two-goals grid with a policy."""
    cell = 36
    for row, line in enumerate(("G→G", "↑#↑", "↑→↑")):
        for column, mark in enumerate(line):
            x = middle + (column - 1.5) * cell
            picture.rectangle(x, y + row * cell, cell, cell, "line s-line" if mark == "#" else "bin-b s-line")
            if mark != "#":
                kind = "b same" if mark == "G" else "ink"
                picture.text(x + cell / 2, y + row * cell + 25, mark, kind, 20, "middle")


# --- counts ----------------------------------------------------------------------------------------


def counts() -> str:
    """Counts have the law of counted samples, and cost the same for every m."""
    picture = Picture(
        378,
        "Counts, not samples",
        "Drawing m samples one by one and counting them costs time proportional to m. Drawing the counts directly from "
        "their multinomial law costs the same for every m. The law of the counts is the same.",
    )
    kinds, probabilities = ("one", "two", "same"), (0.7, 0.15, 0.15)
    picture.text(24, 34, "Draw m samples, then count: work grows with m", "b ink", 16)
    found, state = [0, 0, 0], 5
    for i in range(60):
        state = (1103515245 * state + 12345) % 2**31  # a fixed sequence, for show
        u = state / 2**31
        j = 0 if u < probabilities[0] else 1 if u < probabilities[0] + probabilities[1] else 2
        found[j] += 1
        picture.dot(34 + 19 * (i % 15), 66 + 22 * (i // 15), kinds[j], 6.5)
    picture.arrow(330, 98, 384, 98, "ink")
    picture.text(356, 86, "count", "muted", 14, "middle")
    _bars(picture, 400, 56, found, kinds, [str(c) for c in found])
    picture.line(24, 180, WIDTH - 24, 180, "frame", 1)
    picture.text(24, 216, "Draw the counts: the same work for every m", "b ink", 16)
    picture.rectangle(24, 240, 290, 88, "muted s-muted", 8, 0.1)
    picture.text(169, 270, "m = 8 187 898 146 367 124", "b ink", 16, "middle")
    picture.text(169, 293, "one draw of the multinomial law", "muted", 14, "middle")
    picture.text(169, 313, "of 3 counts", "muted", 14, "middle")
    picture.arrow(330, 284, 384, 284, "ink")
    share = [round(100 * p) for p in probabilities]
    _bars(picture, 400, 242, share, kinds, ["≈ 0.70 m", "≈ 0.15 m", "≈ 0.15 m"])
    picture.text(24, 354, "Both ways give the counts the same law, exactly.", "b same", 15)
    return picture.finish()


def _bars(picture: Picture, x: float, y: float, sizes: list[int], kinds: tuple[str, ...], words: list[str]) -> None:
    for i, (size, kind, label) in enumerate(zip(sizes, kinds, words, strict=True)):
        length = 110 * size / max(sizes)
        picture.rectangle(x, y + 30 * i, length, 20, kind, 3)
        picture.text(x + length + 8, y + 30 * i + 15, label, "ink", 14)


PICTURES = {
    "grid.svg": grid,
    "separation.svg": separation,
    "plain-means.svg": plain_means,
    "two-seeds.svg": two_seeds,
    "counts.svg": counts,
}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, draw in PICTURES.items():
        (folder / name).write_text(draw(), encoding="utf-8")

"""The tables and the figure of docs/stable.md, from what `benchmarks.stable` found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from replicable_rl import plotting

_PLACE = re.compile(r"(<!-- made by python -m benchmarks\.stable: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
Found = dict[str, Any]
CELLS, BINS = "a choice for each cell", "bins"
SHARE = 0.05


def page(text: str, found: Found) -> str:
    """Return the page with its tables made anew: each stands between two comments, and the first names it."""
    tables = {"arms": arms, "sweep": sweep, "stakes": stakes, "variants": variants}
    return _PLACE.sub(lambda place: f"{place[1]}\n{tables[place[2]](found)}\n\n{place[3]}", text)


def arms(found: Found) -> str:
    """Return a table of all arms without a tolerance, and with the largest that costs little."""
    lines = _heading("game", "agents", "tolerance x", "states alike", "steps alike", "all alike", "return")
    for name, game in found.items():
        for arm, points in game["arms"].items():
            for point in dict.fromkeys((0, _affordable(points, game["uniform"]))):
                lines.append(_line(name, arm, points[point]))
        lines.append(f"| {name} | uniform policy | | | | | {game['uniform']:.3g} |")
    return "\n".join(lines)


def _affordable(points: list[Found], uniform: float) -> int:
    """Return the last tolerance up to which all cost at most 5 % of what agents gain over the uniform policy."""
    most = SHARE * (points[0]["return"][0] - uniform)
    return next((i for i, point in enumerate(points) if -point["return_change"][0] > most), len(points)) - 1


def sweep(found: Found) -> str:
    """Return a table of plain agents over all tolerances, with what changes against the same agents without."""
    lines = ["| game | agents | tolerance x | states alike, change | steps alike | all alike | return, change |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|")
    for name, game in found.items():
        shown = {arm: points for arm, points in game["arms"].items() if arm.startswith("plain")}
        shown["plain, cells"] = game["variants"][CELLS]
        lines += [_change(name, arm, point) for arm, points in shown.items() for point in points[1:]]
    return "\n".join(lines)


def _change(name: str, arm: str, point: Found) -> str:
    alike, low, high = point["alike_change"]
    earned, least, most = point["return_change"]
    cells = (
        f"{point['tolerance']:g}",
        f"{point['alike'][0]:.3f}, {alike:+.3f} ({low:+.3f} to {high:+.3f})",
        f"{point['steps']:.3f}",
        f"{point['identical']:.3f}",
        f"{point['return'][0]:.3g}, {earned:+.3g} ({least:+.3g} to {most:+.3g})",
    )
    return f"| {name} | {arm} | {' | '.join(cells)} |"


def stakes(found: Found) -> str:
    """Return a table of gaps, and of how far two agents are apart about them."""
    lines = ["| game | agents | gap of the second-best action | two agents differ by |", "|---|---|---:|---:|"]
    for name, game in found.items():
        for arm, one in game["stakes"].items():
            lines.append(f"| {name} | {arm} | {one['gap']:.2g} | {one['apart']:.2g} |")
    return "\n".join(lines)


def variants(found: Found) -> str:
    """Return a table of other shared choices, for single agents and two of the tolerances."""
    lines = _heading("game", "shared choice", "tolerance x", "states alike", "steps alike", "all alike", "return")
    for name, game in found.items():
        points = game["arms"]["plain"]
        for i in (len(points) // 2 - 1, len(points) // 2 + 1):
            lines.append(_line(name, "one choice for all", points[i]))
            lines += [_line(name, of, game["variants"][of][i]) for of in (CELLS, BINS)]
    return "\n".join(lines)


def _heading(*names: str) -> list[str]:
    return [f"| {' | '.join(names)} |", f"|---|---|{'---:|' * (len(names) - 2)}"]


def _line(name: str, what: str, point: Found) -> str:
    alike, low, high = point["alike"]
    earned, least, most = point["return"]
    cells = (
        f"{point['tolerance']:g}",
        f"{alike:.3f} ({low:.3f}–{high:.3f})",
        f"{point['steps']:.3f}",
        f"{point['identical']:.3f}",
        f"{earned:.3g} ({least:.3g} to {most:.3g})",
    )
    return f"| {name} | {what} | {' | '.join(cells)} |"


def draw(found: Found) -> plotting.Figure:
    """Draw agreement against return: for every arm a curve over tolerances, and a dashed one for cells."""
    with plotting.styled():
        figure, (row,) = plotting.panels((11.0, 5.0), 1, len(found))
        for axes, (name, game) in zip(row, found.items(), strict=True):
            for i, (arm, points) in enumerate(game["arms"].items()):
                colour, marker = plotting.COLOURS[i], plotting.MARKERS[i]
                _curve(axes, points, color=colour, marker=marker, label=arm)
                cells = game["variants"][CELLS]
                if arm == "plain":
                    _curve(axes, cells, color=colour, marker=marker, linestyle="--", label=f"{arm}, cells")
                x, left, right = points[0]["return"]
                y, low, high = points[0]["alike"]
                axes.plot([x], [y], color=colour, marker=marker, markersize=10, linestyle="none")
                axes.plot([left, right], [y, y], color=colour, linewidth=1, alpha=0.5)
                axes.plot([x, x], [low, high], color=colour, linewidth=1, alpha=0.5)
            axes.set_title(name)
            axes.set_xlabel("return of an episode")
            axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)
        row[0].set_ylabel("share of visited states in which two agents act alike")
    return figure


def _curve(axes: plotting.Axes, points: list[Found], **options: Any) -> None:
    x, y = [point["return"][0] for point in points], [point["alike"][0] for point in points]
    axes.plot(x, y, markersize=4, linewidth=1, **options)


def lines(found: Found) -> Iterator[str]:
    """Yield what is printed."""
    yield from (arms(found), "", sweep(found), "", stakes(found), "", variants(found))

r"""What rho costs: samples for an agreement of 0.8, against the theorem, on growing grids.

The theorem pays for a union bound over N*T queries: m grows as (NT)^2. Two runs need less, for differences heal and
most means lie far from the edge of a bin. A family of grids with pillars (the first is two-goals) grows in N; on each,
rPVI runs at several m, and the m at which two runs agree with probability 0.8 is read off.

On logarithmic axes the growth is a slope: least squares of log m on log N,

    slope = sum_i w_i log m_i,        w_i = (x_i - mean x)/sum_j (x_j - mean x)^2,

and as it is linear in log m_i, the ends of the m_i, which hold together, give the ends of the slope.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from replicable_rl import plot
from replicable_rl.audit import AuditResult
from replicable_rl.experiments.estimates import crossing, distinct, is_open, of_each, pairwise, where
from replicable_rl.experiments.experiment import Data, Experiment, Row, Scale, Study, Verdict
from replicable_rl.registry import build
from replicable_rl.runs import ObjectSpec
from replicable_rl.theory import phased_vi
from replicable_rl.wording import with_interval

EPSILON, DELTA, RHO = 0.02, 0.001, 0.2
PROMISE = {"epsilon": EPSILON, "delta": DELTA, "rho": RHO, "tolerance": EPSILON}
GRIDS = ((3, 3), (3, 5), (5, 5), (7, 7), (9, 9))  # rows and columns
CALLS = (15, 30, 60, 120, 240, 480, 1920)  # m by N^2: where agreement was seen to rise from 0.6 to 0.95
_OF_A_GRID = of_each(len(GRIDS))  # so that the m of all grids hold at once


class Cost(Experiment):
    """What replicability costs, against what the theorem asks.

    How many calls does rPVI need until two runs agree with probability 1 − ρ = 0.8? Grids with pillars grow in the
    number N of state-action pairs; the first is the two-goals grid. The theorem is evaluated at the same tolerance, so
    that the comparison is fair to it.

    A bar runs from the largest m that is shown to be too few to the smallest that is shown to be enough. The bars of
    all grids hold at once.
    """

    order = 50
    caption = (
        "Left: agreement over m on each grid. Right: the m for an agreement of 0.8 over N, on logarithmic axes, and "
        "what theory asks for. The slope is by least squares; its interval follows from the bars."
    )

    def design(self, scale: Scale) -> list[Study]:
        """Return several m on every grid."""
        studies = []
        for rows, columns in GRIDS if not scale.quick else GRIDS[:4:3]:
            problem = ObjectSpec("gridworld-v1", {"layout": pillars(rows, columns)})
            pairs = build(problem).n_states * 4
            for factor in CALLS if not scale.quick else CALLS[::2]:
                calls = factor * pairs**2
                point = {"grid": f"{rows} x {columns}", "pairs_sa": pairs, "calls": calls}
                studies.append(
                    Study.of(point, problem, ObjectSpec("rpvi-v1", {**PROMISE, "calls": calls}), scale.pairs)
                )
        return studies

    def analyse(self, studies: Sequence[Study], results: Sequence[AuditResult]) -> Data:
        """Return the agreement at every m, what is needed on every grid, and how fast it grows."""
        points = [{**study.point, **pairwise(result, "value")} for study, result in zip(studies, results, strict=True)]
        gamma = build(studies[0].audit.problem).gamma
        needed = [needed_on(grid, where(points, grid=grid), gamma) for grid in distinct(points, "grid")]
        return Data({"points": points, "needed": needed, "slopes": [slope(needed)]}, PROMISE)

    def verdicts(self, data: Data) -> list[Verdict]:
        """Judge that it is far cheaper than the bound, and that it grows more slowly."""
        grids = data.tables["needed"]
        rows = [row for row in grids if row["measured_high"] is not None]
        share = max((row["measured_high"] / row["tight"] for row in rows), default=1.0)
        measured = data.tables["slopes"][0]
        ends_known = measured["slope_low"] is not None and measured["slope_high"] is not None
        rests_on = [row for row in data.tables["points"] if is_open(row, 1.0 - RHO, of_each(len(CALLS), _OF_A_GRID))]
        return [
            Verdict(
                "Replicable value functions take orders of magnitude fewer samples than the bound",
                "sec:experiments",
                f"at most 1/{1.0 / share:.2g} of the tight bound (same tolerance) on {len(rows)} of {len(grids)} grids",
                yes=len(rows) == len(grids) and share <= 0.01,
                rests_on=rests_on,
            ),
            Verdict(
                "The overhead is far better than the squared dependence on |S||A|",
                "sec:experiments",
                f"m over |S||A| on logarithmic axes: {slope_text(measured)}; the bound grows with slope 2 and a "
                "logarithm",
                yes=ends_known and measured["slope_high"] < 2.0,
                no=ends_known and measured["slope_low"] >= 2.0,
                rests_on=rests_on,
            ),
        ]

    def draw(self, data: Data) -> plot.Figure:
        """Draw the agreement on every grid, and what is needed for the target as the grids grow."""
        figure, ((left, right),) = plot.panels((12.0, 4.9), 1, 2, gridspec_kw={"width_ratios": [1.0, 1.15]})
        points = data.tables["points"]
        for k, grid in enumerate(distinct(points, "grid")):
            rows = where(points, grid=grid)
            label = f"{grid}, N = {rows[0]['pairs_sa']}"
            plot.banded(left, rows, "calls", "agreement", colour=plot.COLOURS[k], marker=plot.MARKERS[k], label=label)
        plot.logarithmic(left)
        left.set(ylim=(0.35, 1.02), xlabel="calls m per iteration", title="Agreement on growing grids")
        left.set_ylabel("pairs with identical value functions")
        left.legend(loc="lower right", fontsize=9)
        plot.dotted(left, 1.0 - RHO, "1 − ρ")
        _growth(right, data)
        return figure


def pillars(rows: int, columns: int) -> str:
    """Return a map with goals in the upper corners, the start below in the middle, and pillars between the ways.

    >>> pillars(3, 5).split("/")
    ['G...G', '.#.#.', '..S..']
    """
    lines = [["#" if i % 2 and j % 2 else "." for j in range(columns)] for i in range(rows)]
    lines[0][0] = lines[0][-1] = "G"
    lines[-1][columns // 2] = "S"
    return "/".join("".join(line) for line in lines)


def needed_on(grid: str, points: Sequence[Row], gamma: float) -> Row:
    """Return the m at which agreement passes 1 - rho on a grid, and what theory asks for at the same tolerance."""
    counts = [(row["same"], row["pairs"]) for row in points]
    tight = phased_vi(points[0]["pairs_sa"], gamma, EPSILON, DELTA, RHO, tolerance=EPSILON)
    return {
        "grid": grid,
        "pairs_sa": points[0]["pairs_sa"],
        **crossing("measured", [float(row["calls"]) for row in points], counts, 1.0 - RHO, _OF_A_GRID),
        "tight": float(tight.calls_needed),
    }


def slope(needed: Sequence[Row]) -> Row:
    """Fit log m = constant + slope * log N; the ends of the measured m give the ends of the slope."""
    rows = [row for row in needed if row["measured"] is not None]
    if len(rows) < 2:
        return {"slope": None, "slope_low": None, "slope_high": None}
    x = [math.log(row["pairs_sa"]) for row in rows]
    weights = [xi - sum(x) / len(x) for xi in x]
    spread = sum(w * w for w in weights)

    def through(left: str, right: str) -> float | None:
        """Return the slope through these columns of the grids on the left and on the right."""
        ends = [row[left if w < 0.0 else right] for row, w in zip(rows, weights, strict=True)]
        return None if None in ends else sum(w * math.log(end) for w, end in zip(weights, ends, strict=True)) / spread

    low, high = through("measured_high", "measured_low"), through("measured_low", "measured_high")
    return {"slope": through("measured", "measured"), "slope_low": low, "slope_high": high}


def slope_text(row: Row) -> str:
    """Write a slope with its interval, or why there is none."""
    if row["slope"] is None:
        return "too few points for a slope"
    if row["slope_low"] is None or row["slope_high"] is None:
        return f"slope {row['slope']:.2f} (no interval)"
    return f"slope {with_interval(row['slope'], row['slope_low'], row['slope_high'], 2)}"


def _growth(panel: plot.Axes, data: Data) -> None:
    needed, slopes = data.tables["needed"], data.tables["slopes"]
    xs = [row["pairs_sa"] for row in needed]
    bound = [row["tight"] for row in needed]
    panel.plot(xs, bound, color=plot.RED)
    plot.remark(panel, "theorem, tight", (xs[-1], bound[-1]), shift=(7, 0), color=plot.RED)
    rows = [row for row in needed if row["measured"] is not None]
    for row in rows:
        ends = row["measured_low"] or row["measured"], row["measured_high"] or row["measured"]
        panel.plot([row["pairs_sa"]] * 2, ends, color=plot.BLUE, linewidth=2.2, alpha=0.6)
        panel.plot(row["pairs_sa"], row["measured"], "o", color=plot.BLUE, markersize=7)
    if rows:
        text, end = f"measured\n{slope_text(slopes[0])}", (rows[-1]["pairs_sa"], rows[-1]["measured"])
        plot.remark(panel, text, end, shift=(7, -6), color=plot.BLUE)
    plot.logarithmic(panel)
    panel.set_yscale("log")
    panel.set_xlim(xs[0] / 1.2, xs[-1] * 3.6)
    panel.set_xticks(xs, [str(x) for x in xs])
    panel.minorticks_off()
    panel.set(xlabel="pairs N = |S||A|", title="Calls m for an agreement of 0.8")


EXPERIMENT = Cost()

"""What ``results/index.html`` says about each figure and table; no number here that the data would have to repeat."""

from __future__ import annotations

__all__ = ["ALTERNATIVES", "CAPTIONS", "LEAD", "NUMBERS", "ORDER", "READING"]

ORDER = ("figure1", "figure2", "exploration", "theorem", "cost", "levels", "claims")

LEAD = (
    "Every figure and table of *Replicable Reinforcement Learning* (Eaton, Hussing, Kearns and Sorrell, 2023) that "
    "can be "
    "measured, and some that the paper lacks. Each comes with its data and with the command that makes it. All "
    "intervals have "
    "confidence 95 % and are exact: they hold at every sample size."
)

READING = {
    "figure1": [
        "Both goals are equally good from the start, so a learner that is not replicable lets its samples decide. "
        "Two runs differ in "
        "nothing but their samples: same shared seed, same number of samples, the one that the theorem for rPVI asks "
        "for. Phased "
        "Q-learning's runs were looked through in the order of their sample seeds for one that prefers each goal; "
        "rPVI's two runs have "
        "the same two sample seeds. Probabilities of ending in a goal are computed from the model, not simulated."
    ],
    "figure2": [
        "rPVI with ε = 0.02, δ = 0.001, ρ = 0.2, and calls in multiples of 13 000, as in the paper's experiment. The "
        "paper does not say which "
        "grid, discount and multiples it used; these are ours. The tolerance of a query is ε itself.",
        "The first two panels are the paper's: all runs share *one* seed r. Which ρ_SQ looks best there depends on "
        "r: an edge of a bin may "
        "fall near a mean. The third panel averages over r; that is the quantity that ρ is about.",
    ],
    "exploration": [
        "The paper gives no experiment for RepRMAX. Here two ingredients are switched on and off: the threshold for "
        "*known* (random and shared, or fixed) and the entries of the model (rSTAT, or plain means). RepRMAX has both, "
        "R-max none. Above right the model's agreement for all four: which ingredient moves it?",
        "A random threshold guards against the worst case. The problem below left is built to be that case for a fixed "
        "one: exactly half of the episodes visit a pair, and the threshold is one half. Where no count lies near a "
        "fixed threshold, a random one can only move to where counts happen to be.",
    ],
    "theorem": [
        "The samples that the theorems ask for, drawn: counts are drawn instead of samples, so a run costs "
        "milliseconds. Every problem that comes with "
        "the library; where ε = 0.1 would ask for more than can be counted in 64 bits, ε is larger. Times are those "
        "of the runs when they were "
        "made.",
        "ApproximateMDP's promise is about entries *before* a row is divided by its sum; what is shown is the error "
        "after it.",
    ],
    "cost": [
        "How many calls does rPVI need until two runs agree with probability 1 − ρ = 0.8? Grids with pillars grow in "
        "the number N of state-action "
        "pairs; the first is the two-goals grid. The theorem is evaluated at the same tolerance, so that the "
        "comparison is fair to it.",
        "A bar runs from the largest m that is shown to be too few to the smallest that is shown to be enough.",
    ],
    "levels": [
        "The same model gives the same value, and the same value the same policy. The paper expects each level to be "
        "harder than the next. "
        "ApproximateMDP learns a model and plans; rPVI estimates values directly; both with a tolerance of 0.02.",
        "Where the value is computed from the model, value and model agree together: two different models hardly "
        "ever have the same value to the "
        "last bit.",
    ],
    "claims": [
        "A verdict is *held* or *not held* where an interval, or an exact number, says so, and *cannot tell* where "
        "the interval holds both answers."
    ],
}

CAPTIONS = {
    "figure1": "Arrows are the policy; framed cells are those in which the two runs of an algorithm differ. Below: "
    "the exact probability of ending "
    "in each goal from the start S.",
    "figure2": "Lines are estimates, bands their intervals; the dotted line is 1 − ρ. Modal share: the interval is "
    "of the probability of the likeliest "
    "value function under this r. Unique share: of its expectation. Agreement: Clopper and Pearson.",
    "exploration": "Above: how often two runs agree, over the episodes of a round, for RepRMAX and R-max, and the "
    "model for all four combinations. Below: "
    "the problem built against a fixed threshold, and known pairs round by round in runs that share one seed.",
    "theorem": "From left to right: samples of a run, pairs of runs that differ (bar: interval; dotted: ρ), the "
    "worst error of all runs in units of ε "
    "(arrows: smaller than drawn), median time of a run.",
    "cost": "Left: agreement over m on each grid. Right: the m for an agreement of 0.8 over N, on logarithmic axes, "
    "and what theory asks for; slopes are "
    "least squares, the interval of the measured one follows from the bars.",
    "levels": "Above: agreement over the samples of a run. Below: where it passes 0.8; a bar runs from what is shown "
    "to be too few to what is "
    "shown to be enough.",
}

ALTERNATIVES = {
    "figure1": "Maps of two grids, two policies of Phased Q-learning that differ at the start, and two policies of "
    "rPVI that are the same.",
    "figure2": "Six panels: modal share, unique share and pairwise agreement over multiples of 13000 calls, for two "
    "grids and several rho_SQ.",
    "exploration": "Six panels about RepRMAX and R-max: agreement over episodes per round, an ablation, and known "
    "pairs per round.",
    "theorem": "Four panels side by side with a row for every problem and algorithm: samples, disagreement, error, "
    "time.",
    "cost": "Two panels: agreement over calls for growing grids, and calls needed over the number of pairs.",
    "levels": "Agreement of model, value and policy over samples on two grids, and the samples for an agreement of "
    "0.8.",
}

# The tables below the figures: which, its columns and their headings, and its caption.
NUMBERS: dict[str, tuple[str, dict[str, str], str]] = {
    "theorem": (
        "theorems",
        {
            "problem": "problem",
            "algorithm": "algorithm",
            "epsilon": "ε",
            "calls": "m asked",
            "samples_a_run": "samples of a run",
            "differ": "pairs that differ",
            "pairs": "of",
            "disagreement_high": "at most (95 %)",
            "worst_error": "worst error",
            "median_seconds_a_run": "seconds a run",
        },
        "The same numbers.",
    ),
    "cost": (
        "needed",
        {
            "grid": "grid",
            "pairs_sa": "N",
            "measured": "m measured",
            "measured_low": "shown too few",
            "measured_high": "shown enough",
            "predicted": "predicted",
            "tight": "theorem, tight",
            "printed": "theorem, printed",
            "plain": "accuracy alone",
        },
        "Calls m per iteration for an agreement of 0.8, and what theory asks for at the same tolerance.",
    ),
    "levels": (
        "needed",
        {
            "problem": "problem",
            "algorithm": "algorithm",
            "level": "level",
            "samples": "samples",
            "samples_low": "shown too few",
            "samples_high": "shown enough",
        },
        "Samples of a run for an agreement of 0.8.",
    ),
}

"""What the controls of the lab say, as the objects of the library and as the words of a command line."""

import inspect
import shlex
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from replicable_rl.algorithms import PlugInPolicy, ReplicablePhasedVI
from replicable_rl.errors import InvalidInput, check_choice, check_integer, shown
from replicable_rl.lab.grids import BRUSHES, lines_of
from replicable_rl.mdp import TabularMDP
from replicable_rl.queries.rules import AffordableTolerance, PublishedCuts, Rule
from replicable_rl.records import ObjectSpec
from replicable_rl.registry import PROBLEMS, build, load_plugins, parse_object
from replicable_rl.report.commands import program
from replicable_rl.solve import publish

DRAWN = "draw a grid"
GOAL = BRUSHES["goal"]
DELTA = 0.05
RPVI = "rpvi"
CUTS = "cuts.json"
PUBLISHER = 0  # the sample seed of the lab that publishes cuts
MOST_PAIRS = 5_000  # state-action pairs: a slider should answer while one looks at it
MOST_SAMPLES = 10**12
_DEFAULT = AffordableTolerance.id
RULES: dict[str, str] = {
    "affordable": "Take the first action within the coarsest tolerance that the loss allows: the default.",
    "greedy": "Take the best action: where two are as good, the samples decide.",
    "tolerance": "Take the first action within a shared random tolerance of the best.",
    "rounded": "Round every value to a shared grid, then take the best action.",
    "gumbel": "Take the best of values plus shared noise.",
    "perturbed": "Plan with rewards plus shared noise.",
    "published": "Follow tie-breaks that a third lab published from a sample of its own.",
    "softmax": "Take every action with a probability: two runs are close, never identical.",
    RPVI: "Run Replicable Phased Value Iteration, the paper's algorithm; m samples in every iteration.",
}
SIZES = (*(digit * 10**power for power in range(1, 12) for digit in (1, 2, 5)), MOST_SAMPLES)


def choices() -> list[str]:
    """Return what can be picked: a grid to draw, and every problem that needs no input, those of plugins too.

    >>> choices()[:3]
    ['draw a grid', 'two-goals-v1', 'two-goals-wide-v1']
    """
    load_plugins()
    return [DRAWN, *(id for id, constructor in PROBLEMS.items() if not _needs(constructor))]


def _needs(constructor: Any) -> bool:
    return any(one.default is one.empty for one in inspect.signature(constructor).parameters.values())


def drawn_problem(layout: str, slip: float, gamma: float) -> ObjectSpec:
    """Name the problem of a drawing.

    >>> drawn_problem("G.G/.#./.S.", 0.3, 0.9).text
    'gridworld-v1:gamma=0.9,layout=G.G/.#./.S.,slip=0.3'
    """
    lines = lines_of(layout.replace("/", "\n"))
    if lines and not any(GOAL in line for line in lines):
        raise InvalidInput(f"lab: the grid has no goal, so every policy is as good. Paint one, {GOAL!r}.")
    return ObjectSpec("gridworld-v1", {"layout": "/".join(lines), "slip": float(slip), "gamma": float(gamma)})


def picked_problem(id: str, parameters: str = "") -> ObjectSpec:
    """Name a problem of the list, with parameters as one writes them on the command line.

    >>> picked_problem("riverswim-v1", "n_states=20, gamma=0.9").text
    'riverswim-v1:gamma=0.9,n_states=20'
    """
    listed = ",".join(part.strip() for part in parameters.split(",") if part.strip())
    return parse_object(f"{id}:{listed}" if listed else id)


@dataclass(frozen=True)
class Setting:
    """A problem, a rule, and the numbers that the sliders give.

    Parameters
    ----------
    problem : ObjectSpec
        Of a registered problem, or of a drawn grid.
    rule : str
        A rule of a plug-in policy, or ``"rpvi"``.
    samples : int
        Samples m of every pair; of every pair in every iteration for rPVI.
    epsilon, rho : float
        What may be lost, in values normalised to [0, 1], and how often two runs may differ.

    Examples
    --------
    >>> setting = Setting(ObjectSpec("two-goals-v1"), "greedy", 1000)
    >>> setting.algorithm.samples, len(setting.mdp.labels.layout)
    (1000, 3)
    >>> Setting(ObjectSpec("garnet-v1", {"n_states": 3000}), "greedy", 1000).mdp
    Traceback (most recent call last):
    ...
    replicable_rl.errors.InvalidInput: lab: a problem has at most 5000 state-action pairs here, got 12000. Use the \
command line for it.
    """

    problem: ObjectSpec
    rule: str = "affordable"
    samples: int = 1000
    epsilon: float = 0.05
    rho: float = 0.2

    def __post_init__(self) -> None:
        if not isinstance(self.problem, ObjectSpec):
            raise InvalidInput(f"lab: problem must be an ObjectSpec, got {shown(self.problem)}.")
        check_choice("lab", "rule", self.rule, tuple(RULES))
        check_integer("lab", "samples", self.samples, low=1, high=MOST_SAMPLES)
        self._made(_DEFAULT)  # refuses the other numbers

    @cached_property
    def mdp(self) -> TabularMDP:
        """The problem itself."""
        if self.problem.id not in PROBLEMS:
            raise InvalidInput(f"lab: no problem is called {shown(self.problem.id)}. Pick one of the list.")
        mdp: TabularMDP = build(self.problem)
        if (pairs := mdp.n_states * mdp.n_actions) > MOST_PAIRS:
            raise InvalidInput(
                f"lab: a problem has at most {MOST_PAIRS} state-action pairs here, got {pairs}. Use the command line "
                "for it."
            )
        return mdp

    @cached_property
    def algorithm(self) -> Any:
        """The algorithm; where cuts are published, those of a third lab, which has a sample of its own."""
        if self.rule != PublishedCuts.id:
            return self._made(_DEFAULT)
        return self._made(PublishedCuts(publish(self.mdp, self._made(_DEFAULT), sample_seed=PUBLISHER)))

    def command(self, verb: str, *options: object) -> str:
        """Return a command about this problem and algorithm.

        >>> print(Setting(ObjectSpec("chain-v1"), "greedy", 100).command("audit", "--shared-seeds", 60))
        replicable-rl audit chain-v1 plug-in-policy-v1 --epsilon 0.05 --delta 0.05 --rho 0.2 --rule greedy \
--samples 100 --shared-seeds 60
        """
        return said(self.problem, verb, *self._words(CUTS), *options)

    def commands(self, *commands: str) -> str:
        """Return commands to run one after the other; where the rule needs cuts, they are published first."""
        if self.rule != PublishedCuts.id:
            return " &&\n".join(commands)
        cuts = "--sample-seed", PUBLISHER, "--output", CUTS
        return " &&\n".join([said(self.problem, "publish", *self._words(_DEFAULT), *cuts), *commands])

    def _words(self, cuts: str) -> list[object]:
        """Return problem and algorithm as one types them; ``cuts`` stands for a rule that follows published ones."""
        promise = "--epsilon", self.epsilon, "--delta", DELTA, "--rho", self.rho
        if self.rule == RPVI:
            return [self.problem.text, ReplicablePhasedVI.id, *promise, "--calls", self.samples]
        rule = cuts if self.rule == PublishedCuts.id else self.rule
        return [self.problem.text, PlugInPolicy.id, *promise, "--rule", rule, "--samples", self.samples]

    def _made(self, cuts: Rule | str) -> Any:
        promise = self.epsilon, DELTA, self.rho
        if self.rule == RPVI:
            return ReplicablePhasedVI(*promise, calls=self.samples)
        rule = cuts if self.rule == PublishedCuts.id else self.rule
        return PlugInPolicy(*promise, rule=rule, samples=self.samples)


def said(problem: ObjectSpec, verb: str, *words: object) -> str:
    """Return a command line about a problem, quoted for a shell."""
    return shlex.join([*program(problem), verb, *map(str, words)])

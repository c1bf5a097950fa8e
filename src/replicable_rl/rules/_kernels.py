"""Compiled loops: comparisons of gaps with tolerances, and what follows from the rows of a model, in stored order."""

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@compiled
def first_within(
    gap: Floats, weight: Floats, tolerance: Floats, order: Integers, policy: Integers, first: int, last: int
) -> float:
    """policy(s) = the first action of ``order`` with weight(s) gap(s, a) <= tolerance(s), or the last one.

    Returns how near a gap came to tolerance/weight, over the comparisons that decided.
    """
    nearest, final = np.inf, order.size - 1
    for s in range(first, last):
        chosen, own = order[final], tolerance[s] / max(weight[s], 1e-300)
        for i in range(final):
            a = order[i]
            nearest = min(nearest, abs(gap[s, a] - own))
            if gap[s, a] * weight[s] <= tolerance[s]:
                chosen = a
                break
        policy[s] = chosen
    return nearest


@compiled
def is_sure(gap: Floats, weight: Floats, tolerance: Floats, order: Integers, margin: Floats, stretch: float) -> bool:
    """Whether every comparison that decided comes out the same for gaps within ``margin`` and weights within a factor.

    Compared are weight(s) gap(s, a) and tolerance(s); another run's weight is between weight/stretch and
    weight*stretch.
    """
    for s in range(gap.shape[0]):
        for i in range(order.size - 1):
            a = order[i]
            if (gap[s, a] - margin[s, a]) * weight[s] / stretch > tolerance[s]:
                continue
            if (gap[s, a] + margin[s, a]) * weight[s] * stretch < tolerance[s]:
                break
            return False
    return True


@compiled
def widest(gap: Floats, noise: Floats, order: Integers, enough: float, free: float, cut: Floats, room: Floats) -> None:
    """For each action that a cut can make a state take, set the cut that leaves most room, and the room.

    Action t is taken where its gap is within the cut and those of all actions before it are not. Another lab may see
    any action b ahead of t by ``gap(t) - gap(b)`` and noise: t stays within the cut r for (r - gap(t) + gap(b))/sd
    deviations, and an action c before t stays outside for (gap(c) - r)/sd(c). Both are equal at the best cut.
    Before the first action there is none: it has ``enough`` room, and a gap of ``free`` more than here at least.
    """
    n_actions = order.size
    for s in range(gap.shape[0]):
        least, first = np.inf, True
        for i in range(n_actions):
            t = order[i]
            if gap[s, t] >= least:
                continue  # an action before it is taken
            least = gap[s, t]
            if first:
                first = False
                cut[s, t], room[s, t] = gap[s, t] + free, np.inf  # where no other action is allowed
                for b in range(n_actions):
                    if b != t and np.isfinite(gap[s, b]):
                        sd = np.sqrt(noise[s, b] * noise[s, b] + noise[s, t] * noise[s, t])
                        cut[s, t] = max(cut[s, t], gap[s, t] - gap[s, b] + enough * sd)
                        room[s, t] = enough
                continue
            most, at = np.inf, 0.0
            for j in range(i):
                c = order[j]
                if not np.isfinite(gap[s, c]):
                    continue
                if i == n_actions - 1:  # the last action is not compared
                    most = min(most, gap[s, c] / noise[s, c])
                    continue
                for b in range(n_actions):
                    if b == t or not np.isfinite(gap[s, b]):
                        continue
                    sd = np.sqrt(noise[s, b] * noise[s, b] + noise[s, t] * noise[s, t])
                    height = (gap[s, c] - gap[s, t] + gap[s, b]) / (sd + noise[s, c])
                    if height < most:
                        most, at = height, gap[s, c] - height * noise[s, c]
            cut[s, t], room[s, t] = max(at, gap[s, t]), most


@compiled
def row_deviations(
    indptr: Integers,
    next_state: NDArray[np.int32],
    probability: Floats,
    added: Floats,
    factor: float,
    value: Floats,
    out: Floats,
    first: int,
    last: int,
) -> None:
    """out[row] = the variance of added + factor * value(s') over the outcomes of the row."""
    for row in range(first, last):
        mean = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            mean += probability[k] * (added[k] + factor * value[np.uint32(next_state[k])])
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            off = added[k] + factor * value[np.uint32(next_state[k])] - mean
            total += probability[k] * off * off
        out[row] = total


@compiled
def soften(gap: Floats, factor: float, squares: int, weight: Floats, first: int, last: int) -> None:
    """weight(s, a) in proportion to (1 + factor gap)^-(2^squares), by products alone; they sum to 1 in every state."""
    for s in range(first, last):
        total = 0.0
        for a in range(gap.shape[1]):
            soft = 1.0 + factor * gap[s, a]
            for _ in range(squares):
                soft *= soft
            weight[s, a] = 1.0 / soft
            total += weight[s, a]
        for a in range(gap.shape[1]):
            weight[s, a] /= total

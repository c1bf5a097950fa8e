"""Compiled comparisons of gaps with tolerances."""

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@compiled
def first_within(gap: Floats, tolerance: Floats, order: Integers, policy: Integers) -> None:
    """policy(s) = the first action of ``order`` with gap(s, a) <= tolerance(s); the last one if there is none."""
    last = order.size - 1
    for s in range(gap.shape[0]):
        policy[s] = order[last]
        for i in range(last):
            if gap[s, order[i]] <= tolerance[s]:
                policy[s] = order[i]
                break


@compiled
def first_within_weighted(
    gap: Floats, weight: Floats, tolerance: float, order: Integers, policy: Integers, first: int, last: int
) -> tuple[float, bool]:
    """As `first_within` for weight(s) gap(s, a) and one tolerance, and `nearest_gap` for tolerance/weight(s).

    Also returns whether the policy is another one than was there before.
    """
    nearest, final, changed = np.inf, order.size - 1, False
    for s in range(first, last):
        chosen = order[final]
        for i in range(final):
            if gap[s, order[i]] * weight[s] <= tolerance:
                chosen = order[i]
                break
        changed |= policy[s] != chosen
        policy[s] = chosen
        own = tolerance / max(weight[s], 1e-300)
        for i in range(final):
            room = gap[s, order[i]] - own
            nearest = min(nearest, abs(room))
            if room <= 0.0:
                break
    return nearest, changed


@compiled
def nearest_gap(gap: Floats, tolerance: Floats, order: Integers) -> float:
    """Return the smallest distance of a gap from its tolerance, over the comparisons that decided."""
    nearest = np.inf
    for s in range(gap.shape[0]):
        for i in range(order.size - 1):
            room = gap[s, order[i]] - tolerance[s]
            nearest = min(nearest, abs(room))
            if room <= 0.0:
                break
    return nearest


@compiled
def is_sure(gap: Floats, weight: Floats, tolerance: float, order: Integers, margin: Floats, stretch: float) -> bool:
    """Whether every comparison that decided comes out the same for gaps within ``margin`` and weights within a factor.

    Compared are weight(s) gap(s, a) and ``tolerance``; another run's weight is between weight/stretch and
    weight*stretch.
    """
    for s in range(gap.shape[0]):
        for i in range(order.size - 1):
            a = order[i]
            if (gap[s, a] - margin[s, a]) * weight[s] / stretch > tolerance:
                continue
            if (gap[s, a] + margin[s, a]) * weight[s] * stretch < tolerance:
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

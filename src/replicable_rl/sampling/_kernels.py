r"""Many multinomial draws at once, compiled: exact in law for every n up to 2**63 - 1.

*Rows.* The counts of a row are the binomial of its first outcome, then of the second among what is left, and so on.
Rows are drawn in blocks, so that many binomials are drawn at once. Every block has a stream of its own: which thread
draws it, and when, changes nothing.

*Random numbers.* Candidate i of a stream is made of two uniform numbers, the 128 bits of Philox4x32-10 at counter i
(Salmon, Moraes, Dror and Shaw 2011). Nothing has a state, so a loop over candidates has no order, and the compiler
turns it into vector instructions. The rest of the counter and the key tell streams apart.

*Binomial(n, r)* with r <= 1/2 is drawn by inversion where n r < 10 and otherwise by Hörmann's transformed rejection
(BTRS, 1993). A candidate k = mode + d is kept with probability f(k)/f(mode) over the height of the hat. Two things let
n go up to 2**63 - 1, where the usual implementations lose the law in cancellations and overflows: candidates are
distances d from the mode, and where the ratio is needed exactly, its logarithm is Loader's saddle-point form, whose
terms are small where the probability is large. The rounding left is that of the product n r, as if r had been changed
in its last bit.

*Nearly all candidates are decided without a logarithm.* With the mode M = n r + c, a distance d > 0 has

    ln f(M + d)/f(M) = sum for i = 1 ... d of  ln(1 - (c + i - 1)/(n - nr)) - ln(1 + (c + i)/nr),

and d < 0 the same with -d and -c, and n r and n - nr exchanged. Three terms of each logarithm's series sum to a
polynomial in d; as long as (|d| + 2)/nr <= 1/2, what is left out is below

    (|d| + 2)**5 / 10 * (1/nr**4 + 1/(n - nr)**4),

so the polynomial decides every candidate that is not that close to the border, and the exact ratio the rest. The ratio
falls with |d|, so a distance beyond the polynomial's reach is rejected if one within it would be.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled, compiled_loop, inlined

Index = int | np.int64  # a plain 0 would be a type of its own to the compiler, and everything compiled twice
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Stream = tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]

AT_ONCE = 512  # draws for which `workspace` has room
_LANES = 8  # numbers in the longest vectors of today's processors
_INVERSION_BELOW = 10.0
_NEGLIGIBLE = 2.0**-57  # a probability that no uniform number can tell from 0
_ACCEPTED, _REJECTED, _CLOSE, _SMALL = 0, 1, 2, 3  # verdicts on a candidate; the last: it does not matter

# The rows of two tables to work in, of integers and of floats. One table and not many arrays, because a part that
# gets a name, or goes in a tuple, is counted by atomic instructions, which would take a tenth of the time.
N, DRAWN, AT, END, _WHICH, _WHICH_SMALL, _TRIAL_N, _TRIAL, _VERDICT = range(9)
P, _U, _V, _TRIAL_U, _TRIAL_V, _TRIAL_P, _SMALL_U, _CHANCE, _ODDS = range(9)

_MULTIPLY_0, _MULTIPLY_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _32, _12 = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(12)

# ln k! = (k + 1/2) ln k - k + ln(2 pi)/2 + STIRLING[k], for k = 1 ... 15
_STIRLING = np.array(
    [0.0] + [math.lgamma(k + 1.0) - (k + 0.5) * math.log(k) + k - 0.5 * math.log(2.0 * math.pi) for k in range(1, 16)]
)
_LOG_2PI = math.log(2.0 * math.pi)


@compiled
def stream_of(words: Words, block: int) -> Stream:
    """Return the stream of a block under two words of fresh randomness: 64 bits of key, 64 of counter."""
    return words[0] & _LOW, words[0] >> _32, np.uint64(block), words[1] & _LOW, words[1] >> _32


@inlined
def uniforms(stream: Stream, position: Index) -> tuple[float, float]:
    """Two numbers in (0, 1): 52 bits each and a half, which is exact, so that neither end occurs."""
    k0, k1, c1, c2, c3 = stream
    c0 = np.uint64(position) & _LOW
    for _ in range(10):
        product_0, product_1 = _MULTIPLY_0 * c0, _MULTIPLY_1 * c2
        c0, c1, c2, c3 = (product_1 >> _32) ^ c1 ^ k0, product_1 & _LOW, (product_0 >> _32) ^ c3 ^ k1, product_0 & _LOW
        k0, k1 = (k0 + _WEYL_0) & _LOW, (k1 + _WEYL_1) & _LOW
    word_0, word_1 = (c0 << _32) | c1, (c2 << _32) | c3
    return (float(word_0 >> _12) + 0.5) * 2.0**-52, (float(word_1 >> _12) + 0.5) * 2.0**-52


@compiled
def workspace(draws: Index = AT_ONCE) -> tuple[Integers, Floats]:
    """Return the tables to work in, with room for so many draws, or for `AT_ONCE` if that is less."""
    width = _whole_vectors(min(draws, AT_ONCE))
    return np.zeros((9, width), dtype=np.int64), np.zeros((9, width + width // 6 + 2 * _LANES))


@compiled
def binomials(size: Index, stream: Stream, position: Index, integers: Integers, floats: Floats) -> Index:
    """integers[DRAWN, i] = a draw of Binomial(n, p) for n = integers[N, i], and i = 0 ... size - 1 < `AT_ONCE`.

    floats[P, i] is p, or -(1 - p) for p > 1/2. Takes numbers of the stream from ``position`` on, and returns the
    first one that is left.
    """
    taken = _whole_vectors(size)  # what lies beyond size does not matter
    ready = _whole_vectors(size + size // 6)  # enough, as a rule, for those that need more than one
    _fill_uniforms(stream, position, ready, floats)
    _easy_candidates(taken, integers, floats)
    pending, small = np.uint64(0), np.uint64(0)
    for i in range(size):  # without a branch: luck is not predictable
        integers[_WHICH, pending] = i
        pending += np.uint64(integers[_VERDICT, i] != _ACCEPTED)
    for j in range(pending):
        which = np.uint64(integers[_WHICH, j])
        integers[_TRIAL_N, j], floats[_TRIAL_P, j] = integers[N, which], floats[P, which]
        floats[_TRIAL_U, j], floats[_TRIAL_V, j] = floats[_U, which], floats[_V, which]
    row = _TRIAL_U
    place: Index = np.int64(0)
    while pending > 0:
        _candidates(_whole_vectors(np.int64(pending)), row, place, integers, floats)
        rejected = np.uint64(0)
        for j in range(pending):
            which, n, p = np.uint64(integers[_WHICH, j]), integers[_TRIAL_N, j], floats[_TRIAL_P, j]
            drawn, verdict = integers[_TRIAL, j], integers[_VERDICT, j]
            if verdict == _SMALL:
                integers[_WHICH_SMALL, small], floats[_SMALL_U, small] = which, floats[row, place + j]
                small += np.uint64(1)
                drawn = 0
            elif verdict == _CLOSE and not _accepts(n, p, floats[row, place + j], floats[row + 1, place + j]):
                drawn = -1
            integers[DRAWN, which] = drawn
            integers[_WHICH, rejected], integers[_TRIAL_N, rejected], floats[_TRIAL_P, rejected] = which, n, p
            rejected += np.uint64(drawn < 0)
        pending = rejected
        if taken + np.int64(pending) > ready:
            position += taken
            taken, ready = np.int64(0), _whole_vectors(np.int64(pending))
            _fill_uniforms(stream, position, ready, floats)
        row, place = _U, taken
        taken += np.int64(pending)
    if small > 0:
        _invert(small, integers, floats)
    return position + taken


@compiled
def _fill_uniforms(stream: Stream, position: Index, size: Index, floats: Floats) -> None:
    for i in range(size):
        floats[_U, i], floats[_V, i] = uniforms(stream, position + i)


@inlined
def _whole_vectors(size: Index) -> Index:
    return (size + _LANES - 1) // _LANES * _LANES


@inlined
def _hat(n: float, r: float) -> tuple[float, float, float, float, float, float, float]:
    """Return mean, mode and spread of the law, and the constants of Hörmann's hat: a, b, alpha and v_r."""
    mean = n * r
    spread = math.sqrt(mean * (1.0 - r))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * r
    over_b = 1.0 / b
    return mean, np.floor(mean + r), spread, a, b, (2.83 + 5.1 * over_b) * spread, 0.92 - 4.2 * over_b


@inlined
def _distance(u: float, mean: float, mode: float, a: float, b: float) -> float:
    """Return a candidate's distance from the mode."""
    w = u - 0.5
    far = (2.0 * a / (0.5 - abs(w)) + b) * w + (mean - mode + 0.5)
    return float(np.floor(min(max(far, -9.0e18), 9.0e18)))  # what 64 bits hold; so far out, none is kept


@inlined
def _height(u: float, v: float, a: float, b: float, alpha: float) -> float:
    """Return what f(k)/f(mode) must reach for a candidate to be kept."""
    square = (0.5 - abs(u - 0.5)) * (0.5 - abs(u - 0.5))
    return v * alpha * square / (a + b * square)


@compiled
def _easy_candidates(size: Index, integers: Integers, floats: Floats) -> None:
    """A candidate for each draw, and whether it is accepted whatever the ratio is: four in five are."""
    for i in range(size):
        n, p, u, v = integers[N, i], floats[P, i], floats[_U, i], floats[_V, i]
        mean, mode, _, a, b, _, enough = _hat(float(n), abs(p))
        k = np.int64(mode) + np.int64(_distance(u, mean, mode, a, b))
        integers[DRAWN, i] = n - k if p < 0.0 else k
        under_the_hat = (abs(u - 0.5) <= 0.43) & (v <= enough) & (mean >= _INVERSION_BELOW)
        integers[_VERDICT, i] = _ACCEPTED if under_the_hat else _CLOSE


@compiled
def _candidates(size: Index, row: int, place: Index, integers: Integers, floats: Floats) -> None:
    """A candidate for each trial, -1 if it is rejected, and what is to be done with it.

    Their uniform numbers are in ``row`` and the next, from ``place`` on.
    """
    for i in range(size):
        n, p, u, v = integers[_TRIAL_N, i], floats[_TRIAL_P, i], floats[row, place + i], floats[row + 1, place + i]
        trials = float(n)
        mean, mode, spread, a, b, alpha, enough = _hat(trials, abs(p))
        distance = _distance(u, mean, mode, a, b)
        height = _height(u, v, a, b, alpha)
        ratio, error, reach = ratio_to_mode(distance, trials, mean, mode, spread)
        under_the_hat = (abs(u - 0.5) <= 0.43) & (v <= enough)  # Hörmann: the ratio is above, whatever k is
        possible = (distance >= -mode) & (distance <= trials - mode)
        accept = under_the_hat | (possible & (abs(distance) <= reach) & (height <= ratio * (1.0 - error)))
        reject = (not possible) | ((error < 1.0) & (height > ratio * (1.0 + 2.0 * error)))
        k = np.int64(mode) + np.int64(distance)
        k = n - k if p < 0.0 else k
        integers[_TRIAL, i] = -1 if reject & (not accept) else k
        verdict = _ACCEPTED if accept else (_REJECTED if reject else _CLOSE)
        integers[_VERDICT, i] = verdict if mean >= _INVERSION_BELOW else _SMALL


@inlined
def ratio_to_mode(distance: float, n: float, mean: float, mode: float, spread: float) -> tuple[float, float, float]:
    """Return f(mode + distance)/f(mode) up to a relative error, that error, and how far from the mode it holds.

    Beyond its reach, the ratio at the reach is returned; the true one is smaller.
    """
    reach = np.floor(min(0.5 * mean - 2.0, 7.0 * spread))
    d = min(abs(distance), reach)
    right = distance >= 0.0
    c = mode - mean if right else mean - mode
    failures = n - mean
    over_both = 1.0 / (mean * failures)
    over_mean, over_failures = failures * over_both, mean * over_both
    p = over_failures if right else over_mean
    q = over_mean if right else over_failures
    # The numbers c, ... c+d-1 and c+1, ... c+d: their means, and the mean square around them.
    y, z, square = (c + 0.5 * (d - 1.0)) * p, (c + 0.5 * (d + 1.0)) * q, (d * d - 1.0) / 12.0
    yy, zz = square * p * p, square * q * q
    logarithm = -d * (
        (y + 0.5 * (y * y + yy) + y * (y * y + 3.0 * yy) * (1.0 / 3.0))
        + (z - 0.5 * (z * z + zz) + z * (z * z + 3.0 * zz) * (1.0 / 3.0))
    )
    e = d + 2.0
    pp, qq = e * e * p * p, e * e * q * q
    error = 0.1 * e * (pp * pp + qq * qq) + 2e-4
    return exponential(logarithm), error, reach


@inlined
def exponential(x: float) -> float:
    """e**x for -40 <= x <= 1 up to a factor 1 ± 2e-4, by sums and products only."""
    y = x * (1.0 / 1024.0)
    power = 1.0 + y * (1.0 + y * (1 / 2 + y * (1 / 6)))
    for _ in range(10):
        power *= power
    return power


@compiled
def _accepts(n: int, signed_p: float, u: float, v: float) -> bool:
    """Decide a close case exactly."""
    r = abs(signed_p)
    mean, mode, _, a, b, alpha, _ = _hat(float(n), r)
    distance = _distance(u, mean, mode, a, b)
    deviation = mode - mean
    log_ratio = log_pmf(n, r, int(mode) + int(distance), distance + deviation) - log_pmf(n, r, int(mode), deviation)
    return math.log(_height(u, v, a, b, alpha)) <= log_ratio


@compiled
def _invert(size: np.uint64, integers: Integers, floats: Floats) -> None:
    """Draw the small ones, n r < 10: how many of the probabilities of 0, 1, 2, ... sum up to less than u."""
    whole = _whole_vectors(np.int64(size))
    for j in range(np.uint64(whole)):
        which = np.uint64(integers[_WHICH_SMALL, j])
        integers[_TRIAL_N, j] = integers[N, which] if j < size else 0
        floats[_TRIAL_P, j] = floats[P, which] if j < size else 0.0
    for j in range(whole):
        r = abs(floats[_TRIAL_P, j])
        floats[_CHANCE, j], floats[_ODDS, j] = chance_of_none(r, float(integers[_TRIAL_N, j])), r / (1.0 - r)
        integers[_TRIAL, j] = 0
    active, step = whole, 0
    while active > 0:
        step += 1
        active, over_step = np.int64(0), 1.0 / step
        for j in range(whole):
            u, chance, rest_n = floats[_SMALL_U, j], floats[_CHANCE, j], float(integers[_TRIAL_N, j]) - (step - 1.0)
            above = (u > chance) & (rest_n > 0.0) & (chance > _NEGLIGIBLE)  # once it is not, nothing changes any more
            floats[_SMALL_U, j] = u - chance if above else u
            floats[_CHANCE, j] = chance * (rest_n * over_step * floats[_ODDS, j]) if above else chance
            integers[_TRIAL, j] += above
            active += above
    for j in range(size):
        drawn, mirrored = integers[_TRIAL, j], math.copysign(1.0, floats[_TRIAL_P, j]) < 0.0
        integers[DRAWN, np.uint64(integers[_WHICH_SMALL, j])] = integers[_TRIAL_N, j] - drawn if mirrored else drawn


@inlined
def chance_of_none(r: float, n: float) -> float:
    """(1 - r)**n up to a factor 1 ± 1e-14, for r <= 1/2 and n r <= 10; a vector instruction has no logarithm."""
    z = r / (2.0 - r)  # ln(1 - r) = -2 artanh z
    zz = z * z
    artanh = 0.0
    for k in range(37, -1, -2):
        artanh = artanh * zz + 1.0 / k
    x = n * z * artanh * -0.125  # a sixteenth of the logarithm, more than -0.9
    total = 1.0
    for k in range(18, 0, -1):
        total = 1.0 + total * x * (1.0 / k)
    for _ in range(4):
        total *= total
    return total


@compiled
def log_pmf(n: int, r: float, k: int, deviation: float) -> float:
    """Ln Pr[Binomial(n, r) = k], where deviation = k - n r is known more exactly than k."""
    if k == 0:
        return n * math.log1p(-r)
    if k == n:
        return n * math.log(r)
    mean = n * r
    return (
        _stirling(n)
        - _stirling(k)
        - _stirling(n - k)
        - _deviance(float(k), mean, deviation)
        - _deviance(float(n - k), n - mean, -deviation)
        + 0.5 * (math.log(n / float(k) / float(n - k)) - _LOG_2PI)
    )


@compiled
def _stirling(k: int) -> float:
    """The error of Stirling's formula for ln k!."""
    if k < 16:
        return float(_STIRLING[k])
    x = float(k)
    xx = x * x
    return (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / 1680.0 / xx) / xx) / xx) / x


@compiled
def _deviance(x: float, mean: float, deviation: float) -> float:
    """X ln(x/mean) + mean - x, without cancellation where x is near the mean."""
    if abs(deviation) >= 0.1 * (x + mean):
        return x * math.log(x / mean) - deviation
    v = deviation / (x + mean)
    total = deviation * v
    term = 2.0 * x * v
    for j in range(1, 1000):
        term *= v * v
        longer = total + term / (2 * j + 1)
        if longer == total:
            break
        total = longer
    return total


# --- rows of a process -----------------------------------------------------------------------------------------------

ROWS_PER_BLOCK = AT_ONCE  # another number would draw other counts from the same seed


@compiled
def row_means(
    indptr: Integers, weight: NDArray[np.generic], x: Floats, low: float, out: Floats, r0: int, r1: int
) -> None:
    """out[row] = sum of weight * (x - low) over the outcomes of the row, for the rows from ``r0`` up to ``r1``."""
    for row in range(r0, r1):
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += weight[k] * (x[k] - low)
        out[row] = total


@compiled
def conditional_rows(indptr: Integers, probability: Floats, out: Floats) -> None:
    """out[k] = Pr[outcome k | no earlier one of its row] = p if p <= 1/2, else -(1 - p)."""
    for row in range(indptr.size - 1):
        tail = 0.0
        for k in range(indptr[row + 1] - 1, indptr[row] - 1, -1):
            total = probability[k] + tail
            if total == 0.0:  # impossible, and so is everything after it
                out[k] = 0.0
            else:
                out[k] = probability[k] / total if probability[k] <= tail else -(tail / total)
            tail = total


@compiled
def are_canonical(
    indptr: Integers, next_state: NDArray[np.int32], probability: Floats, reward: Floats, n_states: int
) -> bool:
    """Whether every row has an outcome, and bringing the rows to canonical form would change no bit."""
    if indptr[0] != 0 or indptr[-1] != next_state.size:
        return False
    for row in range(indptr.size - 1):
        begin, end = indptr[row], indptr[row + 1]
        if not 0 <= begin < end <= next_state.size:
            return False
        total = 0.0
        for k in range(begin, end):
            if not (0 <= next_state[k] < n_states and 0.0 < probability[k] <= 1.0 and math.isfinite(reward[k])):
                return False
            if reward[k] == 0.0 and math.copysign(1.0, reward[k]) < 0.0:
                return False
            if k > begin:
                step = next_state[k] - next_state[k - 1]
                if step < 0 or (step == 0 and reward[k] <= reward[k - 1]):
                    return False
            total += probability[k]
        # However the sum is rounded, it is then within as many units of 1 as there are outcomes.
        if abs(total - 1.0) > (2.0**-52 if end - begin > 1 else 0.0):
            return False
    return True


@compiled
def draw_rows(
    rows: Integers,
    r0: Index,
    r1: Index,
    conditional: Floats,
    stream: Stream,
    position: Index,
    integers: Integers,
    floats: Floats,
    out: Integers,
) -> Index:
    """out[rows[0, i]:rows[1, i]] = the counts of rows[2, i] outcomes of row i, for the rows from ``r0`` to ``r1``.

    Takes numbers of the stream from ``position`` on, and returns the first one that is left. ``integers`` and
    ``floats`` are a `workspace`.
    """
    open_rows = np.uint64(0)
    for i in range(np.uint64(r0), np.uint64(r1)):
        start, stop, trials = rows[0, i], rows[1, i], rows[2, i]
        integers[AT, open_rows], integers[END, open_rows], integers[N, open_rows] = start, stop, trials
        if start < stop:  # a row without outcomes, of an action that is not allowed, takes nothing
            open_rows += np.uint64(_goes_on(start, stop, trials, out))
    while open_rows > 0:
        for j in range(open_rows):
            floats[P, j] = conditional[np.uint64(integers[AT, j])]
        position = binomials(np.int64(open_rows), stream, position, integers, floats)
        still_open = np.uint64(0)
        for j in range(open_rows):
            at, end, drawn = integers[AT, j], integers[END, j], integers[DRAWN, j]
            out[np.uint64(at)] = drawn
            open_trials = integers[N, j] - drawn
            integers[AT, still_open], integers[END, still_open], integers[N, still_open] = at + 1, end, open_trials
            still_open += np.uint64(_goes_on(at + 1, end, open_trials, out))
        open_rows = still_open
    return position


@inlined
def _goes_on(start: int, stop: int, trials: int, out: Integers) -> bool:
    """Return whether there is something to draw; if not, the last outcome of a row takes what is left."""
    if trials > 0 and start + 1 < stop:
        return True
    for k in range(start, stop - 1):
        out[k] = 0
    out[stop - 1] = trials
    return False


@compiled
def draw_block(
    indptr: Integers,
    conditional: Floats,
    calls: int,
    words: Words,
    block: int,
    integers: Integers,
    floats: Floats,
    bounds: Integers,
    out: Integers,
) -> int:
    """Draw ``calls`` outcomes of every row of a block and return how many rows it has.

    Row i of the block then has the counts ``out[bounds[0, i]:bounds[1, i]]``.
    """
    r0 = block * ROWS_PER_BLOCK
    size = min(ROWS_PER_BLOCK, indptr.size - 1 - r0)
    for i in range(size):
        bounds[0, i], bounds[1, i] = indptr[r0 + i] - indptr[r0], indptr[r0 + i + 1] - indptr[r0]
        bounds[2, i] = calls
    of_block = conditional[indptr[r0] : indptr[r0 + size]]
    stream, zero = stream_of(words, block), np.int64(0)
    draw_rows(bounds, zero, np.int64(size), of_block, stream, zero, integers, floats, out)
    return size


@compiled
def multinomial_blocks(
    indptr: Integers, conditional: Floats, calls: int, words: Words, out: Integers, b0: int, b1: int
) -> None:
    """Fill ``out`` with the counts of ``calls`` outcomes of every row in the blocks from ``b0`` to ``b1``."""
    integers, floats = workspace(indptr.size - 1)
    bounds = np.empty((3, ROWS_PER_BLOCK), dtype=np.int64)
    for block in range(b0, b1):
        of_block = out[indptr[block * ROWS_PER_BLOCK] :]
        draw_block(indptr, conditional, calls, words, block, integers, floats, bounds, of_block)


@compiled_loop("horizon")
def propagate(
    first_state: Integers,
    first_conditional: Floats,
    indptr: Integers,
    next_state: NDArray[np.int32],
    conditional: Floats,
    action: Integers,
    choice: Floats,
    episodes: int,
    horizon: int,
    words: Words,
    count: Floats,
) -> None:
    """Add to ``count`` the outcomes that occur in ``horizon`` steps of ``episodes`` episodes.

    ``here[s]`` episodes are in state s; they take ``action[s]``, or where that is -1 choose by the conditional
    probabilities ``choice``, and move on together. Only states that some episode has reached are touched.
    """
    n_states, n_pairs = action.size, indptr.size - 1
    n_actions = n_pairs // n_states
    integers, floats = workspace(max(n_pairs, first_state.size))
    drawn = np.empty(conditional.size, dtype=np.int64)
    rows, choices = np.empty((3, n_pairs + 1), dtype=np.int64), np.empty((3, ROWS_PER_BLOCK), dtype=np.int64)
    chosen = np.empty(choice.size, dtype=np.int64)
    here, reached = np.zeros(n_states, dtype=np.int64), np.empty(n_states + 1, dtype=np.int64)
    rows[0, 0], rows[1, 0], rows[2, 0] = 0, first_state.size, episodes
    zero, unit = np.int64(0), np.int64(1)
    stream = stream_of(words, horizon)
    draw_rows(rows, zero, unit, first_conditional, stream, zero, integers, floats, reached)
    here[first_state] = reached[: first_state.size]
    n_reached = np.int64(first_state.size)
    reached[:n_reached] = first_state
    for h in range(horizon):
        stream = stream_of(words, h)
        position: Index = zero
        n_rows = np.uint64(0)
        for at in range(0, n_reached, ROWS_PER_BLOCK):
            undecided = np.uint64(0)
            for i in range(np.uint64(at), np.uint64(at + _at_most(n_reached - at))):
                s = np.uint64(reached[i])
                if action[s] >= 0:
                    pair = s * np.uint64(n_actions) + np.uint64(action[s])
                    rows[0, n_rows], rows[1, n_rows], rows[2, n_rows] = (
                        indptr[pair],
                        indptr[pair + np.uint64(1)],
                        here[s],
                    )
                    n_rows += np.uint64(1)
                else:
                    pair = s * np.uint64(n_actions)
                    choices[0, undecided], choices[1, undecided] = pair, pair + np.uint64(n_actions)
                    choices[2, undecided] = here[s]
                    undecided += np.uint64(1)
                here[s] = 0
            if undecided > 0:
                size = np.int64(undecided)
                position = draw_rows(choices, zero, size, choice, stream, position, integers, floats, chosen)
            for i in range(undecided):
                for k in range(choices[0, i], choices[1, i]):
                    rows[0, n_rows], rows[1, n_rows], rows[2, n_rows] = indptr[k], indptr[k + 1], chosen[k]
                    n_rows += np.uint64(chosen[k] > 0)
        arrived = np.uint64(0)
        for at in range(0, np.int64(n_rows), ROWS_PER_BLOCK):
            end = at + _at_most(np.int64(n_rows) - at)
            position = draw_rows(rows, np.int64(at), end, conditional, stream, position, integers, floats, drawn)
            for i in range(np.uint64(at), np.uint64(end)):
                for k in range(np.uint64(rows[0, i]), np.uint64(rows[1, i])):
                    successor, times = np.uint32(next_state[k]), drawn[k]
                    present = here[successor]
                    here[successor] = present + times
                    reached[arrived] = successor
                    arrived += np.uint64((present == 0) & (times > 0))
                    count[k] += times
        n_reached = np.int64(arrived)


@inlined
def _at_most(rows: Index) -> Index:
    """Return how many of so many rows the next block takes."""
    return rows if rows < ROWS_PER_BLOCK else np.int64(ROWS_PER_BLOCK)

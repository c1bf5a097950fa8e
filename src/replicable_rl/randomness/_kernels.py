"""Philox4x64-10 at any position: word i without the words before it.

Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3* (2011). The same words as
``numpy.random.Philox(key=key).random_raw``, as a test checks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from replicable_rl.compiled import compiled

_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@compiled
def fill_uniform(key: NDArray[np.uint64], start: int, size: int, out: NDArray[np.float64]) -> None:
    """out[i] = the upper 53 bits of word ``start`` + i of the stream of ``key``, times 2**-53.

    ``start`` is a multiple of 4, and ``out`` has room for as many numbers as make ``size`` one.
    """
    for i in range(0, size, 4):
        words = _block(key[0], key[1], np.uint64((start + i) // 4 + 1))
        for lane in range(4):
            out[i + lane] = float(words[lane] >> np.uint64(11)) * 2.0**-53


@compiled
def words_at(key: NDArray[np.uint64], index: NDArray[np.int64], out: NDArray[np.uint64]) -> None:
    """out[j] = word index[j] of the stream of ``key``."""
    for j in range(index.size):
        out[j] = _block(key[0], key[1], np.uint64(index[j] // 4 + 1))[index[j] % 4]


@compiled
def _block(k0: np.uint64, k1: np.uint64, counter: np.uint64) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """The four words at a counter."""
    c0 = counter
    c1 = c2 = c3 = np.uint64(0)
    for _ in range(10):
        high0, high1 = _high(_M0, c0), _high(_M1, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, _M1 * c2, high0 ^ c3 ^ k1, _M0 * c0
        k0 += _W0
        k1 += _W1
    return c0, c1, c2, c3


@compiled
def _high(a: np.uint64, b: np.uint64) -> np.uint64:
    """The upper 64 bits of a*b."""
    a0, a1, b0, b1 = a & _LOW, a >> _32, b & _LOW, b >> _32
    middle = a1 * b0 + ((a0 * b0) >> _32)
    carry = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _32) + (carry >> _32)

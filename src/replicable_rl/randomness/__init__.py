"""The two randomnesses, kept apart by type.

*Shared randomness* is the r of the definition of replicability: published, the same
in both runs. :class:`SharedRandomness` is a pure function (seed, label, address) ->
numbers. It has no state: what was drawn before, in which order, or by how many
threads, changes nothing. Its values are frozen for ever; ``docs/promises.md``
specifies them and ``tests/vectors/shared_randomness.json`` pins them.

*Fresh samples* come from a :class:`numpy.random.Generator` that :func:`sample_stream`
makes from the sample seed. The same integer used for both gives unrelated numbers.
"""

from __future__ import annotations

import functools
import hashlib
import math
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from replicable_rl.errors import InvalidInput, check_integer, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_SEED = 2**64 - 1
_LABEL = re.compile(r"[a-z0-9][a-z0-9/_.-]*")
_SAMPLE_DOMAIN = int.from_bytes(b"replicable-rl sample v1", "big")


@dataclass(frozen=True)
class SharedRandomness:
    """The published randomness r: addressed, stateless, frozen for ever.

    A number is a function of the seed, from 0 to 2**64 - 1, a label that says what it is for, and an address: what was
    drawn before, and in which order, has no effect. Use a label of your own, such as ``my-algorithm/offset``.

    >>> shared = SharedRandomness(2023)
    >>> shared.uniform("rpvi/offset", 0, shape=2)
    array([0.54383529, 0.32766241])
    >>> shared.uniform("rpvi/offset", 0, shape=4)[:2] == shared.uniform("rpvi/offset", 0, shape=2)
    array([ True,  True])
    """

    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_integer("SharedRandomness", "seed", self.seed, low=0, high=MAX_SEED))

    def words(self, label: str, *address: int, count: int) -> NDArray[np.uint64]:
        """Return the first ``count`` 64-bit words at (label, address).

        Word i is a function of (seed, label, address, i) alone, so a longer request
        begins with the shorter one.
        """
        return np.random.Philox(key=self._key(label, address)).random_raw(count).astype(np.uint64, copy=False)

    def uniform(self, label: str, *address: int, shape: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Return uniform numbers in [0, 1) at (label, address), filled in C order."""
        shape = (shape,) if isinstance(shape, int) else shape
        return _to_unit(self.words(label, *address, count=math.prod(shape))).reshape(shape)

    def keys(self, label: str, addresses: range) -> NDArray[np.uint64]:
        """Return the keys of the generators at (label, address) for every address, shape (n, 2): for compiled loops."""
        return _keys(self._text(label), addresses)

    def uniform_at(self, label: str, *address: int, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the elements ``index`` of what `uniform` would fill a long enough array with.

        For few numbers of a large address space, such as the successors (s, a, s') that were seen.

        >>> shared = SharedRandomness(2023)
        >>> shared.uniform_at("rpvi/offset", 0, index=np.array([1, 10**15])).round(4).tolist()
        [0.3277, 0.3842]
        """
        from replicable_rl.randomness import _kernels

        if index.dtype.kind not in "iu" or (index < 0).any():
            raise InvalidInput(f"SharedRandomness: index must hold whole numbers >= 0, got {shown(index)}.")
        words = np.empty(index.size, dtype=np.uint64)
        _kernels.words_at(self._key(label, address), np.ascontiguousarray(index, dtype=np.int64).reshape(-1), words)
        return _to_unit(words).reshape(index.shape)

    def _key(self, label: str, address: tuple[int, ...]) -> NDArray[np.uint64]:
        numbers = ",".join(str(check_integer("SharedRandomness", "address", a, low=0, high=2**63 - 1)) for a in address)
        digest = hashlib.sha256(f"{self._text(label)}{numbers}\n".encode("ascii")).digest()
        return np.frombuffer(digest[:16], dtype="<u8").astype(np.uint64)

    def _text(self, label: str) -> str:
        if not _LABEL.fullmatch(label):
            raise InvalidInput(
                f"SharedRandomness: a label is made of a-z, 0-9 and '/_.-', got {shown(label)}. Choose another label."
            )
        return f"replicable-rl shared v1\n{self.seed}\n{label}\n"

    def __repr__(self) -> str:
        return f"SharedRandomness({self.seed})"


@functools.lru_cache(maxsize=4)  # an audit asks for the same keys in every run of a shared seed
def _keys(text: str, addresses: range) -> NDArray[np.uint64]:
    start, digests = hashlib.sha256(text.encode("ascii")), bytearray()
    for address in addresses:
        digest = start.copy()
        digest.update(b"%d\n" % address)
        digests += digest.digest()[:16]
    keys = np.frombuffer(digests, dtype="<u8").astype(np.uint64).reshape(-1, 2)
    keys.setflags(write=False)
    return keys


def _to_unit(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return the upper 53 bits of each word, times 2**-53."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def fresh_seed() -> int:
    """Return a new sample seed from the operating system's entropy."""
    return secrets.randbits(64)


def sample_stream(seed: int) -> np.random.Generator:
    """Return the generator of fresh samples for a sample seed.

    >>> a, b = sample_stream(1), sample_stream(1)
    >>> bool(a.random() == b.random())
    True
    """
    seed = check_integer("sample_stream", "seed", seed, low=0, high=MAX_SEED)
    # The spawn key separates this use of the integer from any other use of SeedSequence.
    return np.random.Generator(np.random.PCG64DXSM(np.random.SeedSequence(seed, spawn_key=(_SAMPLE_DOMAIN,))))

"""Shared randomness against an implementation of its specification that shares no code with it.

The reference below follows ``docs/shared-randomness.md`` with Python integers: no numpy. Run this
file to write ``tests/vectors/shared_randomness.json`` from it; the values may never change.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.randomness import MAX_SEED, SharedRandomness, fresh_seed, sample_stream
from tests.statistics import ALPHA, SEED

VECTORS = Path(__file__).parent / "vectors" / "shared_randomness.json"
PAGE = Path(__file__).parent.parent / "docs" / "shared-randomness.md"

# --- the reference ---------------------------------------------------------------------------

MASK = 2**64 - 1
MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)  # Salmon, Moraes, Dror and Shaw 2011
WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)

Block = tuple[int, int, int, int]


def philox4x64(counter: Block, key: tuple[int, int], rounds: int = 10) -> Block:
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(rounds):
        p0, p1 = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (p1 >> 64) ^ c1 ^ k0, p1 & MASK, (p0 >> 64) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return c0, c1, c2, c3


def hashed_text(seed: int, label: str, address: tuple[int, ...]) -> bytes:
    numbers = ",".join(str(number) for number in address)
    return f"replicable-rl shared v1\n{seed}\n{label}\n{numbers}\n".encode("ascii")


def reference_key(seed: int, label: str, address: tuple[int, ...]) -> tuple[int, int]:
    digest = hashlib.sha256(hashed_text(seed, label, address)).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")


def reference_words(seed: int, label: str, address: tuple[int, ...], count: int) -> list[int]:
    key = reference_key(seed, label, address)
    return [philox4x64((i // 4 + 1, 0, 0, 0), key)[i % 4] for i in range(count)]


def reference_uniforms(seed: int, label: str, address: tuple[int, ...], count: int) -> list[float]:
    return [math.ldexp(word >> 11, -53) for word in reference_words(seed, label, address, count)]


@pytest.mark.parametrize(
    ("counter", "key", "output"),
    [  # the known answers that the authors of Philox publish with Random123
        (
            (0, 0, 0, 0),
            (0, 0),
            (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B),
        ),
        (
            (MASK, MASK, MASK, MASK),
            (MASK, MASK),
            (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0),
        ),
        (
            (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89),
            (0x452821E638D01377, 0xBE5466CF34E90C6C),
            (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6),
        ),
    ],
)
def test_the_reference_is_philox(counter: Block, key: tuple[int, int], output: Block) -> None:
    assert philox4x64(counter, key) == output


# --- agreement -------------------------------------------------------------------------------

seeds = st.integers(0, MAX_SEED)
labels = st.from_regex(r"[a-z0-9][a-z0-9/_.-]{0,20}", fullmatch=True)
addresses = st.lists(st.integers(0, 2**63 - 1), max_size=4).map(tuple)


@settings(max_examples=200, deadline=None)
@given(seeds, labels, addresses, st.integers(0, 40))
@example(MAX_SEED, "rpvi/offset", (0,), 9)
@example(2**63, "0", (2**63 - 1, 2**63 - 1), 5)
@example(0, "garnet/reward", (), 4)
def test_words_and_uniforms_agree_with_the_reference(
    seed: int, label: str, address: tuple[int, ...], count: int
) -> None:
    shared = SharedRandomness(seed)
    words = shared.words(label, *address, count=count)
    assert words.dtype == np.uint64
    assert words.tolist() == reference_words(seed, label, address, count)
    uniforms = shared.uniform(label, *address, shape=count)
    assert uniforms.dtype == np.float64
    assert uniforms.tolist() == reference_uniforms(seed, label, address, count)


def test_a_word_far_into_the_sequence_agrees_with_the_reference() -> None:
    count = 1_000_003
    word = int(SharedRandomness(7).words("far", 1, count=count)[-1])
    assert word == philox4x64(((count - 1) // 4 + 1, 0, 0, 0), reference_key(7, "far", (1,)))[(count - 1) % 4]


@settings(max_examples=100, deadline=None)
@given(seeds, labels, addresses, st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 20), max_size=12))
@example(2023, "rpvi/offset", (0,), [2**63 - 1, 2**63 - 4, 0, 3, 4, 2**34 - 1])
def test_numbers_at_an_index_agree_with_the_reference(
    seed: int, label: str, address: tuple[int, ...], index: list[int]
) -> None:
    key = reference_key(seed, label, address)
    expected = [math.ldexp(philox4x64((i // 4 + 1, 0, 0, 0), key)[i % 4] >> 11, -53) for i in index]
    positions = np.array(index, dtype=np.int64)
    assert SharedRandomness(seed).uniform_at(label, *address, index=positions).tolist() == expected
    pairs = SharedRandomness(seed).uniform_at(label, *address, index=np.stack([positions, positions[::-1]]))
    assert pairs.tolist() == [expected, expected[::-1]]


@pytest.mark.parametrize("index", [[-1], [0, -(2**63)]])
def test_negative_indices_are_refused(index: list[int]) -> None:
    with pytest.raises(rr.InvalidInput, match="index"):
        SharedRandomness(1).uniform_at("a", index=np.array(index))


def test_the_largest_word_stays_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    edge = np.array([0, 2**11 - 1, 2**11, MASK], dtype=np.uint64)
    monkeypatch.setattr(SharedRandomness, "words", lambda *_, **__: edge)
    assert SharedRandomness(0).uniform("x", shape=4).tolist() == [0.0, 0.0, 2.0**-53, 1.0 - 2.0**-53]


def test_the_pinned_vectors_hold() -> None:
    vectors = json.loads(VECTORS.read_text("ascii"))
    assert len(vectors) >= 20
    for vector in vectors:
        seed, label, address = int(vector["seed"]), vector["label"], [int(a) for a in vector["address"]]
        shared = SharedRandomness(seed)
        words = [int(word) for word in vector["words"]]
        assert shared.words(label, *address, count=len(words)).tolist() == words, vector
        uniforms = [repr(u) for u in shared.uniform(label, *address, shape=len(words)).tolist()]
        assert uniforms == vector["uniforms"], vector


# --- a pure function of (seed, label, address) -----------------------------------------------


def test_shapes_are_filled_in_c_order() -> None:
    shared = SharedRandomness(11)
    table = shared.uniform("shape", 2, shape=(3, 4, 5))
    assert table.shape == (3, 4, 5)
    flat = reference_uniforms(11, "shape", (2,), 60)
    for s, a, k in np.ndindex(3, 4, 5):
        assert table[s, a, k] == flat[(s * 4 + a) * 5 + k]
    assert shared.uniform("shape", 2, shape=()).item() == flat[0]
    assert shared.uniform("shape", 2, shape=(0, 3)).shape == (0, 3)


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(0, 60), st.integers(0, 60))
def test_a_longer_request_begins_with_the_shorter(seed: int, one: int, two: int) -> None:
    short, long = sorted((one, two))
    shared = SharedRandomness(seed)
    assert shared.words("x", 3, count=long)[:short].tolist() == shared.words("x", 3, count=short).tolist()


def test_what_was_drawn_before_and_in_which_order_changes_nothing() -> None:
    places = [("a", (i, j)) for i in range(6) for j in range(5)]
    expected = {place: reference_uniforms(5, place[0], place[1], 7) for place in places}
    shared = SharedRandomness(5)
    for order in (places, places[::-1], sorted(places, key=lambda place: hashlib.md5(repr(place).encode()).digest())):
        for label, address in order:
            np.random.random(3)  # noqa: NPY002  # the global generator must play no part
            assert shared.uniform(label, *address, shape=7).tolist() == expected[label, address]


def test_threads_change_nothing() -> None:
    shared = SharedRandomness(MAX_SEED)
    places = [("t", (i,)) for i in range(64)]

    def draw(place: tuple[str, tuple[int, ...]]) -> list[int]:
        words: list[int] = shared.words(place[0], *place[1], count=500).tolist()
        return words

    serial = [draw(place) for place in places]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(draw, places * 3)) == serial * 3


def test_different_seeds_labels_and_addresses_give_different_words() -> None:
    words: dict[int, tuple[int, str, tuple[int, ...]]] = {}
    places = [
        (seed, label, address)
        for seed in (0, 1, 12, 2**32, 2**63, MAX_SEED)
        for label in ("a", "a/b", "a.b", "aa", "a1", "a-1", "a_1", "1")
        for address in ((), (0,), (1,), (0, 0), (1, 12), (11, 2), (112,), (1, 1, 2), (2**63 - 1,))
    ]
    for place in places:
        for word in SharedRandomness(place[0]).words(place[1], *place[2], count=8).tolist():
            # 64-bit words: a chance collision among 3456 of them has probability 3e-13.
            assert word not in words, (place, words[word])
            words[word] = place


def test_numpy_integers_are_the_numbers_they_hold() -> None:
    by_numpy = SharedRandomness(np.uint64(MAX_SEED)).words("a", np.int32(4), count=3)  # type: ignore[arg-type]
    assert by_numpy.tolist() == reference_words(MAX_SEED, "a", (4,), 3)


def test_identity_is_the_seed() -> None:
    assert SharedRandomness(3) == SharedRandomness(3)
    assert hash(SharedRandomness(3)) == hash(SharedRandomness(3))
    assert SharedRandomness(3) != SharedRandomness(4)
    assert (SharedRandomness(3).seed, repr(SharedRandomness(3))) == (3, "SharedRandomness(3)")
    with pytest.raises(AttributeError):
        SharedRandomness(3).seed = 4  # type: ignore[misc]


# --- the law ---------------------------------------------------------------------------------


def dkw_bound(n: int, alpha: float) -> float:
    """The distance that an empirical law exceeds with probability at most alpha (Massart 1990), for every n."""
    return math.sqrt(math.log(2.0 / alpha) / (2.0 * n))


def ks_distance(sample: list[float]) -> float:
    ordered = np.sort(sample)
    steps = np.arange(ordered.size + 1) / ordered.size
    return float(max(np.max(steps[1:] - ordered), np.max(ordered - steps[:-1])))


def uniform_samples() -> dict[str, list[float]]:
    one = SharedRandomness(SEED)
    return {
        "one address": one.uniform("law", shape=20_000).tolist(),
        "over addresses": [float(one.uniform("law", t, shape=1)[0]) for t in range(5_000)],
        "over seeds": [float(SharedRandomness(SEED + k).uniform("law", 0, shape=1)[0]) for k in range(5_000)],
        "over labels": [float(one.uniform(f"law/{k}", shape=1)[0]) for k in range(5_000)],
        "lower bits": (one.words("law", 1, count=20_000) % np.uint64(2**32) / 2.0**32).tolist(),
    }


def test_the_numbers_are_uniform_along_every_direction() -> None:
    samples = uniform_samples()
    for name, sample in samples.items():
        assert ks_distance(sample) <= dkw_bound(len(sample), ALPHA / len(samples)), name


def test_the_uniformity_test_has_power() -> None:
    sample = SharedRandomness(SEED).uniform("law", shape=20_000)
    assert ks_distance((sample**1.1).tolist()) > dkw_bound(sample.size, ALPHA)
    assert ks_distance((sample * 0.95).tolist()) > dkw_bound(sample.size, ALPHA)


# --- refusals --------------------------------------------------------------------------------

BAD_NUMBERS: list[Any] = [-1, True, 1.5, "1", None, np.float64(2.5), float("nan"), (1,)]


def test_a_whole_number_of_another_type_draws_the_same() -> None:
    whole: Any = 7.0
    assert (SharedRandomness(whole).words("a", whole, count=3) == SharedRandomness(7).words("a", 7, count=3)).all()
    assert sample_stream(whole).random() == sample_stream(7).random()


@pytest.mark.parametrize("seed", [*BAD_NUMBERS, 2**64], ids=repr)
def test_bad_seeds_are_refused(seed: Any) -> None:
    for made in (SharedRandomness, sample_stream):
        with pytest.raises(rr.InvalidInput, match="seed"):
            made(seed)


@pytest.mark.parametrize("number", [*BAD_NUMBERS, 2**63], ids=repr)
def test_bad_addresses_are_refused(number: Any) -> None:
    with pytest.raises(rr.InvalidInput, match="address"):
        SharedRandomness(1).words("a", 0, number, count=1)


BAD_LABELS = ["", "A", "aB", "ä", "a b", "a\n", "\na", "a\nb", "/a", "-a", "_a", ".a", "a,b", "a\x00", "a:b", "١"]


@pytest.mark.parametrize("label", BAD_LABELS, ids=repr)
def test_bad_labels_are_refused(label: str) -> None:
    with pytest.raises(rr.InvalidInput, match="label"):
        SharedRandomness(1).uniform(label, 0, shape=1)


# --- fresh samples ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2023, MAX_SEED])
def test_sample_stream_and_shared_randomness_of_one_integer_are_unrelated(seed: int) -> None:
    count = 4096
    fresh = sample_stream(seed).bit_generator.random_raw(count)
    for label in ("rpvi/offset", "a"):
        for address in ((), (0,)):
            shared = SharedRandomness(seed).words(label, *address, count=count)
            assert not set(fresh.tolist()) & set(shared.tolist())
            x, y = fresh / 2.0**64 - 0.5, shared / 2.0**64 - 0.5
            # Hoeffding on the products, which lie in [-1/4, 1/4] and have mean 0 when independent.
            bound = 0.25 * math.sqrt(2.0 * math.log(2.0 / ALPHA) / count)
            assert abs(float(np.mean(x * y))) <= bound


def test_sample_stream_is_not_the_stream_of_the_bare_integer() -> None:
    fresh = sample_stream(5).bit_generator.random_raw(4).tolist()
    assert fresh != np.random.PCG64DXSM(5).random_raw(4).tolist()
    assert fresh != sample_stream(6).bit_generator.random_raw(4).tolist()
    assert fresh == sample_stream(5).bit_generator.random_raw(4).tolist()


def test_both_randomnesses_are_the_same_in_other_processes() -> None:
    program = (
        "from replicable_rl.randomness import SharedRandomness, sample_stream\n"
        "print(sample_stream(2**64 - 1).bit_generator.random_raw(6).tolist(), sample_stream(3).random(3).tolist(),"
        " SharedRandomness(9).words('a', 1, count=3).tolist())"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    here = (
        f"{sample_stream(MAX_SEED).bit_generator.random_raw(6).tolist()} {sample_stream(3).random(3).tolist()} "
        f"{reference_words(9, 'a', (1,), 3)}\n"
    )
    assert outputs == [here, here]


def test_fresh_seeds_cover_the_range_and_do_not_repeat() -> None:
    drawn = [fresh_seed() for _ in range(64)]
    assert all(type(seed) is int and 0 <= seed <= MAX_SEED for seed in drawn)
    # Each of these fails by chance with probability below 1e-15.
    assert len(set(drawn)) == 64
    assert min(drawn) < 2**63 <= max(drawn)
    for seed in drawn:
        sample_stream(seed)
        SharedRandomness(seed)


# --- the page --------------------------------------------------------------------------------


def page_example() -> dict[str, str]:
    """The lines ``name = value`` of the worked example."""
    section = PAGE.read_text("utf-8").split("## Worked example")[1].split("\n## ")[0]
    (block,) = re.findall(r"```text\n(.*?)```", section, flags=re.DOTALL)
    return dict(line.split(" = ", 1) for line in block.splitlines() if " = " in line)


def test_the_worked_example_of_the_page_is_right() -> None:
    shown = page_example()
    seed, label, address = int(shown["seed"]), shown["label"], tuple(map(int, shown["address"].split(",")))
    text = shown["text"].encode("ascii").replace(b"\\n", b"\n")
    assert text == hashed_text(seed, label, address)
    assert shown["sha256"] == hashlib.sha256(text).hexdigest()
    assert [int(shown[f"key {i}"], 16) for i in range(2)] == list(reference_key(seed, label, address))
    key = (int(shown["key 0"], 16), int(shown["key 1"], 16))
    first_round = [int(word, 16) for word in shown["counter 1 after round 1"].split()]
    assert first_round == list(philox4x64((1, 0, 0, 0), key, rounds=1))
    words = [int(shown[f"word {i}"], 16) for i in range(6)]
    assert words == SharedRandomness(seed).words(label, *address, count=6).tolist()
    uniforms = [float(shown[f"uniform {i}"]) for i in range(6)]
    assert uniforms == SharedRandomness(seed).uniform(label, *address, shape=6).tolist()


def test_the_page_states_the_constants_and_every_label_in_use() -> None:
    page = PAGE.read_text("utf-8")
    for constant in (*MULTIPLIERS, *WEYL):
        assert f"0x{constant:016X}" in page
    source = Path(rr.__file__).parent
    used = {
        label
        for path in source.rglob("*.py")
        for label in re.findall(r'"([a-z0-9][a-z0-9_.-]*/[a-z0-9/_.-]+)"', path.read_text("utf-8"))
        if re.search(r"SharedRandomness|shared\.", path.read_text("utf-8")) and not label.startswith(("text/", "docs/"))
    }
    assert {"rpvi/offset", "garnet/reward", "garnet/successor", "garnet/cut"} <= used
    assert used <= set(re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE))


# --- writing the vectors ---------------------------------------------------------------------

PLACES: list[tuple[int, str, tuple[int, ...]]] = [
    *((seed, "rpvi/offset", (t,)) for seed in (0, 1, 2023, 2**63, MAX_SEED) for t in (0, 1, 88)),
    (2023, "garnet/reward", ()),
    (2023, "garnet/successor", (0,)),
    (2023, "garnet/successor", (3,)),
    (2023, "garnet/cut", (2,)),
    (0, "a", ()),
    (0, "a", (1, 12)),
    (0, "a", (11, 2)),
    (2**53 + 1, "a", (0, 0, 0)),
    (MAX_SEED, "0/_.-z", (2**63 - 1, 0, 2**63 - 1)),
]


def write_vectors() -> None:
    vectors = [
        {
            "seed": str(seed),
            "label": label,
            "address": [str(number) for number in address],
            "words": [str(word) for word in reference_words(seed, label, address, 10)],
            "uniforms": [repr(u) for u in reference_uniforms(seed, label, address, 10)],
        }
        for seed, label, address in PLACES
    ]
    VECTORS.write_text("[\n" + ",\n".join(map(json.dumps, vectors)) + "\n]\n", "ascii")


if __name__ == "__main__":
    write_vectors()

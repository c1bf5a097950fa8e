"""Shared randomness against an implementation of its specification that shares no code with it; and rSTAT upon it.

The reference follows ``docs/promises.md`` with Python integers: no numpy. The values of
``tests/vectors/shared_randomness.json`` may never change.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl.queries import Means, RStat, rstat
from replicable_rl.randomness import MAX_SEED, SharedRandomness, sample_stream
from tests.statistics import ALPHA, SEED, binomial_p

VECTORS = Path(__file__).parent / "vectors" / "shared_randomness.json"
PAGE = Path(__file__).parent.parent / "docs" / "promises.md"

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


# --- a pure function of (seed, label, address) ---------------------------------------------------------------------

seeds = st.integers(0, MAX_SEED)
labels = st.from_regex(r"[a-z0-9][a-z0-9/_.-]{0,20}", fullmatch=True)
addresses = st.lists(st.integers(0, 2**63 - 1), max_size=4).map(tuple)
positions = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 20), max_size=12)


@settings(max_examples=100, deadline=None)
@given(seeds, labels, addresses, st.integers(0, 40), positions)
@example(MAX_SEED, "rpvi/offset", (0,), 9, [2**63 - 1, 2**63 - 4, 0, 3, 4, 2**34 - 1])
@example(2**63, "0", (2**63 - 1, 2**63 - 1), 5, [])
def test_numbers_agree_with_the_reference(
    seed: int, label: str, address: tuple[int, ...], count: int, index: list[int]
) -> None:
    shared, key = SharedRandomness(seed), reference_key(seed, label, address)
    words, uniforms = shared.words(label, *address, count=count), shared.uniform(label, *address, shape=count)
    assert words.dtype == np.uint64
    assert words.tolist() == reference_words(seed, label, address, count)
    assert uniforms.tolist() == reference_uniforms(seed, label, address, count)
    far = [math.ldexp(philox4x64((i // 4 + 1, 0, 0, 0), key)[i % 4] >> 11, -53) for i in index]
    pairs = shared.uniform_at(label, *address, index=np.array([index, index[::-1]], dtype=np.int64))
    assert pairs.tolist() == [far, far[::-1]]
    if len(address) == 1:
        of_loops = shared.keys(label, range(address[0], address[0] + 1))[0]
        assert tuple(map(int, of_loops)) == key


def test_the_pinned_vectors_hold() -> None:
    vectors = json.loads(VECTORS.read_text("ascii"))
    assert len(vectors) >= 20
    for vector in vectors:
        shared, address = SharedRandomness(int(vector["seed"])), list(map(int, vector["address"]))
        words, size = [int(word) for word in vector["words"]], len(vector["words"])
        assert shared.words(vector["label"], *address, count=size).tolist() == words
        assert [repr(u) for u in shared.uniform(vector["label"], *address, shape=size).tolist()] == vector["uniforms"]


# --- the law -------------------------------------------------------------------------------------------------------


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [-1, True, 1.5, "1", None, math.nan, 2**64], ids=repr)
def test_bad_seeds_and_addresses_are_refused(number: Any) -> None:
    for make in (SharedRandomness, sample_stream):
        with pytest.raises(rr.InvalidInput, match="seed"):
            make(number)
    with pytest.raises(rr.InvalidInput, match="address"):
        SharedRandomness(1).words("a", 0, number, count=1)


@pytest.mark.parametrize("label", ["", "A", "ä", "a b", "a\n", "\na", "/a", "a,b", "a\x00", "١"], ids=repr)
def test_bad_labels_are_refused(label: str) -> None:
    with pytest.raises(rr.InvalidInput, match="label"):
        SharedRandomness(1).uniform(label, 0, shape=1)


@pytest.mark.parametrize("index", [np.array([-1]), np.array([0.5]), np.array([True]), np.array(["a"])])
def test_bad_indices_are_refused(index: Any) -> None:
    with pytest.raises(rr.InvalidInput, match="index"):
        SharedRandomness(1).uniform_at("a", index=index)


# --- fresh samples -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 2023, MAX_SEED])
def test_sample_stream_and_shared_randomness_of_one_integer_are_unrelated(seed: int) -> None:
    """Hoeffding on the products, which lie in [-1/4, 1/4] and have mean 0 when independent."""
    count, fresh = 4096, sample_stream(seed).bit_generator.random_raw(4096)
    for address in ((), (0,)):
        shared = SharedRandomness(seed).words("rpvi/offset", *address, count=count)
        x, y = fresh / 2.0**64 - 0.5, shared / 2.0**64 - 0.5
        assert abs(float(np.mean(x * y))) <= 0.25 * math.sqrt(2.0 * math.log(2.0 / ALPHA) / count)
    assert fresh[:4].tolist() != np.random.PCG64DXSM(seed).random_raw(4).tolist()


# --- rSTAT: a pure function of (mean, u), accurate, and separating means with probability d/beta --------------------

unit, widths = st.floats(0.0, 1.0), st.floats(1e-9, 3.0)
us = st.floats(0.0, 1.0, exclude_max=True)
FORMS: list[Any] = ["midpoint", "zero-preserving"]


@given(unit, unit, us, widths, st.sampled_from(FORMS))
def test_an_answer_errs_by_its_bin_at_most(v: float, other: float, u: float, width: float, form: Any) -> None:
    one, two = rstat(v, u, width, form=form), rstat(other, u, width, form=form)
    assert 0.0 <= one.answer <= 1.0
    assert abs(one.answer - v) <= width / (2 if form == "midpoint" else 1) * (1 + 1e-9) + 1e-15
    if one.bin == two.bin:
        assert one.answer.tobytes() == two.answer.tobytes()
    assert (one.answer <= two.answer) == (v <= other) or one.answer == two.answer
    assert rstat(0.0, u, width, form="zero-preserving").answer == 0.0
    both = rstat([v, other], [u, u], width, form=form)
    assert both.answer.tolist() == [one.answer, two.answer]
    assert both.room.tolist() == [one.room, two.room]


@given(st.integers(0, 60), st.integers(1, 59))
def test_bins_by_hand(numerator: int, sixtieths: int) -> None:
    """Width 1/4 and u in 60ths: the bin by its edges."""
    v, offset = min(numerator / 60 + 1 / 997, 1.0), sixtieths / 60 * 0.25
    edges = [offset + k * 0.25 for k in range(-1, 6)]
    k = max(i for i, edge in enumerate(edges, start=-1) if edge <= v)
    low, high = max(0.0, edges[k + 1]), min(1.0, edges[k + 2])
    rounded = rstat(v, sixtieths / 60, 0.25)
    assert rounded.bin == k
    assert rounded.answer == pytest.approx((low + high) / 2, abs=1e-15)
    inside = [abs(v - edge) for edge in (edges[k + 1], edges[k + 2]) if 0.0 < edge <= 1.0]
    assert rounded.room == pytest.approx(min(inside, default=math.inf))


@pytest.mark.parametrize("ratio", [0.05, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("form", FORMS)
def test_two_means_are_separated_with_probability_d_over_beta(ratio: float, form: Any) -> None:
    """Away from the ends, over fresh shared numbers; exact binomial test."""
    width, trials = 0.07, 20_000
    u = SharedRandomness(SEED).uniform("test/offset", shape=trials)
    one, two = (rstat(np.full(trials, v), u, width, form=form).answer for v in (0.41, 0.41 + ratio * width))
    differ = int((one != two).sum())
    assert differ == trials if ratio == 1.0 else binomial_p(differ, trials, ratio) > ALPHA


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"width": 0.0}, "width .*0"),
        ({"width": math.nan}, "width .*nan"),
        ({"width": 1e-300}, "width"),
        ({"means": [0.5, math.nan]}, "NaN"),
        ({"u": [0.5, 0.5]}, "u must"),
        ({"u": 1.5}, "u must .*1.5"),
        ({"form": "middle"}, "form"),
    ],
)
def test_what_rstat_refuses(change: dict[str, Any], fragment: str) -> None:
    with pytest.raises(rr.InvalidInput, match=f"rstat.*{fragment}|{fragment}"):
        rstat(**{"means": 0.5, "u": 0.5, "width": 0.1, **change})


@given(st.integers(0, 2**32), st.lists(st.tuples(unit, st.integers(0, 200)), min_size=1, max_size=8), widths)
def test_a_query_is_rstat_at_an_address(seed: int, asked: list[tuple[float, int]], width: float) -> None:
    """All elements of an address in order, or some by their index: the same grid for the same element."""
    shared, means, index = SharedRandomness(seed), np.array([v for v, _ in asked]), np.array([i for _, i in asked])
    u = shared.uniform("test/offset", 3, shape=201)
    for form in FORMS:
        query = RStat(shared, "test/offset", width, form)
        expected = rstat(means, u[index], width, form=form)
        assert query.answer(means, 3, index=index).tolist() == expected.answer.tolist()
        assert query.room(means, 3, index=index).tolist() == expected.room.tolist()
        every = np.full(201, means[0])
        assert query.answer(every, 3).tolist() == rstat(every, u, width, form=form).answer.tolist()
        assert query.keeps_zero == (form == "zero-preserving")
        assert not query.keeps_zero or not query.answer(np.zeros(201), 3).any()
    assert Means().answer(means, 7, index=index).tolist() == means.tolist()


def test_a_query_takes_one_index_for_each_mean() -> None:
    query, means = RStat(SharedRandomness(1), "rpvi/offset", 0.2), np.full(5, 0.5)
    for index in (np.arange(4), np.arange(6), np.arange(5)[:, None], np.array(3), np.arange(0)):
        for ask in (query.answer, query.room):
            with pytest.raises(rr.InvalidInput, match="index"):
                ask(means, 0, index=index)
    for wrong in ({"width": 0.0}, {"form": "middle"}, {"shared": 1}):
        with pytest.raises(rr.InvalidInput, match=next(iter(wrong))):
            RStat(**{"shared": SharedRandomness(1), "label": "x", "width": 0.1, **wrong})  # type: ignore[arg-type]


# --- the page of the specification ---------------------------------------------------------------------------------


def page_example() -> dict[str, str]:
    """The lines ``name = value`` of the worked example."""
    (block,) = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    return dict(line.split(" = ", 1) for line in block.splitlines() if " = " in line)


def test_the_worked_example_of_the_page_is_right() -> None:
    lines = page_example()
    seed, label, address = int(lines["seed"]), lines["label"], tuple(map(int, lines["address"].split(",")))
    text = lines["text"].encode("ascii").replace(b"\\n", b"\n")
    assert text == hashed_text(seed, label, address)
    assert lines["sha256"] == hashlib.sha256(text).hexdigest()
    assert [int(lines[f"key {i}"], 16) for i in range(2)] == list(reference_key(seed, label, address))
    words, uniforms = ({int(k.split()[1]): v for k, v in lines.items() if k.startswith(n)} for n in ("word", "uniform"))
    shared, places = SharedRandomness(seed), sorted(words)
    assert len(places) > 2
    assert [int(words[i], 16) for i in places] == shared.words(label, *address, count=6)[places].tolist()
    assert [float(uniforms[i]) for i in places] == shared.uniform(label, *address, shape=6)[places].tolist()

"""The identity of a run, the fingerprints of its answer, and the small helpers below them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import pickle
import struct
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import replicable_rl as rr
from replicable_rl import canonical, errors
from replicable_rl.canonical import array_digest, canonical_json, json_digest, to_json
from replicable_rl.progress import listening, track
from replicable_rl.runs import (
    LEVELS,
    OURS,
    Claim,
    Claims,
    Drawn,
    Fingerprints,
    Level,
    LibraryClaim,
    Logged,
    ObjectSpec,
    Run,
    RunFamily,
    RunSpec,
    Status,
    StatusCode,
    check_level,
    implied,
    in_order,
    level_of,
)
from replicable_rl.runs.run import history_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

NAN, INF = float("nan"), float("inf")


@contextlib.contextmanager
def levels_as_before() -> Iterator[None]:
    """For the examples of a property test, between which no fixture is run."""
    before = dict(LEVELS)
    try:
        yield
    finally:
        LEVELS.clear()
        LEVELS.update(before)


# --- canonical JSON --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [  # the number forms of RFC 8785, appendix B, and its rules for keys and strings
        (0.0, "0"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740992.0, "9007199254740992"),
        (295147905179352830000.0, "295147905179352830000"),
        (9.999999999999997e22, "9.999999999999997e+22"),
        (1e23, "1e+23"),
        (999999999999999700000.0, "999999999999999700000"),
        (1e21, "1e+21"),
        (0.000001, "0.000001"),
        (1e-7, "1e-7"),
        (333333333.33333329, "333333333.3333333"),
        (0.1 + 0.2, "0.30000000000000004"),
        (True, "true"),
        (None, "null"),
        ({"b": [], "a": {}}, '{"a":{},"b":[]}'),
        ({"é": 1, "z": 2, "😀": 3, "ﬁ": 4}, '{"z":2,"é":1,"😀":3,"ﬁ":4}'),  # by UTF-16 code units
        ('"\\\b\f\n\r\t\x0f/ü', '"\\"\\\\\\b\\f\\n\\r\\t\\u000f/ü"'),
    ],
)
def test_canonical_json_is_rfc_8785(value: Any, text: str) -> None:
    assert canonical_json(value) == text.encode()
    assert json_digest(value) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("value", [NAN, INF, -INF, 2**53, -(2**53), ..., {1: 2}, b"x", [NAN], "\ud800"], ids=repr)
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(rr.InvalidInput, match="JSON"):
        canonical_json(value)


# --- digests of arrays -----------------------------------------------------------------------


def digest_by_hand(label: str, *arrays: tuple[str, list[int], Sequence[float]]) -> str:
    """The digest from its description, with the standard library alone."""
    text = f'{{"arrays":{len(arrays)},"label":"{label}"}}'.encode()
    for code, shape, elements in arrays:
        kind = "<f8" if code == "d" else "<i8"
        text += f'{{"dtype":"{kind}","shape":{json.dumps(shape, separators=(",", ":"))}}}'.encode()
        text += struct.pack(f"<{len(elements)}{code}", *elements)
    return hashlib.sha256(text).hexdigest()


def test_an_array_digest_is_what_its_description_says() -> None:
    floats, integers = np.array([[0.1, -2.5, 1e300], [5e-324, 0.0, -INF]]), np.array([3, -(2**63), 2**63 - 1])
    by_hand = digest_by_hand(
        "two arrays",
        ("d", [2, 3], [0.1, -2.5, 1e300, 5e-324, 0.0, -INF]),
        ("q", [3], [3, -(2**63), 2**63 - 1]),
    )
    assert array_digest("two arrays", floats, integers) == by_hand
    assert array_digest("none") == digest_by_hand("none")
    assert array_digest("scalar", np.array(7.0)) == digest_by_hand("scalar", ("d", [], [7.0]))
    assert array_digest("empty", np.zeros((0, 3))) == digest_by_hand("empty", ("d", [0, 3], []))


small_arrays = st.tuples(
    st.sampled_from([(4,), (2, 2), (4, 1), (1, 4)]),
    st.lists(st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-52, -1.0, INF, 5e-324]), min_size=4, max_size=4),
)


@settings(max_examples=300)
@given(small_arrays, small_arrays)
@example(((4,), [0.0] * 4), ((4,), [-0.0] * 4))
@example(((4,), [0.0] * 4), ((2, 2), [0.0] * 4))
def test_float_digests_are_equal_exactly_when_the_arrays_are(one: Any, two: Any) -> None:
    first, second = (np.array(elements).reshape(shape) for shape, elements in (one, two))
    assert (array_digest("x", first) == array_digest("x", second)) == np.array_equal(first, second)


def test_labels_numbers_and_borders_of_arrays_count() -> None:
    a, b = np.array([1.0, 2.0]), np.array([3.0])
    digests = [
        array_digest("x", a, b),
        array_digest("y", a, b),
        array_digest("x", b, a),
        array_digest("x", np.array([1.0]), np.array([2.0, 3.0])),
        array_digest("x", np.array([1.0, 2.0, 3.0])),
        array_digest("x", np.array([1, 2]), np.array([3])),
    ]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, ">i4", ">i8", "<i2"])
def test_the_width_and_the_byte_order_of_integers_do_not_count(dtype: Any) -> None:
    assert array_digest("x", np.array([1, 100, 0], dtype=dtype)) == array_digest("x", np.array([1, 100, 0]))


@pytest.mark.parametrize("chunk", [1, 3, 7, 1000])
def test_the_size_of_the_chunks_does_not_count(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    floats, integers = np.sqrt(np.arange(25.0)).reshape(5, 5), np.arange(9, dtype=np.int32)
    expected = digest_by_hand("x", ("d", [5, 5], floats.reshape(-1).tolist()), ("q", [9], integers.tolist()))
    monkeypatch.setattr(canonical, "_CHUNK", chunk)
    assert array_digest("x", floats, integers) == expected
    poisoned = floats.copy()
    poisoned[4, 4] = NAN
    with pytest.raises(rr.InvalidInput, match=r"^x: NaN"):
        array_digest("x", poisoned)


# --- the identity of a run -------------------------------------------------------------------

EXAMPLE = RunSpec(
    ObjectSpec("riverswim-v1", {"n_states": 20, "gamma": 0.95}),
    ObjectSpec("rpvi-v1", {"rho": 0.2, "calls": 10**16, "target": "policy", "iterations": None}),
    shared_seed=2**64 - 1,
    sample=Drawn(0),
)
EXAMPLE_TEXT = (
    '{"algorithm":{"id":"rpvi-v1","params":{"calls":{"integer":"10000000000000000"},"iterations":null,"rho":0.2,'
    '"target":"policy"}},"problem":{"id":"riverswim-v1","params":{"gamma":0.95,"n_states":20}},'
    '"sample":{"kind":"drawn","sampler":"counts-v1","seed":"0"},"shared_seed":"18446744073709551615"}'
)
EXAMPLE_DIGEST = "327e0c5de9f1326b23d5d0863135d2db3ef406073b5783b10abaed03bc5da634"


def test_the_digest_of_a_run_is_pinned() -> None:
    assert canonical_json(EXAMPLE.to_json()) == EXAMPLE_TEXT.encode()
    assert hashlib.sha256(EXAMPLE_TEXT.encode()).hexdigest() == EXAMPLE_DIGEST
    assert EXAMPLE.digest == EXAMPLE_DIGEST


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
keys = texts | st.sampled_from(["epsilon", "calls"])
parameters = st.dictionaries(
    keys,
    st.recursive(
        plain | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
seeds = st.integers(0, 2**64 - 1)
specs = st.builds(
    RunSpec,
    st.builds(ObjectSpec, texts, parameters),
    st.builds(ObjectSpec, texts, parameters),
    seeds,
    st.builds(Drawn, seeds, texts) | st.builds(Logged, texts),
)


@settings(max_examples=200)
@given(specs)
@example(EXAMPLE)
@example(RunSpec(ObjectSpec("a", {"x": 1e16}), ObjectSpec("b"), 0, Drawn(0)))
@example(RunSpec(ObjectSpec("a", {"x": -(2.0**70)}), ObjectSpec("b"), 0, Drawn(0)))
def test_a_run_read_back_from_its_text_is_the_same_run(spec: RunSpec) -> None:
    text = canonical_json(spec.to_json())
    back = RunSpec.from_json(json.loads(text))
    assert back == spec
    assert hash(back) == hash(spec)
    assert type(back.sample) is type(spec.sample)
    assert back.digest == spec.digest == hashlib.sha256(text).hexdigest()
    assert back.sample_seed == (spec.sample.seed if isinstance(spec.sample, Drawn) else None)


@settings(max_examples=100)
@given(st.builds(ObjectSpec, texts, parameters), st.builds(ObjectSpec, texts, parameters), texts, seeds, seeds)
def test_a_family_gives_the_same_keys_as_its_specs(
    problem: ObjectSpec, algorithm: ObjectSpec, sampler: str, shared: int, sample: int
) -> None:
    family = pickle.loads(pickle.dumps(RunFamily(problem, algorithm, sampler)))  # noqa: S301
    spec = RunSpec(problem, algorithm, shared, Drawn(sample, sampler))
    assert family == RunFamily(problem, algorithm, sampler)
    assert hash(family) == hash(RunFamily(problem, algorithm, sampler))
    assert family.spec(shared, sample) == spec
    assert family.key(shared, sample) == family.spec(shared, sample).digest == spec.digest


def test_every_part_of_a_run_changes_its_digest() -> None:
    problem, algorithm = EXAMPLE.problem, EXAMPLE.algorithm
    runs = [
        EXAMPLE,
        dataclasses.replace(EXAMPLE, shared_seed=0),
        dataclasses.replace(EXAMPLE, shared_seed=0, sample=Drawn(2**64 - 1)),
        dataclasses.replace(EXAMPLE, sample=Drawn(1)),
        dataclasses.replace(EXAMPLE, sample=Drawn(0, "counts-v2")),
        dataclasses.replace(EXAMPLE, sample=Logged("0")),
        dataclasses.replace(EXAMPLE, sample=Logged("counts-v1")),
        dataclasses.replace(EXAMPLE, problem=algorithm, algorithm=problem),
        dataclasses.replace(EXAMPLE, problem=ObjectSpec("riverswim-v2", problem.params)),
        dataclasses.replace(EXAMPLE, problem=ObjectSpec("riverswim-v1", {"n_states": 21, "gamma": 0.95})),
        dataclasses.replace(EXAMPLE, problem=ObjectSpec("riverswim-v1", {"n_states": 20})),
        dataclasses.replace(
            EXAMPLE, problem=ObjectSpec("riverswim-v1", {"n_states": 20, "gamma": math.nextafter(0.95, 1)})
        ),
        dataclasses.replace(EXAMPLE, algorithm=ObjectSpec("rpvi-v1", {**algorithm.params, "calls": 10**16 + 1})),
        dataclasses.replace(EXAMPLE, algorithm=ObjectSpec("rpvi-v1", {**algorithm.params, "iterations": 0})),
        dataclasses.replace(EXAMPLE, algorithm=ObjectSpec("rpvi-v1", {**algorithm.params, "iterations": False})),
        dataclasses.replace(EXAMPLE, algorithm=ObjectSpec("rpvi-v1", {**algorithm.params, "iterations": "0"})),
        dataclasses.replace(EXAMPLE, algorithm=ObjectSpec("rpvi-v1", {**algorithm.params, "extra": None})),
    ]
    assert len({run.digest for run in runs}) == len(runs)


def test_a_spec_keeps_its_own_copy_of_the_parameters() -> None:
    params = {"n": 3, "list": [1, 2]}
    spec = ObjectSpec("a", params)
    params["n"] = 4
    params["list"].append(3)  # type: ignore[attr-defined]
    assert spec == ObjectSpec("a", {"n": 3, "list": [1, 2]})
    with pytest.raises(TypeError):
        spec.params["n"] = 5  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.id = "b"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        EXAMPLE.shared_seed = 1  # type: ignore[misc]


def test_numbers_of_numpy_are_the_numbers_they_hold() -> None:
    given_spec = ObjectSpec("a", {"x": np.float64(0.5), "n": np.int32(3), "many": (1, 2)})
    assert given_spec.to_json() == {"id": "a", "params": {"x": 0.5, "n": 3, "many": [1, 2]}}
    assert given_spec.text == "a:many=[1, 2],n=3,x=0.5"
    assert ObjectSpec("a").text == "a"


def with_part(*path: str, value: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(EXAMPLE_TEXT)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


def without_part(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(EXAMPLE_TEXT)
    del data[name]
    return data


BAD_SEEDS = [0, None, "", "-1", "1.0", "٣", "18446744073709551616", "1" * 5000]
BAD_SPECS: list[Any] = [
    None,
    *(without_part(name) for name in ("problem", "algorithm", "shared_seed", "sample")),
    with_part("problem", value={"id": "a"}),
    with_part("algorithm", "id", value=5),
    with_part("algorithm", "params", value=[]),
    with_part("algorithm", "params", "calls", value={"integer": "many"}),
    *(with_part("shared_seed", value=seed) for seed in BAD_SEEDS),
    *(with_part("sample", "seed", value=seed) for seed in BAD_SEEDS),
    with_part("sample", value={"kind": "guessed", "seed": "0"}),
    with_part("sample", "kind", value="recorded"),
    with_part("sample", "sampler", value=5),
    with_part("sample", value={"kind": "recorded", "digest": 5}),
]


@pytest.mark.parametrize("data", BAD_SPECS, ids=lambda data: repr(data)[-60:])
def test_bad_json_is_no_run(data: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"^(RunSpec|ObjectSpec|sample|JSON): "):
        RunSpec.from_json(data)


# --- claims ----------------------------------------------------------------------------------

ACCURATE = LibraryClaim("accuracy", "proved", "the policy is within 0.1 of optimal", 0.1, "thm:rpvi", 0.001, "policy")
REPLICABLE = LibraryClaim(
    "replicability", "asymptotic", "two runs are the same", 0.2, "thm:mine", conditions=("it rains",)
)
SEEN = LibraryClaim("replicability", "measured", "19 of 20 agree", 0.25, "audit")

shares = st.floats(0.0, 1.0)
sentences = texts.filter(str.strip)
claims = st.builds(
    LibraryClaim,
    st.sampled_from(["accuracy", "replicability"]),
    st.sampled_from(["proved", "asymptotic", "measured"]),
    sentences,
    shares,
    sentences,
    shares,
    st.none() | texts,
    st.lists(sentences, max_size=3).map(tuple),
    st.none() | texts,
)


@settings(max_examples=200)
@given(
    st.lists(claims, max_size=2, unique_by=lambda claim: claim.about).map(tuple),
    st.dictionaries(texts.filter(lambda name: name not in ("accuracy", "replicability")), texts, max_size=2),
)
@example((ACCURATE, REPLICABLE), {})
@example((SEEN,), {"accuracy": "why"})
def test_claims_read_back_from_their_text_are_the_same(made: tuple[Claim, ...], missing: dict[str, str]) -> None:
    said = Claims(made, missing)
    back = Claims.from_json(json.loads(canonical_json(said.to_json())), OURS)
    assert back == said
    assert hash(back) == hash(said)
    assert str(back) == str(Claims(made, back.missing))
    assert list(back) == list(made)
    assert (len(back), back.accuracy, back.replicability) == (len(made), said.accuracy, said.replicability)


def test_accuracy_and_replicability_are_claimed_apart() -> None:
    both = Claims((REPLICABLE, ACCURATE))
    assert (both.accuracy, both.replicability) == (ACCURATE, REPLICABLE)
    assert REPLICABLE.definition == "def:replicability"
    assert ACCURATE.definition is None
    assert str(both) == (
        "Asymptotic (thm:mine): two runs are the same, if it rains. "
        "Proved (Theorem 4.1, thm:rpvi): the policy is within 0.1 of optimal."
    )
    one = Claims((ACCURATE,), {"replicability": "a baseline promises nothing"})
    assert one.replicability is None
    assert str(one).endswith("optimal. Nothing is proved about replicability: a baseline promises nothing.")
    assert str(Claims()) == "Nothing is claimed."
    assert Claims([ACCURATE]) == Claims((ACCURATE,))  # type: ignore[arg-type]  # a list is as good


def test_claims_about_an_estimated_table_end_at_the_table() -> None:
    assert Claims((REPLICABLE,), {"accuracy": "why"}).about_an_estimate().missing == {"accuracy": "why"}
    for claim, bare in zip(Claims((ACCURATE, REPLICABLE)).about_an_estimate(), (ACCURATE, REPLICABLE), strict=True):
        end = ", as a statement about the estimated table, not about the process behind it"
        assert claim == dataclasses.replace(bare, statement=bare.statement + end)


def test_one_thing_is_claimed_once() -> None:
    with pytest.raises(
        rr.InvalidInput, match=r"^Claims: there must be at most one claim about replicability, got 2\.$"
    ):
        Claims((REPLICABLE, ACCURATE, SEEN))
    with pytest.raises(rr.InvalidInput, match="at most one claim about accuracy"):
        Claims.from_json({"made": [to_json(ACCURATE)] * 2, "missing": {}, "gain": None})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"about": "speed"}, "about must be 'accuracy' or 'replicability'"),
        ({"kind": "sure"}, "kind must be 'proved' or 'asymptotic' or 'measured', got 'sure'"),
        ({"statement": ""}, "says what holds and names its source"),
        ({"bound": -0.1}, "bound must be a number from 0 to inf, got -0.1"),
        ({"about": "replicability", "bound": 1.5}, "bound must be a number from 0 to 1, got 1.5"),
        ({"failure": 1.01}, "failure must be a number from 0 to 1, got 1.01"),
    ],
    ids=repr,
)
def test_what_cannot_be_claimed(change: dict[str, Any], message: str) -> None:
    with pytest.raises(rr.InvalidInput, match=f"^Claim: .*{message}"):
        dataclasses.replace(ACCURATE, **change)


def claim_with(**changes: Any) -> dict[str, Any]:
    return {"made": [to_json(SEEN) | changes], "missing": {}, "gain": None}


BAD_CLAIMS: list[Any] = [
    None,
    {"made": []},
    {"made": {}, "missing": {}, "gain": None},
    {"made": [None], "missing": {}, "gain": None},
    {"made": [{}], "missing": {}, "gain": None},
    claim_with(kind="sure"),
    claim_with(more=1),
    claim_with(gain="1"),
    claim_with(conditions="it rains"),
    {"made": [], "missing": {"accuracy": 1}, "gain": None},
]


@pytest.mark.parametrize("data", BAD_CLAIMS, ids=lambda data: repr(data)[-60:])
def test_bad_json_is_no_claim(data: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"^(Claims|Claim|LibraryClaim): "):
        Claims.from_json(data)


# --- runs ------------------------------------------------------------------------------------

STATUS = Status(StatusCode.COMPLETED, "ran 3 of 3 iterations.")
CLAIMS = Claims((ACCURATE, REPLICABLE))


def run_of(q: Any, policy: Any, **options: Any) -> Run:
    outputs = {"value": np.array(q), "policy": np.array(policy)} | options.pop("outputs", {})
    defaults: dict[str, Any] = {"samples": 5, "status": STATUS, "claims": CLAIMS}
    return Run.of(outputs, **(defaults | options))


def test_a_run_holds_copies_that_cannot_be_written() -> None:
    q, policy = np.array([[1.0, 2.0], [-0.0, -3.0]]), np.array([1, 0], dtype=np.int32)
    found = Run.of({"value": q, "policy": policy}, samples=7, status=STATUS, claims=CLAIMS, history={"loss": q[0]})
    q[...], policy[...] = 9.0, 1
    assert found.q.tolist() == [[1.0, 2.0], [0.0, -3.0]]
    assert math.copysign(1.0, found.q[1, 0]) == 1.0
    assert found.policy.tolist() == [1, 0]
    assert found.q.dtype == np.float64
    assert found.policy.dtype == np.int64
    assert found.value.tolist() == [2.0, 0.0]
    assert found.history["loss"].tolist() == [1.0, 2.0]
    assert (found.samples, found.status, found.claims, found.model, found.spec) == (7, STATUS, CLAIMS, None, None)
    for array in (found.q, found.policy, found.history["loss"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(TypeError):
        found.outputs["policy"] = policy  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.samples = 8  # type: ignore[misc]


numbers = st.sampled_from([0.0, 1.0, -2.5, NAN, INF, -INF])


@settings(max_examples=300)
@given(
    hnp.arrays(np.float64, hnp.array_shapes(min_dims=1, max_dims=3, max_side=3), elements=numbers),
    hnp.arrays(np.int64, hnp.array_shapes(min_dims=1, max_dims=2, max_side=3), elements=st.integers(-1, 3)),
)
@example(np.array([[-INF, 0.0]]), np.array([0]))  # an action that is not allowed
@example(np.array([[-INF, 0.0]]), np.array([1]))
def test_values_and_actions_make_a_run_exactly_if_they_fit(q: NDArray[Any], policy: NDArray[Any]) -> None:
    fits = bool(q.ndim == 2 and (q < INF).all() and policy.shape == q.shape[:1])  # -inf: not allowed
    fits = fits and bool((policy >= 0).all() and (policy < q.shape[1]).all())
    fits = fits and bool(np.isfinite(q[np.arange(policy.size), policy]).all())
    with contextlib.nullcontext() if fits else pytest.raises(rr.InvalidInput, match=r"^Run: "):
        run = run_of(q, policy)
        assert run.q.tolist() == q.tolist()
        assert run.policy.tolist() == policy.tolist()


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({}, r"^Run: outputs must be a mapping of levels"),
        ({"polcy": [0]}, r"^level must be one of .*, got 'polcy'\. Did you mean 'policy'\?$"),
        ({"policy": []}, r"^Run: policy must be an array of numbers, got"),
        ({"policy": [[0], [0, 1]]}, r"^Run: policy must be an array of numbers, got"),
        ({"policy": None}, r"^Run: policy must be an array of numbers, got None"),
        ({"policy": [NAN]}, r"^Run: policy must hold numbers, got NaN\. Find where"),
        ({"policy": np.array([2**63], dtype=np.uint64)}, r"^Run: policy must hold numbers of 64 bits, got uint64 that"),
        ({"model": "chain-v1"}, r"^Run: a model must be a TabularMDP, got str\.$"),
    ],
)
def test_outputs_that_are_none(outputs: Any, message: str) -> None:
    with pytest.raises(rr.InvalidInput, match=message):
        Run.of(outputs)


def test_numbers_that_fit_into_64_bits_are_taken_whatever_their_type() -> None:
    expected = Run.of({"policy": [1, 0]}).fingerprints
    for dtype in (np.uint64, np.uint8, np.int16, bool, ">i4"):
        assert Run.of({"policy": np.array([1, 0], dtype=dtype)}).fingerprints == expected
    assert Run.of({"value": [[1, 0]]}).fingerprints == Run.of({"value": [[1.0, -0.0]]}).fingerprints
    if np.finfo(np.longdouble).nmant > 52:
        wide = np.array([[1.0]], dtype=np.longdouble)
        assert Run.of({"value": wide}).q.tolist() == [[1.0]]
        with pytest.raises(rr.InvalidInput, match=r"^Run: value must hold numbers of 64 bits"):
            Run.of({"value": wide + np.finfo(np.longdouble).eps})


def test_a_run_stands_for_the_levels_that_it_has_and_no_others() -> None:
    run = Run.of({"policy": [0, 1]}, status=STATUS)
    assert list(run.outputs) == list(run.fingerprints) == ["policy"]
    assert run.fingerprints.value is None
    assert run.model is None
    for ask in (lambda: run.q, lambda: run.value, lambda: run.output("value")):
        with pytest.raises(rr.InvalidInput, match=r"^Run: there is no value; this run stands for policy\.$"):
            ask()
    with pytest.raises(rr.InvalidInput, match=r"^level must be one of .*got 'q'"):
        run.output("q")


tables = st.lists(
    st.lists(st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-52]), min_size=2, max_size=2), min_size=2, max_size=2
)
policies = st.lists(st.integers(0, 1), min_size=2, max_size=2)


@settings(max_examples=300)
@given(tables, policies, tables, policies)
def test_fingerprints_are_equal_exactly_when_the_arrays_are(
    q1: list[list[float]], p1: list[int], q2: list[list[float]], p2: list[int]
) -> None:
    one, two = run_of(q1, p1), run_of(q2, p2)
    assert (one.fingerprints.value == two.fingerprints.value) == (q1 == q2)
    assert (one.fingerprints.policy == two.fingerprints.policy) == (p1 == p2)
    assert (one.fingerprints == two.fingerprints) == (q1 == q2 and p1 == p2)
    assert (one == two) == (q1 == q2 and p1 == p2)


def test_fingerprints_are_digests_of_the_exact_bits() -> None:
    found = run_of([[1.0, 2.0]], [1])
    assert found.fingerprints == Fingerprints(
        policy=digest_by_hand("policy", ("q", [1], [1])),
        value=digest_by_hand("value", ("d", [1, 2], [1.0, 2.0])),
    )
    model = rr.TabularMDP.from_outcomes([[[(1.0, 0, 1.0)], [(1.0, 0, 2.0)]]], gamma=0.5)
    learned = run_of([[1.0, 2.0]], [1], outputs={"model": model})
    assert learned.fingerprints.model == model.digest
    assert learned.model == model
    assert (learned.model.estimated, model.estimated) == (True, False)  # what a run puts out is learned
    assert list(learned.fingerprints) == ["model", "value", "policy"]
    assert learned.fingerprints.policy == found.fingerprints.policy


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2), min_size=1, max_size=4
    ),
    st.integers(0, 10**40),
    st.booleans(),
)
def test_a_run_as_json_is_canonical_and_says_all_but_the_outputs(
    q: list[list[float]], samples: int, with_spec: bool
) -> None:
    found = run_of(q, [0] * len(q), samples=samples, history={"loss": np.array([0.5, 0.25])})
    if with_spec:
        found = found.completed(EXAMPLE)
    data = json.loads(canonical_json(found.to_json()))
    assert data["samples"] == str(samples)
    assert data["status"] == {"code": "completed", "sentence": STATUS.sentence}
    assert Claims.from_json(data["claims"], OURS) == CLAIMS
    assert data["fingerprints"] == found.fingerprints
    assert data["history"] == {"loss": [0.5, 0.25]}
    assert data["made_with"] == dict(found.made_with)
    if with_spec:
        assert RunSpec.from_json(data["spec"]) == EXAMPLE
        assert data["run"] == EXAMPLE.digest == found.key
        assert data["made_with"]["replicable-rl"] == rr.__version__
    else:
        assert data["spec"] is None
        assert data["run"] is None


def test_a_spec_is_added_to_a_copy() -> None:
    bare = run_of([[1.0]], [0])
    named = bare.completed(EXAMPLE, seconds=1.5)
    assert (bare.spec, named.spec, named.seconds) == (None, EXAMPLE, 1.5)
    assert (named.shared_seed, named.sample_seed) == (2**64 - 1, 0)
    assert named.fingerprints == bare.fingerprints
    assert named.q is bare.q
    assert named != bare
    assert named == bare.completed(EXAMPLE, seconds=2.5)
    assert hash(named) == hash(bare.completed(EXAMPLE))
    with pytest.raises(rr.InvalidInput, match=r"^Run: this run has no identity yet; `solve` gives it one\.$"):
        _ = bare.key


def test_the_versions_and_the_time_are_no_part_of_what_repeats() -> None:
    run = run_of([[1.0]], [0]).completed(EXAMPLE)
    assert dataclasses.replace(run, made_with={"numpy": "0"}, seconds=9.0) == run
    for change in ({"samples": 6}, {"status": None}, {"claims": Claims()}, {"history": {"loss": np.ones(1)}}):
        assert dataclasses.replace(run, **change) != run
    assert run != "run"


def test_a_run_that_failed_says_why() -> None:
    failed = Run.failed(EXAMPLE, "out of memory.", seconds=2.0)
    assert (failed.error, failed.seconds, failed.key) == ("out of memory.", 2.0, EXAMPLE.digest)
    assert failed.status == Status(StatusCode.FAILED, "out of memory.")
    assert not failed.fingerprints
    assert failed.fingerprints.policy is None
    with pytest.raises(
        rr.InvalidInput, match=r"^Run: there is no policy; this run stands for nothing, for it failed\.$"
    ):
        _ = failed.policy


def test_a_run_that_is_kept_elsewhere_fetches_what_is_asked_for() -> None:
    asked: list[tuple[str, str]] = []
    run = run_of([[1.0]], [0], history={"loss": np.array([0.5, NAN])}).completed(EXAMPLE)

    def fetch(level: str, digest: str) -> Any:
        asked.append((level, digest))
        return run.history if level == "history" else run.outputs[level]

    kept = run.kept(fetch)
    assert kept == run
    assert (list(kept.outputs), len(kept.outputs)) == (["value", "policy"], 2)
    assert asked == []
    assert kept.policy is run.policy
    assert kept.history["loss"] is run.history["loss"]
    assert (list(kept.history), len(kept.history)) == (["loss"], 1)
    assert asked == [("policy", run.fingerprints["policy"]), ("history", history_digest(run.history))]
    bare = run.kept(None)
    assert bare == run
    assert not bare.outputs


@pytest.mark.parametrize(
    "data",
    [None, [], "completed", {}, {"code": "completed"}, {"code": "done", "sentence": ""}, {"code": [], "sentence": ""}],
    ids=repr,
)
def test_bad_json_is_no_status(data: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"^Status: expected a code of completed, stopped by the rule"):
        Status.from_json(data)


# --- levels ----------------------------------------------------------------------------------


@settings(max_examples=200)
@given(st.lists(st.sets(st.integers(0, 7), max_size=4), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_each_level_comes_before_what_it_implies(graph: list[set[int]], rng: Any) -> None:
    """For every order of registration that is possible, and every order of the question."""
    with levels_as_before():
        for i, below in enumerate(graph):
            rr.register(Level(f"level-{i}", implies=tuple(f"level-{k}" for k in sorted(below) if k < i)))
        above = {name: {*LEVELS[name].implies} for name in LEVELS}
        for name in LEVELS:  # the closure, by brute force
            for _ in LEVELS:
                above[name] |= {far for near in above[name] for far in above[near]}
            assert implied(name) == above[name]
        asked = rng.sample(list(LEVELS), rng.randint(0, len(LEVELS)))
        ordered = in_order([*asked, "unknown", *asked])
        assert sorted(ordered) == sorted([*asked, "unknown"])
        assert ordered[-1] == "unknown" or not implied(ordered[-1])
        for i, name in enumerate(ordered):
            assert not any(name in implied(later) for later in ordered[i + 1 :])
        rng.shuffle(asked)
        assert in_order([*asked, "unknown"]) == ordered


def test_a_level_is_registered_for_good() -> None:
    mine = Level("weights", implies=("policy",))
    assert rr.register(mine) is mine
    assert rr.register(Level("weights", implies=("policy",))).implies == ("policy",)
    assert level_of("weights").name == check_level("owner", "weights") == "weights"
    for other in (Level("weights"), Level("weights", implies=("value",))):
        with pytest.raises(rr.InvalidInput, match=r"^register: 'weights' is another level already\. Choose anoth"):
            rr.register(other)
    with pytest.raises(rr.InvalidInput, match=r"^register: 'policy' is another level already"):
        rr.register(Level("policy", implies=("weights",)))
    with pytest.raises(rr.InvalidInput, match=r"^level must be one of .*, got 'nothing'"):
        rr.register(Level("more", implies=("nothing",)))
    with pytest.raises(rr.InvalidInput, match=r"^level must be one of .*, got 'itself'"):
        rr.register(Level("itself", implies=("itself",)))
    assert "more" not in LEVELS
    with pytest.raises(
        rr.InvalidInput, match=r"^owner: level must be one of .*, got 'weight'\. Did you mean 'weights'\?"
    ):
        check_level("owner", "weight")


def test_a_cell_of_a_notebook_may_be_run_again() -> None:
    cell = """
import replicable_rl as rr
import numpy as np
def packed(output): return np.array([output])
rr.register(rr.Level("letters", encode=packed, decode=lambda data: data[0], freeze=lambda name, one: one))
"""
    for _ in range(2):
        exec(cell, {"__name__": "notebook"})
    with pytest.raises(rr.InvalidInput, match=r"^register: 'letters' is another level already"):
        exec(cell, {"__name__": "another"})


@pytest.mark.parametrize("name", ["", "Weights", "a/b", "x" * 42, None, "run"], ids=repr)
def test_names_that_no_level_has(name: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"^Level: (name must be lower-case letters|every run has)"):
        Level(name)


def test_a_level_of_ones_own_keeps_outputs_of_its_own_kind() -> None:
    def freeze(name: str, output: Any) -> str:
        if not isinstance(output, str):
            raise rr.InvalidInput(f"Run: {name} must be a text.")
        return output

    rr.register(
        Level(
            "rule",
            ("policy",),
            freeze,
            lambda name, text: json_digest([name, text]),
            lambda text: np.frombuffer(text.encode(), dtype=np.uint8),
            lambda array: array.tobytes().decode(),
        )
    )
    run = Run.of({"policy": [0], "rule": "stay"})
    assert list(run.fingerprints) == ["rule", "policy"]
    assert run.output("rule") == "stay"
    assert run.fingerprints.rule == json_digest(["rule", "stay"])
    assert run != Run.of({"policy": [0], "rule": "go"})
    with pytest.raises(rr.InvalidInput, match=r"^Run: rule must be a text\.$"):
        Run.of({"rule": 5})


# --- progress --------------------------------------------------------------------------------

Seen = list[tuple[str, int, int]]


def recorder() -> tuple[Seen, Callable[[str, int, int], None]]:
    seen: Seen = []
    return seen, lambda what, done, total: seen.append((what, done, total))


def test_progress_is_reported_after_each_item_to_the_listener_only() -> None:
    seen, listener = recorder()
    assert list(track("abc", "letters")) == ["a", "b", "c"]
    with listening(listener):
        for item in track([10, 20], "numbers"):
            assert len(seen) == item // 10
        assert list(track([], "nothing")) == []
    assert list(track("abc", "letters")) == ["a", "b", "c"]
    assert seen == [("numbers", 0, 2), ("numbers", 1, 2), ("numbers", 2, 2)]


def test_a_loop_that_is_left_reports_what_was_done() -> None:
    seen, listener = recorder()
    with listening(listener):
        for item in track(range(5), "steps"):
            if item == 2:
                break
    assert seen == [("steps", 0, 5), ("steps", 1, 5), ("steps", 2, 5)]


def test_another_thread_is_not_overheard() -> None:
    seen, listener = recorder()
    with listening(listener):
        thread = threading.Thread(target=lambda: list(track([1], "elsewhere")))
        thread.start()
        thread.join()
        list(track([1], "here"))
    assert seen == [("here", 0, 1), ("here", 1, 1)]


# --- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2, 10, np.int8(5), 5.0, np.float32(5)])
def test_integers_in_range_are_accepted(value: Any) -> None:
    number = errors.check_integer("owner", "name", value, low=2, high=10)
    assert type(number) is int
    assert number == value


@pytest.mark.parametrize(
    "value",
    [1, 11, True, 5.5, "5", None, np.inf, np.bool_(True), [5], 10**400],
    ids=repr,
)
def test_other_values_are_no_integers_in_range(value: Any) -> None:
    with pytest.raises(rr.InvalidInput) as caught:
        errors.check_integer("owner", "name", value, low=2, high=10)
    assert str(caught.value) == f"owner: name must be an integer from 2 to 10, got {errors.shown(value)}."


NO_REALS = [NAN, INF, -INF, True, False, "0.5", b"1", None, 1j, [0.5], np.array([0.5]), 10**400]


@pytest.mark.parametrize("value", [*NO_REALS, -5e-324, math.nextafter(1.0, 2.0)], ids=repr)
def test_other_values_are_no_reals_in_range(value: Any) -> None:
    with pytest.raises(rr.InvalidInput) as caught:
        errors.check_real("owner", "name", value, low=0.0, high=1.0, rule="in [0, 1]")
    assert str(caught.value) == f"owner: name must be in [0, 1], got {errors.shown(value)}."

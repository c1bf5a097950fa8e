"""The identity of a run, the fingerprints of its outputs, what is claimed of it, and the checks below them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import pickle
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import replicable_rl as rr
from replicable_rl import errors
from replicable_rl.canonical import array_digest, canonical_json, json_digest
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
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAN, INF = float("nan"), float("inf")


# --- canonical bytes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [  # the number forms of RFC 8785, appendix B, and its rules for keys and strings
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (295147905179352830000.0, "295147905179352830000"),
        (1e21, "1e+21"),
        (0.000001, "0.000001"),
        (0.1 + 0.2, "0.30000000000000004"),
        ({"é": 1, "z": 2, "😀": 3, "ﬁ": 4}, '{"z":2,"é":1,"😀":3,"ﬁ":4}'),  # by UTF-16 code units
        ('"\\\b\f\n\r\t\x0f/ü', '"\\"\\\\\\b\\f\\n\\r\\t\\u000f/ü"'),
    ],
)
def test_canonical_json_is_rfc_8785(value: Any, text: str) -> None:
    assert canonical_json(value) == text.encode()
    assert json_digest(value) == hashlib.sha256(text.encode()).hexdigest()


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
    assert array_digest("scalar", np.array(7.0)) == digest_by_hand("scalar", ("d", [], [7.0]))
    assert array_digest("empty", np.zeros((0, 3))) == digest_by_hand("empty", ("d", [0, 3], []))
    for dtype in (np.int8, np.uint32, ">i8", "<i2"):  # neither width nor byte order counts
        assert array_digest("x", np.array([1, 100, 0], dtype=dtype)) == array_digest("x", np.array([1, 100, 0]))


# --- the identity of a run ----------------------------------------------------------------------------------------

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
    assert hashlib.sha256(EXAMPLE_TEXT.encode()).hexdigest() == EXAMPLE.digest == EXAMPLE_DIGEST


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
objects = st.builds(ObjectSpec, texts, parameters)


@settings(max_examples=150)
@given(objects, objects, seeds, st.builds(Drawn, seeds, texts) | st.builds(Logged, st.text("0123456789abcdef")))
@example(ObjectSpec("a", {"x": -(2.0**70), "y": 10**400}), ObjectSpec("b"), 0, Drawn(0))
def test_a_run_is_read_back_from_its_text_and_its_family_knows_its_key(
    problem: ObjectSpec, algorithm: ObjectSpec, shared: int, sample: Drawn | Logged
) -> None:
    spec = RunSpec(problem, algorithm, shared, sample)
    text = canonical_json(spec.to_json())
    back = RunSpec.from_json(json.loads(text))
    assert (back, hash(back), type(back.sample)) == (spec, hash(spec), type(sample))
    assert back.digest == spec.digest == hashlib.sha256(text).hexdigest()
    drawn = isinstance(sample, Drawn)
    family = RunFamily(problem, algorithm, sample.sampler if isinstance(sample, Drawn) else None)
    family = pickle.loads(pickle.dumps(family))  # noqa: S301  # its own
    place = spec.sample_seed if drawn else sample[0]
    assert place is not None
    assert family.spec(shared, place) == spec
    assert family.key(shared, place) == family.spec(shared, place).digest == spec.digest


def test_every_part_of_a_run_changes_its_digest() -> None:
    problem, params = EXAMPLE.problem, EXAMPLE.algorithm.params
    changes: list[dict[str, Any]] = [
        {},
        {"shared_seed": 0},
        {"sample": Drawn(1)},
        {"sample": Drawn(0, "counts-v2")},
        {"sample": Logged("0")},
        {"problem": EXAMPLE.algorithm, "algorithm": problem},
        {"problem": ObjectSpec("riverswim-v2", problem.params)},
        {"problem": ObjectSpec("riverswim-v1", {"n_states": 20})},
        {"problem": ObjectSpec("riverswim-v1", {"n_states": 20, "gamma": math.nextafter(0.95, 1)})},
        *({"algorithm": ObjectSpec("rpvi-v1", {**params, "iterations": other})} for other in (0, False, "0")),
        {"algorithm": ObjectSpec("rpvi-v1", {**params, "calls": 10**16 + 1})},
        {"algorithm": ObjectSpec("rpvi-v1", {**params, "extra": None})},
    ]
    assert len({dataclasses.replace(EXAMPLE, **change).digest for change in changes}) == len(changes)


def test_a_spec_keeps_its_own_copy_of_the_parameters_as_plain_values() -> None:
    params: dict[str, Any] = {"x": np.float64(0.5), "n": np.int32(3), "many": [1, 2]}
    spec = ObjectSpec("a", params)
    params["many"].append(3)
    assert spec.to_json() == {"id": "a", "params": {"x": 0.5, "n": 3, "many": [1, 2]}}
    assert spec.text == "a:many=[1, 2],n=3,x=0.5"
    for value in (object(), NAN, {"integer": "7"}):
        with pytest.raises(rr.InvalidInput, match=r"^a: x must be"):
            ObjectSpec("a", {"x": value})


# --- claims -------------------------------------------------------------------------------------------------------

ACCURATE = LibraryClaim("accuracy", "proved", "the policy is within 0.1 of optimal", 0.1, "thm:rpvi", 0.001, "policy")
REPLICABLE = LibraryClaim("replicability", "asymptotic", "two runs agree", 0.2, "thm:x", conditions=("it rains",))


def test_accuracy_and_replicability_are_claimed_apart() -> None:
    both = Claims((REPLICABLE, ACCURATE))
    assert (both.accuracy, both.replicability) == (ACCURATE, REPLICABLE)
    assert str(both) == (
        "Asymptotic (thm:x): two runs agree, if it rains. "
        "Proved (Theorem 4.1, thm:rpvi): the policy is within 0.1 of optimal."
    )
    alone = Claims((ACCURATE,), {"replicability": "a baseline promises nothing"})
    assert alone.replicability is None
    assert str(alone).endswith("Nothing is proved about replicability: a baseline promises nothing.")
    with pytest.raises(rr.InvalidInput, match=r"^Claims: there must be at most one claim about"):
        Claims((REPLICABLE, ACCURATE, ACCURATE))


@pytest.mark.parametrize(("by", "kinds"), [(OURS, {"proved", "asymptotic"}), ("mine-v1", {"stated"})])
def test_claims_are_read_back_and_are_only_stated_by_others(by: str, kinds: set[str]) -> None:
    claims = Claims((ACCURATE, REPLICABLE), {"something": "why"}, gain=0.5)
    back = Claims.from_json(json.loads(canonical_json(claims.to_json())), by)
    assert {claim.kind for claim in back} == kinds
    assert back == (claims if by == OURS else claims.told(by=by))
    assert Claims.from_json(back.to_json(), OURS) == back


@pytest.mark.parametrize("estimated", [False, True])
def test_claims_about_an_estimated_table_end_at_the_table(estimated: bool) -> None:
    P, R = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.9, 0.1]]]), np.array([[0.0, 1.0], [0.5, 0.0]])
    mdp = rr.TabularMDP.from_dense(P, R, gamma=0.5, layout="sas", estimated=estimated)
    algorithm = rr.ReplicableApproximateMDP(0.1, 0.001, 0.2)
    for claims in (rr.solve(mdp, algorithm, shared_seed=1).claims, rr.plan(mdp, algorithm).claims()):
        assert {claim.about for claim in claims} == {"accuracy", "replicability"}
        assert all(claim.statement.count("the estimated table") == estimated for claim in claims)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"about": "speed"}, "about"),
        ({"kind": "sure"}, "kind"),
        ({"statement": ""}, "empty"),
        ({"bound": -0.1}, "bound"),
        ({"about": "replicability", "bound": 1.5}, "bound"),
        ({"failure": 1.01}, "failure"),
    ],
    ids=repr,
)
def test_what_cannot_be_claimed(change: dict[str, Any], word: str) -> None:
    with pytest.raises(rr.InvalidInput, match=f"^Claim: .*{word}"):
        dataclasses.replace(ACCURATE, **change)
    with pytest.raises(rr.InvalidInput, match="kind must be 'stated'"):
        Claim("accuracy", "proved", "it is right", 0.1, "my proof")  # only this library proves


# --- runs ---------------------------------------------------------------------------------------------------------

STATUS = Status(StatusCode.COMPLETED, "ran 3 of 3 iterations.")


def run_of(q: Any, policy: Any, **options: Any) -> Run:
    settings: dict[str, Any] = {"samples": 5, "status": STATUS, "claims": Claims((ACCURATE, REPLICABLE))}
    return Run.of({"value": np.array(q), "policy": np.array(policy)}, **(settings | options))


def test_a_run_holds_copies_that_cannot_be_written() -> None:
    q, policy = np.array([[1.0, 2.0], [-0.0, -3.0]]), np.array([1, 0], dtype=np.int32)
    run = run_of(q, policy, history={"loss": q[0]})
    q[...], policy[...] = 9.0, 1
    assert run.q.tolist() == [[1.0, 2.0], [0.0, -3.0]]
    assert math.copysign(1.0, run.q[1, 0]) == 1.0
    assert (run.policy.tolist(), run.value.tolist()) == ([1, 0], [2.0, 0.0])
    for array in (run.q, run.policy, run.history["loss"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(TypeError):
        run.outputs["policy"] = policy  # type: ignore[index]


@settings(max_examples=200)
@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=1, max_dims=3, max_side=3),
        elements=st.sampled_from([0.0, 1.0, -2.5, NAN, INF, -INF]),
    ),
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
        assert (run.q.tolist(), run.policy.tolist()) == (q.tolist(), policy.tolist())


@pytest.mark.parametrize(
    ("outputs", "word"),
    [
        ({}, "outputs"),
        ({"polcy": [0]}, "'policy'"),
        ({"policy": [[0], [0, 1]]}, "policy must be an array of numbers"),
        ({"policy": [NAN]}, "NaN"),
        ({"policy": np.array([2**63], dtype=np.uint64)}, "uint64"),
        ({"model": "chain-v1"}, "TabularMDP"),
    ],
)
def test_outputs_that_are_none(outputs: Any, word: str) -> None:
    with pytest.raises(rr.InvalidInput, match=word):
        Run.of(outputs)


def test_a_run_stands_for_the_levels_that_it_has_and_no_others() -> None:
    run = Run.of({"policy": [0, 1]})
    assert (list(run.fingerprints), run.fingerprints.value, run.model) == (["policy"], None, None)
    with pytest.raises(rr.InvalidInput, match="there is no value"):
        _ = run.q
    failed = Run.failed(EXAMPLE, "out of memory.", seconds=2.0)
    assert (failed.error, failed.key, failed.status) == (
        "out of memory.",
        EXAMPLE.digest,
        Status(StatusCode.FAILED, "out of memory."),
    )
    with pytest.raises(rr.InvalidInput, match="it failed"):
        _ = failed.policy


def test_fingerprints_are_digests_of_the_exact_bits_whatever_their_type() -> None:
    run = run_of([[1.0, 2.0]], [1])
    assert run.fingerprints == Fingerprints(
        policy=digest_by_hand("policy", ("q", [1], [1])), value=digest_by_hand("value", ("d", [1, 2], [1.0, 2.0]))
    )
    assert run_of([[1.0, 2.0 + 2**-51]], [1]).fingerprints.value != run.fingerprints.value
    model = rr.TabularMDP.from_outcomes([[[(1.0, 0, 1.0)], [(1.0, 0, 2.0)]]], gamma=0.5)
    learned = Run.of({"policy": [1], "model": model, "value": [[1.0, 2.0]]})
    assert list(learned.fingerprints) == ["model", "value", "policy"]
    assert learned.fingerprints.model == model.digest
    for dtype in (np.uint64, np.uint8, bool, ">i4"):
        assert Run.of({"policy": np.array([1], dtype=dtype)}).fingerprints.policy == run.fingerprints.policy


def test_what_repeats_is_all_but_the_versions_and_the_time() -> None:
    run = run_of([[1.0]], [0]).completed(EXAMPLE, seconds=1.5)
    assert (run.shared_seed, run.sample_seed, run.key) == (2**64 - 1, 0, EXAMPLE_DIGEST)
    assert dataclasses.replace(run, made_with={"numpy": "0"}, seconds=9.0) == run
    for change in ({"samples": 6}, {"status": None}, {"claims": Claims()}, {"history": {"loss": np.ones(1)}}):
        assert dataclasses.replace(run, **change) != run
    with pytest.raises(rr.InvalidInput, match="no identity"):
        _ = run_of([[1.0]], [0]).key
    data = json.loads(canonical_json(run.to_json()))
    assert (data["run"], data["samples"], data["fingerprints"]) == (EXAMPLE_DIGEST, "5", run.fingerprints)


# --- levels -------------------------------------------------------------------------------------------------------


def test_a_level_is_registered_for_good() -> None:
    mine = Level("weights", implies=("policy",))
    assert rr.register(mine) is mine
    assert rr.register(Level("weights", implies=("policy",))) == mine
    for other in (Level("weights"), Level("policy", implies=("weights",)), Level("more", implies=("nothing",))):
        with pytest.raises(rr.InvalidInput):
            rr.register(other)
    assert "more" not in LEVELS
    with pytest.raises(rr.InvalidInput, match=r"^owner: .*'weights'"):
        check_level("owner", "weight")
    for name in ("", "Weights", "a/b", "x" * 42, None):
        with pytest.raises(rr.InvalidInput, match=r"^Level: name"):
            Level(name)  # type: ignore[arg-type]  # the refusal is the point


# --- checks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2, 10, np.int8(5), 5.0, np.float32(5)])
def test_integers_in_range_are_accepted(value: Any) -> None:
    number = errors.check_integer("owner", "name", value, low=2, high=10)
    assert (type(number), number) == (int, value)


NO_NUMBERS = [NAN, INF, True, np.bool_(True), "0.5", b"1", None, 1j, [0.5], np.array([0.5]), 10**400]


@pytest.mark.parametrize("value", [*NO_NUMBERS, 1, 11, 5.5], ids=repr)
def test_other_values_are_no_integers_in_range(value: Any) -> None:
    with pytest.raises(rr.InvalidInput, match="owner: name must be an integer from 2 to 10, got "):
        errors.check_integer("owner", "name", value, low=2, high=10)


@pytest.mark.parametrize("value", [*NO_NUMBERS, -5e-324, math.nextafter(1.0, 2.0)], ids=repr)
def test_other_values_are_no_reals_in_range(value: Any) -> None:
    with pytest.raises(rr.InvalidInput, match="owner: name must be in "):
        errors.check_real("owner", "name", value, low=0.0, high=1.0, rule="in [0, 1]")


def test_refusals_are_short_and_printable() -> None:
    for text in ("x" * 10**6, "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e" * 10**4):
        for call in (rr.make, rr.load, lambda text: rr.PhasedVI(text, 0.1)):
            with pytest.raises(rr.InvalidInput) as caught:
                call(text)
            assert len(str(caught.value)) <= 1000
            assert str(caught.value).isprintable()

"""The identity of a run, the fingerprints of its answer, and the small helpers below them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
import struct
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import replicable_rl as rr
from replicable_rl import canonical, errors
from replicable_rl.canonical import array_digest, canonical_json, json_digest
from replicable_rl.progress import listening, track
from replicable_rl.records import Fingerprints, Guarantee, ObjectSpec, RunSpec, Solution, Status, StatusCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

NAN, INF = float("nan"), float("inf")

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


def test_the_layout_in_memory_does_not_count() -> None:
    table = np.arange(12.0).reshape(3, 4)
    expected = array_digest("x", table)
    strided = np.zeros((6, 8))
    strided[::2, ::2] = table
    for same in (np.asfortranarray(table), strided[::2, ::2], table.astype(">f8"), table.astype(np.float32)):
        assert array_digest("x", same) == expected
    assert array_digest("x", table.T) != expected


def test_a_large_unsigned_integer_is_not_taken_for_a_negative_one() -> None:
    large = np.array([2**63], dtype=np.uint64)
    try:
        digest = array_digest("x", large)
    except rr.InvalidInput:
        return  # refusing it is as good as telling it apart
    assert digest != array_digest("x", np.array([-(2**63)]))


@pytest.mark.parametrize("array", [np.array([1j]), np.array(["1"]), np.array([1], dtype=object)], ids=repr)
def test_arrays_without_exact_bits_are_refused(array: NDArray[Any]) -> None:
    with pytest.raises(rr.InvalidInput, match="x"):
        array_digest("x", array)


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
    sample_seed=0,
)
EXAMPLE_TEXT = (
    '{"algorithm":{"id":"rpvi-v1","params":{"calls":{"integer":"10000000000000000"},"iterations":null,"rho":0.2,'
    '"target":"policy"}},"problem":{"id":"riverswim-v1","params":{"gamma":0.95,"n_states":20}},'
    '"sample_seed":"0","shared_seed":"18446744073709551615"}'
)
EXAMPLE_DIGEST = "89e18cefc3cb4c8c45f4824f5586b31b9b14ec3600afa359fbce836986b94dab"


def test_the_digest_of_a_run_is_pinned() -> None:
    assert EXAMPLE.canonical() == EXAMPLE_TEXT.encode()
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
specs = st.builds(
    RunSpec,
    st.builds(ObjectSpec, texts, parameters),
    st.builds(ObjectSpec, texts, parameters),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)


@settings(max_examples=200)
@given(specs)
@example(EXAMPLE)
@example(RunSpec(ObjectSpec("a", {"x": 1e16}), ObjectSpec("b"), 0, 0))
@example(RunSpec(ObjectSpec("a", {"x": -(2.0**70)}), ObjectSpec("b"), 0, 0))
def test_a_run_read_back_from_its_text_is_the_same_run(spec: RunSpec) -> None:
    back = RunSpec.from_json(json.loads(spec.canonical()))
    assert back == spec
    assert hash(back) == hash(spec)
    assert back.digest == spec.digest == hashlib.sha256(spec.canonical()).hexdigest()


def test_a_parameter_that_looks_like_a_large_integer_is_not_taken_for_one() -> None:
    large = ObjectSpec("a", {"x": 10**16})
    try:
        alike = ObjectSpec("a", {"x": {"integer": str(10**16)}})
    except rr.InvalidInput:
        return  # refusing it is as good as telling it apart
    assert canonical_json(alike.to_json()) != canonical_json(large.to_json())
    assert ObjectSpec.from_json(alike.to_json()) == alike


@settings(max_examples=100)
@given(parameters, st.randoms(use_true_random=False))
def test_the_order_of_parameters_is_irrelevant(params: dict[str, Any], rng: Any) -> None:
    items = list(params.items())
    rng.shuffle(items)
    one, two = (RunSpec(ObjectSpec("a", p), ObjectSpec("b", p), 1, 2) for p in (params, dict(items)))
    assert one.digest == two.digest
    assert one == two


def test_every_part_of_a_run_changes_its_digest() -> None:
    problem, algorithm = EXAMPLE.problem, EXAMPLE.algorithm
    runs = [
        EXAMPLE,
        dataclasses.replace(EXAMPLE, shared_seed=0),
        dataclasses.replace(EXAMPLE, shared_seed=0, sample_seed=2**64 - 1),
        dataclasses.replace(EXAMPLE, sample_seed=1),
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
    assert given_spec.text == "a:x=0.5,n=3,many=[1, 2]"
    assert ObjectSpec("a").text == "a"


@pytest.mark.parametrize("value", [..., {1, 2}, b"x", 1j, np.zeros(2), NAN, INF], ids=repr)
def test_parameters_that_json_cannot_say_are_refused(value: Any) -> None:
    with pytest.raises(rr.InvalidInput):
        RunSpec(ObjectSpec("a", {"x": value}), ObjectSpec("b"), 0, 0).canonical()


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


BAD_SEEDS = [
    0,
    1.0,
    None,
    True,
    "",
    "-1",
    "+1",
    "1.0",
    " 1",
    "1\n",
    "1_0",
    "0x1",
    "٣",
    "18446744073709551616",
    "1" * 5000,
]
BAD_SPECS: list[Any] = [
    None,
    [],
    "text",
    5,
    {},
    *(without_part(name) for name in ("problem", "algorithm", "shared_seed", "sample_seed")),
    with_part("problem", value=None),
    with_part("problem", value="riverswim-v1"),
    with_part("problem", value={"id": "a"}),
    with_part("problem", value={"params": {}}),
    with_part("algorithm", "id", value=5),
    with_part("algorithm", "params", value=[]),
    with_part("algorithm", "params", value=None),
    with_part("algorithm", "params", "calls", value={"integer": "many"}),
    *(with_part("shared_seed", value=seed) for seed in BAD_SEEDS),
    *(with_part("sample_seed", value=seed) for seed in BAD_SEEDS),
]


@pytest.mark.parametrize("data", BAD_SPECS, ids=lambda data: repr(data)[-60:])
def test_bad_json_is_no_run(data: Any) -> None:
    with pytest.raises(rr.InvalidInput, match=r"^(RunSpec|ObjectSpec): "):
        RunSpec.from_json(data)


# --- solutions -------------------------------------------------------------------------------

STATUS = Status(StatusCode.COMPLETED, "ran 3 of 3 iterations.")
GUARANTEE = Guarantee("proved", "thm:rpvi", "proved.", epsilon=0.1, delta=0.001, rho=0.2)


def solution(q: Any, policy: Any, **options: Any) -> Solution:
    defaults: dict[str, Any] = {"samples": 5, "status": STATUS, "guarantee": GUARANTEE}
    return Solution.from_q(np.array(q), np.array(policy), **(defaults | options))


def test_a_solution_holds_copies_that_cannot_be_written() -> None:
    q, policy = np.array([[1.0, 2.0], [-0.0, -3.0]]), np.array([1, 0], dtype=np.int32)
    found = Solution.from_q(q, policy, samples=7, status=STATUS, guarantee=GUARANTEE)  # type: ignore[arg-type]
    q[...], policy[...] = 9.0, 1
    assert found.q.tolist() == [[1.0, 2.0], [0.0, -3.0]]
    assert math.copysign(1.0, found.q[1, 0]) == 1.0
    assert found.policy.tolist() == [1, 0]
    assert found.q.dtype == np.float64
    assert found.policy.dtype == np.int64
    assert found.value.tolist() == [2.0, 0.0]
    assert (found.samples, found.status, found.guarantee, found.model, found.spec) == (7, STATUS, GUARANTEE, None, None)
    for array in (found.q, found.policy):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.samples = 8  # type: ignore[misc]


@pytest.mark.parametrize(
    ("q", "policy"),
    [
        ([1.0, 2.0], [0, 0]),
        ([[1.0], [2.0]], [0]),
        ([[1.0], [2.0]], [0, 0, 0]),
        ([[1.0], [2.0]], [[0], [0]]),
        ([[[1.0]]], [0]),
        ([[1.0], [NAN]], [0, 0]),
    ],
    ids=repr,
)
def test_tables_that_do_not_fit_are_no_solution(q: Any, policy: Any) -> None:
    with pytest.raises(rr.InvalidInput):
        solution(q, policy)


tables = st.lists(
    st.lists(st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-52]), min_size=2, max_size=2), min_size=2, max_size=2
)
policies = st.lists(st.integers(0, 1), min_size=2, max_size=2)


@settings(max_examples=300)
@given(tables, policies, tables, policies)
def test_fingerprints_are_equal_exactly_when_the_arrays_are(
    q1: list[list[float]], p1: list[int], q2: list[list[float]], p2: list[int]
) -> None:
    one, two = solution(q1, p1).fingerprints, solution(q2, p2).fingerprints
    assert (one.value == two.value) == (q1 == q2)
    assert (one.policy == two.policy) == (p1 == p2)
    assert (one == two) == (q1 == q2 and p1 == p2)


def test_fingerprints_are_digests_of_the_exact_bits() -> None:
    found = solution([[1.0, 2.0]], [1])
    assert found.fingerprints == Fingerprints(
        policy=digest_by_hand("policy", ("q", [1], [1])),
        value=digest_by_hand("value", ("d", [1, 2], [1.0, 2.0])),
        model=None,
    )
    model = rr.TabularMDP.from_outcomes([[[(1.0, 0, 1.0)], [(1.0, 0, 2.0)]]], gamma=0.5)
    learned = solution([[1.0, 2.0]], [1], model=model)
    assert learned.fingerprints.model == model.digest
    assert learned.model is model
    assert learned.fingerprints.policy == found.fingerprints.policy


def test_a_policy_and_a_table_of_the_same_numbers_have_different_fingerprints() -> None:
    found = solution([[0, 0], [0, 1]], [0, 1]).fingerprints
    assert found.policy != found.value


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2), min_size=1, max_size=4
    ),
    st.integers(0, 10**40),
    st.booleans(),
)
def test_a_solution_as_json_is_canonical_and_loses_no_bit(q: list[list[float]], samples: int, with_spec: bool) -> None:
    found = solution(q, [0] * len(q), samples=samples)
    if with_spec:
        found = found.with_spec(EXAMPLE)
    data = json.loads(canonical_json(found.to_json()))
    assert np.array(data["q"], dtype=float).tobytes() == found.q.tobytes()
    assert [float(v) for v in data["value"]] == [max(row) for row in q]
    assert data["policy"] == [0] * len(q)
    assert data["samples"] == str(samples)
    assert data["status"] == {"code": "completed", "sentence": STATUS.sentence}
    assert data["guarantee"] == dataclasses.asdict(GUARANTEE)
    assert data["fingerprints"] == dataclasses.asdict(found.fingerprints)
    if with_spec:
        assert RunSpec.from_json(data["spec"]) == EXAMPLE
        assert data["run"] == EXAMPLE.digest
    else:
        assert data["spec"] is None
        assert data["run"] is None


def test_a_spec_is_added_to_a_copy() -> None:
    bare = solution([[1.0]], [0])
    named = bare.with_spec(EXAMPLE)
    assert (bare.spec, named.spec) == (None, EXAMPLE)
    assert named.fingerprints == bare.fingerprints
    assert named.q is bare.q


def test_statuses_and_guarantees_are_sentences() -> None:
    assert str(STATUS) == "completed: ran 3 of 3 iterations."
    assert str(Status(StatusCode.BUDGET_SPENT, "stopped.")) == "budget spent: stopped."
    assert str(GUARANTEE) == "proved."


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
            assert len(seen) == item // 10 - 1
        assert list(track([], "nothing")) == []
    assert list(track("abc", "letters")) == ["a", "b", "c"]
    assert seen == [("numbers", 1, 2), ("numbers", 2, 2)]


def test_a_loop_that_is_left_reports_what_was_done() -> None:
    seen, listener = recorder()
    with listening(listener):
        for item in track(range(5), "steps"):
            if item == 2:
                break
    assert seen == [("steps", 1, 5), ("steps", 2, 5)]


def test_listeners_nest_and_end_with_their_block() -> None:
    outer_seen, outer = recorder()
    inner_seen, inner = recorder()
    with listening(outer):
        with contextlib.suppress(KeyError), listening(inner):
            list(track([1], "inner"))
            raise KeyError
        list(track([1], "outer"))
    list(track([1], "nobody"))
    assert inner_seen == [("inner", 1, 1)]
    assert outer_seen == [("outer", 1, 1)]


def test_another_thread_is_not_overheard() -> None:
    seen, listener = recorder()
    with listening(listener):
        thread = threading.Thread(target=lambda: list(track([1], "elsewhere")))
        thread.start()
        thread.join()
        list(track([1], "here"))
    assert seen == [("here", 1, 1)]


# --- errors ----------------------------------------------------------------------------------


def test_every_error_of_the_user_is_one_kind_of_value_error() -> None:
    assert issubclass(rr.InvalidInput, ValueError)
    for name in ("InvalidFile", "InvalidMDP", "SampleSizeTooLarge", "UnknownId"):
        assert issubclass(getattr(errors, name), rr.InvalidInput)


@pytest.mark.parametrize("value", [2, 10, np.int8(5), np.uint64(7)])
def test_integers_in_range_are_accepted(value: Any) -> None:
    number = errors.check_integer("owner", "name", value, low=2, high=10)
    assert type(number) is int
    assert number == value


@pytest.mark.parametrize("value", [1, 11, True, 5.0, "5", None, np.float64(5), np.bool_(True), [5]], ids=repr)
def test_other_values_are_no_integers_in_range(value: Any) -> None:
    with pytest.raises(rr.InvalidInput) as caught:
        errors.check_integer("owner", "name", value, low=2, high=10)
    assert str(caught.value) == f"owner: name must be an integer from 2 to 10, got {value!r}."


def test_a_huge_integer_is_shown_short() -> None:
    with pytest.raises(rr.InvalidInput, match=r"got 10{19}\.\.\. \(401 characters\)\.$"):
        errors.check_integer("owner", "name", 10**400, low=2, high=10)


@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, np.float32(0.5), np.int64(1), 5e-324])
def test_reals_in_range_are_accepted(value: Any) -> None:
    number = errors.check_real("owner", "name", value, low=0.0, high=1.0, rule="in [0, 1]")
    assert type(number) is float
    assert number == float(value)


NO_REALS = [NAN, INF, -INF, True, False, "0.5", b"1", None, 1j, [0.5], np.array([0.5]), 10**400]


@pytest.mark.parametrize("value", [*NO_REALS, -5e-324, math.nextafter(1.0, 2.0)], ids=repr)
def test_other_values_are_no_reals_in_range(value: Any) -> None:
    with pytest.raises(rr.InvalidInput) as caught:
        errors.check_real("owner", "name", value, low=0.0, high=1.0, rule="in [0, 1]")
    assert str(caught.value) == f"owner: name must be in [0, 1], got {value!r}."


@pytest.mark.parametrize("value", [*NO_REALS, 0, 0.0, -0.0, 1, 1.0, -0.5], ids=repr)
def test_the_ends_are_no_part_of_an_open_interval(value: Any) -> None:
    with pytest.raises(rr.InvalidInput) as caught:
        errors.check_in_open_interval("owner", "name", value)
    assert str(caught.value) == f"owner: name must lie strictly between 0 and 1, got {value!r}."


def test_the_inside_of_an_open_interval_is_accepted() -> None:
    for value in (5e-324, 0.5, math.nextafter(1.0, 0.0)):
        assert errors.check_in_open_interval("owner", "name", value) == value
    assert errors.check_in_open_interval("owner", "name", 1e308, 0.0, math.inf) == 1e308


def test_a_near_miss_is_suggested_and_a_far_one_is_not() -> None:
    known = ["two-goals-v1", "two-goals-wide-v1", "chain-v1"]
    assert errors.did_you_mean("chian-v1", known) == " Did you mean 'chain-v1'?"
    assert errors.did_you_mean("two-goals-wid-v1", iter(known)) == " Did you mean 'two-goals-wide-v1'?"
    assert errors.did_you_mean("zzz", known) == ""
    assert errors.did_you_mean("chain-v1", []) == ""

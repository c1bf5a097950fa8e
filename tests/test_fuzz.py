"""Mutated files: no traceback, no hang, and no record of a run that loads changed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from dev.fuzz import engine
from dev.fuzz.__main__ import table_of
from dev.fuzz.engine import BAD, CHANGED, EQUAL, HANG, LESS, MEMORY, OTHER, OUTCOMES, REFUSED, TRACEBACK, fuzz
from dev.fuzz.mutations import mutate
from dev.fuzz.seeds import KINDS, Kind, copied

from replicable_rl.errors import InvalidInput


@pytest.mark.slow
def test_mutants_of_every_kind() -> None:
    found = fuzz(120 * len(KINDS), seed=2026)
    assert found.bad == []
    assert {name: sum(counts.values()) for name, counts in found.counts.items()} == dict.fromkeys(KINDS, 120)
    for name, counts in found.counts.items():
        assert counts[REFUSED] > 15, name
        assert counts[EQUAL] > 0, name
    assert found.counts["plan"][OTHER] > 0


def reading(outcome: str) -> Any:
    if outcome == TRACEBACK:
        raise KeyError("x")
    if outcome == MEMORY:
        return bytearray(3 << 30)
    if outcome == REFUSED:
        raise InvalidInput("no")
    while outcome == HANG:
        pass
    return {EQUAL: {"a", "b"}, LESS: {"a"}, CHANGED: {"a", "c"}, OTHER: {"c"}}[outcome]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str) -> None:
    monkeypatch.setattr(engine, "_SECONDS", 1)
    (tmp_path / "sound").write_bytes(bytes(100))
    kind = Kind("own", Path.touch, lambda path: reading(outcome), record=outcome != OTHER)
    with engine._limited():
        seen, _, _ = engine._one(kind, tmp_path / "sound", tmp_path / "mutant", {"a", "b"}, random.Random(1))
    assert seen == outcome
    assert (outcome in BAD) == (outcome in (TRACEBACK, HANG, MEMORY, CHANGED))


@pytest.mark.parametrize("name", KINDS)
def test_the_same_seed_makes_the_same_mutant(tmp_path: Path, name: str) -> None:
    source, mutant, _ = engine._sound(KINDS[name], tmp_path)
    contents = []
    for _ in range(2):
        copied(source, mutant)
        mutate(mutant, random.Random(3))
        files = sorted(mutant.iterdir()) if mutant.is_dir() else [mutant]
        contents.append([file.read_bytes() for file in files])
    assert contents[0] == contents[1]


def test_the_table_has_a_row_for_every_kind() -> None:
    lines = table_of(engine.Found()).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == list(KINDS)

"""What runs return has not changed by a bit: ``python -m tests.recorded`` wrote it before anything was rebuilt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.recorded.__main__ import FILE, kinds

RECORDED = json.loads(FILE.read_text())


@pytest.mark.parametrize("kind", sorted(kinds(Path())))
def test_what_runs_return_is_what_was_recorded(kind: str, tmp_path: Path) -> None:
    now = {f"{kind}: {name}": case() for name, case in kinds(tmp_path)[kind]()}
    before = {name: record for name, record in RECORDED.items() if name.startswith(f"{kind}: ")}
    assert now == before


def test_few_of_the_recorded_cases_are_refusals() -> None:
    assert len(RECORDED) >= 300
    assert sum("refused" in record for record in RECORDED.values()) <= 0.05 * len(RECORDED)

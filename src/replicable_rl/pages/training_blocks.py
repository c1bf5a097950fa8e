"""What a page says of an audit of training code: what runs earn, what they lose, and how close their actions are."""

from __future__ import annotations

import math
from collections.abc import Iterator

from replicable_rl.audit import AuditResult, Returns
from replicable_rl.pages.blocks import Cell, Code, DataTable, Heading, Plain, Text
from replicable_rl.pages.page import Block
from replicable_rl.pages.training_texts import closeness_text, loss_text, returns_text, with_interval
from replicable_rl.wording import number

_SEEDS = 12  # shared seeds whose returns are listed


def training_blocks(result: AuditResult) -> Iterator[Block]:
    """Yield returns, losses and distances, as far as they are known."""
    if result.returns is not None:
        yield Heading("What the runs earn")
        yield Text([[Plain(returns_text(result))]])
        yield _per_seed(result, result.returns)
    said = [text for text in (loss_text(result), closeness_text(result)) if text]
    if said:
        yield Heading("How good, and how close" if len(said) > 1 else "How good" if loss_text(result) else "How close")
        yield Text([[Plain(text)] for text in said])


def _per_seed(result: AuditResult, found: Returns) -> DataTable:
    R, seeds = result.spec.runs_per_seed, result.spec.seeds
    rows: list[list[Cell]] = []
    for j in range(min(_SEEDS, len(seeds))):
        runs = found.per_run[j * R : (j + 1) * R]
        told = ", ".join("failed" if one is None else with_interval(one) for one in runs)
        mean = None if math.isnan(found.per_seed[j]) else number(float(found.per_seed[j]))
        rows.append([Code(str(seeds[j])), mean, told])
    more = f"{len(seeds) - _SEEDS} more shared seeds are not listed." if len(seeds) > _SEEDS else None
    caption = "The return of every run, with its interval over the episodes that it played."
    return DataTable(["shared seed", "mean return", "runs"], rows, caption, note=more)

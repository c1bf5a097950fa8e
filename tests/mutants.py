"""Plant a bug: replace a piece of a function's source and put the mutant in its place."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import pytest


def plant(patch: pytest.MonkeyPatch, owner: Any, name: str, old: str, new: str) -> None:
    """Replace ``old`` by ``new`` in the source of ``owner.name``; the text must occur."""
    original = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(original))
    assert old in source, f"{name} no longer contains {old!r}: mend the mutant"
    namespace = dict(original.__globals__)
    exec(compile(source.replace(old, new), f"<mutant of {name}>", "exec"), namespace)
    patch.setattr(owner, name, namespace[name])

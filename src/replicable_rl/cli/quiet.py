"""``--quiet``: the result and errors, and nothing else."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, get_type_hints

import typer

from replicable_rl.progress import listening

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the result: no progress, no notes.")]

_quiet: contextvars.ContextVar[bool] = contextvars.ContextVar("replicable_rl_quiet", default=False)


def is_quiet() -> bool:
    """Whether the user wants the result and errors only."""
    return _quiet.get()


def be_quiet() -> None:
    """Be quiet until the command has ended; see `as_loud_as_before`."""
    _quiet.set(True)


@contextlib.contextmanager
def as_loud_as_before() -> Iterator[None]:
    """Forget at the end of the block that it was asked to be quiet."""
    token = _quiet.set(_quiet.get())
    try:
        yield
    finally:
        _quiet.reset(token)


def with_quiet(command: Callable[..., int]) -> Callable[..., int]:
    """Let a command have ``--quiet``, which may also stand before its name."""
    own = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    shown = [one.replace(annotation=hints[name]) for name, one in own.parameters.items()]
    option = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet)

    @functools.wraps(command)
    def wrapped(*, quiet: bool, **values: object) -> int:
        if quiet:
            be_quiet()
        with _silence() if is_quiet() else contextlib.nullcontext():
            return command(**values)

    wrapped.__signature__ = inspect.Signature([*shown, option])  # type: ignore[attr-defined]  # typer reads it
    wrapped.__annotations__ = {one.name: one.annotation for one in (*shown, option)}
    return wrapped


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Hear of progress and say nothing; warnings of other libraries are notes too."""
    with listening(lambda *_: None, lambda _: None), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

"""Every combination of values: what the designs of experiments walk."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any


def combinations(**axes: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield every combination of one value from each axis, by name; the last axis changes fastest.

    >>> list(combinations(problem=["chain-v1"], calls=[10, 100]))
    [{'problem': 'chain-v1', 'calls': 10}, {'problem': 'chain-v1', 'calls': 100}]
    """
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))

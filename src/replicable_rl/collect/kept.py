"""A collection in a file: a data set that can be read at any time, and what it takes to go on.

The file is that of `Dataset.save` with a few more arrays: ``collection`` is JSON (problem, seed, how it is collected,
how far it is), ``sums`` are exact sums of rewards where they were added up, ``policy`` is that of the present round. It
is written under a temporary name and renamed, so it is whole at any moment, and nothing in it is unpickled.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from replicable_rl.audit.identity import changed_parts, parts_of, seen
from replicable_rl.canonical import array_digest, canonical_json, from_decimal, json_digest, parse_json, to_json
from replicable_rl.collect.gathered import Gathered
from replicable_rl.collect.stage import Stage, called
from replicable_rl.data import stretches
from replicable_rl.data.files import read_all, write_dataset
from replicable_rl.errors import InvalidFile, InvalidInput, check_integer, shown
from replicable_rl.mdp.policies import chosen_actions
from replicable_rl.records import ObjectSpec
from replicable_rl.registry import is_ours
from replicable_rl.wording import brief, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from replicable_rl.canonical import Json
    from replicable_rl.collect.stage import Walker
    from replicable_rl.data import Dataset

_FORMAT = "replicable-rl collection v1"
_OFTEN = 1.0  # seconds between two writes
_SELDOM = 10.0  # seconds between two writes in the middle of a stint
_SHARE = 20.0  # writing takes a twentieth of the time at most


class Kept:
    """The file of a collection.

    Parameters
    ----------
    path : path
        Where it is.
    source : problem
        What is sampled.
    """

    def __init__(self, path: str | os.PathLike[str], source: Any) -> None:
        self.path, self._source = Path(path), source
        self._written, self._cost, self._failed = time.monotonic(), 0.0, False

    # --- writing ---------------------------------------------------------------------------------

    def write_if_due(self, walker: Walker, seed: int, stage: Stage | None = None) -> None:
        """Write the last stage if that was some time ago; ``stage`` is one in the middle of something."""
        often = _OFTEN if stage is None else _SELDOM
        if time.monotonic() - self._written >= max(often, _SHARE * self._cost):
            self.write(walker, seed, stage)

    def write(self, walker: Walker, seed: int, stage: Stage | None = None) -> Dataset:
        """Write a stage, whole or not at all, and return it as a data set."""
        started = time.monotonic()
        now = walker.now if stage is None else stage
        gathered = now.gathered.settled()
        data = gathered.dataset(now.starts)
        more = {name: one for name, one in (("sums", gathered.sums), ("policy", now.policy)) if one is not None}
        record: dict[str, Json] = {
            "format": _FORMAT,
            "problem": self._source.spec.to_json(),
            "code": own_code(self._source),
            "sample_seed": str(seed),
            "way": walker.way,
            "steps": str(now.steps),
            "place": _plain(now.place),
            "data": data.sample.digest,
            "arrays": {name: array_digest(name, one) for name, one in more.items()},
        }
        text = canonical_json(to_json(record | {"seal": json_digest(to_json(record))}))
        try:
            write_dataset(data, self.path, collection=np.frombuffer(text, dtype=np.uint8), **more)
        except InvalidFile as error:
            self._failed = True
            raise InvalidFile(
                f"{error} What was written before is whole. Make room, and the same call goes on from there."
            ) from None
        self._written = time.monotonic()
        self._cost = self._written - started
        return data

    def write_after(self, error: BaseException, walker: Walker, seed: int) -> None:
        """Write what there is when something else went wrong, unless it was the writing."""
        if self._failed:
            return
        try:
            self.write(walker, seed)
        except InvalidInput as failed:
            error.add_note(str(failed))

    # --- reading ---------------------------------------------------------------------------------

    def read(self) -> _Record | None:
        """Return what the file holds; None if there is none."""
        if not os.path.exists(self.path):  # noqa: PTH110  # a link that leads nowhere is written to
            return None
        data, archive = read_all(self.path)
        if "collection" not in archive:
            raise InvalidFile(
                f"{self.path}: is a saved data set, not one that collect(keep=...) wrote. Name another file."
            )
        try:
            record = parse_json(archive["collection"].tobytes())
            if not isinstance(record, dict) or record.get("format") != _FORMAT:
                raise InvalidInput(f"the collection in it is no {_FORMAT}")
            return _Record(record, data, archive)
        except (InvalidInput, KeyError, TypeError, ValueError, OverflowError) as error:
            raise InvalidFile(f"{self.path}: is no {_FORMAT} file, or is damaged ({error!s:.120}).") from None

    def stage(self, record: _Record, walker: Walker, seed: int, total: int) -> Stage:
        """Return the stage that the file holds, if it is one of this collection."""
        problem = ObjectSpec.from_json(record.json["problem"])
        if problem != self._source.spec:
            raise self._other("the problem", brief(problem.text, 120), brief(self._source.spec.text, 120))
        if changed_parts([record.json["code"]], own_code(self._source)):
            raise InvalidFile(
                f"{self.path}: the code of {called(self._source)} looks different from that of the samples in it. Give "
                "the new code a version of its own and another file."
            )
        if record.seed != seed:
            raise self._other("sample_seed", str(record.seed), str(seed))
        for name, value in walker.way.items():
            if (before := record.json["way"].get(name)) != value:
                raise self._other(name, shown(before), shown(value))
        if record.steps > total:
            raise InvalidFile(
                f"{self.path}: has {number(record.steps)} samples already, more than the {number(total)} asked for. "
                "Ask for as many or more, or name another file."
            )
        try:
            return record.stage(walker)
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            raise InvalidFile(f"{self.path}: is no {_FORMAT} file, or is damaged ({error!s:.120}).") from None

    def _other(self, what: str, kept: str, asked: str) -> InvalidFile:
        return InvalidFile(
            f"{self.path}: keeps samples of another collection: {what} is {kept} there, and {asked} here. Name another "
            "file."
        )


class _Record:
    """What a file says, checked by its digests."""

    def __init__(self, record: dict[str, Any], data: Dataset, archive: dict[str, NDArray[Any]]) -> None:
        self.json, self._data, self._archive = record, data, archive
        if record.pop("seal") != json_digest(to_json(record)) or record["data"] != data.sample.digest:
            raise InvalidInput("it does not match its digest")
        for name, digest in record["arrays"].items():
            if array_digest(name, archive[name]) != digest:
                raise InvalidInput(f"{name} does not match its digest")
        self.seed = from_decimal("sample_seed", record["sample_seed"], 20)
        self.steps = from_decimal("steps", record["steps"], 20)
        if self.steps != data.rows:
            raise InvalidInput("it has another number of rows than of steps")

    def stage(self, walker: Walker) -> Stage:
        """Return the stage."""
        data, begin = self._data, walker.begin()
        if data.process != walker.process or (begin.starts is None) != (data.starts is None):
            raise InvalidInput("the data are of another process")
        place = self.json["place"]
        if not isinstance(place, dict) or set(place) != set(begin.place):
            raise InvalidInput("it does not say where to go on")
        sums, policy = (self._archive[one] if one in self.json["arrays"] else None for one in ("sums", "policy"))
        if data.added_up != (sums is not None) or (sums is not None and sums.shape != (3, data.key.size)):
            raise InvalidInput("sums of rewards are missing")
        if data.width not in (0.0, stretches.stretch(*data.reward_range)):
            raise InvalidInput("its rewards were added up in another way; collect into another file")
        if policy is not None:
            policy = chosen_actions("policy", policy, data.n_states, data.n_actions)
        for name in set(place) & {"next", "round", "until", "spawned"}:
            place[name] = check_integer("place", name, place[name], low=0, high=2**63 - 1)
        gathered = Gathered(walker.process, data.key, data.count, None if data.added_up else data.reward, sums)
        if data.added_up:
            gathered = replace(gathered, place=stretches.place(data.reward, gathered.width))
        return Stage(gathered, self.steps, data.starts, place, policy)


def own_code(source: Any) -> str | None:
    """Return what can be seen of somebody's own code that is sampled; None where there is none."""
    return seen({"problem": [one for one in parts_of(source) if not is_ours(one)]})


def _plain(value: Any) -> Any:
    """Return mappings and numbers in Python's own types."""
    if hasattr(value, "items"):
        return {str(name): _plain(one) for name, one in value.items()}
    return int(value) if isinstance(value, np.integer) else value

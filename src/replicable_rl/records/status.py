"""How a run ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from replicable_rl.canonical import Json
from replicable_rl.display import Displayed, described
from replicable_rl.errors import InvalidInput


class StatusCode(Enum):
    """How a run ended."""

    COMPLETED = "completed"
    STOPPED_BY_RULE = "stopped by the rule"
    ALL_KNOWN = "every pair known"
    BUDGET_SPENT = "budget spent"
    FAILED = "failed"


@dataclass(frozen=True)
class Status(Displayed):
    """How a run ended, as a code for programs and a sentence for people."""

    code: StatusCode
    sentence: str

    def __repr__(self) -> str:
        return described(self, f"{getattr(self.code, 'value', self.code)}: {self.sentence}")

    def __str__(self) -> str:
        return f"{self.code.value}: {self.sentence}"

    def to_json(self) -> dict[str, Json]:
        """Return the JSON form."""
        return {"code": self.code.value, "sentence": self.sentence}

    @classmethod
    def from_json(cls, data: Json) -> Status:
        """Read the JSON form back."""
        codes = [code.value for code in StatusCode]
        if not isinstance(data, dict) or data.get("code") not in codes or not isinstance(data.get("sentence"), str):
            raise InvalidInput(f"Status: expected a code of {', '.join(codes)} and a sentence, got {data!r:.200}.")
        return cls(StatusCode(data["code"]), data["sentence"])


UNSAID = Status(StatusCode.COMPLETED, "the code that ran does not say how it ended")  # no run ends without a word

"""Is every failure under this controller a known one, and does every known one still fail?"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from tests.kafka.reports import Outcome, Result

REASONS_FILE = Path(__file__).with_name("inapplicable.toml")


class Reason(msgspec.Struct, frozen=True):
    """The reason why some tests cannot pass here.

    A name in `tests` is a test, a test and one of its invocations (`kafka.X.testY [2]`), or a whole class, which is
    then not run at all.
    """

    why: str
    tests: frozenset[str]
    versions: frozenset[str] = frozenset()
    """Empty: all."""
    sometimes: bool = False
    """Whether these tests may also pass."""


class Verdict(StrEnum):
    """The meaning of one test's outcome for the run."""

    PASSED = "passed"
    EXPECTED = "fails for a known reason"
    UNEXPECTED = "fails without a known reason"
    STALE = "passes, in spite of the reason why it could not"
    SKIPPED = "skipped"

    @property
    def is_bad(self) -> bool:
        """Whether the run fails."""
        return self in (Verdict.UNEXPECTED, Verdict.STALE)


class Reasons:
    """All reasons that hold for one version of Kafka."""

    def __init__(self, reasons: Iterable[Reason], version: str) -> None:
        """Select those of this version."""
        self._by_name = {
            name: reason
            for reason in reasons
            if not reason.versions or version in reason.versions
            for name in reason.tests
        }

    def for_class(self, class_name: str) -> Reason | None:
        """The reason why a whole class cannot run."""
        return self._by_name.get(class_name)

    def for_test(self, class_name: str, outcome: Outcome) -> Reason | None:
        """The reason why a test cannot pass; one for its invocation takes precedence."""
        test = f"{class_name}.{outcome.method}"
        return (
            self._by_name.get(f"{test} {outcome.invocation.split(']')[0]}]")
            or self._by_name.get(test)
            or self._by_name.get(class_name)
        )

    def verdict(self, class_name: str, outcome: Outcome) -> Verdict:
        """The meaning of a test's outcome under this controller."""
        reason = self.for_test(class_name, outcome)
        if outcome.result is Result.SKIPPED:
            return Verdict.SKIPPED
        if outcome.result is Result.FAILED:
            return Verdict.EXPECTED if reason else Verdict.UNEXPECTED
        return Verdict.STALE if reason and not reason.sometimes else Verdict.PASSED

    def never_met(self, class_name: str, outcomes: Sequence[Outcome]) -> list[str]:
        """Tests that have a reason but do not exist, of a class that was run whole."""
        known = {f"{class_name}.{o.method}" for o in outcomes}
        known |= {f"{class_name}.{o.method} {o.invocation.split(']')[0]}]" for o in outcomes if o.invocation}
        return sorted(name for name in self._by_name if name.startswith(f"{class_name}.") and name not in known)


def read_reasons(version: str, file: Path = REASONS_FILE) -> Reasons:
    """The reasons that hold for this version.

    Raises:
        msgspec.ValidationError: The file is not as it should be.
    """
    return Reasons(msgspec.convert(tomllib.loads(file.read_text())["reason"], list[Reason]), version)

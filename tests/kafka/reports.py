"""What does a report of JUnit say about each test?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree

import msgspec

_NOT_CHOSEN = frozenset(["runs without ZooKeeper", "not chosen"])  # as ChosenInvocations.java says it
_INVOCATION = re.compile(r"(?P<method>\w+)\(.*\)\[(?P<number>\d+)\]|(?P<plain>\w+)(\(.*\))?")


class Result(StrEnum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Outcome(msgspec.Struct, frozen=True):
    """One test, or one invocation of a test with parameters, as it went once."""

    method: str
    invocation: str
    """Its number and parameters, as in `[1] quorum=zk`; empty for a test without."""
    result: Result
    problem: str = ""

    @property
    def name(self) -> str:
        """Its unique name within its class."""
        return f"{self.method} {self.invocation}".strip()


def read_reports(directory: Path) -> list[Outcome]:
    """All outcomes in a directory of reports, sorted by name, without tests that were not chosen."""
    found = [outcome for file in directory.glob("TEST-*.xml") for outcome in _outcomes(file)]
    return sorted(found, key=lambda outcome: outcome.name)


def _outcomes(file: Path) -> Iterator[Outcome]:
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        method, invocation = _name(case)
        result, problem = _result(case)
        if result is not Result.SKIPPED or problem not in _NOT_CHOSEN:
            yield Outcome(method, invocation, result, problem)


def _name(case: ElementTree.Element) -> tuple[str, str]:
    name = case.get("name", "")
    match = _INVOCATION.fullmatch(name)
    if match is None:
        return name, ""
    if match["number"] is None:
        return match["plain"], ""
    shown = re.search(r"^display-name: (.*)$", case.findtext("system-out", ""), re.MULTILINE)
    parameters = re.sub(r"^.*?\[\d+\] ?", "", shown[1]) if shown else ""
    return match["method"], f"[{match['number']}] {parameters}".strip()


def _result(case: ElementTree.Element) -> tuple[Result, str]:
    if (skipped := case.find("skipped")) is not None:
        return Result.SKIPPED, (skipped.text or "").strip()
    for kind in ("failure", "error"):
        if (failure := case.find(kind)) is not None:
            message = failure.get("message") or failure.get("type") or (failure.text or "").strip()
            return Result.FAILED, message.splitlines()[0] if message else "no message"
    return Result.PASSED, ""

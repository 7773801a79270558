"""What did the last run of each class show, under each controller?"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.kafka.reports import Outcome, Result
from tests.kafka.running import Controller

RESULTS = Path(__file__).with_name("results")

_ROOT = Path(__file__).parents[2]
_PRODUCT = ("controller", "zk_layout", "tests/kafka/java")
_LONGEST_PROBLEM = 200


class Ran(msgspec.Struct, frozen=True):
    """One class of tests, run whole under one controller."""

    class_name: str
    controller: Controller
    day: str
    java: int
    outcomes: tuple[Outcome, ...]
    state: str = ""
    """The commit that was run; with a + if the sources had been changed since."""


class _Kept(msgspec.Struct, frozen=True):
    """A run as it is written down: one line for each test, so that a diff shows what has changed."""

    day: str
    java: int
    state: str
    tests: Mapping[str, str]


_File = dict[str, dict[Controller, _Kept]]


def keep(version: str, ran: Ran, directory: Path = RESULTS) -> None:
    """Replace the stored run of this class; safe beside other processes that do the same."""
    directory.mkdir(parents=True, exist_ok=True)
    file = _file(version, directory)
    with _locked(directory):
        kept = _read(file)
        tests = {outcome.name: _told(outcome) for outcome in ran.outcomes}
        of_class = {**kept.get(ran.class_name, {}), ran.controller: _Kept(ran.day, ran.java, ran.state, tests)}
        kept[ran.class_name] = dict(sorted(of_class.items(), reverse=True))  # ours first
        encoded = msgspec.json.encode(dict(sorted(kept.items())))
        replacement = file.with_suffix(".new")
        replacement.write_bytes(msgspec.json.format(encoded) + b"\n")
        replacement.replace(file)


def read_kept(version: str, directory: Path = RESULTS) -> list[Ran]:
    """All stored runs, by the names of the classes.

    Raises:
        msgspec.ValidationError: The file is not as it should be.
    """
    return [
        Ran(class_name, controller, kept.day, kept.java, tuple(_outcomes(kept.tests)), kept.state)
        for class_name, by_controller in _read(_file(version, directory)).items()
        for controller, kept in by_controller.items()
    ]


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _file(version: str, directory: Path) -> Path:
    return directory / f"{version}.json"


def _read(file: Path) -> _File:
    content = file.read_bytes() if file.exists() else b""
    return msgspec.json.decode(content, type=_File) if content else {}


def _told(outcome: Outcome) -> str:
    problem = outcome.problem[:_LONGEST_PROBLEM]
    return f"{outcome.result}: {problem}" if problem else str(outcome.result)


def _outcomes(tests: Mapping[str, str]) -> Iterator[Outcome]:
    for name, stored in tests.items():
        method, bracket, rest = name.partition(" [")
        result, _, problem = stored.partition(": ")
        yield Outcome(method, f"{bracket}{rest}".strip(), Result(result), problem)


def today() -> str:
    """The line for a stored run."""
    return datetime.now(UTC).date().isoformat()


def state_of_product(root: Path = _ROOT) -> str:
    """The commit, and whether the sources have been changed since; empty outside a clone."""
    commit = _git(root, "rev-parse", "--short", "HEAD")
    return f"{commit}+" if commit and _git(root, "status", "--porcelain", "--", *_PRODUCT) else commit


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""

"""What came of the last run of each class, under each controller?"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.kafka.reports import Outcome
from tests.kafka.running import KEPT, Controller


class Ran(msgspec.Struct, frozen=True):
    """One class of tests, run whole under one controller."""

    class_name: str
    controller: Controller
    day: str
    java: int
    outcomes: tuple[Outcome, ...]


def keep(version: str, ran: Ran, directory: Path = KEPT) -> None:
    """Write it down in place of what was there."""
    file = directory / version / "results" / f"{ran.class_name}-{ran.controller}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(ran)))


def read_kept(version: str, directory: Path = KEPT) -> list[Ran]:
    """All that was kept, by the names of the classes."""
    files = sorted((directory / version / "results").glob("*.json"))
    return [msgspec.json.decode(file.read_bytes(), type=Ran) for file in files]


def today() -> str:
    """As it is written down."""
    return datetime.now(UTC).date().isoformat()

"""What did the machine see and do, turn by turn, and does it do the same when it sees the same again?

A journal is lines of JSON: the first of a term tells how its machine was made, each other is one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import structlog
from msgspec import Struct

from controller.core.effects import Effect
from controller.core.events import Event
from controller.runtime.plain import from_plain, to_plain
from controller.runtime.pump import Turning

_log = structlog.get_logger(__name__)
_NAME = "journal-{:06d}.jsonl"
_PATTERN = "journal-*.jsonl"
_REIGN = "term"


class Term(Struct, frozen=True):
    """How the machine of a term was made.

    Shape:
        `settings` is its `MachineSettings`, `seed` that of its `SeededRandom`.
    """

    settings: Struct
    controller_epoch: int
    seed: bytes


class Turn(Struct, frozen=True):
    """One turn of the machine."""

    now: float
    events: tuple[Event, ...]
    effects: tuple[Effect, ...]


class Difference(Struct, frozen=True):
    """A turn in which a machine now does something else than what was written down."""

    turn: int
    position: int
    recorded: Effect | None
    replayed: Effect | None


class Journal:
    """Appends turns to files in a directory; give it to the pump as an observer.

    A file that has reached `most_bytes` is followed by a new one, and only the newest `most_files` are kept: a term
    whose first file is gone can be read but not replayed. A journal that cannot be written is given up with an
    error in the log: the controller does not need it.
    """

    def __init__(self, directory: Path, *, most_bytes: int = 64 * 1024 * 1024, most_files: int = 10) -> None:
        """Nothing is written before the first term begins; files of earlier processes are continued after."""
        self._directory = directory
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._file: BinaryIO | None = None
        self._is_given_up = False
        self._encode = msgspec.json.Encoder().encode

    def begin(self, term: Term) -> None:
        """A term begins."""
        self._append(
            lambda: {
                _REIGN: to_plain(term.settings),
                "controller_epoch": term.controller_epoch,
                "seed": to_plain(term.seed),
            }
        )

    def turned(
        self,
        now: float,
        events: Sequence[Event],
        effects: Sequence[Effect],
        took_s: float,  # noqa: ARG002 - the pump's observers are all told alike
        left: int,  # noqa: ARG002 - the pump's observers are all told alike
    ) -> None:
        """Write down a turn."""
        self._append(lambda: {"now": now, "events": to_plain(tuple(events)), "effects": to_plain(tuple(effects))})

    def close(self) -> None:
        """Write out what is buffered."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _append(self, line: Callable[[], dict[str, Any]]) -> None:
        if self._is_given_up:
            return
        try:
            self._write(line())
        except Exception:
            self._is_given_up = True
            _log.exception(
                "cannot write the journal; journaling is off until the next start", directory=str(self._directory)
            )

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None or self._file.tell() >= self._most_bytes:
            self._rotate()
        assert self._file is not None
        self._file.write(self._encode(line) + b"\n")
        # The last turns before a crash are the ones somebody will want to read.
        self._file.flush()

    def _rotate(self) -> None:
        self.close()
        self._directory.mkdir(parents=True, exist_ok=True)
        written = files(self._directory)
        newest = int(written[-1].stem.partition("-")[2]) if written else 0
        for old in written[: max(0, len(written) - self._most_files + 1)]:
            old.unlink()
        self._file = (self._directory / _NAME.format(newest + 1)).open("ab")


def files(directory: Path) -> list[Path]:
    """The files of a journal, oldest first."""
    return sorted(directory.glob(_PATTERN))


def read(paths: Iterable[Path]) -> Iterator[Term | Turn]:
    """What is written in these files, in their order; a last line that breaks off is left out.

    Raises:
        Unreadable: written by another version, or no journal.
    """
    for path in paths:
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield _decode(msgspec.json.decode(line))


def _decode(line: dict[str, Any]) -> Term | Turn:
    if _REIGN in line:
        return Term(from_plain(line[_REIGN]), line["controller_epoch"], from_plain(line["seed"]))
    return Turn(line["now"], from_plain(line["events"]), from_plain(line["effects"]))


def replay(entries: Iterable[Term | Turn], make_machine: Callable[[Term], Turning]) -> Iterator[Difference]:
    """Give what was seen to new machines, one a term; tell where they do something else.

    Turns before the first term are skipped: without its beginning a term cannot be repeated.
    """
    machine: Turning | None = None
    for number, entry in enumerate(entries):
        if isinstance(entry, Term):
            machine = make_machine(entry)
        elif machine is not None:
            effects = machine.turn(entry.events, entry.now)
            for position, (recorded, replayed) in enumerate(zip_longest(entry.effects, effects)):
                if recorded != replayed:
                    yield Difference(number, position, recorded, replayed)

"""What did the machine see and do, turn by turn, and does it do the same when it sees the same again?

A journal is lines of JSON: the first line of a term says how its machine was made, every other line is one turn. Lines
before the first may hold what was folded before the term.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from controller.core.messages.effects import Effect
from controller.core.messages.events import Event
from controller.core.state.cluster import ClusterState
from controller.runtime.plain import Unreadable, from_plain, to_plain
from controller.runtime.pump import StateMachine, Took

_NAME = "journal-{:06d}.jsonl"
_PATTERN = "journal-*.jsonl"
_REIGN, _FOLDED = "term", "folded"
# The keys of users allow guessing of passwords: see zk_layout/znodes/scram.py. Brokers' passwords are encrypted with a
# secret that all brokers share; source: Kafka's PasswordEncoder.
_SECRETS = re.compile(rb"((?:stored|server)_key=|encryptedPassword:)([A-Za-z0-9+/=]+)")
_SIGNS = (b"stored_key=", b"encryptedPassword:")


class Term(Struct, frozen=True):
    """How the machine of a term was made.

    Shape:
        `settings` is its `MachineSettings`, `seed` that of its `SeededRandom`.
    """

    settings: Struct
    controller_epoch: int
    seed: bytes


class Folded(Struct, frozen=True):
    """What was read while no term had the facts: the machine of the next term begins with what it comes to.

    Shape:
        `is_beginning`: nothing of what was folded before counts.
    """

    events: tuple[Event, ...]
    is_beginning: bool = False


class Turn(Struct, frozen=True):
    """One turn of the machine."""

    now: float
    events: tuple[Event, ...]
    effects: tuple[Effect, ...]


Entry = Term | Folded | Turn


class Difference(Struct, frozen=True):
    """A turn in which a machine now behaves differently from the record."""

    turn: int
    position: int
    recorded: Effect | None
    replayed: Effect | None


class Journal:
    """Appends turns to files in a directory; pass it to the pump as an observer.

    A file that has reached `most_bytes` is followed by a new one, and only the newest `most_files` are kept: a term
    whose first file is gone can be read but not replayed. A journal that cannot be written, as on a full disk, stops
    until the next term, and `stopped` receives the reason: the controller does not need it. Only the owner may read it,
    and it contains neither the keys of SCRAM users nor the passwords of brokers.
    """

    def __init__(
        self,
        directory: Path,
        stopped: Callable[[str], None] = lambda _: None,
        *,
        most_bytes: int = 64 * 1024 * 1024,
        most_files: int = 10,
    ) -> None:
        """Writes nothing before the first term begins; continues after the files of earlier processes."""
        self._directory = directory
        self._stopped = stopped
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._file: BinaryIO | None = None
        self._is_given_up = False
        self._blind = os.urandom(32)
        self._encode = msgspec.json.Encoder().encode

    def begin(self, term: Term) -> None:
        """A term begins; if the last one could not be written to its end, a new file begins."""
        if self._is_given_up:
            self._is_given_up = False
            self.close()
        self._append(
            lambda: {
                _REIGN: to_plain(term.settings),
                "controller_epoch": term.controller_epoch,
                "seed": to_plain(term.seed),
            }
        )

    def folded(self, events: Sequence[Event], *, is_beginning: bool = False) -> None:
        """Write down what was folded, where the next term is to begin with it."""
        self._append(lambda: {_FOLDED: to_plain(tuple(events)), "is_beginning": is_beginning})

    def turned(
        self,
        now: float,
        events: Sequence[Event],
        effects: Sequence[Effect],
        took: Took,  # noqa: ARG002 - the pump's observers are all reason alike
        left: int,  # noqa: ARG002 - the pump's observers are all reason alike
    ) -> None:
        """Write a turn."""
        self._append(lambda: {"now": now, "events": to_plain(tuple(events)), "effects": to_plain(tuple(effects))})

    def close(self) -> None:
        """Close the file; everything is written already."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def _append(self, line: Callable[[], dict[str, Any]]) -> None:
        if self._is_given_up:
            return
        try:
            self._write(line())
        except Exception as error:
            self._is_given_up = True
            self.close()
            self._stopped(f"{self._directory}: {error}; the journal is off until the next term")

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None or self._file.tell() >= self._most_bytes:
            self._rotate()
        assert self._file is not None
        written = self._encode(line)
        if any(sign in written for sign in _SIGNS):
            written = _SECRETS.sub(self._blinded, written)
        encoded = memoryview(written + b"\n")
        while encoded:
            encoded = encoded[self._file.write(encoded) :]

    def _blinded(self, found: re.Match[bytes]) -> bytes:
        """Replace a key by a digest: equal keys stay equal and others differ, which is all that a replay compares."""
        digest = hmac.digest(self._blind, found[2], "sha256")
        return found[1] + b64encode(digest)

    def _rotate(self) -> None:
        self.close()
        self._directory.mkdir(0o700, parents=True, exist_ok=True)
        written = files(self._directory)
        newest = int(written[-1].stem.partition("-")[2]) if written else 0
        for old in written[: max(0, len(written) - self._most_files + 1)]:
            old.unlink()
        path = self._directory / _NAME.format(newest + 1)
        # Unbuffered: the last turns before a crash are the ones needed.
        self._file = open(path, "xb", 0, opener=_for_the_owner)  # noqa: SIM115 - it stays open


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def files(directory: Path) -> list[Path]:
    """The files of a journal, oldest first."""
    return sorted(directory.glob(_PATTERN))


def read(paths: Iterable[Path]) -> Iterator[Entry]:
    """The entries in these files, in their order, without a last line that is cut off.

    Reads what earlier releases wrote, too, wherever their classes were defined.

    Raises:
        Unreadable: written by a later release, or not a journal.
    """
    for path in paths:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.endswith(b"\n"):
                    yield _entry(line, f"{path}, line {number}")


def _entry(line: bytes, where: str) -> Entry:
    try:
        return _decode(msgspec.json.decode(line))
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        reason = (
            error if isinstance(error, Unreadable) else f"not a line of a journal ({type(error).__name__}: {error})"
        )
        raise Unreadable(f"{where}: {reason}; read it with the version of the controller that wrote it") from None


def _decode(line: dict[str, Any]) -> Entry:
    if _REIGN in line:
        return Term(from_plain(line[_REIGN]), line["controller_epoch"], from_plain(line["seed"]))
    if _FOLDED in line:
        return Folded(from_plain(line[_FOLDED]), line["is_beginning"])
    return Turn(line["now"], from_plain(line["events"]), from_plain(line["effects"]))


def replay(
    entries: Iterable[Entry], make_machine: Callable[[Term, ClusterState], StateMachine]
) -> Iterator[Difference]:
    """Feed the recorded events to new machines, one a term; yield where they behave differently.

    Skips turns before the first term, and terms that begin with facts whose beginning is missing: neither can be
    repeated.
    """
    machine: StateMachine | None = None
    state: ClusterState | None = ClusterState()
    for number, entry in enumerate(entries):
        if isinstance(entry, Term):
            machine = None if state is None else make_machine(entry, state)
            state = ClusterState()  # what a term has had is given to no other
        elif isinstance(entry, Folded):
            state = _fold(entry, None if number == 0 else state)
        elif machine is not None:
            effects = machine.turn(entry.events, entry.now)
            for position, (recorded, replayed) in enumerate(zip_longest(entry.effects, effects)):
                if recorded != replayed:
                    yield Difference(number, position, recorded, replayed)


def _fold(entry: Folded, before: ClusterState | None) -> ClusterState | None:
    """What is known afterwards; None where the beginning is gone."""
    state = ClusterState() if entry.is_beginning else before
    if state is not None:
        for event in entry.events:
            state.fold(event)
    return state

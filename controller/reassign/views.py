"""How are moves shown while they go on: as bars, as lines, as JSON?"""

from __future__ import annotations

import json
from datetime import datetime
from types import TracebackType
from typing import Any, Protocol, Self

import click
import msgspec
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from controller.reassign.listing import as_document
from controller.reassign.plans import listed
from controller.reassign.progress import Ended, Moving, Snapshot
from zk_layout.znodes.reassignment_status import ReplicaProgress

_BAR = 24
_OTHER_LINES = 5
_MOST_ROWS = 40
_JUSTIFIED: tuple[JustifyMethod, ...] = ("left", "left", "right", "right", "right", "right")


class View(Protocol):
    """Opened before the first snapshot, closed after the last one."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, snapshot: Snapshot) -> None:
        """The moves at one moment."""


class Bars:
    """On a terminal: a bar for each receiving replica and one for all, redrawn in place."""

    def __init__(self, console: Console, note: str | None) -> None:
        """`note` stands below the bars."""
        self._console = console
        self._note = note
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, snapshot: Snapshot) -> None:
        """Redraw."""
        self._live.update(self._drawn(snapshot), refresh=True)

    def _drawn(self, snapshot: Snapshot) -> RenderableType:
        table = Table.grid(padding=(0, 2), expand=True)
        for justify in _JUSTIFIED:
            table.add_column(justify=justify, no_wrap=True)
        table.add_column(no_wrap=True, ratio=1)
        rows = [(one, received) for one in snapshot.moving for received in one.received or (None,)]
        room = max(1, min(_MOST_ROWS, self._console.size.height - _OTHER_LINES))
        for one, received in rows[:room]:
            table.add_row(*self._row(one, received))
        if len(rows) > room:
            table.add_row(Text(f"… and {len(rows) - room} more", style="dim"))
        done = len(snapshot.ended)
        table.add_row(
            Text(f"{done} of {snapshot.moves} done", style="bold"),
            ProgressBar(total=max(1, snapshot.total_bytes), completed=_filled(snapshot), width=_BAR),
            _percent(_filled(snapshot), max(1, snapshot.total_bytes)),
            f"{decimal(snapshot.copied_bytes)} of {decimal(snapshot.total_bytes)}",
            _rate(snapshot.bytes_per_second),
            _left(snapshot.remaining_seconds) if snapshot.moving else "",
        )
        note = (Text(self._note, style="dim"),) if self._note else ()
        return Group(table, *note)

    def _row(self, one: Moving, received: ReplicaProgress | None) -> tuple[RenderableType, ...]:
        comes_nearer = received is not None and received.bytes_per_second
        trouble = (received.error if received else None) or (None if comes_nearer else one.waits_for)
        about = Text(trouble or one.stage, style="yellow" if trouble else "dim", overflow="ellipsis")
        if received is None:
            return (f"{one.at} → {listed(one.move.target)}", "", "", "", "", "", about)
        copied, total = received.copied_bytes, received.total_bytes
        known = copied is not None and total is not None
        return (
            f"{one.at} → {received.broker}",
            ProgressBar(total=max(1, total or 0), completed=_full(copied, total), width=_BAR, pulse=not known),
            _percent(_full(copied, total), max(1, total or 0)) if known else "",
            f"{decimal(copied or 0)} of {decimal(total or 0)}" if known else "",
            _rate(received.bytes_per_second),
            _left(received.remaining_seconds),
            about,
        )


class Lines:
    """Elsewhere: a line for each move that ended, and one for all the others together."""

    def __init__(self) -> None:
        self._told: set[Ended] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, snapshot: Snapshot) -> None:
        """What is new, then the sum."""
        for ended in snapshot.ended:
            if ended not in self._told:
                self._told.add(ended)
                click.echo(ended_sentence(ended))
        if snapshot.moving:
            click.echo(summary(snapshot))
            for one in snapshot.moving:
                if one.waits_for:
                    click.echo(f"  {one.at}: {one.stage}: {one.waits_for}")


class Documents:
    """For programs: one JSON object a snapshot, each on a line of its own."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def show(self, snapshot: Snapshot) -> None:
        """One line."""
        click.echo(json.dumps(snapshot_document(snapshot)))


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as the value of its JSON."""
    return {
        "at": datetime.now().astimezone().isoformat(timespec="milliseconds"),
        "is_done": snapshot.is_over,
        "copied_bytes": snapshot.copied_bytes,
        "total_bytes": snapshot.total_bytes,
        "bytes_per_second": snapshot.bytes_per_second,
        "remaining_seconds": snapshot.remaining_seconds,
        "moving": [
            as_document(one.at, one.move)
            | {
                "stage": one.stage,
                "waits_for": one.waits_for,
                "received": msgspec.to_builtins(one.received),
            }
            for one in snapshot.moving
        ],
        "ended": [
            {
                "topic": ended.at.topic,
                "partition": ended.at.partition,
                "is_complete": ended.is_complete,
                "replicas": list(ended.replicas),
                "target": list(ended.target),
            }
            for ended in snapshot.ended
        ],
    }


def summary(snapshot: Snapshot) -> str:
    """All moves in one line."""
    parts = [
        f"{len(snapshot.ended)} of {snapshot.moves} done",
        f"{decimal(snapshot.copied_bytes)} of {decimal(snapshot.total_bytes)}"
        f" ({_percent(_filled(snapshot), max(1, snapshot.total_bytes))})",
    ]
    if snapshot.bytes_per_second is not None:
        parts.append(_rate(snapshot.bytes_per_second))
    if snapshot.remaining_seconds is not None:
        parts.append(f"{_left(snapshot.remaining_seconds)} left")
    return ", ".join(parts)


def ended_sentence(ended: Ended) -> str:
    """How one move ended."""
    if ended.is_complete:
        return f"Reassignment of partition {ended.at} is completed."
    if not ended.replicas:
        return f"Reassignment of partition {ended.at} has ended: the partition does not exist any more."
    return (
        f"Reassignment of partition {ended.at} has ended, but replica set is {listed(ended.replicas)} rather than "
        f"{listed(ended.target)}."
    )


def duration(seconds: float) -> str:
    """Two units are enough.

    >>> duration(4.2), duration(80), duration(7500), duration(200_000)
    ('5 s', '1 min 20 s', '2 h 5 min', '2 d 7 h')
    """
    whole = int(-(-seconds // 1))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def _full(copied: int | None, total: int | None) -> int:
    """A replica with nothing to copy is whole."""
    return 1 if total == 0 else min(copied or 0, total or 0)


def _filled(snapshot: Snapshot) -> int:
    if snapshot.total_bytes:
        return snapshot.copied_bytes
    return 0 if snapshot.moving else 1


def _percent(copied: int, total: int) -> str:
    return f"{100 * copied // total}%"


def _rate(bytes_per_second: float | None) -> str:
    return "" if bytes_per_second is None else f"{decimal(int(bytes_per_second))}/s"


def _left(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)

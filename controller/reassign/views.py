"""How are moves shown while they go on: as bars, as lines, as JSON?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol, Self

import click
import msgspec
from rich.console import Console, Group, JustifyMethod, OverflowMethod, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from controller.reassign.listing import as_document
from controller.reassign.outlook import NOT_KNOWN_YET, is_unknown_yet, outlook
from controller.reassign.plans import listed
from controller.reassign.progress import Ended, Moving, Snapshot
from zk_layout.ids import TopicPartition
from zk_layout.znodes.reassignment_status import ReplicaProgress

_BAR = 24
_GAP = 2
_OTHER_LINES = 5
_MOST_ROWS = 40
_MOST_REASONS = 5
_NAME, _ABOUT = 0, 6
_LEAST_NAME, _ABOUT_WIDTH = 20, 12
_JUSTIFIED: tuple[JustifyMethod, ...] = ("left", "left", "right", "right", "right", "right", "left")
_LEFT_OUT_FIRST = (1, 4, 3, 5)
"""The bar, the rate, the bytes, the time left."""

_Row = tuple[Text, ProgressBar | Text, Text, Text, Text, Text, Text]


class View(Protocol):
    """Opened before the first snapshot, closed after the last one."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, snapshot: Snapshot) -> None:
        """Show the moves at one moment."""


class Bars:
    """On a terminal: a bar for each receiving replica and one for all, redrawn in place."""

    def __init__(self, console: Console, note: str | None) -> None:
        """`note` is shown below the bars."""
        self._console = console
        self._note = note
        self._live = Live(console=console, auto_refresh=False, transient=False)
        self._shown: set[Ended] = set()
        is_plain = console.options.ascii_only
        self._arrow, self._more = ("->", "...") if is_plain else ("→", "…")
        self._overflow: OverflowMethod = "crop" if is_plain else "ellipsis"

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._live.__exit__(*raised)

    def show(self, snapshot: Snapshot) -> None:
        """Redraw. Above it, a line stays for each move that ended without its target replicas."""
        for ended in snapshot.ended:
            if not ended.is_complete and ended not in self._shown:
                self._shown.add(ended)
                self._console.print(Text(ended_sentence(ended), style="yellow"))
        self._live.update(self._drawn(snapshot), refresh=True)

    def _drawn(self, snapshot: Snapshot) -> RenderableType:
        rows = [self._row(one, received) for one in snapshot.moving for received in one.received or (None,)]
        total = max(1, snapshot.total_bytes)
        last: _Row = (
            Text(f"{snapshot.completed} of {snapshot.moves} done", style="bold"),
            ProgressBar(total=total, completed=_filled(snapshot), width=_BAR),
            Text(_percent(_filled(snapshot), total)),
            Text(f"{decimal(snapshot.copied_bytes)} of {decimal(snapshot.total_bytes)}"),
            Text(_rate(snapshot.bytes_per_second)),
            Text(_left(snapshot.remaining_seconds) if snapshot.moving else ""),
            Text(""),
        )
        table, columns, lines = _table([*rows, last], self._console.width)
        room = max(1, min(_MOST_ROWS, self._console.size.height - _OTHER_LINES) // lines)
        for row in rows[:room]:
            table.add_row(*(row[column] for column in columns))
        if len(rows) > room:
            table.add_row(Text(f"{self._more} and {len(rows) - room} more", style="dim"))
        table.add_row(*(last[column] for column in columns))
        notes = [Text(_missed(snapshot), style="yellow")] if snapshot.missed else []
        notes += [Text(sentence, style="yellow") for sentence in outlook(snapshot)[:_MOST_REASONS]]
        notes += [Text(_waiting(snapshot), style="dim")] if snapshot.waiting else []
        notes += [Text(NOT_KNOWN_YET, style="dim")] if is_unknown_yet(snapshot) else []
        notes += [Text(self._note, style="dim")] if self._note else []
        return Group(table, *notes)

    def _row(self, one: Moving, received: ReplicaProgress | None) -> _Row:
        comes_nearer = received is not None and received.bytes_per_second
        trouble = (received.error if received else None) or (None if comes_nearer else one.waits_for)
        about = Text(trouble or one.stage, style="yellow" if trouble else "dim", overflow=self._overflow)
        if received is None:
            name = Text(f"{one.at} {self._arrow} {listed(one.move.target)}")
            return (name, Text(""), Text(""), Text(""), Text(""), Text(""), about)
        copied, total = received.copied_bytes, received.total_bytes
        known = copied is not None and total is not None
        return (
            Text(f"{one.at} {self._arrow} {received.broker}"),
            ProgressBar(total=max(1, total or 0), completed=_full(copied, total), width=_BAR, pulse=not known),
            Text(_percent(_full(copied, total), max(1, total or 0)) if known else ""),
            Text(f"{decimal(copied or 0)} of {decimal(total or 0)}" if known else ""),
            Text(_rate(received.bytes_per_second)),
            Text(_left(received.remaining_seconds)),
            about,
        )


def _table(rows: Sequence[_Row], width: int) -> tuple[Table, Sequence[int], int]:
    """An empty table for these rows, the columns that it has, and the most lines of a name.

    A name is what tells a row from others: where a terminal is narrow, other columns are left out, the bars first. A
    name that is wider than the rest leaves room for goes on in the next line.
    """
    widths = [
        max(cell.cell_len if isinstance(cell, Text) else _BAR for cell in column) for column in zip(*rows, strict=True)
    ]
    longest, widths[_ABOUT] = widths[_NAME], _ABOUT_WIDTH
    columns = list(range(len(widths)))
    for dispensable in _LEFT_OUT_FIRST:
        if sum(widths[column] + _GAP for column in columns) - _GAP > width:
            columns.remove(dispensable)
    others = sum(widths[column] + _GAP for column in columns if column != _NAME)
    name = max(_LEAST_NAME, min(longest, width - others))
    table = Table.grid(padding=(0, _GAP), expand=True)
    for column in columns:
        if column == _NAME:
            table.add_column(width=name, overflow="fold")
        else:
            table.add_column(justify=_JUSTIFIED[column], no_wrap=True, ratio=1 if column == _ABOUT else None)
    return table, columns, -(-longest // name)


class Lines:
    """Elsewhere: a line for each move that ended, and one for all the others together."""

    def __init__(self) -> None:
        self._shown: set[Ended] = set()
        self._waiting: dict[str, list[TopicPartition]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, snapshot: Snapshot) -> None:
        """Print what is new, then the sum; what moves wait for only where that has changed."""
        for ended in snapshot.ended:
            if ended not in self._shown:
                self._shown.add(ended)
                click.echo(ended_sentence(ended))
        if snapshot.moving:
            click.echo(summary(snapshot))
        sentences = outlook(snapshot)
        for sentence in sentences[:_MOST_REASONS]:
            click.echo(f"  {sentence}")
        if len(sentences) > _MOST_REASONS:
            click.echo(f"  and {len(sentences) - _MOST_REASONS} more brokers like these: --output json names them")
        waiting: dict[str, list[TopicPartition]] = {}
        for one in snapshot.moving:
            if one.waits_for:
                waiting.setdefault(f"{one.stage}: {one.waits_for}", []).append(one.at)
        news = [reason for reason in waiting if waiting[reason] != self._waiting.get(reason)]
        for reason in news[:_MOST_REASONS]:
            first, *others = waiting[reason]
            more = f" and {len(others)} more" if others else ""
            click.echo(f"  {first}{more}: {reason}")
        if len(news) > _MOST_REASONS:
            moves = sum(len(waiting[reason]) for reason in news[_MOST_REASONS:])
            click.echo(f"  {moves} more wait for other reasons: --list names them")
        self._waiting = waiting


class Documents:
    """For programs: one JSON object a snapshot, each on a line of its own."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
        "is_remaining_unknown_yet": is_unknown_yet(snapshot),
        "outlook": outlook(snapshot),
        "receiving": [
            {
                "broker": one.broker,
                "gap_bytes": one.gap_bytes,
                "closing_bytes_per_second": one.closing,
                "new_bytes_per_second": one.inflow,
                "throttle_bytes_per_second": snapshot.throttles.get(one.broker),
                "remaining_seconds": one.remaining_s,
            }
            for one in snapshot.receiving
        ],
        "waiting": snapshot.waiting,
        "moving": [
            as_document(one.at, one.move)
            | {
                "stage": one.stage,
                "waits_for": one.waits_for,
                "received": [
                    msgspec.to_builtins(replica) | {"lag_records": _lag(one, replica)} for replica in one.received
                ],
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


def _lag(one: Moving, replica: ReplicaProgress) -> int | None:
    lag = one.lags.get(replica.broker)
    return None if lag is None else lag.lacking


def summary(snapshot: Snapshot) -> str:
    """All moves in one line."""
    parts = [
        f"{snapshot.completed} of {snapshot.moves} done",
        *([_missed(snapshot)] if snapshot.missed else []),
        f"{decimal(snapshot.copied_bytes)} of {decimal(snapshot.total_bytes)}"
        f" ({_percent(_filled(snapshot), max(1, snapshot.total_bytes))})",
    ]
    if snapshot.bytes_per_second is not None:
        parts.append(_rate(snapshot.bytes_per_second))
    if snapshot.remaining_seconds is not None:
        parts.append(f"{_left(snapshot.remaining_seconds)} left")
    elif is_unknown_yet(snapshot):
        parts.append("time left not known yet")
    if snapshot.waiting:
        parts.append(_waiting(snapshot))
    return ", ".join(parts)


def _missed(snapshot: Snapshot) -> str:
    return f"{snapshot.missed} ended without the target replicas"


def _waiting(snapshot: Snapshot) -> str:
    return f"{snapshot.waiting} wait and are not in these figures"


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
    """A duration in its two largest units.

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
    """The percentage copied; a replica with nothing to copy is complete."""
    return 1 if total == 0 else min(copied or 0, total or 0)


def _filled(snapshot: Snapshot) -> int:
    if snapshot.total_bytes:
        return snapshot.copied_bytes
    return 0 if snapshot.moving or snapshot.missed else 1


def _percent(copied: int, total: int) -> str:
    return f"{100 * copied // total}%"


def _rate(bytes_per_second: float | None) -> str:
    return "" if bytes_per_second is None else f"{decimal(int(bytes_per_second))}/s"


def _left(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)

"""How is a plan shown: what moves, how long it takes, and what every broker has before and after?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from rich.filesize import decimal

from controller.reassign.planning.layout import Layout
from controller.reassign.planning.planner import Change, Planned
from controller.reassign.plans import listed, plural
from controller.reassign.views import duration
from zk_layout.ids import BrokerId

MOST_SHOWN = 20


class Pace(Struct, frozen=True):
    """How fast replicas are copied; None: not said.

    Units:
        `throttle` in bytes a second of a receiving broker; `moves` is how many partitions move at a time.
    """

    throttle: int | None = None
    moves: int | None = None


def seconds(planned: Planned, pace: Pace) -> float | None:
    """How long copying takes at least: of the broker that receives most, or of all where few partitions move at a time.

    Units:
        Seconds. Data that comes meanwhile is not in it.
    """
    if pace.throttle is None:
        return None
    received = received_bytes(planned)
    longest = max(received.values(), default=0) / pace.throttle
    if pace.moves is None:
        return longest
    together = min(pace.moves, max(1, len(received)))
    return max(longest, sum(received.values()) / (pace.throttle * together))


def received_bytes(planned: Planned) -> Counter[BrokerId]:
    """What each broker has to copy."""
    received: Counter[BrokerId] = Counter()
    for change in planned.changes:
        for broker in change.adding:
            received[broker] += change.size_bytes
    return received


def lines(planned: Planned, layout: Layout, goal: str, pace: Pace) -> Iterator[str]:
    """The plan for people."""
    if not planned.changes:
        yield f"{goal}: nothing has to change"
    else:
        yield f"{goal}: {_what(planned)}"
        yield from _times(planned, pace)
    yield ""
    yield from _table(planned, layout)
    if planned.changes:
        yield ""
        yield from _moves(planned)


def document(planned: Planned, layout: Layout, pace: Pace) -> dict[str, Any]:
    """The plan for programs."""
    received = received_bytes(planned)
    return {
        "moved_bytes": planned.moved_bytes,
        "least_bytes": planned.least_bytes,
        "seconds": seconds(planned, pace),
        "brokers": [
            {
                "broker": broker,
                "rack": layout.racks.get(broker),
                "replicas": [before.replicas, planned.after[broker].replicas],
                "bytes": [before.size_bytes, planned.after[broker].size_bytes],
                "preferred_leaders": [before.leaders, planned.after[broker].leaders],
                "received_bytes": received[broker],
            }
            for broker, before in planned.before.items()
        ],
        "moves": [
            {
                "topic": change.at.topic,
                "partition": change.at.partition,
                "before": list(change.before),
                "after": list(change.after),
                "size_bytes": change.size_bytes,
            }
            for change in planned.changes
        ],
        "outside": list(planned.outside),
        "unspread": [str(at) for at in planned.unspread],
    }


def _what(planned: Planned) -> str:
    copies = sum(len(change.adding) for change in planned.changes)
    topics = len({change.at.topic for change in planned.changes})
    of = f"{_count(len(planned.changes), 'partition')} of {_count(topics, 'topic')}"
    if not copies:
        return f"reorders or removes replicas of {of}, and copies nothing"
    least = f"no plan can do with less than {decimal(planned.least_bytes)}"
    if planned.moved_bytes <= planned.least_bytes:
        least = "no plan can do with less"
    return f"moves {decimal(planned.moved_bytes)} in {_count(copies, 'replica')} of {of}; {least}"


def _times(planned: Planned, pace: Pace) -> Iterator[str]:
    received = received_bytes(planned)
    if not received:
        return
    most, size = min(received.items(), key=lambda entry: (-entry[1], entry[0]))
    takes = seconds(planned, pace)
    if takes is None or pace.throttle is None:
        yield f"broker {most} receives most, {decimal(size)}; --throttle shows how long that takes"
        return
    limits = f", {pace.moves} partitions at a time" if pace.moves is not None else ""
    yield (
        f"takes {duration(takes)} at {decimal(pace.throttle)}/s a receiving broker{limits}, and longer while new data "
        f"comes; broker {most} receives most, {decimal(size)}"
    )


def _table(planned: Planned, layout: Layout) -> Iterator[str]:
    rows = [("broker", "rack", "replicas", "bytes", "preferred leader of")]
    for broker, before in planned.before.items():
        after = planned.after[broker]
        rack = layout.racks[broker] or "-" if broker in layout.racks else "(away)"
        rows.append(
            (
                str(broker),
                rack,
                _change(str(before.replicas), str(after.replicas)),
                _change(decimal(before.size_bytes), decimal(after.size_bytes)),
                _change(str(before.leaders), str(after.leaders)),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _moves(planned: Planned) -> Iterator[str]:
    for change in planned.changes[:MOST_SHOWN]:
        yield f"{change.at}: {listed(change.before)} -> {listed(change.after)}{_size(change)}"
    if len(planned.changes) > MOST_SHOWN:
        yield f"... and {len(planned.changes) - MOST_SHOWN} more: --output json and the file have all"


def _size(change: Change) -> str:
    return f"  ({decimal(change.size_bytes)} each)" if change.adding else "  (copies nothing)"


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def outside_sentence(outside: tuple[BrokerId, ...], slack: float) -> str:
    """What a plan does not reach."""
    return (
        f"not within {slack:.0%} of the fair share: broker{plural(outside)} {listed(outside)}; racks, large partitions "
        "or --topic may stand in the way"
    )

"""Will the moves be done at this rate? What stands in the way, in numbers."""

from __future__ import annotations

from collections.abc import Iterator

from rich.filesize import decimal

from controller.core.progress.closing import WINDOW_S, Receiving
from controller.reassign.progress import Snapshot
from zk_layout.ids import BrokerId

NOT_KNOWN_YET = f"time left not known yet: it takes {WINDOW_S:.0f} s of copying"
_AT_THROTTLE = 0.7, 1.3
"""The share of its throttle that a broker copies on average where the throttle is what limits it."""


def in_doubt(snapshot: Snapshot) -> list[BrokerId]:
    """The brokers where new data takes most of what is copied: their throttles are worth a question."""
    return [one.broker for one in snapshot.receiving if _is_in_doubt(one)]


def outlook(snapshot: Snapshot) -> list[str]:
    """One sentence for each broker that will not have everything, or late because of new data."""
    return list(_sentences(snapshot))


def is_unknown_yet(snapshot: Snapshot) -> bool:
    """Whether the time left is not known because too little was measured, and not because there is no end."""
    if snapshot.remaining_seconds is not None or any(r.error for one in snapshot.moving for r in one.received):
        return False
    if snapshot.receiving:
        return any(one.gap_bytes and one.closing is None for one in snapshot.receiving)
    return any(one.has_begun and one.move.adding for one in snapshot.moving)


def _is_in_doubt(one: Receiving) -> bool:
    copying, inflow = one.copying, one.inflow
    return bool(one.gap_bytes and copying and inflow is not None and (one.is_hopeless or 2 * inflow >= copying))


def _sentences(snapshot: Snapshot) -> Iterator[str]:
    for one in snapshot.receiving:
        copying, inflow, closing = one.copying, one.inflow, one.closing
        if copying is None or inflow is None or closing is None:
            continue
        throttle = snapshot.throttles.get(one.broker)
        least, most = _AT_THROTTLE
        is_throttled = throttle is not None and least * throttle <= copying <= most * throttle
        if _is_in_doubt(one) and throttle is not None and is_throttled:
            yield _throttled(one, throttle, inflow)
        elif one.is_hopeless and copying:
            yield (
                f"broker {one.broker} copies {_rate(copying)} while new data comes at {_rate(inflow)}: "
                "at this rate it will not finish"
            )


def _throttled(one: Receiving, throttle: int, inflow: float) -> str:
    taken = min(inflow, throttle)
    said = f"the throttle of broker {one.broker} is {_rate(throttle)}, {_rate(taken)} of which new data takes"
    if one.is_hopeless:
        return f"{said}: this will not finish; set a throttle well above {_rate(inflow)}"
    return said


def _rate(bytes_per_second: float) -> str:
    return f"{decimal(int(bytes_per_second))}/s"

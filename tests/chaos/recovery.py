"""When has a cluster recovered from a strike?"""

from __future__ import annotations

import time

from msgspec import Struct

from tests.chaos.churn import Churn
from tests.chaos.load import Load
from tests.chaos.stage import Stage
from tests.chaos.topics_seen import TopicsSeen

_LOOK_EVERY_S = 0.5


class Recovery(Struct, frozen=True):
    """A cluster's recovery.

    Units:
        Seconds since healing; None if it did not recover in time.

    Shape:
        `missing` says what was wrong at the end; `restarted` are processes that ended by themselves.
    """

    seconds: float | None
    missing: str
    restarted: tuple[str, ...]


def await_recovery(stage: Stage, load: Load, churn: Churn, within_s: float) -> Recovery:
    """Wait until all partitions are written to, all replicas are in sync, and nothing moves or is to be deleted.

    A process that ends by itself is started again, as a service manager does.
    """
    since = time.monotonic()
    restarted: list[str] = []
    while True:
        restarted += _start_what_ended(stage)
        missing = _missing(stage, load, since)
        now = time.monotonic()
        if not missing:
            churn.look()
            return Recovery(round(now - since, 2), "", tuple(restarted))
        if now - since > within_s:
            return Recovery(None, f"after {within_s:.0f} s {missing}", tuple(restarted))
        time.sleep(_LOOK_EVERY_S)


def _start_what_ended(stage: Stage) -> list[str]:
    ended = [member for member in stage.members if not member.process.is_alive]
    names = [member.how_it_ended for member in ended]
    for member in ended:
        member.spawn()
    for member in ended:
        member.start_again()
    return names


def _missing(stage: Stage, load: Load, since: float) -> str:
    leader = stage.leader()
    if leader is None:
        return "/controller is vacant"
    if stage.controllers and leader not in stage.controllers:
        return f"{leader.name} is the controller, and none of ours"
    silent = [f"{topic}-{p}" for (topic, p), silences in load.silences.items() if silences.last < since]
    if silent:
        return f"nothing is acknowledged in {', '.join(silent)}"
    unsettled = list(TopicsSeen.of(stage).unsettled(stage))
    return "; ".join(unsettled[:5]) + (f"; and {len(unsettled) - 5} more" if len(unsettled) > 5 else "")

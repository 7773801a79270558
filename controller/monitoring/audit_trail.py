"""Who asked the controller for what, and what came of it? The audit trail: log lines at info.

The machine reports outcomes (`Recorded`); requests are followed here from arrival to answer. Lines of a kind are
limited per second, and the rest are summed up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import structlog

from controller.core.messages import requests
from controller.core.messages.effects import Answer, Effect, Recorded
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked, CallId, Event
from controller.core.messages.replies import ReassignmentsAltered, Reply
from controller.runtime.pump import Took
from controller.wire.apis import CHANGES, requests_of
from zk_layout.ids import TopicPartition

MOST_A_SECOND = 5
MOST_NAMED = 5
REQUEST = "request"

_ADMIN = requests_of(CHANGES)
_log = structlog.get_logger(__name__)
_PLURALS = {"election": "elections", "move": "changes of moves", "topic": "changes of topics", REQUEST: "requests"}


class Timer(Protocol):
    """A timer that can be cancelled: `asyncio.TimerHandle`."""

    def cancel(self) -> None:
        """Do not fire."""


Ring = Callable[[float, Callable[[], None]], Timer]


class AuditTrail:
    """The audit trail of one term. Observes its turns and carries out `Recorded`."""

    def __init__(self, ring: Ring) -> None:
        """`ring` calls back after the given seconds: `loop.call_later`."""
        self._ring = ring
        self._asked: dict[CallId, Asked] = {}
        self._said: Counter[str] = Counter()
        self._unsaid: Counter[str] = Counter()
        self._timer: Timer | None = None

    def turned(self, now: float, events: Sequence[Event], effects: Sequence[Effect], took: Took, left: int) -> None:  # noqa: ARG002 (what was asked and answered is enough)
        """Note requests that arrived and answers that were given."""
        for event in events:
            if isinstance(event, Asked) and isinstance(event.request, _ADMIN):
                self._asked[event.call] = event
        if not self._asked:
            return
        for effect in effects:
            if isinstance(effect, Answer) and (asked := self._asked.pop(effect.call, None)) is not None:
                self._say(REQUEST, (request_line(asked, effect.reply),), 1)

    def record(self, recorded: Recorded) -> None:
        """Record one change."""
        self._say(recorded.record, recorded.lines, recorded.count)

    def close(self) -> None:
        """The term is over: log the remainder, and the requests without an answer."""
        for asked in self._asked.values():
            self._say(REQUEST, (f"{_asking(asked)}: not answered before the end of the term",), 1)
        self._asked.clear()
        self._sum_up()

    def _say(self, record: str, lines: Iterable[str], count: int) -> None:
        for line in lines:
            if self._said[record] < MOST_A_SECOND:
                self._said[record] += 1
                count -= 1
                _log.info(line, record=record)
        self._unsaid[record] += count
        if self._timer is None:
            self._timer = self._ring(1.0, self._sum_up)

    def _sum_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        for record, count in self._unsaid.items():
            if count:
                _log.info(f"{count} more {_PLURALS[record]} within a second", record=record)
        self._said.clear()
        self._unsaid.clear()


def request_line(asked: Asked, reply: Reply) -> str:
    """One log line for a request: what was asked, by whom, and the outcome. Of very many parts only the first are
    named."""
    return f"{_asking(asked)}: {_outcome(reply)}"


def _asking(asked: Asked) -> str:
    request, caller = asked.request, asked.caller
    parts = _parts(request)
    named = [_name(part) for part in parts[:MOST_NAMED]]
    if len(parts) > MOST_NAMED:
        named.append(f"{len(parts) - MOST_NAMED} more")
    if getattr(request, "is_validation_only", False):
        named.append("validation only")
    client = f" with client id {caller.client_id!r}" if caller.client_id else ""
    return f"{type(request).__name__}({', '.join(named)}) by {caller.principal} at {caller.address}{client}"


def _outcome(reply: Reply) -> str:
    whole = getattr(reply, "error", ErrorCode.NONE)
    if whole is not ErrorCode.NONE:
        return _refused(whole, getattr(reply, "message", None))
    results = getattr(reply, "results", ())
    failed = [result for result in results if result.error is not ErrorCode.NONE]
    number = f", request id {reply.request_id}" if isinstance(reply, ReassignmentsAltered) and reply.request_id else ""
    if not failed:
        return f"done{number}"
    first = f"{_name(failed[0])}: {_refused(failed[0].error, failed[0].message)}"
    if len(results) == 1:
        return first
    return f"{len(results) - len(failed)} done{number}, {len(failed)} not; {first}"


def _refused(error: ErrorCode, message: str | None) -> str:
    return f"{error.name} ({message})" if message else error.name


def _parts(request: requests.Request) -> Sequence[object]:
    match request:
        case (
            requests.AlterReassignments(parts)
            | requests.CreateTopics(parts)
            | requests.DeleteTopics(parts)
            | requests.CreatePartitions(parts)
        ):
            return parts
        case requests.UpdateFeatures(parts) | requests.CreateAcls(parts) | requests.DeleteAcls(parts):
            return parts
        case requests.ElectLeaders(parts):
            return ("all partitions",) if parts is None else parts
        case requests.AlterScramCredentials():
            return request.parts
        case _:
            return ()


def _name(part: object) -> str:
    """The resource that a part of a request or answer concerns."""
    if isinstance(part, TopicPartition):
        return str(part)
    for attribute in ("topic_partition", "name", "topic", "topic_id", "user", "feature"):
        if (name := getattr(part, attribute, None)) is not None:
            return str(name)
    return str(part)

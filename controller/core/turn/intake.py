"""May a request be considered now, and how long does its caller wait for an answer?

Every request from the network is judged here first: by its caller's rights, by whether everything is loaded yet, and
finally by its timeout.

Source: KIP-455: `TimeoutMs`, "The time in ms to wait for the request to complete", and REQUEST_TIMED_OUT; Kafka's own
controller ignores both (KAFKA-8873).
"""

from __future__ import annotations

import heapq

from controller.core.clients import authorization
from controller.core.clients.outcomes import BrokersHadTime
from controller.core.clients.refusal import refusal
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged, Alarm, Asked, CallId
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import Reply
from controller.core.messages.requests import Request
from controller.core.scheduling.quarantine import described
from controller.core.state.changes import Changes
from controller.core.turn.duty import Duty, Report
from controller.core.turn.shared import Shared


class RequestDeadline(Alarm, frozen=True):
    """The timeout of the oldest waiting request is over; one alarm serves all requests."""


class NoTimeGiven(Alarm, frozen=True):
    """A client does not want to wait for the outcome of its request about topics."""

    call: CallId


class Intake(Duty):
    """The requests of a term from arrival to answer or timeout."""

    alarms = (RequestDeadline, NoTimeGiven, BrokersHadTime)

    def __init__(self, shared: Shared, unanswered: dict[CallId, Request]) -> None:
        """Begin without requests. The outbox removes a request from `unanswered` when it answers it."""
        self._shared = shared
        self._unanswered = unanswered
        self._arrived: dict[CallId, Asked] = {}
        self._deadlines: list[tuple[float, CallId]] = []
        self._alarm: float | None = None

    # ---- arrival --------------------------------------------------------------------------------------------

    def receive(self, asked: Asked, out: Outbox) -> None:
        """Queue a request until everything is loaded and known facts have been followed."""
        self._unanswered[asked.call] = asked.request
        self._arrived[asked.call] = asked
        timeout_ms = getattr(asked.request, "timeout_ms", 0)
        if timeout_ms > 0:
            heapq.heappush(self._deadlines, (out.now + timeout_ms / 1000, asked.call))
            self._set_alarm(out)

    def take(self, out: Outbox) -> list[Asked]:
        """Take the requests to consider now; refuse those whose caller lacks the rights."""
        arrived, self._arrived = self._arrived, {}
        allowed = []
        for asked in arrived.values():
            decisions = self._shared.decisions_on(asked)
            try:
                refused = authorization.refuse(asked.request, decisions.may)
            except Exception as error:  # without a decision there is no right
                refused = self._failed(asked, described(error), out)
            out.decided(decisions.logged())
            if refused is None:
                allowed.append(asked)
            else:
                out.answer(asked.call, refused)
        return allowed

    def admit_to(self, duty: Duty, asked: Asked, out: Outbox) -> None:
        """Hand a request to its duty. If that fails, the request alone gets an error answer."""
        try:
            duty.admit(asked, out)
        except Exception as error:
            reply = self._failed(asked, described(error), out)
            self._shared.requests.drop(asked.call)
            out.answer(asked.call, reply)
        else:
            self._shared.quarantine.release(_what(asked))

    def _failed(self, asked: Asked, why: str, out: Outbox) -> Reply:
        self._shared.quarantine.put(_what(asked), why, out)
        return refusal(asked.request, ErrorCode.UNKNOWN_SERVER_ERROR, why)

    # ---- outcome --------------------------------------------------------------------------------------------

    def hear(self, report: Report, out: Outbox) -> None:
        """Note a broker's acknowledgement that a client may wait for."""
        if isinstance(report, Acknowledged):
            self._shared.outcomes.hear(report, out)

    def announce(self, changes: Changes, out: Outbox) -> None:
        """Answer requests once the brokers know the outcome."""
        self._shared.outcomes.look(changes, out)

    # ---- time -----------------------------------------------------------------------------------------------

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Answer requests whose timeout is over; their writes may still succeed in ZooKeeper."""
        match alarm:
            case RequestDeadline():
                self._alarm = None
                while self._deadlines and self._deadlines[0][0] <= out.now:
                    self._give_up(heapq.heappop(self._deadlines)[1], out)
                self._set_alarm(out)
            case NoTimeGiven(call):
                self._give_up(call, out)
            case BrokersHadTime(call):
                self._shared.outcomes.stop_waiting(call, out)
            case _:
                raise TypeError(f"{alarm} is not set here")

    def _set_alarm(self, out: Outbox) -> None:
        while self._deadlines and self._deadlines[0][1] not in self._unanswered:
            heapq.heappop(self._deadlines)
        if self._deadlines and (self._alarm is None or self._deadlines[0][0] < self._alarm):
            self._alarm = self._deadlines[0][0]
            out.wake(RequestDeadline(), self._alarm)

    def _give_up(self, call: CallId, out: Outbox) -> None:
        arrived = self._arrived.pop(call, None)
        if arrived is not None:
            out.answer(call, refusal(arrived.request, ErrorCode.REQUEST_TIMED_OUT))
            return
        self._shared.outcomes.give_up(call, out)
        self._shared.requests.give_up(call, out)


def _what(asked: Asked) -> str:
    return f"a {type(asked.request).__name__} request"

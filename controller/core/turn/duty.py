"""What is a duty of the controller? Which calls does it get?

A duty has its own folder or module and one line in `duties.py`. The machine knows it only by this protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from controller.core.messages.events import (
    Acknowledged,
    Alarm,
    Asked,
    BrokerConfigDescribed,
    ClockShown,
    DisksDescribed,
    LogDirsDescribed,
    LogEndsDescribed,
    Surveyed,
)
from controller.core.messages.outbox import Outbox
from controller.core.messages.requests import Request
from controller.core.settings import MachineSettings
from controller.core.state.changes import Changes, OpenChanges
from controller.core.transactions.proposal import Outcome, Proposal

Report = (
    Acknowledged | LogDirsDescribed | DisksDescribed | BrokerConfigDescribed | LogEndsDescribed | Surveyed | ClockShown
)


class Duty:
    """A duty that does nothing; duties override what concerns them.

    Shape:
        `alarms` are the alarm types it sets, `requests` the request types it serves; no other duty has the same.
    """

    alarms: ClassVar[tuple[type[Alarm], ...]] = ()
    requests: ClassVar[tuple[type[Request], ...]] = ()

    def hear(self, report: Report, out: Outbox) -> None:
        """A broker answered, or a requested reading arrived."""

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Consider an authorized request of a type this duty serves."""

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """One of the duty's own alarms rang."""

    def adjust(self, before: MachineSettings, out: Outbox) -> None:
        """The settings have changed; `before` are the former ones. Called only once everything is loaded."""

    def retract(self, changes: OpenChanges, out: Outbox) -> None:
        """Remove from the changes what is no real change."""

    def amend(self, changes: OpenChanges, out: Outbox) -> None:
        """Add to the changes what must be examined again."""

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Take in changed facts. No broker has been informed of them yet."""

    def announce(self, changes: Changes, out: Outbox) -> None:
        """Announce changes to the brokers: every duty has followed."""

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Propose writes, once brokers are informed; none about a subject that is under way."""
        return ()

    def drain(self, out: Outbox) -> Sequence[Proposal]:
        """Propose, while the term is being given up, the writes that a caller still waits for."""
        return ()

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """Take the outcome of one of its proposals; the facts have been folded."""

    def retry(self, proposal: Proposal, out: Outbox) -> None:
        """The wait after too many refusals is over."""

    def held_up(self) -> tuple[str, ...]:
        """What in the cluster keeps its work from beginning, in sentences."""
        return ()

    def figures(self) -> dict[str, float]:
        """Its current gauges, by measure."""
        return {}


def overriding(duties: Iterable[Duty], *calls: str) -> tuple[Duty, ...]:
    """The duties that override any of these calls, in their order: the others do nothing there.

    >>> class Listener(Duty):
    ...     def hear(self, report, out): ...
    >>> listener = Listener()
    >>> overriding([Duty(), listener], "hear", "propose") == (listener,)
    True
    """
    return tuple(duty for duty in duties if any(_overrides(duty, call) for call in calls))


def _overrides(duty: Duty, call: str) -> bool:
    return getattr(getattr(duty, call), "__func__", None) is not getattr(Duty, call)

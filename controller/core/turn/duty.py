"""What is a duty of the controller? What it is told, and what it is asked.

A duty has a folder or module of its own and one line in `duties.py`. The machine knows it by this protocol only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from controller.core.messages.events import Acknowledged, Alarm, Asked, ClockShown, LogDirsDescribed, Surveyed
from controller.core.messages.outbox import Outbox
from controller.core.messages.requests import Request
from controller.core.state.changes import Changes, OpenChanges
from controller.core.transactions.proposal import Outcome, Proposal

Report = Acknowledged | LogDirsDescribed | Surveyed | ClockShown


class Duty:
    """Everything here does nothing; a duty overrides what concerns it.

    Shape:
        `alarms` are the types of alarm it sets, `requests` the types of request it serves; no other duty has the same.
    """

    alarms: ClassVar[tuple[type[Alarm], ...]] = ()
    requests: ClassVar[tuple[type[Request], ...]] = ()

    def hear(self, report: Report, out: Outbox) -> None:
        """A broker answered, or what was asked for was found."""

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Somebody with the right to do so made a request of a type it serves."""

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """An alarm of its own rang."""

    def retract(self, changes: OpenChanges, out: Outbox) -> None:
        """Facts have changed: take out what is no change after all."""

    def amend(self, changes: OpenChanges, out: Outbox) -> None:
        """What does not count has been taken out: add what is to be looked at again."""

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Facts have changed. Nobody has been told yet."""

    def tell(self, changes: Changes, out: Outbox) -> None:
        """Every duty has followed: tell the brokers."""

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Brokers have been told: what should be written now? Nothing about a subject that is under way."""
        return ()

    def drain(self, out: Outbox) -> Sequence[Proposal]:
        """The term is being given up: what must still be written because somebody waits for it?"""
        return ()

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """What became of something it proposed; the facts have been folded."""

    def retry(self, proposal: Proposal, out: Outbox) -> None:
        """The wait after too many refusals is over."""

    def figures(self) -> dict[str, float]:
        """Its gauges of this moment, by measure."""
        return {}

"""What do challenges mean to a replica: was it replaced because it left one unanswered, and may it replace a leader?

A replaced claim looks like a deleted one: who holds `/controller` instead shows at the next look.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from controller.core.candidacy.events import (
    ChallengeAnswered,
    Challenged,
    ChallengeEvent,
    HolderSeen,
    Unanswered,
)
from controller.core.candidacy.orders import Say, Severity
from zk_layout.znodes.controller import ControllerClaim

REPLACED = "this process no longer holds /controller, and had not answered a challenge in time"


class Challenges:
    """The challenges that a replica has received as a leader or made as a standby."""

    def __init__(self) -> None:
        self.unanswered: Unanswered | None = None
        """Our own one, in the step in which its time is over: what is not claimed then is challenged again."""
        self.times_replaced = 0
        """How often this process was replaced after a challenge although it lived."""
        self._is_open = False
        self._is_replaced = False

    def happened(self, event: ChallengeEvent, *, leads: bool) -> None:
        """Note what became of a challenge. `leads`: this replica has a term."""
        match event:
            case Challenged():
                self._is_open = leads
            case ChallengeAnswered():
                self._is_open = False
            case Unanswered():
                self.unanswered = event
            case _:
                assert_never(event)

    def is_silent(self, seen: HolderSeen) -> bool:
        """Whether this leader has left our challenge unanswered."""
        return self.unanswered is not None and self.unanswered.epoch == seen.epoch

    def term_began(self) -> None:
        """Forget the former term."""
        self._is_open = self._is_replaced = False

    def deposed(self, detail: str) -> str:
        """Note that another controller leads; return the reason, by default `detail`."""
        if not self._is_open:
            return detail
        self._is_open, self._is_replaced = False, True
        self.times_replaced += 1
        return REPLACED

    def seen(self, seen: HolderSeen) -> Iterator[Say]:
        """Say once who has replaced this process."""
        if self._is_replaced and isinstance(seen.holder, ControllerClaim) and not seen.is_mine:
            self._is_replaced = False
            hint = "this process, or its way to ZooKeeper, stood still for longer than controller.challenge.timeout.ms"
            yield Say(Severity.WARNING, f"replaced by {seen.holder.broker} after a challenge", {"hint": hint})

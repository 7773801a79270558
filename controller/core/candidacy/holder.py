"""What does a replica know of who holds `/controller`, and what of that is news?"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.candidacy.events import HolderSeen
from controller.core.candidacy.orders import Say, Severity
from zk_layout.codec import Malformed
from zk_layout.znodes.controller import ControllerClaim


class Sight:
    """Who was last seen to hold `/controller`; None while that is unknown, and then why.

    `is_another`: it is another, or nobody, than was last seen; our own claims in between do not count.
    `is_change`: it is not what was seen until now; nobody knows how long what is seen first has been there.
    """

    def __init__(self, why_blind: str) -> None:
        self.holder: HolderSeen | None = None
        self.why_blind = why_blind
        self.is_another = self.is_change = False
        self._other: ControllerClaim | Malformed | None = None
        self._said: str | None = None

    @property
    def is_failing(self) -> bool:
        """Whether who holds it could not be seen when it was looked for last."""
        return self._said is not None

    def lose(self, why: str) -> None:
        """Nothing is known any more."""
        self.holder, self.why_blind = None, why

    def seen(self, seen: HolderSeen) -> Iterator[Say]:
        """It was seen; says whether the cluster was released, or is no longer."""
        was_released = self.holder is not None and self.holder.is_released
        self.is_change = self.holder is not None and self.holder.holder != seen.holder
        self.holder, self._said = seen, None
        self.is_another = not seen.is_mine and seen.holder != self._other
        if not seen.is_mine:
            self._other = seen.holder
        if seen.is_released and not was_released:
            hint = {"hint": "undo: kafka-zk-controller release --undo"}
            yield Say(Severity.WARNING, "the cluster is released to Kafka's own controllers", hint)
        elif was_released and not seen.is_released:
            yield Say(Severity.INFO, "the release was undone; this replica stands for election again", {})

    def not_seen(self, reason: str) -> Iterator[Say]:
        """It could not be seen; says so once for each reason."""
        if reason != self._said:
            self._said = reason
            yield Say(Severity.WARNING, "cannot see who holds /controller; trying again", {"reason": reason})


def named(seen: HolderSeen) -> str:
    """Who holds it, in a few words."""
    if isinstance(seen.holder, ControllerClaim):
        return f"broker {seen.holder.broker} holds /controller"
    return "/controller is vacant" if seen.holder is None else "/controller is unreadable"

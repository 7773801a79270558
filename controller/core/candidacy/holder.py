"""What does a replica know about the holder of `/controller`, and is it news?"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.candidacy.events import HolderSeen
from controller.core.candidacy.orders import Say, Severity
from controller.core.candidacy.phases import TakeOver, Why
from zk_layout.codec import Malformed
from zk_layout.znodes.controller import ControllerClaim


class KnownHolder:
    """The last known holder of `/controller`, or None and the reason why it is unknown.

    `is_another`: the holder differs from the last one, ignoring our own claims in between. `is_change`: the holder
    differs from a known one. The first one seen is no change: it may have led for a long time.
    """

    def __init__(self, why_blind: str) -> None:
        self.holder: HolderSeen | None = None
        self.why_blind = why_blind
        self.is_another = self.is_change = False
        self._other: ControllerClaim | Malformed | None = None
        self._said: str | None = None

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to read the holder failed."""
        return self._said is not None

    def lose(self, why: str) -> None:
        """Forget the holder."""
        self.holder, self.why_blind = None, why

    def seen(self, seen: HolderSeen) -> Iterator[Say]:
        """Record the holder; report a release of the cluster, a pause, or the end of either."""
        was_released = self.holder is not None and self.holder.is_released
        yield from _of_pauses(self.holder, seen)
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
        """Record a failed read; report each reason once."""
        if reason != self._said:
            self._said = reason
            yield Say(Severity.WARNING, "cannot see who holds /controller; trying again", {"reason": reason})


def _of_pauses(last: HolderSeen | None, seen: HolderSeen) -> Iterator[Say]:
    before, pause = None if last is None else last.pause, seen.pause
    if pause is not None and pause != before:
        text = "moves are paused: none begins, no leader moves for balance, and no switchover is carried out"
        hint = "end it: kafka-zk-controller resume"
        yield Say(Severity.WARNING, text, {"by": pause.by, "reason": pause.reason, "hint": hint})
    elif pause is None and before is not None:
        yield Say(Severity.INFO, "the pause is over; moves begin again", {})
    was_held_back = last is not None and last.is_wanted and before is not None
    if pause is not None and seen.is_wanted and not was_held_back:
        text = "a switchover to this replica is not carried out while moves are paused"
        yield Say(Severity.WARNING, text, {"hint": "first: kafka-zk-controller resume"})


def named(seen: HolderSeen) -> str:
    """Describe the holder in a few words."""
    if isinstance(seen.holder, ControllerClaim):
        return f"broker {seen.holder.broker} holds /controller"
    return "/controller is vacant" if seen.holder is None else "/controller is unreadable"


def is_native(seen: HolderSeen) -> bool:
    """Whether another kind of controller leads: a broker's own, or a KRaft controller."""
    return isinstance(seen.holder, ControllerClaim) and not seen.holder.is_ours


def why_waiting(seen: HolderSeen, take_over: TakeOver) -> str | None:
    """Why a replica that stands by would not claim whatever happened to the holder; None if it would."""
    if seen.is_released:
        return Why.RELEASED.value
    if is_native(seen) and take_over is TakeOver.WHEN_VACANT:
        return f"{named(seen)}, and controller.takeover={TakeOver.WHEN_VACANT} waits until it is vacant"
    return None

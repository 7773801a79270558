"""A candidacy with a clock of its own, for the tests of when a replica leads."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from controller.core.candidacy.candidacy import Candidacy, CandidacySettings
from controller.core.candidacy.events import (
    Claimed,
    Event,
    HolderSeen,
    StopAsked,
    TermLoaded,
    Watching,
    Woken,
)
from controller.core.candidacy.orders import (
    Order,
    Release,
    Say,
    Severity,
    WakeAt,
)
from controller.core.candidacy.phases import Phase, TakeOver
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerEpoch, ControllerEpoch, ZnodeVersion
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.pause import Pause

SESSION_S = 6.0
VACANT = HolderSeen(None, False, ControllerEpoch(4))
NATIVE = HolderSeen(ControllerClaim(1), False, ControllerEpoch(4))
OURS = HolderSeen(ControllerClaim(902, is_ours=True), False, ControllerEpoch(4))
UNREADABLE = HolderSeen(Malformed("no JSON", 1), False, ControllerEpoch(4))
RELEASED = HolderSeen(None, False, ControllerEpoch(4), is_released=True)
TAKEN = "/controller is held by broker 902"


def mine(epoch: int = 5, *, is_released: bool = False) -> HolderSeen:
    """Our own claim as seen in ZooKeeper."""
    return HolderSeen(ControllerClaim(901, is_ours=True), True, ControllerEpoch(epoch), is_released)


def another(epoch: int) -> HolderSeen:
    return HolderSeen(ControllerClaim(902, is_ours=True), False, ControllerEpoch(epoch))


def paused(holder: HolderSeen) -> HolderSeen:
    """The same, while moves are paused."""
    return replace(holder, pause=Pause("ann@host", 1_700_000_000_000, "new disks"))


def claimed(epoch: int = 5) -> Claimed:
    return Claimed(ControllerEpoch(epoch), ZnodeVersion(epoch), BrokerEpoch(100 + epoch))


class Replica:
    """A candidacy with a clock of its own, and all that it has said."""

    def __init__(self, *before: Event, take_over: TakeOver = TakeOver.ALWAYS) -> None:
        self.candidacy = Candidacy(CandidacySettings(take_over, SESSION_S))
        self.now = 1000.0
        self.said: list[Say] = []
        self.wake_at: float | None = None
        for event in before:
            self.hears(event)

    def hears(self, *events: Event) -> list[Order]:
        """What it wants done, apart from what it says and when it is to be woken."""
        orders: list[Order] = []
        for order in self.candidacy.step(events, self.now):
            if isinstance(order, Say):
                self.said.append(order)
            elif isinstance(order, WakeAt):
                self.wake_at = order.at
            else:
                orders.append(order)
        return orders

    def sleeps(self, at_most_s: float = 60.0) -> list[Order]:
        """Time goes on until its alarm rings; what it wants done then."""
        assert self.wake_at is not None
        assert self.wake_at <= self.now + at_most_s
        self.now, self.wake_at = self.wake_at, None
        return self.hears(Woken())

    def waits_s(self) -> float:
        """How long until it wants to be woken."""
        assert self.wake_at is not None
        return self.wake_at - self.now

    @property
    def phase(self) -> Phase:
        return self.candidacy.phase

    def is_in(self, phase: Phase) -> bool:
        return self.phase is phase

    def complaints(self) -> list[str]:
        return [say.text for say in self.said if say.severity >= Severity.WARNING]


TO_CONTEND: Sequence[Event] = (Watching(), VACANT)
TO_LOAD: Sequence[Event] = (*TO_CONTEND, claimed())
TO_LEAD: Sequence[Event] = (*TO_LOAD, mine(), TermLoaded("at once"))
TO_RESIGN: Sequence[Event] = (*TO_LEAD, StopAsked("SIGTERM received"))
TO_SUCCESSOR = Release(names_successor=True)
TO_HAND_BACK: Sequence[Event] = (*TO_LEAD, mine(is_released=True))


def says(orders: Sequence[Order]) -> list[Say]:
    """What is logged."""
    return [order for order in orders if isinstance(order, Say)]

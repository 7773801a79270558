"""What can happen to a replica that stands for election?"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.codec import Malformed
from zk_layout.ids import BrokerEpoch, ControllerEpoch, ZnodeVersion
from zk_layout.znodes.controller import ControllerClaim


class Watching(Struct, frozen=True):
    """`/controller` is watched, nobody else has our id, and nothing speaks against leading this cluster."""


class Unsound(Struct, frozen=True):
    """Leading this cluster would do harm, or nothing at all; it is looked at again, and `Watching` then says so."""

    reason: str


class ProtocolChanged(Struct, frozen=True):
    """Brokers are to be led in another manner than before: what a term that has begun cannot change."""

    detail: str


class Unreachable(Struct, frozen=True):
    """ZooKeeper could not be reached to begin with; it is tried again."""

    reason: str


class StartRefused(Struct, frozen=True):
    """ZooKeeper does not let us watch or create what we need; there is no use in trying again."""

    reason: str


class HolderSeen(Struct, frozen=True):
    """Who holds `/controller` (None: nobody), whether by our own session, and the epoch as read just after.

    `is_released`: the cluster is to be left to Kafka's own controllers. `is_wanted`: somebody waits for this replica
    to lead instead of another of ours.
    """

    holder: ControllerClaim | Malformed | None
    is_mine: bool
    epoch: ControllerEpoch
    is_released: bool = False
    is_wanted: bool = False


class HolderUnknown(Struct, frozen=True):
    """Who holds `/controller` could not be seen; it is looked for again."""

    reason: str


class SessionLost(Struct, frozen=True):
    """The session has expired: our registration and our claim are gone, and so is every watch."""


class Suspended(Struct, frozen=True):
    """The connection is lost; the session may expire unseen."""


class Resumed(Struct, frozen=True):
    """The connection is back within the same session."""


class Reconnected(Struct, frozen=True):
    """A new session has begun after the last one was lost."""


SessionEvent = HolderSeen | HolderUnknown | SessionLost | Suspended | Resumed | Reconnected


class Claimed(Struct, frozen=True):
    """We are the controller. `fence_version` is the version of `/controller_epoch` from now on."""

    epoch: ControllerEpoch
    fence_version: ZnodeVersion
    broker_epoch: BrokerEpoch


class Lost(Struct, frozen=True):
    """Another is, or becomes, the controller; or, with `needs_mending`, nobody can until a person acts."""

    reason: str
    needs_mending: bool = False


class IdClash(Struct, frozen=True):
    """A live registration has our id.

    `is_our_past`: it is one of our product with our listeners, so most likely this process' former life, whose
    session ends by itself.
    """

    reason: str
    is_our_past: bool


class ClaimFailed(Struct, frozen=True):
    """The claim came to nothing: the session ended meanwhile."""

    reason: str


ClaimOutcome = Claimed | Lost | IdClash | ClaimFailed


class TermLoaded(Struct, frozen=True):
    """This term's machine knows everything that ZooKeeper holds; `detail` says how long that took."""

    detail: str


class TermDrained(Struct, frozen=True):
    """Nothing of this term is in flight any more, as `Drain` asked."""


class TermFailed(Struct, frozen=True):
    """This term must not go on: another controller has fenced it, or an invariant is broken.

    Shape:
        `is_outranked`: brokers know a higher controller epoch than this term's.
    """

    reason: str
    is_outranked: bool = False


class TermSessionEnded(Struct, frozen=True):
    """A part of this term found its session gone, maybe before the session itself said so."""

    reason: str


TermEvent = TermLoaded | TermDrained | TermFailed | TermSessionEnded


class NotGivenUp(Struct, frozen=True):
    """ZooKeeper did not answer when a term was ended: what was ours there lives on if the session does."""


class StopAsked(Struct, frozen=True):
    """The process was told to stop; when it is told again, at once."""

    reason: str


class Woken(Struct, frozen=True):
    """The time of the last `WakeAt` has come."""


StartEvent = Watching | Unsound | ProtocolChanged | Unreachable | StartRefused
Event = StartEvent | SessionEvent | ClaimOutcome | TermEvent | NotGivenUp | StopAsked | Woken

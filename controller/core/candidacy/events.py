"""Which events does the candidacy of a replica react to?"""

from __future__ import annotations

from msgspec import Struct

from controller.core.candidacy.phases import TakeOver
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerEpoch, ControllerEpoch, ZnodeVersion
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.pause import Pause


class Watching(Struct, frozen=True):
    """`/controller` is watched, our id is free, and no check forbids leading this cluster."""


class Unsound(Struct, frozen=True):
    """Leading this cluster would do harm or be useless. Checks are repeated; `Watching` reports that they pass."""

    reason: str


class ProtocolChanged(Struct, frozen=True):
    """The brokers require another protocol, which a running term cannot adopt."""

    detail: str


class Unreachable(Struct, frozen=True):
    """The first connection to ZooKeeper failed; it is retried."""

    reason: str


class StartRefused(Struct, frozen=True):
    """ZooKeeper does not let us watch or create what we need; a retry cannot help."""

    reason: str


class HolderSeen(Struct, frozen=True):
    """The holder of `/controller` (None: vacant), whether it is our session, and the epoch, read just afterwards.

    `is_released`: an operator released the cluster to Kafka's own controllers. `is_wanted`: an operator asked for a
    switchover to this replica. `is_named`: the holder, which stops, did. `pause`: who paused moves, if anybody did.
    """

    holder: ControllerClaim | Malformed | None
    is_mine: bool
    epoch: ControllerEpoch
    is_released: bool = False
    is_wanted: bool = False
    pause: Pause | None = None
    is_named: bool = False


class HolderUnknown(Struct, frozen=True):
    """The holder of `/controller` could not be read; it is read again."""

    reason: str


class SessionLost(Struct, frozen=True):
    """The session has expired, and with it our registration, our claim and every watch."""


class Suspended(Struct, frozen=True):
    """The connection is lost; the session may expire without notice."""


class Resumed(Struct, frozen=True):
    """The connection is back within the same session."""


class Reconnected(Struct, frozen=True):
    """A new session has begun after the last one was lost."""


SessionEvent = HolderSeen | HolderUnknown | SessionLost | Suspended | Resumed | Reconnected


class Claimed(Struct, frozen=True):
    """We are the controller. `fence_version` is the new version of `/controller_epoch`."""

    epoch: ControllerEpoch
    fence_version: ZnodeVersion
    broker_epoch: BrokerEpoch


class Lost(Struct, frozen=True):
    """Another controller leads or is about to; with `needs_mending`, none can until an operator acts."""

    reason: str
    needs_mending: bool = False


class IdClash(Struct, frozen=True):
    """A live registration has our id.

    `is_our_past`: it belongs to our product and has our listeners, so it is most likely a former session of this
    replica, which ends by itself.
    """

    reason: str
    is_our_past: bool


class ClaimFailed(Struct, frozen=True):
    """The claim failed because the session ended meanwhile."""

    reason: str


ClaimOutcome = Claimed | Lost | IdClash | ClaimFailed


class TermLoaded(Struct, frozen=True):
    """The term has loaded all of ZooKeeper's state; `detail` says how long that took."""

    detail: str


class TermDrained(Struct, frozen=True):
    """Nothing of this term is in flight any more, as `Drain` requested."""


class TermFailed(Struct, frozen=True):
    """This term must end: another controller has fenced it, or an invariant is broken.

    Shape:
        `is_outranked`: brokers know a higher controller epoch than this term's.
    """

    reason: str
    is_outranked: bool = False


class TermSurpassed(Struct, frozen=True):
    """Partitions' states carry `epoch`, and this term's is lower: another term with a higher one must follow."""

    reason: str
    epoch: ControllerEpoch


class TermSessionEnded(Struct, frozen=True):
    """A part of this term found its session gone, perhaps before the session itself reported it."""

    reason: str


TermEvent = TermLoaded | TermDrained | TermFailed | TermSurpassed | TermSessionEnded


class NotGivenUp(Struct, frozen=True):
    """ZooKeeper did not answer when a term ended: our claim and registration live on if the session does."""


class StopAsked(Struct, frozen=True):
    """The process should stop; a second request stops it at once."""

    reason: str


class TakeOverChosen(Struct, frozen=True):
    """The operator has changed which controllers this replica may replace. A term that has begun goes on, and a process
    that never claims stays one."""

    take_over: TakeOver


class Woken(Struct, frozen=True):
    """The time of the last `WakeAt` has come."""


class Challenged(Struct, frozen=True):
    """A standby doubts that this leader lives, and the answer has been sent."""


class ChallengeAnswered(Struct, frozen=True):
    """The answer has come in time, or is not wanted any more."""


class Unanswered(Struct, frozen=True):
    """The leader with this epoch has not answered our challenge in time, which still stands.

    Shape:
        `epoch_version` is the version of `/controller_epoch` when the challenge began.
    """

    epoch: ControllerEpoch
    epoch_version: ZnodeVersion


ChallengeEvent = Challenged | ChallengeAnswered | Unanswered
StartEvent = Watching | Unsound | ProtocolChanged | Unreachable | StartRefused
Event = (
    StartEvent
    | SessionEvent
    | ClaimOutcome
    | TermEvent
    | ChallengeEvent
    | NotGivenUp
    | StopAsked
    | TakeOverChosen
    | Woken
)

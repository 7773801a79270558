"""What does a rule examine, and what can it decide?"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from msgspec import Struct

from controller.core.messages.effects import Notice
from controller.core.state.topics import TopicView
from controller.core.state.view import Cluster
from zk_layout.bounds import INT32_MAX
from zk_layout.catalog import Address
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, Replicas, TopicPartition
from zk_layout.znodes.configs import Config
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment


class Case(Struct, frozen=True):
    """One partition as a rule sees it: the facts, with this turn's decisions on top.

    Shape:
        `state` is None only if the partition never had one. `confirmed` are the brokers that confirmed the deletion of
        their replica; `is_patience_over`: the others are no longer waited for. `owed` are replicas that left the
        assignment earlier and whose deletion is unconfirmed. `unlisted` are in-sync replicas that the topic's znode
        does not name; `assignment` is removing them. `strays` are unlisted replicas that may lack records: the ISR in
        `state` excludes them. `is_gathering`: ends of the topic's moves wait for each other. `config` are the topic's
        settings, None unless just read.
    """

    at: TopicPartition
    topic: TopicView
    assignment: Assignment
    state: PartitionState | None
    is_unannounced: bool = False
    confirmed: frozenset[BrokerId] = frozenset()
    is_patience_over: bool = False
    is_gathering: bool = False
    owed: Replicas = ()
    config: Config | None = None
    unlisted: Replicas = ()
    strays: Replicas = ()


class Change(Struct, frozen=True):
    """A decision about one partition: what its znodes must say, and why.

    Shape:
        None means "unchanged"; an empty `owed` means that nothing is owed any more. `notice` goes to the log.
    """

    why: str
    assignment: Assignment | None = None
    state: PartitionState | None = None
    owed: Replicas | None = None
    notice: Notice | None = None


class Look(Struct, frozen=True):
    """A decision that needs znodes read first."""

    why: str
    addresses: tuple[Address, ...]


class Gather(Struct, frozen=True):
    """A decision whose write waits a moment, to be combined with others of its kind."""


Next = Change | Look | Gather | None
Rule = Callable[[Case, Cluster], Next]


class Precedence(IntEnum):
    """The order in which rules are asked; the first with a decision decides about the partition."""

    STRAYS = 0
    LEGACY_ENTRY = 1
    OWN_REPLICA = 2
    FIRST_LEADER = 3
    LEADER = 4
    UNLISTED = 5
    REASSIGNMENT = 6
    PREFERENCE = 7
    NEW_EPOCH = 8


def raised(
    state: PartitionState,
    controller_epoch: ControllerEpoch,
    leader: BrokerId | None = None,
    isr: Replicas | None = None,
    recovery: int | None = None,
) -> PartitionState:
    """The state with the next leader epoch, so that brokers accept it. An ISR that names a broker twice is put right.

    Raises:
        OverflowError: there is no higher leader epoch.
    """
    if state.leader_epoch >= INT32_MAX:
        raise OverflowError(f"leader epoch {state.leader_epoch} is the last: delete the topic, or set a lower one")
    return PartitionState(
        state.leader if leader is None else leader,
        LeaderEpoch(state.leader_epoch + 1),
        controller_epoch,
        tuple(dict.fromkeys(state.isr if isr is None else isr)),
        state.leader_recovery_state if recovery is None else recovery,
    )


def listed(replicas: Replicas) -> str:
    """Format replicas for operators.

    >>> listed((1, 2))
    '[1, 2]'
    """
    return "[" + ", ".join(map(str, replicas)) + "]"

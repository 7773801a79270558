"""What has ZooKeeper said of the cluster? Facts folded into state, for leaders, standbys and replays."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from itertools import chain, groupby
from types import MappingProxyType
from typing import assert_never

from msgspec import Struct

from controller.core.messages.events import Event, Loaded, Observed, ReadAllowed, ReadRefused
from controller.core.state.acls import Rights
from controller.core.state.brokers import Broker, Registrations
from controller.core.state.changes import ByPartition, OpenChanges, cut_off
from controller.core.state.placement import PlacementIndex
from controller.core.state.quotas import Quotas
from controller.core.state.reassignment_znodes import ReassignmentZnodes
from controller.core.state.sightings import NEVER, Sightings
from controller.core.state.statuses import Statuses
from controller.core.state.throttles import ThrottleZnodes
from controller.core.state.topic_facts import Topics
from controller.core.state.topics import BLANK, Partition
from controller.core.state.unreadable import Unreadable
from controller.core.state.users import UserConfigs
from controller.core.state.waiting_znodes import WaitingZnodes
from controller.core.state.writer_epochs import WriterEpochs
from zk_layout.catalog import Address, address_of
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, absent
from zk_layout.ids import BrokerId, TopicName, TopicPartition, ZnodeVersion
from zk_layout.znodes import configs, topics
from zk_layout.znodes.acls import AclAddress, AclChangeAddress, ExtendedAclChangeAddress
from zk_layout.znodes.admin import (
    LegacyReassignment,
    LegacyReassignmentAddress,
    PreferredElection,
    PreferredElectionAddress,
    TopicDeletionAddress,
)
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.challenge import ChallengeAddress
from zk_layout.znodes.controller import ControllerAddress, ControllerEpochAddress
from zk_layout.znodes.controller_ids import ControllerIdsAddress
from zk_layout.znodes.delegation_tokens import DelegationTokenAddress, DelegationTokenChangeAddress, TokenTimes
from zk_layout.znodes.features import FeatureAddress
from zk_layout.znodes.migration import MigrationAddress
from zk_layout.znodes.move_records import MoveRecordsAddress
from zk_layout.znodes.notifications import (
    ConfigChange,
    ConfigChangeAddress,
    IsrChange,
    IsrChangeAddress,
    LogDirEvent,
    LogDirEventAddress,
)
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, StateAddress
from zk_layout.znodes.pause import PauseAddress
from zk_layout.znodes.producer_ids import ProducerIdBlockAddress
from zk_layout.znodes.reassignment_status import ReassignmentStatusAddress, StatusRootAddress
from zk_layout.znodes.reassignments import ReassignmentAddress, ReassignmentsAddress
from zk_layout.znodes.release import ReleaseAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletionsAddress
from zk_layout.znodes.replicas import ReplicaAddress
from zk_layout.znodes.switchover import SwitchoverAddress
from zk_layout.znodes.throttles import ThrottledBrokerAddress, ThrottledTopicAddress
from zk_layout.znodes.topics import TopicAddress, TopicRemnantAddress
from zk_layout.znodes.waiting_moves import WaitingMovesAddress

EVERYTHING = 1_000_000_000
LEFT_ALONE = "it is left as it is until it is repaired"
NOTHING: Mapping[TopicName, None] = MappingProxyType({})
Cut = Callable[[ByPartition[Partition], int, Container[TopicName]], ByPartition[Partition]]

Notification = IsrChangeAddress | LogDirEventAddress | PreferredElectionAddress
_Lone = (
    LegacyReassignmentAddress
    | ProducerIdBlockAddress
    | FeatureAddress
    | ControllerIdsAddress
    | PauseAddress
    | ReassignmentsAddress
    | ReassignmentAddress
    | WaitingMovesAddress
    | ThrottledTopicAddress
    | ThrottledBrokerAddress
    | ReassignmentStatusAddress
    | MoveRecordsAddress
    | StatusRootAddress
    | configs.DefaultBrokerConfigAddress
    | DelegationTokenAddress
    | ConfigChangeAddress
    | AclAddress
    | Notification
)


class Token(Struct, frozen=True):
    """A delegation token; `times` is None if its znode cannot be read."""

    times: TokenTimes | None
    version: ZnodeVersion


_REMOVED = "it is removed"
_STILL_THROTTLED = "the throttle stays; repair it, or delete it and the throttle by hand"
_FATES: Mapping[type, str] = {
    IsrChangeAddress: _REMOVED,
    LogDirEventAddress: _REMOVED,
    PreferredElectionAddress: _REMOVED,
    FeatureAddress: "it is rewritten",
    PauseAddress: "no move begins until it is deleted: `kafka-zk-controller resume`",
    ReassignmentAddress: "it is removed, or reset to the current target",
    WaitingMovesAddress: "what it lists does not move; repair it, or delete it and ask for these moves again",
    ThrottledTopicAddress: _STILL_THROTTLED,
    ThrottledBrokerAddress: _STILL_THROTTLED,
    MoveRecordsAddress: "the moves that it records cannot be rolled back; it is deleted with the status of its request",
    AclAddress: "what it might deny is denied until it is repaired",
}
"""What becomes of malformed znodes that are not left alone."""


class ClusterState:
    """The folded state. It holds only what ZooKeeper said; the same facts give the same state in any order."""

    def __init__(self) -> None:
        self.changes = OpenChanges()
        self.placement = PlacementIndex()
        self.topics = Topics(self.changes, self.placement)
        self.writer_epochs = WriterEpochs()
        self.brokers: dict[BrokerId, Broker] = {}
        self._registrations = Registrations()
        self.reassignments = ReassignmentZnodes(self.changes)
        self.waiting = WaitingZnodes(self.changes)
        self.throttles = ThrottleZnodes()
        self.statuses = Statuses()
        self.legacy = absent(LegacyReassignmentAddress(), NEVER)
        self.preferred_election = absent(PreferredElectionAddress(), NEVER)
        self.producer_ids = absent(ProducerIdBlockAddress(), NEVER)
        self.features = absent(FeatureAddress(), NEVER)
        self.controller_ids = absent(ControllerIdsAddress(), NEVER)
        self.pause = absent(PauseAddress(), NEVER)
        self.broker_defaults = configs.Config({})
        self.notifications: dict[Notification, ZnodeVersion] = {}
        self.tokens: dict[str, Token] = {}
        self.users = UserConfigs()
        self.rights = Rights()
        self.quotas = Quotas()
        self.unreadable = Unreadable()
        self._sightings = Sightings()
        self.was_followed = False
        """Whether some of it was folded before the term that has it now."""

    def partition(self, at: TopicPartition) -> Partition | None:
        """A partition listed by its topic's znode."""
        return self.topics.partition(at.topic, at.partition)

    @property
    def is_paused(self) -> bool:
        """Whether moves must wait: the znode that says so exists; ZooKeeper refuses to read only what exists."""
        return self.pause.stat is not None or PauseAddress.path in self.unreadable.refusals

    def begin(self) -> None:
        """Mark everything loaded so far as unseen."""
        if self.was_followed:
            self._forget_how()
        self.rights.begin()
        self.changes.is_beginning = True
        unseen, self.changes.partitions = self.changes.partitions, {}
        for name in self.changes.topics:
            unseen.setdefault(name, {})
        self.changes.unseen, self.changes.topics = unseen, {}

    def _forget_how(self) -> None:
        """Let all topics count as just read: how they became what they are, while a standby followed them, is nothing
        that a term has to act on. Passes over all partitions.
        """
        for address in map(address_of, self.unreadable.refusals):
            if isinstance(address, TopicAddress):
                self.topics.unread(address.topic)
            elif isinstance(address, StateAddress):
                self.topics.unread(address.topic, address.partition)
        views, changes = self.topics.views, self.changes
        for name in [name for name, view in views.items() if view.is_malformed]:
            self.topics.unread_content(name)
        changes.gone_topics.clear()
        changes.topics = dict.fromkeys(views)
        changes.partitions = {
            name: {number: BLANK for number, held in view.partitions.items() if held.assignment.replicas}
            for name, view in views.items()
        }
        self.writer_epochs.only_of(views.values())
        self.unreadable.forget(lambda path: self._is_outdated(address_of(path)))
        changes.malformed[:] = [of_other for of_other in changes.malformed if not _is_of_topic(of_other[0])]
        changes.malformed += [
            (path, f"{why}; {LEFT_ALONE}") for path, why in self.unreadable.malformed.items() if _is_of_topic(path)
        ]
        changes.refused[:] = self.unreadable.refusals.items()

    def _is_outdated(self, address: Address | None) -> bool:
        """Whether it is the state of a partition that is gone."""
        return isinstance(address, StateAddress) and self.topics.partition(address.topic, address.partition) is None

    def take_changes(
        self,
        most: int = EVERYTHING,
        half_read: Mapping[TopicName, None] = NOTHING,
        cut_unseen: Cut = cut_off,
    ) -> OpenChanges:
        """Take up to `most` changed partitions; recent changes come before partitions still unseen.

        Withholds `half_read` topics: a new state with an old assignment is a pair that ZooKeeper never held.
        `cut_unseen` takes out as many unseen partitions as count as `most`.
        """
        taken = self.changes
        left = OpenChanges(unseen=taken.unseen)
        self.changes = self.topics.changes = self.reassignments.changes = self.waiting.changes = left
        for name in half_read:
            taken.withhold(name, until=left)
        taken.leave(most, until=left)
        for name in left.topics.keys() & taken.partitions.keys():
            if left.topics[name] is None:
                left.topics[name] = self.topics.views[name]  # its first partitions go to brokers now
        if taken.unseen and not taken.partitions and not taken.topics:
            taken.is_initial = True
            taken.partitions = cut_unseen(taken.unseen, most, half_read)
            taken.topics = dict.fromkeys(taken.partitions)
        return taken

    def has_changes_left(self, half_read: Container[TopicName] = ()) -> bool:
        """Whether changed partitions are left that may be taken."""
        return any(name not in half_read for name in chain(self.changes.partitions, self.changes.unseen))

    def let_go(self, most: int) -> bool:
        """Free up to `most` partitions at the end of a term; return whether some are left."""
        return self.topics.let_go(most) or self.placement.let_go()

    def refuse(self, path: str, reason: str, address: Address | None) -> None:  # noqa: C901 (one flat match)
        """Note a refused read. The last content stays valid: nothing newer is known."""
        if isinstance(address, configs.UserConfigAddress):
            self.users.refuse(address, reason, self.changes)
            return
        if self.unreadable.refused(path, reason):
            self.changes.refused.append((path, reason))
        match address:
            case StateAddress(topic, number):
                self.topics.refuse_state(topic, number)
            case TopicDeletionAddress(topic):
                self.topics.refuse_mark(topic)
            case FeatureAddress() if self.features.as_of == NEVER:
                self.features = Fact(address, Malformed(reason, 0), None, NEVER)
            case ProducerIdBlockAddress() if self.producer_ids.as_of == NEVER:
                self.producer_ids = Fact(address, Malformed(reason, 0), None, NEVER)
            case PauseAddress():
                self.changes.pause = True
            case configs.TopicConfigAddress() | configs.BrokerConfigAddress():
                self.throttles.refuse(address, reason)
            case AclAddress() | None:
                self.rights.refuse(path, address)
                if address is not None:
                    self.changes.rights[address] = None
            case _:
                pass

    def allow(self, path: str) -> None:
        """Note that a refused znode was read; the facts say the rest."""
        self.unreadable.allowed(path)
        address = address_of(path)
        if isinstance(address, TopicAddress):
            self.topics.allow_topic(address.topic)
        elif isinstance(address, PauseAddress):
            self.changes.pause = True
        elif isinstance(address, AclAddress | None):
            self.rights.allow(path, address)

    def fold(self, event: Event) -> None:
        """What the reader has to say, where no term hears it."""
        match event:
            case Observed(facts):
                self.apply_all(facts)
            case ReadRefused(path, reason, address):
                self.refuse(path, reason, address)
            case ReadAllowed(path):
                self.allow(path)
            case Loaded():
                self.begin()
            case _:
                raise TypeError(f"{event} is nothing that is read")

    def apply_all(self, facts: Iterable[Fact]) -> None:
        """Fold in several facts: the same as one `apply` each, but faster for a topic's states in a row."""
        for name, of_topic in groupby(facts, key=_topic_of_state):
            if name is None or self.unreadable.malformed:
                for fact in of_topic:
                    self.apply(fact)
            else:
                self._apply_states(name, tuple(of_topic))

    def _apply_states(self, name: TopicName, facts: tuple[Fact, ...]) -> None:
        self.writer_epochs.saw_all(facts)
        for fact in self.topics.apply_first_states(name, facts):
            self.apply(fact)

    def apply(self, fact: Fact) -> None:  # noqa: C901, PLR0915 (one flat match over the closed union of znodes)
        """Fold in one fact. A fact that is not newer than the held one changes nothing, so order does not matter."""
        address = fact.address
        match address:
            case StateAddress():
                self._apply_state(address, fact)
            case TopicAddress():
                self._complain_of(fact, is_news=self.topics.apply_topic(address.topic, fact))
            case PartitionAddress():
                self.topics.apply_partition_znode(address.topic, address.partition, fact)
            case PartitionsAddress():
                self.topics.apply_partitions_znode(address.topic, fact)
            case ReplicaDeletionsAddress():
                self._complain_of(fact, is_news=self.topics.apply_deletions(address.topic, fact))
            case TopicDeletionAddress():
                self.topics.apply_mark(address.topic, fact)
            case configs.TopicConfigAddress():
                self._complain_of(fact, is_news=self.topics.apply_config(address.topic, fact))
                self.throttles.apply_settings(address, fact)
            case configs.BrokerConfigAddress():
                self.throttles.apply_settings(address, fact)
            case BrokerAddress():
                is_news = self._sightings.is_news(fact)
                self._complain_of(fact, is_news=is_news)
                if is_news and fact.stat is None:
                    self.unreadable.allowed(address.path)
                self._apply_broker(address.broker, fact, is_news=is_news)
            case configs.UserConfigAddress():
                self.users.apply(address, fact, self.changes)
            case (
                ControllerAddress()
                | ControllerEpochAddress()
                | MigrationAddress()
                | ReleaseAddress()
                | SwitchoverAddress()
                | ChallengeAddress()
            ):
                pass  # who leads is decided elsewhere
            case TopicRemnantAddress() | ReplicaAddress():
                pass  # remnants are not tracked, and replicas' own znodes are for operators
            case configs.UserClientConfigAddress() | configs.ClientConfigAddress():
                pass  # the quota follower reads them
            case DelegationTokenChangeAddress() | AclChangeAddress() | ExtendedAclChangeAddress():
                pass  # for brokers to read
            case _:
                is_news = self._sightings.is_news(fact)
                self._complain_of(fact, is_news=is_news)
                if is_news:
                    self._apply_lone(address, fact)
                if isinstance(address, AclAddress):
                    self.changes.rights[address] = None  # readers wait for this, even if the value is unchanged

    def _apply_state(self, address: StateAddress, fact: Fact) -> None:
        self.writer_epochs.saw(fact)
        self._complain_of(fact, is_news=self.topics.apply_state(address.topic, address.partition, fact))

    def _apply_lone(self, address: _Lone, fact: Fact) -> None:  # noqa: C901 (one flat match here, too)
        """Fold in a znode known by its path alone."""
        match address:
            case ReassignmentStatusAddress() | StatusRootAddress() | MoveRecordsAddress():
                self.statuses.apply(fact)
            case LegacyReassignmentAddress():
                self._apply_legacy(fact)
            case ProducerIdBlockAddress():
                self.producer_ids = fact
            case FeatureAddress():
                self.features = fact
                self.changes.features = True
            case ControllerIdsAddress():
                self.controller_ids = fact
            case PauseAddress():
                self.pause = fact
                self.changes.pause = True
            case ReassignmentsAddress() | ReassignmentAddress():
                self.reassignments.apply(fact)
            case WaitingMovesAddress():
                self.waiting.apply(address, fact)
            case ThrottledTopicAddress() | ThrottledBrokerAddress():
                self.throttles.apply_record(address, fact)
            case AclAddress():
                self.rights.apply(address, fact)
                if fact.stat is None:
                    self.unreadable.allowed(address.path)  # it is gone
            case configs.DefaultBrokerConfigAddress():
                self.broker_defaults = configs.readable(fact.value)
                self.changes.broker_defaults = True
            case DelegationTokenAddress(token):
                self._apply_token(token, fact)
            case IsrChangeAddress() | LogDirEventAddress() | ConfigChangeAddress() | PreferredElectionAddress():
                self._apply_notification(address, fact)
            case _:
                assert_never(address)

    def _apply_broker(self, broker: BrokerId, fact: Fact, *, is_news: bool) -> None:
        held, seen = self.brokers.get(broker), self._registrations.seen(broker, fact, is_news=is_news)
        if seen == held:
            return
        self.changes.brokers.setdefault(broker, held)
        if seen is None:
            del self.brokers[broker]
        else:
            self.brokers[broker] = seen

    def _apply_legacy(self, fact: Fact) -> None:
        self.legacy = fact
        self.changes.legacy = True
        if isinstance(fact.value, LegacyReassignment):
            path = fact.address.path
            self.changes.malformed.extend((path, f"{reason}; it is dropped") for reason in fact.value.rejected)

    def _apply_token(self, token: str, fact: Fact) -> None:
        self.changes.tokens = True
        if fact.stat is None:
            self.tokens.pop(token, None)
        else:
            self.tokens[token] = Token(fact.value if isinstance(fact.value, TokenTimes) else None, fact.stat.version)

    def _apply_notification(self, address: Notification | ConfigChangeAddress, fact: Fact) -> None:
        if isinstance(address, ConfigChangeAddress):
            if isinstance(fact.value, ConfigChange) and fact.value.topic is not None:
                self.changes.reconfigured[fact.value.topic] = None
            return
        value = fact.value
        if isinstance(address, PreferredElectionAddress):
            self.preferred_election = fact
        if fact.stat is None:
            self.notifications.pop(address, None)
            return
        self.notifications[address] = fact.stat.version
        match address:
            case IsrChangeAddress():
                self.changes.isr_changes.append((address, value if isinstance(value, IsrChange) else None))
            case LogDirEventAddress():
                self.changes.log_dir_events.append((address, value if isinstance(value, LogDirEvent) else None))
            case PreferredElectionAddress():
                if isinstance(value, PreferredElection):
                    self.changes.preferred_election = value
            case _:
                assert_never(address)

    def _complain_of(self, fact: Fact, *, is_news: bool) -> None:
        """Report each version of an unreadable znode once."""
        malformed = fact.value
        if is_news:
            self.unreadable.seen(fact)
        if not is_news or not isinstance(malformed, Malformed):
            return
        fate = _FATES.get(type(fact.address), LEFT_ALONE)
        self.changes.malformed.append((fact.address.path, f"{malformed.reason}; {fate}"))


def _topic_of_state(fact: Fact) -> TopicName | None:
    address = fact.address
    return address.topic if isinstance(address, StateAddress) else None


def _is_of_topic(path: str) -> bool:
    return path.startswith(f"{topics.ROOT}/")

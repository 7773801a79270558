"""What may a rule see? The facts, the memory of this term, and this controller's identity: read-only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from controller.core.state.cluster import ClusterState
from controller.core.state.remembered import Numbers, Remembered
from controller.core.state.topics import DeletionMark, Partition, ReassignmentZnode, TopicView
from controller.core.state.waiting_znodes import WaitingPart
from zk_layout.catalog import Address, address_of
from zk_layout.ids import (
    BrokerId,
    ControllerEpoch,
    PartitionId,
    TopicId,
    TopicName,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes import replica_deletions
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.configs import Config, is_unclean_allowed
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.pause import BY_HAND, Pause
from zk_layout.znodes.replica_deletions import ReplicaDeletionsAddress
from zk_layout.znodes.throttles import ThrottledBroker
from zk_layout.znodes.topics import TopicAddress
from zk_layout.znodes.waiting_moves import PartNumber, WaitingMove


class Identity(Struct, frozen=True):
    """Who we are in this term, and what the configuration tells rules.

    Shape:
        `unclean_election` is the configured default; `/config/brokers/<default>` overrides it, and the brokers' own
        setting overrides both. `deletes_topics` is None while unknown.
    """

    own_id: BrokerId
    controller_epoch: ControllerEpoch
    unclean_election: bool = False
    has_leader_recovery: bool = True
    deletes_topics: bool | None = True
    unclean_election_of_brokers: bool | None = None


class Cluster:
    """A read-only view. Topics and partitions are frozen values, indexes are typed as mappings."""

    def __init__(self, state: ClusterState, remembered: Remembered, identity: Identity) -> None:
        """The view follows `state` and `memory` as they change."""
        self._state, self._identity = state, identity
        self.own_id = identity.own_id
        self.controller_epoch = identity.controller_epoch
        self.has_leader_recovery = identity.has_leader_recovery
        self.deletes_topics = identity.deletes_topics
        self.topics: Mapping[TopicName, TopicView] = state.topics.views
        self.topic_names: Mapping[TopicId, TopicName] = state.topics.names
        self.deletion_marks: Mapping[TopicName, DeletionMark] = state.topics.marks
        self.alike: Mapping[str, Mapping[TopicName, None]] = state.topics.alike
        self.hosted: Mapping[BrokerId, Numbers] = state.placement.hosted
        self.owing: Mapping[BrokerId, Numbers] = state.placement.owing
        self.moving: Numbers = state.placement.moving
        self.replica_counts: Mapping[BrokerId, int] = state.placement.replica_counts
        self.preferred_counts: Mapping[BrokerId, int] = state.placement.preferred_counts
        self.controllers = remembered.controllers
        self.brokers = remembered.brokers
        self.updated_in_full = remembered.updated_in_full
        self.shutting_down = remembered.shutting_down
        self.offline_replicas = remembered.offline_replicas
        self.unannounced = remembered.unannounced
        self.returning = remembered.returning
        self.logs_deleted = remembered.logs_deleted
        self.caught_up = remembered.caught_up
        self.confirmed = remembered.confirmed
        self.out_of_patience = remembered.out_of_patience
        self.gathering = remembered.gathering
        self.legacy = remembered.legacy
        self.waiting = remembered.waiting
        self.gave_up = remembered.gave_up
        self.asked_by_child = remembered.asked_by_child
        self.overwritten = remembered.overwritten
        self.preferring = remembered.preferring
        self.withdrawn = remembered.withdrawn
        self.offline = remembered.offline
        self.under_replicated = remembered.under_replicated
        self.not_preferred = remembered.not_preferred
        self._fresh_configs = remembered.fresh_configs

    def adjust(self, identity: Identity) -> None:
        """Follow changed settings. No rule calls it."""
        self._identity = identity

    def fresh_config(self, at: TopicPartition) -> Config | None:
        """The settings of its topic; None unless they were read for the decision about this partition."""
        if at.partition not in self._fresh_configs.get(at.topic, ()):
            return None
        held = self._state.topics.config(at.topic)
        return None if held is None else held.config

    def config_version(self, name: TopicName) -> ZnodeVersion | None:
        """The version of a topic's settings as last read, -1 if it has none; None if never read."""
        held = self._state.topics.config(name)
        return None if held is None else held.version

    def is_known_missing(self, name: TopicName, since: Zxid) -> bool:
        """Whether a topic was absent at this zxid or later."""
        return self._state.topics.is_known_missing(name, since)

    def stray_deletions(self, name: TopicName) -> tuple[ZnodeVersion, Zxid] | None:
        """Version and sighting of deletions owed by a topic that does not exist; None if there are none."""
        return self._state.topics.stray_deletions(name)

    def waiting_move(self, at: TopicPartition) -> WaitingMove | None:
        """The move for which a partition waits, as ZooKeeper records it."""
        topic = self.topics.get(at.topic)
        return None if topic is None else self._state.waiting.move(topic, at.partition)

    def waiting_parts(self, name: TopicName) -> Mapping[PartNumber, WaitingPart]:
        """The znodes with moves that wait in a topic, or waited in a former one of its name."""
        return self._state.waiting.of(name)

    def child(self, at: TopicPartition) -> ReassignmentZnode | None:
        """A partition's child of `/admin/reassignments`."""
        return self._state.reassignments.child(at)

    @property
    def pause(self) -> Pause | None:
        """Who paused moves, and why; None without a pause."""
        if not self._state.is_paused:
            return None
        held = self._state.pause.value
        return held if isinstance(held, Pause) else BY_HAND

    @property
    def unclean_election(self) -> bool:
        """Whether replicas that are not in sync may lead, unless a topic's settings override it."""
        of_brokers = self._identity.unclean_election_of_brokers
        if of_brokers is not None:
            return of_brokers
        return is_unclean_allowed(self._state.broker_defaults, self._identity.unclean_election)

    @property
    def partition_count(self) -> int:
        """The number of partitions."""
        return self._state.placement.partition_count

    def is_live(self, broker: BrokerId) -> bool:
        """Whether a real broker is registered and not shutting down; ids of controllers host nothing."""
        return self.is_registered(broker) and broker not in self.shutting_down

    def is_registered(self, broker: BrokerId) -> bool:
        """Whether a real broker can be reached: live, or shutting down."""
        return broker in self.brokers and broker not in self.controllers

    def is_online(self, broker: BrokerId, of: TopicPartition) -> bool:
        """Whether a replica can serve: its broker is live and its log directory works."""
        if broker not in self.brokers or broker in self.controllers or broker in self.shutting_down:
            return False
        return not self.offline_replicas or broker not in self.offline_replicas.get(of, ())

    def throttled_brokers(self) -> set[BrokerId]:
        """The brokers whose rate for throttled replicas is what our moves have set."""
        rates = {of: kept.value for of, kept in self._state.throttles.records.items() if isinstance(of, int)}
        return {of for of, rate in rates.items() if isinstance(rate, ThrottledBroker) and rate.ours is not None}

    def may_have_records(self, replica: BrokerId, of: TopicPartition) -> bool:
        """Whether a replica was not sent a deletion since it was last in sync, as far as this term knows."""
        return replica not in self.logs_deleted.get(of, ())

    def is_hidden(self, broker: BrokerId) -> bool:
        """Whether a broker is registered but its registration is unreadable: no command can reach it."""
        return broker not in self.brokers and self.is_unreadable(BrokerAddress(broker))

    def is_unreadable(self, address: Address) -> bool:
        """Whether a znode cannot be read now: its content may be unknown, or outdated."""
        return address.path in self._state.unreadable

    def account_unreadable(self, of: TopicName) -> str | None:
        """The znode that would show which brokers owe deletions of a topic's former replicas, if it cannot be read now.

        Without the folder's children it is unknown whether there is an account at all.
        """
        unreadable, account = self._state.unreadable, ReplicaDeletionsAddress(of).path
        return next((path for path in (account, replica_deletions.ROOT) if path in unreadable), None)

    def states_of(
        self, name: TopicName, numbers: Iterable[PartitionId]
    ) -> Iterator[tuple[PartitionId, PartitionState]]:
        """The states that are known of these partitions, unless their topic is being deleted."""
        topic = self.topics.get(name)
        if topic is None or topic.is_queued_for_deletion:
            return
        for number in numbers:
            held = topic.partitions.get(number)
            if held is not None and held.state is not None:
                yield number, held.state

    def is_missing(self, at: TopicPartition) -> bool:
        """Whether there is no such partition, as far as its topic's znode can be read."""
        return self.partition(at) is None and not self.is_unreadable(TopicAddress(at.topic))

    def has_unreadable_topics(self) -> bool:
        """Whether any topic is unreadable now, so that its id may be unknown."""
        unreadable = self._state.unreadable
        paths = (*unreadable.refusals, *unreadable.malformed) if unreadable else ()
        return any(isinstance(address_of(path), TopicAddress) for path in paths)

    def still_serves(self, broker: BrokerId, of: TopicPartition) -> bool:
        """Whether a leader that cannot be elected still serves: its broker is shutting down, or has an unreadable
        registration.
        """
        is_there = broker in self.shutting_down or self.is_hidden(broker)
        return is_there and broker not in self.offline_replicas.get(of, ())

    def may_not_read(self, address: Address) -> bool:
        """Whether ZooKeeper does not let us read a znode; it is read as soon as possible."""
        return address.path in self._state.unreadable.refusals

    def live_brokers(self) -> tuple[BrokerId, ...]:
        """The brokers on which replicas may be placed, by id."""
        return tuple(sorted(b for b in self.brokers if self.is_live(b)))

    def registered_brokers(self) -> tuple[BrokerId, ...]:
        """The brokers that can be reached, by id."""
        return tuple(sorted(b for b in self.brokers if b not in self.controllers))

    def nodes(self) -> tuple[BrokerId, ...]:
        """The brokers shown to brokers and clients, by id: the real ones, and this controller."""
        return tuple(sorted(b for b in self.brokers if b not in self.controllers or b == self.own_id))

    def partition(self, at: TopicPartition) -> Partition | None:
        """A partition listed by its topic's znode."""
        return self._state.topics.partition(at.topic, at.partition)

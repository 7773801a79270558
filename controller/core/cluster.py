"""What is known of the cluster? Facts folded into state, with the indexes that keep a turn as cheap as its change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from msgspec import Struct, field

from controller.core.commands import ReplicaStop
from controller.core.move_znodes import MoveZnodes
from controller.core.stage import in_force
from controller.core.statuses import Statuses
from controller.core.topic_names import look_of
from zk_layout.facts import Fact, Malformed, absent, is_newer
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    PartitionEpoch,
    PartitionId,
    Replicas,
    TopicId,
    TopicName,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.admin import (
    LegacyReassignment,
    LegacyReassignmentAddress,
    PreferredElection,
    PreferredElectionAddress,
    TopicDeletionAddress,
)
from zk_layout.znodes.brokers import BrokerAddress, Registration
from zk_layout.znodes.configs import Config, DefaultBrokerConfigAddress, TopicConfigAddress, is_unclean_allowed
from zk_layout.znodes.notifications import (
    ConfigChange,
    ConfigChangeAddress,
    IsrChange,
    IsrChangeAddress,
    LogDirEvent,
    LogDirEventAddress,
)
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, PartitionState, StateAddress
from zk_layout.znodes.producer_ids import ProducerIdBlockAddress
from zk_layout.znodes.reassignment_status import ReassignmentStatusAddress, StatusRootAddress
from zk_layout.znodes.reassignments import ReassignmentAddress, ReassignmentsAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletions, ReplicaDeletionsAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

NEVER = Zxid(-1)
UNKNOWN = Zxid(0)  # the czxid in the fact of a write of ours
UNASSIGNED = Assignment(())


class PartitionChange:
    """What of a partition changed since brokers were last told: flags, plain integers because there are many."""

    METADATA = 1  # replicas, ISR or liveness: for UpdateMetadata
    LEADERSHIP = 2  # the leader epoch rose, or the partition was first seen: for LeaderAndIsr
    CREATED = 4  # it has just got its first leader: its replicas create their logs


class BrokerChange(Enum):
    """What became of a broker's registration."""

    APPEARED = "appeared"
    CHANGED = "changed"
    VANISHED = "vanished"


class Partition(Struct, gc=False):
    """One partition: its assignment, its state, and whether its leader has heard of the assignment.

    Shape:
        `state` is None where the znode is absent or was not read yet; `is_state_known` tells the two apart.
        `assignment` is empty where the topic znode does not list the partition.
    """

    assignment: Assignment = UNASSIGNED
    state: PartitionState | None = None
    epoch: PartitionEpoch = PartitionEpoch(-1)
    as_of: Zxid = NEVER
    is_state_known: bool = False
    is_malformed: bool = False
    has_znode: bool = False
    is_untold: bool = False


class TopicView(Struct):
    """One topic as its znodes show it.

    Shape:
        `has_lost_id`: somebody who knows no topic ids has written the znode anew; brokers refuse any other id.
    """

    name: TopicName
    as_of: Zxid = NEVER
    czxid: Zxid = NEVER
    version: ZnodeVersion = ZnodeVersion(-1)
    topic_id: TopicId | None = None
    has_lost_id: bool = False
    partitions: dict[PartitionId, Partition] = field(default_factory=dict)
    has_partitions_znode: bool = False
    is_queued_for_deletion: bool = False
    is_malformed: bool = False
    config: Config | None = None
    config_version: ZnodeVersion | None = None
    deletions: dict[PartitionId, Replicas] = field(default_factory=dict)
    deletions_version: ZnodeVersion = ZnodeVersion(-1)
    deletions_as_of: Zxid = NEVER


class DeletionMark(Struct):
    """The wish to delete a topic.

    Shape:
        `missing_as_of` is the zxid at which the topic was last found to be missing.
    """

    czxid: Zxid
    version: ZnodeVersion
    missing_as_of: Zxid = NEVER


class Broker(Struct, frozen=True):
    """A registered broker; its epoch is the czxid of its registration."""

    registration: Registration
    epoch: BrokerEpoch


class Changes(Struct):
    """What the facts of a turn changed; the machine takes it and leaves an empty one.

    Shape:
        `partitions` maps to what changed and to the leader that brokers were last told. `configs` were read,
        `reconfigured` are to be read. `unclean_election` says that it has just been allowed to all topics.
    """

    partitions: dict[TopicName, dict[PartitionId, int]] = field(default_factory=dict)
    former_leaders: dict[TopicPartition, BrokerId] = field(default_factory=dict)
    brokers: dict[BrokerId, BrokerChange] = field(default_factory=dict)
    topics: set[TopicName] = field(default_factory=set)
    configs: set[TopicName] = field(default_factory=set)
    reconfigured: set[TopicName] = field(default_factory=set)
    unclean_election: bool = False
    gone_topics: dict[TopicName, TopicView] = field(default_factory=dict)
    marks: dict[TopicName, None] = field(default_factory=dict)
    isr_changes: list[tuple[IsrChangeAddress, ZnodeVersion, IsrChange | None]] = field(default_factory=list)
    log_dir_events: list[tuple[LogDirEventAddress, ZnodeVersion, LogDirEvent | None]] = field(default_factory=list)
    preferred_elections: list[ZnodeVersion] = field(default_factory=list)
    malformed: list[tuple[str, str]] = field(default_factory=list)
    legacy: bool = False


class Cluster:
    """The folded state of one reign. Rules read it; only `apply` and the machine's own bookkeeping change it."""

    def __init__(
        self,
        own_id: BrokerId,
        controller_epoch: ControllerEpoch,
        *,
        unclean_election: bool = False,
        has_leader_recovery: bool = True,
        deletes_topics: bool = True,
    ) -> None:
        """An empty cluster, before any fact."""
        self.own_id = own_id
        self.controller_epoch = controller_epoch
        self.unclean_election = self._configured_unclean_election = unclean_election
        self.has_leader_recovery = has_leader_recovery
        self.deletes_topics = deletes_topics
        self.brokers: dict[BrokerId, Broker] = {}
        self.topics: dict[TopicName, TopicView] = {}
        self.topic_names: dict[TopicId, TopicName] = {}
        self.deletion_marks: dict[TopicName, DeletionMark] = {}
        self.alike: dict[str, set[TopicName]] = {}
        self.stray_configs: dict[TopicName, ZnodeVersion] = {}
        self.hosted: dict[BrokerId, dict[TopicName, set[PartitionId]]] = {}
        self.replica_counts: dict[BrokerId, int] = {}
        self.preferred_counts: dict[BrokerId, int] = {}
        self.preferring: set[TopicPartition] = set()
        self.doomed: dict[BrokerId, set[TopicPartition]] = {}
        self.moving: dict[TopicName, set[PartitionId]] = {}
        self.owing: dict[BrokerId, dict[TopicName, set[PartitionId]]] = {}
        self.legacy: dict[TopicPartition, Replicas] = {}
        self.legacy_version = ZnodeVersion(-1)
        self.legacy_czxid = NEVER
        self.is_legacy_malformed = False
        self.has_foreign_legacy = False
        self.latest_producer_ids = absent(ProducerIdBlockAddress(), NEVER)
        self.statuses = Statuses()
        self.move_znodes = MoveZnodes()
        self.partition_count = 0
        self.is_loading = True
        self.changes = Changes()
        self.shutting_down: set[BrokerId] = set()
        self.departing: set[BrokerId] = set()
        self.returning: dict[BrokerId, Broker] = {}
        self.offline_replicas: dict[TopicPartition, set[BrokerId]] = {}
        self._seen: dict[str, tuple[Zxid, bool]] = {}
        self._complained: dict[str, Zxid] = {}

    # ---- what rules ask -------------------------------------------------------------------------------------

    def is_live(self, broker: BrokerId) -> bool:
        """Whether a real broker is registered and means to stay; our own registration hosts nothing."""
        return broker in self.brokers and broker not in self.shutting_down and broker != self.own_id

    def is_registered(self, broker: BrokerId) -> bool:
        """Whether a real broker can be talked to: live, or shutting down."""
        return broker in self.brokers and broker != self.own_id

    def is_online(self, broker: BrokerId, of: TopicPartition) -> bool:
        """Whether a replica can serve: its broker is live and its log directory is good."""
        return self.is_live(broker) and broker not in self.offline_replicas.get(of, ())

    def live_brokers(self) -> tuple[BrokerId, ...]:
        """The brokers replicas may be placed on, by id."""
        return tuple(sorted(b for b in self.brokers if self.is_live(b)))

    def registered_brokers(self) -> tuple[BrokerId, ...]:
        """The brokers that can be talked to, by id."""
        return tuple(sorted(b for b in self.brokers if b != self.own_id))

    def partition(self, at: TopicPartition) -> Partition | None:
        """A partition that its topic's znode lists."""
        topic = self.topics.get(at.topic)
        held = topic.partitions.get(at.partition) if topic else None
        return held if held is not None and held.assignment.replicas else None

    def take_changes(self) -> Changes:
        """What changed since this was last asked."""
        taken, self.changes = self.changes, Changes()
        return taken

    # ---- folding --------------------------------------------------------------------------------------------

    def apply(self, fact: Fact) -> None:  # noqa: C901 (one flat match over a closed union)
        """Fold one fact in. One that is not newer than what is held changes nothing, so order does not matter."""
        address = fact.address
        if isinstance(fact.value, Malformed):
            self._complain(fact, fact.value)
        match address:
            case StateAddress():
                self._apply_state(address.topic, address.partition, fact)
            case TopicAddress():
                self._apply_topic(address.topic, fact)
            case BrokerAddress():
                self._apply_broker(address.broker, fact)
            case LegacyReassignmentAddress():
                self._apply_legacy(fact)
            case ProducerIdBlockAddress():
                held = self.latest_producer_ids
                if is_newer(fact, held.as_of, is_held_present=held.is_present):
                    self.latest_producer_ids = fact
            case ReassignmentStatusAddress() | StatusRootAddress():
                self.statuses.apply(fact)
            case ReassignmentsAddress() | ReassignmentAddress() if self._advance(fact):
                self.move_znodes.apply(fact)
            case ReplicaDeletionsAddress():
                self._apply_deletions(address.topic, fact)
            case TopicDeletionAddress():
                self._apply_topic_deletion(address.topic, fact)
            case TopicConfigAddress():
                self._apply_config(address.topic, fact)
            case PartitionsAddress() if address.topic in self.topics:
                self.topics[address.topic].has_partitions_znode = fact.is_present
                self.changes.topics.add(address.topic)
            case PartitionAddress() if address.topic in self.topics:
                self._held(self.topics[address.topic], address.partition).has_znode = fact.is_present
            case DefaultBrokerConfigAddress():
                self._apply_broker_defaults(fact)
            case IsrChangeAddress() | LogDirEventAddress() | ConfigChangeAddress() if fact.stat is not None:
                self._hear(address, fact.value, fact.stat.version)
            case PreferredElectionAddress():
                self._apply_preferred_election(fact)
            case _:
                pass

    def _hear(
        self, address: IsrChangeAddress | LogDirEventAddress | ConfigChangeAddress, value: object, version: ZnodeVersion
    ) -> None:
        match address:
            case IsrChangeAddress():
                change = value if isinstance(value, IsrChange) else None
                self.changes.isr_changes.append((address, version, change))
            case LogDirEventAddress():
                event = value if isinstance(value, LogDirEvent) else None
                self.changes.log_dir_events.append((address, version, event))
            case ConfigChangeAddress() if isinstance(value, ConfigChange) and value.topic in self.topics:
                if not self.is_loading:  # what was changed before is read when it matters
                    self.changes.reconfigured.add(value.topic)

    def _held(self, topic: TopicView, number: PartitionId) -> Partition:
        held = topic.partitions.get(number)
        if held is None:
            held = topic.partitions[number] = Partition()
        return held

    def _apply_state(self, name: TopicName, number: PartitionId, fact: Fact) -> None:
        topic = self.topics.get(name)
        if topic is None:
            return
        held = topic.partitions.get(number)
        if held is None:
            held = topic.partitions[number] = Partition()
        if not is_newer(fact, held.as_of, is_held_present=held.state is not None or held.is_malformed):
            return
        held.as_of = fact.as_of
        held.is_state_known = True
        if fact.stat is not None:
            topic.has_partitions_znode = held.has_znode = True
            held.epoch = PartitionEpoch(fact.stat.version)
        before, value = held.state, fact.value
        held.is_malformed = isinstance(value, Malformed)
        held.state = value if isinstance(value, PartitionState) else None
        self.mark(name, number, self._state_change(TopicPartition(name, number), held, before))

    def _state_change(self, at: TopicPartition, held: Partition, before: PartitionState | None) -> int:
        state = held.state
        if state is None:
            return PartitionChange.METADATA
        if before is None:
            if self.is_loading:
                return PartitionChange.METADATA | PartitionChange.LEADERSHIP
            held.is_untold = False
            return PartitionChange.METADATA | PartitionChange.LEADERSHIP | PartitionChange.CREATED
        if state.leader_epoch != before.leader_epoch:
            held.is_untold = False
            self.changes.former_leaders.setdefault(at, before.leader)
            return PartitionChange.METADATA | PartitionChange.LEADERSHIP
        if held.assignment.is_moving:
            after = in_force(held.assignment, state)
            if not after.is_moving and after != in_force(held.assignment, before):
                held.is_untold = True  # brokers accept the target's replicas only with a higher leader epoch
        return PartitionChange.METADATA

    def mark(self, name: TopicName, number: PartitionId, flags: int) -> None:
        """Note that brokers must hear of a partition, and that the rules must look at it."""
        of_topic = self.changes.partitions.get(name)
        if of_topic is None:
            of_topic = self.changes.partitions[name] = {}
        of_topic[number] = of_topic.get(number, flags) | flags

    def _apply_topic(self, name: TopicName, fact: Fact) -> None:
        topic = self.topics.get(name)
        if topic is None:
            if not fact.is_present:
                self._miss_topic(name, fact.as_of)
                return
            topic = self._meet_topic(name)
        if not is_newer(fact, topic.as_of):
            return
        if fact.stat is None:
            self._forget_topic(topic)
            self._miss_topic(name, fact.as_of)
            return
        if topic.czxid not in (NEVER, fact.stat.czxid):
            self._forget_topic(topic)
            topic = self._meet_topic(name)
        topic.as_of, topic.czxid, topic.version = fact.as_of, fact.stat.czxid, fact.stat.version
        self.changes.topics.add(name)
        self._queue(topic)
        topic.is_malformed = not isinstance(fact.value, Topic)
        if not isinstance(fact.value, Topic):
            return
        self._name_topic(topic, fact.value.topic_id)
        for number, assignment in fact.value.partitions.items():
            self._assign(topic, number, assignment)
        for number in [n for n, p in topic.partitions.items() if p.assignment.replicas]:
            if number not in fact.value.partitions:
                self._assign(topic, number, UNASSIGNED)

    def _meet_topic(self, name: TopicName) -> TopicView:
        self.stray_configs.pop(name, None)
        look = look_of(name)
        if look is not None:
            self.alike.setdefault(look, set()).add(name)
        topic = self.topics[name] = TopicView(name)
        return topic

    def _name_topic(self, topic: TopicView, topic_id: TopicId | None) -> None:
        topic.has_lost_id = topic_id is None and topic.topic_id is not None
        if topic.has_lost_id:
            return
        if topic.topic_id is not None and topic.topic_id != topic_id:
            self.topic_names.pop(topic.topic_id, None)
        is_new, topic.topic_id = topic_id != topic.topic_id, topic_id
        if topic_id is not None:
            self.topic_names[topic_id] = topic.name
            if is_new:  # brokers take an id in without a higher leader epoch (KAFKA-12835)
                for number in topic.partitions:
                    self.mark(topic.name, number, PartitionChange.METADATA | PartitionChange.LEADERSHIP)

    def _assign(self, topic: TopicView, number: PartitionId, assignment: Assignment) -> None:
        held = topic.partitions.get(number)
        if held is None:
            held = topic.partitions[number] = Partition()
        before = held.assignment
        if before == assignment:
            return
        if not before.replicas:
            held.is_untold = assignment.is_moving or number in topic.deletions
        elif held.state is not None and in_force(before, held.state) != in_force(assignment, held.state):
            held.is_untold = True
        held.assignment = assignment
        self._index(topic.name, number, before, assignment)
        self.mark(topic.name, number, PartitionChange.METADATA)

    def _index(self, name: TopicName, number: PartitionId, before: Assignment, after: Assignment) -> None:
        for broker in before.replicas:
            if broker not in after.replicas:
                self._unhost(broker, name, number)
        for broker in after.replicas:
            if broker not in before.replicas:
                self.hosted.setdefault(broker, {}).setdefault(name, set()).add(number)
                self.replica_counts[broker] = self.replica_counts.get(broker, 0) + 1
        for broker in before.replicas[:1]:
            self.preferred_counts[broker] -= 1
        for broker in after.replicas[:1]:
            self.preferred_counts[broker] = self.preferred_counts.get(broker, 0) + 1
        self.partition_count += bool(after.replicas) - bool(before.replicas)
        topic = self.topics.get(name)
        if after.is_moving and not (topic and topic.is_queued_for_deletion):
            self.moving.setdefault(name, set()).add(number)
        elif before.is_moving:
            _discard(self.moving, name, number)

    def _unhost(self, broker: BrokerId, name: TopicName, number: PartitionId) -> None:
        _discard(self.hosted.get(broker, {}), name, number)
        self.replica_counts[broker] -= 1

    def _forget_topic(self, topic: TopicView) -> None:
        for number, held in topic.partitions.items():
            self._index(topic.name, number, held.assignment, UNASSIGNED)
        if topic.topic_id is not None:
            self.topic_names.pop(topic.topic_id, None)
            topic.topic_id = None
        self._owe(topic, {})
        for number in topic.partitions:
            self.offline_replicas.pop(TopicPartition(topic.name, number), None)
        del self.topics[topic.name]
        look = look_of(topic.name)
        if look is not None:
            self.alike[look].discard(topic.name)
            if not self.alike[look]:
                del self.alike[look]
        self.changes.partitions.pop(topic.name, None)
        self.changes.gone_topics[topic.name] = topic

    def _apply_broker(self, broker: BrokerId, fact: Fact) -> None:
        if not self._advance(fact):
            return
        held = self.brokers.get(broker)
        if fact.stat is None or not isinstance(fact.value, Registration):
            self.returning.pop(broker, None)
            if held is not None:
                self._lose_broker(broker)
            return
        seen = Broker(fact.value, BrokerEpoch(fact.stat.czxid))
        if broker in self.departing:
            self.returning[broker] = seen
        elif held is None:
            self._gain_broker(broker, seen)
        elif held.epoch != seen.epoch and broker != self.own_id and not self.is_loading:
            self._lose_broker(broker)
            self.returning[broker] = seen
        elif held != seen:
            self.brokers[broker] = seen
            self.changes.brokers.setdefault(broker, BrokerChange.CHANGED)

    def readmit(self, broker: BrokerId) -> None:
        """Its former life has been dealt with: let a broker back in if it has returned meanwhile.

        Until then it is kept out, also where its old life ended unseen. It may have lost records that were not
        flushed, so another in-sync replica must lead first; and as an old leader it may have written an ISR that only
        the conflict of that election brings to light.

        Source: Kafka's onBrokerFailure, then onBrokerStartup.
        """
        self.departing.discard(broker)
        if broker in self.returning:
            self._gain_broker(broker, self.returning.pop(broker))

    def start_shutdown(self, broker: BrokerId) -> None:
        """A broker said that it will leave: it no longer counts as live, but can still be talked to."""
        self.shutting_down.add(broker)
        self._mark_hosted(broker)

    def fail_replica(self, at: TopicPartition, broker: BrokerId) -> None:
        """A broker said that the log directory of its replica is bad."""
        failed = self.offline_replicas.setdefault(at, set())
        if broker not in failed:
            failed.add(broker)
            self.mark(at.topic, at.partition, PartitionChange.METADATA)

    def heal_replica(self, at: TopicPartition, broker: BrokerId) -> None:
        """A broker accepted a replica whose log directory was bad before."""
        failed = self.offline_replicas.get(at)
        if failed and broker in failed:
            failed.discard(broker)
            if not failed:
                del self.offline_replicas[at]
            self.mark(at.topic, at.partition, PartitionChange.METADATA)

    def doom(self, broker: BrokerId, stops: Iterable[ReplicaStop]) -> None:
        """A broker is being told to delete these replicas; whatever becomes of them, their logs will be gone."""
        self.doomed.setdefault(broker, set()).update(_deleted(stops))

    def survive(self, broker: BrokerId, stops: Iterable[ReplicaStop]) -> None:
        """A broker has answered that: a replica that is there now is a new one."""
        self.doomed.get(broker, set()).difference_update(_deleted(stops))

    def _gain_broker(self, broker: BrokerId, seen: Broker) -> None:
        self.brokers[broker] = seen
        self.changes.brokers[broker] = BrokerChange.APPEARED
        self._mark_hosted(broker)
        self._mark_hosted(self.own_id)  # a broker has come that may take our place

    def _lose_broker(self, broker: BrokerId) -> None:
        del self.brokers[broker]
        self.shutting_down.discard(broker)
        self.doomed.pop(broker, None)
        if not self.is_loading:
            self.departing.add(broker)
        self.changes.brokers[broker] = BrokerChange.VANISHED
        for at in [at for at, brokers in self.offline_replicas.items() if broker in brokers]:
            self.heal_replica(at, broker)
        self._mark_hosted(broker)

    def _mark_hosted(self, broker: BrokerId) -> None:
        for name, numbers in self.hosted.get(broker, {}).items():
            for number in numbers:
                self.mark(name, number, PartitionChange.METADATA)

    def _complain(self, fact: Fact, malformed: Malformed) -> None:
        """Once for each version of a znode, however often it is read."""
        address = fact.address
        if self._complained.get(address.path) != fact.as_of:
            self._complained[address.path] = fact.as_of
            is_dropped = isinstance(address, IsrChangeAddress | LogDirEventAddress)
            fate = "it is removed" if is_dropped else "it is left as it is until it is mended"
            if isinstance(address, ReassignmentAddress):
                fate = "it is removed, or says again where the partition moves"
            self.changes.malformed.append((address.path, f"{malformed.reason}; {fate}"))

    def _advance(self, fact: Fact) -> bool:
        path = fact.address.path
        as_of, is_present = self._seen.get(path, (NEVER, False))
        if not is_newer(fact, as_of, is_held_present=is_present):
            return False
        self._seen[path] = fact.as_of, fact.is_present
        return True

    def _apply_legacy(self, fact: Fact) -> None:
        """Entries are taken when the znode appears, and only fewer of them afterwards.

        Source: KIP-455: "Once the znode is non-empty, further writes to it will be ignored."
        """
        if not self._advance(fact):
            return
        self.changes.legacy = True
        self.legacy_version = fact.stat.version if fact.stat else ZnodeVersion(-1)
        self.is_legacy_malformed = isinstance(fact.value, Malformed)
        self.has_foreign_legacy = False
        if fact.stat is not None and fact.stat.czxid not in (self.legacy_czxid, UNKNOWN):
            self.legacy, self.legacy_czxid = {}, fact.stat.czxid  # another znode of that name: all in it is new
        if not isinstance(fact.value, LegacyReassignment):
            self.legacy = {}
            return
        found = {move.topic_partition: move.replicas for move in fact.value.moves}
        self.changes.malformed.extend((fact.address.path, f"{reason}; it is dropped") for reason in fact.value.rejected)
        if not self.legacy:
            self.legacy = found
            for at in found:
                if self.partition(at) is not None:
                    self.mark(at.topic, at.partition, 0)
        else:
            self.legacy = {at: target for at, target in self.legacy.items() if at in found}
            self.has_foreign_legacy = found != self.legacy

    def _apply_deletions(self, name: TopicName, fact: Fact) -> None:
        topic = self.topics.get(name)
        if topic is None or not is_newer(fact, topic.deletions_as_of, is_held_present=topic.deletions_version >= 0):
            return
        topic.deletions_as_of = fact.as_of
        topic.deletions_version = fact.stat.version if fact.stat else ZnodeVersion(-1)
        value = fact.value if isinstance(fact.value, ReplicaDeletions) else None
        owed = dict(value.replicas) if value and value.topic_id in (None, topic.topic_id) else {}
        for number in owed:
            if number not in topic.deletions:
                held = self._held(topic, number)
                held.is_untold = held.is_untold or self.is_loading
                self.mark(name, number, 0)
        self._owe(topic, owed)
        self.changes.topics.add(name)

    def _owe(self, topic: TopicView, owed: dict[PartitionId, Replicas]) -> None:
        for number, replicas in topic.deletions.items():
            for broker in replicas:
                _discard(self.owing.get(broker, {}), topic.name, number)
        topic.deletions = owed
        for number, replicas in owed.items():
            for broker in replicas:
                self.owing.setdefault(broker, {}).setdefault(topic.name, set()).add(number)

    def _apply_topic_deletion(self, name: TopicName, fact: Fact) -> None:
        if not self._advance(fact):
            return
        if fact.stat is None:
            self.deletion_marks.pop(name, None)
        else:
            self.deletion_marks[name] = DeletionMark(fact.stat.czxid, fact.stat.version)
        self.changes.marks[name] = None
        if name in self.topics:
            self._queue(self.topics[name])

    def _queue(self, topic: TopicView) -> None:
        """A topic is deleted if that was asked for in its own life; a mark from before is a former topic's."""
        mark = self.deletion_marks.get(topic.name)
        if mark is not None:
            self.changes.marks[topic.name] = None
        is_queued = self.deletes_topics and mark is not None and mark.czxid > topic.czxid
        if is_queued == topic.is_queued_for_deletion:
            return
        topic.is_queued_for_deletion = is_queued
        topic.config_version = None
        self.moving.pop(topic.name, None)
        for number, held in topic.partitions.items():
            if held.assignment.is_moving and not is_queued:
                self.moving.setdefault(topic.name, set()).add(number)
            held.is_untold = held.is_untold or not is_queued  # brokers have forgotten a topic that lives on
            self.mark(topic.name, number, PartitionChange.METADATA)

    def _miss_topic(self, name: TopicName, as_of: Zxid) -> None:
        mark = self.deletion_marks.get(name)
        if mark is not None:
            mark.missing_as_of = as_of
            self.changes.marks[name] = None

    def _apply_preferred_election(self, fact: Fact) -> None:
        if not self._advance(fact) or fact.stat is None or not isinstance(fact.value, PreferredElection):
            return
        self.changes.preferred_elections.append(fact.stat.version)
        for at in fact.value.partitions:
            if self.partition(at) is not None:
                self.preferring.add(at)
                self.mark(at.topic, at.partition, 0)

    def _apply_broker_defaults(self, fact: Fact) -> None:
        if not self._advance(fact):
            return
        before = self.unclean_election
        defaults = fact.value if isinstance(fact.value, Config) else Config({})
        self.unclean_election = is_unclean_allowed(defaults, self._configured_unclean_election)
        self.changes.unclean_election = self.unclean_election and not before

    def _apply_config(self, name: TopicName, fact: Fact) -> None:
        topic = self.topics.get(name)
        if topic is not None:
            topic.config = fact.value if isinstance(fact.value, Config) else Config({})
            topic.config_version = fact.stat.version if fact.stat else ZnodeVersion(-1)
            self.changes.configs.add(name)
        elif fact.stat is not None:
            self.stray_configs[name] = fact.stat.version
        else:
            self.stray_configs.pop(name, None)


def _deleted(stops: Iterable[ReplicaStop]) -> Iterator[TopicPartition]:
    return (TopicPartition(stop.topic, stop.partition) for stop in stops if stop.is_deletion)


def _discard(index: dict[TopicName, set[PartitionId]], name: TopicName, number: PartitionId) -> None:
    numbers = index.get(name)
    if numbers is not None:
        numbers.discard(number)
        if not numbers:
            del index[name]

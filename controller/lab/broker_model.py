"""How does one Kafka broker in ZooKeeper mode react to a controller's commands?

A pure model of what a controller can see: commands in, acknowledgements out, and a leader's requests about its ISR. It
has no clock, no socket and no ZooKeeper; its driver (the simulation, or a TCP socket around it) carries records from
leader to follower and requests to the controller. Logs are lists of numbered records, so that lost data can be seen.

Source: Kafka's ReplicaManager, Partition and ZkMetadataCache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from controller.core.messages import commands
from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import IsrProposal, TopicReference
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    Replicas,
    TopicId,
    TopicPartition,
)

DELETING_LEADER = -2  # UpdateMetadata: the topic is being deleted
UNCHECKED_EPOCHS = (-1, -2)  # StopReplica: obeyed whatever epoch the broker knows
UNCHECKED_BROKER_EPOCH = -1

_GIVES_ONE_TRY_UP = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
_WAITS_FOR_A_NEW_EPOCH = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
)


class Traits(Struct, frozen=True):
    """How brokers of different versions differ; the defaults are those of 3.9.

    Units:
        `replica_lag_s`: how long a follower may lag before the leader drops it from the ISR.
    """

    uses_alter_partition: bool = True  # otherwise the leader writes the state znode itself (before 2.7-IV2)
    knows_topic_ids: bool = True  # 2.8
    notes_topic_id_at_once: bool = True  # 3.0: older ones not with the command that makes the log
    stop_replica_has_epochs: bool = True  # 2.6
    refuses_equal_stop_epoch: bool = False  # 2.6 to 3.4.0 (KAFKA-13972)
    refuses_newer_broker_epoch: bool = False  # 2.4 (KAFKA-9839)
    checks_partition_epoch: bool = True  # 3.3
    notes_epoch_before_log: bool = True  # 3.3: without ZooKeeper it makes no log, and ignores the leader epoch later
    offline_without_zookeeper: bool = False  # 2.7 to 3.0: a replica without a log is offline until the restart
    proposes_by_id: bool = True  # 3.3
    knows_refusals: bool = True  # 3.1: an older leader stops asking after an unknown error
    replica_lag_s: float = 30.0


KAFKA_3_9 = Traits()


class Acknowledgement(Struct, frozen=True):
    """The broker's answer: the error of the whole command, and the partitions that were refused."""

    error: ErrorCode = ErrorCode.NONE
    errors: dict[TopicPartition, ErrorCode] = {}


class Record(NamedTuple):
    """One record: its number, unique in the partition, and the leader epoch it was appended in."""

    leader_epoch: LeaderEpoch
    number: int


class Log:
    """What a broker has on disk for one replica; survives the process."""

    __slots__ = ("high_watermark", "records", "topic_id")

    def __init__(self, topic_id: TopicId | None) -> None:
        self.topic_id = topic_id
        self.records: list[Record] = []
        self.high_watermark = 0

    def follow(self, leader: Log) -> None:
        """Drop records that the leader lacks, then copy the leader's.

        Epochs locate the point of divergence exactly (KIP-101, KIP-279), so this simply searches for it.
        """
        mine, theirs = self.records, leader.records
        same = min(len(mine), len(theirs))
        while same and mine[same - 1] != theirs[same - 1]:
            same -= 1
        mine[same:] = theirs[same:]
        self.high_watermark = min(leader.high_watermark, len(mine))


Disk = dict[TopicPartition, Log]


class Progress:
    """What a leader knows of one follower's position."""

    __slots__ = ("caught_up_at", "end")

    def __init__(self, now: float) -> None:
        self.end = -1  # nothing fetched in this epoch
        self.caught_up_at = now


class Replica:
    """One replica in a running broker's memory."""

    __slots__ = ("epoch_start", "followers", "is_stuck", "isr", "partition_epoch", "pending", "view")

    def __init__(self, view: commands.PartitionView) -> None:
        self.view = view
        self.isr: Replicas = view.isr
        self.partition_epoch = view.partition_epoch
        self.followers: dict[BrokerId, Progress] = {}
        self.epoch_start = 0
        self.pending: IsrProposal | None = None
        self.is_stuck = False


class BrokerModel:
    """One life of a broker's process, from start to exit; `disk` is handed from life to life.

    Shape:
        `violations` collects what no controller may ever do to a broker; empty for a correct controller.
    """

    def __init__(self, broker: BrokerId, traits: Traits = KAFKA_3_9, disk: Disk | None = None) -> None:
        self.broker = broker
        self.traits = traits
        self.disk: Disk = {} if disk is None else disk
        self.broker_epoch = BrokerEpoch(UNCHECKED_BROKER_EPOCH)
        self.controller: BrokerId | None = None
        self.controller_epoch = ControllerEpoch(0)
        self.alive: dict[BrokerId, None] = {}
        self.cache: dict[TopicPartition, commands.PartitionView] = {}
        self.replicas: dict[TopicPartition, Replica] = {}
        self.offline: dict[TopicPartition, None] = {}
        self.unmade: dict[TopicPartition, None] = {}  # offline because their logs could not be made
        self.has_zookeeper = True
        self.lacks_directory = False  # since it started: replicas found nowhere may be in the other directory
        self.without_log: dict[TopicPartition, LeaderEpoch] = {}  # leader epochs recorded without a log
        self.violations: list[str] = []

    # -- commands of the controller --

    def receive(
        self,
        command: commands.Command,
        controller: BrokerId,
        controller_epoch: ControllerEpoch,
        broker_epoch: BrokerEpoch,
        now: float = 0.0,
    ) -> Acknowledgement:
        """Carry out one command, or refuse it."""
        if broker_epoch != UNCHECKED_BROKER_EPOCH:
            if broker_epoch < self.broker_epoch:
                return Acknowledgement(ErrorCode.STALE_BROKER_EPOCH)
            if broker_epoch > self.broker_epoch and self.traits.refuses_newer_broker_epoch:
                return Acknowledgement(ErrorCode.UNKNOWN_SERVER_ERROR)
        if controller_epoch < self.controller_epoch:
            return Acknowledgement(ErrorCode.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = controller_epoch
        match command:
            case commands.LeaderAndIsr(partitions, new, _):
                if any(self._expects_a_log(view) for view in (*partitions, *new)):
                    return Acknowledgement(ErrorCode.UNKNOWN_SERVER_ERROR)
                known, created = self._lead_or_follow(partitions, now), self._lead_or_follow(new, now, is_new=True)
                return Acknowledgement(errors={**known, **created})
            case commands.UpdateMetadata(partitions, brokers):
                self.controller = controller
                self.alive = dict.fromkeys(b.broker for b in brokers)
                self._learn(partitions)
                return Acknowledgement()
            case commands.StopReplica(stops):
                return Acknowledgement(errors=dict(self._stop(stops)))

    def _learn(self, views: Iterable[commands.PartitionView]) -> None:
        for view in views:
            topic_partition = TopicPartition(view.topic, view.partition)
            if view.leader == DELETING_LEADER:
                self.cache.pop(topic_partition, None)
            else:
                self.cache[topic_partition] = view

    def _expects_a_log(self, view: commands.PartitionView) -> bool:
        """Whether this leader epoch was recorded without a log: then the broker ignores the whole request."""
        noted = self.without_log.get(TopicPartition(view.topic, view.partition))
        return noted == view.leader_epoch and view.topic_id is not None

    def _lead_or_follow(
        self, views: Iterable[commands.PartitionView], now: float, *, is_new: bool = False
    ) -> dict[TopicPartition, ErrorCode]:
        errors: dict[TopicPartition, ErrorCode] = {}
        for view in views:
            topic_partition = TopicPartition(view.topic, view.partition)
            error = self._refusal(topic_partition, view, is_new)
            if error is None:
                self._take_on(topic_partition, view, now)
            elif error is not ErrorCode.NONE:
                errors[topic_partition] = error
        return errors

    def _refusal(self, topic_partition: TopicPartition, view: commands.PartitionView, is_new: bool) -> ErrorCode | None:
        """Why a partition's state is not applied; None when it is, NONE when it is silently ignored."""
        if self.broker not in view.replicas:
            self.violations.append(
                f"broker {self.broker} was commanded to host {topic_partition} of replicas {list(view.replicas)}"
            )
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        log = self.disk.get(topic_partition)
        known = self.replicas.get(topic_partition)
        if not is_new and self.is_offline(topic_partition) and topic_partition not in self.offline:
            self.unmade[topic_partition] = None
        if self._is_marked_offline(topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.traits.knows_topic_ids and log is not None and view.topic_id is not None:
            if log.topic_id is None:
                log.topic_id = view.topic_id
                is_known_epoch = known is not None and known.view.leader_epoch == view.leader_epoch
                if is_known_epoch and self.traits.notes_topic_id_at_once:
                    return ErrorCode.NONE
            elif log.topic_id != view.topic_id:
                return ErrorCode.INCONSISTENT_TOPIC_ID
        noted = self.without_log.get(topic_partition, -1) if known is None else known.view.leader_epoch
        if view.leader_epoch <= noted:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        is_older = known is not None and view.partition_epoch < known.partition_epoch
        return ErrorCode.NONE if is_older and self.traits.checks_partition_epoch else None

    def _take_on(self, topic_partition: TopicPartition, view: commands.PartitionView, now: float) -> None:
        log = self.disk.get(topic_partition)
        if log is None and not self.has_zookeeper:  # it cannot read the topic's settings
            if self.traits.offline_without_zookeeper:
                self.unmade[topic_partition] = None
            if self.traits.notes_epoch_before_log and view.leader != self.broker:
                self.without_log[topic_partition] = view.leader_epoch
            return
        self.without_log.pop(topic_partition, None)
        if log is None:
            has_id = self.traits.knows_topic_ids and self.traits.notes_topic_id_at_once
            log = self.disk[topic_partition] = Log(view.topic_id if has_id else None)
        if view.leader != self.broker and view.leader not in self.alive:
            return  # makes only the log: applies neither the leader nor its epoch
        replica = self.replicas[topic_partition] = Replica(view)
        if view.leader == self.broker:
            replica.epoch_start = len(log.records)
            replica.followers = {r: Progress(now) for r in view.replicas if r != self.broker}
            self._advance(replica, log)

    def _stop(self, stops: Iterable[commands.ReplicaStop]) -> Iterator[tuple[TopicPartition, ErrorCode]]:
        for stop in stops:
            topic_partition = TopicPartition(stop.topic, stop.partition)
            known = self.replicas.get(topic_partition)
            if self._is_marked_offline(topic_partition):
                yield topic_partition, ErrorCode.KAFKA_STORAGE_ERROR
                continue
            if known is not None and self._is_fenced(stop, known):
                yield topic_partition, ErrorCode.FENCED_LEADER_EPOCH
                continue
            self.replicas.pop(topic_partition, None)
            self.without_log.pop(topic_partition, None)
            if stop.is_deletion:
                self.disk.pop(topic_partition, None)

    def _is_fenced(self, stop: commands.ReplicaStop, known: Replica) -> bool:
        if not self.traits.stop_replica_has_epochs or stop.leader_epoch in UNCHECKED_EPOCHS:
            return False
        if self.traits.refuses_equal_stop_epoch:
            return stop.leader_epoch <= known.view.leader_epoch
        return stop.leader_epoch < known.view.leader_epoch

    # -- data --

    def fail_directory(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """The log directory with these replicas fails: they are offline until the process ends."""
        for topic_partition in topic_partitions:
            self.offline[topic_partition] = None
            self.replicas.pop(topic_partition, None)

    def is_offline(self, topic_partition: TopicPartition) -> bool:
        """Whether a replica is in the failed log directory, may be because it is nowhere else, or has no log."""
        may_be_there = (self.lacks_directory or bool(self.offline)) and topic_partition not in self.disk
        return self._is_marked_offline(topic_partition) or may_be_there

    def _is_marked_offline(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self.offline or topic_partition in self.unmade

    def leads(self, topic_partition: TopicPartition) -> bool:
        """Whether this broker believes that it leads the partition."""
        replica = self.replicas.get(topic_partition)
        return replica is not None and replica.view.leader == self.broker

    def append(self, topic_partition: TopicPartition, number: int) -> bool:
        """Append a record, if this broker leads; acknowledged once the high watermark has passed it."""
        if not self.leads(topic_partition):
            return False
        replica, log = self.replicas[topic_partition], self.disk[topic_partition]
        log.records.append(Record(replica.view.leader_epoch, number))
        self._advance(replica, log)
        return True

    def fetch(self, topic_partition: TopicPartition, leader: BrokerModel, now: float) -> bool:
        """Replicate from the leader up to its end; False unless both are in the same leader epoch."""
        mine, theirs = self.replicas.get(topic_partition), leader.replicas.get(topic_partition)
        if mine is None or theirs is None or not leader.leads(topic_partition):
            return False
        if mine.view.leader != leader.broker or mine.view.leader_epoch != theirs.view.leader_epoch:
            return False
        self.disk[topic_partition].follow(leader.disk[topic_partition])
        leader.hear(topic_partition, self.broker, len(self.disk[topic_partition].records), now)
        return True

    def hear(self, topic_partition: TopicPartition, follower: BrokerId, end: int, now: float) -> None:
        """As a leader: a follower has everything before `end`."""
        replica, log = self.replicas[topic_partition], self.disk[topic_partition]
        progress = replica.followers.get(follower)
        if progress is None:
            return
        progress.end = end
        if end >= len(log.records):
            progress.caught_up_at = now
        self._advance(replica, log)

    def assume_followers_in_sync(self, now: float) -> None:
        """As a leader without data: every replica on a live broker has caught up."""
        for topic_partition, replica in self.replicas.items():
            if replica.view.leader == self.broker:
                end = len(self.disk[topic_partition].records)
                for follower in replica.followers:
                    if follower in self.alive:
                        self.hear(topic_partition, follower, end, now)

    def _advance(self, replica: Replica, log: Log) -> None:
        """Move the high watermark to what every member of the ISR has, members just proposed included."""
        members = replica.isr if replica.pending is None else (*replica.isr, *replica.pending.isr)
        ends = [replica.followers[m].end for m in members if m in replica.followers]
        log.high_watermark = max(log.high_watermark, min([len(log.records), *ends]))

    # -- requests of a leader --

    def proposals(self, now: float) -> list[IsrProposal]:
        """The ISR changes this broker wants as a leader; each is pending until `settle`d."""
        proposals = []
        for topic_partition, replica in self.replicas.items():
            if replica.view.leader != self.broker or replica.pending is not None or replica.is_stuck:
                continue
            isr = self._wanted_isr(replica, self.disk[topic_partition], now)
            if isr != replica.isr:
                replica.pending = self._proposal(replica, isr)
                proposals.append(replica.pending)
        return proposals

    def _proposal(self, replica: Replica, isr: Replicas) -> IsrProposal:
        view = replica.view
        has_id = self.traits.proposes_by_id and view.topic_id is not None
        reference = TopicReference(topic_id=view.topic_id) if has_id else TopicReference(name=view.topic)
        return IsrProposal(reference, view.partition, view.leader_epoch, replica.partition_epoch, isr)

    def _wanted_isr(self, replica: Replica, log: Log, now: float) -> Replicas:
        end, lag = len(log.records), self.traits.replica_lag_s
        kept = tuple(
            m
            for m in replica.isr
            if m == self.broker
            or m not in replica.followers
            or replica.followers[m].end >= end
            or now - replica.followers[m].caught_up_at <= lag
        )
        if kept != replica.isr:
            return kept
        joining = tuple(
            f
            for f, progress in replica.followers.items()
            if f not in replica.isr and progress.end >= max(log.high_watermark, replica.epoch_start)
        )
        return (*replica.isr, *joining)

    def settle(
        self,
        topic_partition: TopicPartition,
        proposal: IsrProposal,
        error: ErrorCode,
        leader_epoch: LeaderEpoch,
        isr: Replicas,
        partition_epoch: PartitionEpoch,
    ) -> bool:
        """Apply the answer to a proposal. True if the same is to be sent again.

        After most refusals a leader changes nothing more until a LeaderAndIsr brings a higher leader epoch. It ignores
        a state of another leader epoch: until it hears of that, it waits for all that it has proposed.
        """
        replica = self.replicas.get(topic_partition)
        if replica is None or replica.pending is not proposal:
            return False
        if error is ErrorCode.NONE:
            if leader_epoch != proposal.leader_epoch:
                return False
            if partition_epoch >= replica.partition_epoch:
                replica.isr, replica.partition_epoch = isr, partition_epoch
            replica.pending = None
            self._advance(replica, self.disk[topic_partition])
            return False
        if error in _GIVES_ONE_TRY_UP and self.traits.knows_refusals:
            replica.pending = None
            return False
        if error in _WAITS_FOR_A_NEW_EPOCH or not self.traits.knows_refusals:
            replica.is_stuck = True
            return False
        return True

    def forget_wish(self, topic_partition: TopicPartition, proposal: IsrProposal) -> None:
        """An old leader's write of the state znode was refused; it tries again at the next check."""
        replica = self.replicas.get(topic_partition)
        if replica is not None and replica.pending is proposal:
            replica.pending = None

    # -- what can be asked of it --

    def led(self) -> list[TopicPartition]:
        """The partitions it believes it leads."""
        return [tp for tp, replica in self.replicas.items() if replica.view.leader == self.broker]

    def hosted(self) -> dict[TopicPartition, TopicId | None]:
        """Every replica on its disk with the topic id kept there, strays included."""
        return {tp: log.topic_id for tp, log in self.disk.items()}

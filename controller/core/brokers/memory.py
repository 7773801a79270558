"""What does the duty for brokers remember of this term?"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct, field

from controller.core.announcing.announcements import Making
from controller.core.state.brokers import NO_BROKERS, Broker
from controller.core.state.topics import Partition
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition


class BrokersMemory(Struct, frozen=True, eq=False):
    """Written only by `Brokers` and its parts; other duties request notes through `Announcements`."""

    # The ids of our replicas, which host nothing: our own, those registered during this term, and recorded ones; False
    # if an id is only known from the record, for a broker may have taken it.
    controllers: dict[BrokerId, bool] = field(default_factory=dict)
    # Admitted brokers: without those whose former registration is still being dealt with.
    brokers: dict[BrokerId, Broker] = field(default_factory=dict)
    # Brokers that get a full update in this turn.
    updated_in_full: dict[BrokerId, None] = field(default_factory=dict)
    # Registered brokers that are shutting down.
    shutting_down: dict[BrokerId, None] = field(default_factory=dict)
    # Replicas whose log directory has failed.
    offline_replicas: dict[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)
    # Partitions whose leader may not know the current replicas or state, or may know a follower from before its broker
    # died: in this leader epoch no replica joins the ISR.
    unannounced: dict[TopicPartition, None] = field(default_factory=dict)
    # Brokers that have returned, until what leaders know of their former life is outdated: none of their replicas joins
    # an ISR.
    returning: dict[BrokerId, None] = field(default_factory=dict)
    # Replicas that were sent a deletion, and have not been in the ISR since.
    logs_deleted: dict[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)
    # Former replicas that were sent no deletion since they left: if they are added again, they are not new.
    logs_left: dict[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)
    # Replicas being added that were once in the ISR.
    caught_up: dict[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)
    # The replicas that this controller proposed to create, until brokers are sent them.
    made: dict[TopicPartition, Making] = field(default_factory=dict)
    # Partitions to examine and announce because of brokers' answers.
    touched: dict[TopicPartition, None] = field(default_factory=dict)

    def note_unannounced(self, at: TopicPartition) -> None:
        """Note that the leader may not know its current state."""
        self.unannounced[at] = None

    def note_returned(self, broker: BrokerId) -> None:
        """Note that the former life of a broker is outdated everywhere."""
        self.returning.pop(broker, None)

    def note_log_deletion(self, at: TopicPartition, broker: BrokerId) -> None:
        """Note that a replica is sent a deletion."""
        self.logs_deleted[at] = self.logs_deleted.get(at, NO_BROKERS) | {broker}

    def note_former_log_deletion(self, at: TopicPartition, broker: BrokerId) -> None:
        """Note that a former replica is sent a deletion."""
        if at in self.logs_left:
            _keep(self.logs_left, at, self.logs_left[at] - {broker})

    def note_log_kept(self, at: TopicPartition, broker: BrokerId) -> None:
        """Note that a broker could not carry out a deletion: its log directory has failed, with the log."""
        if at in self.logs_deleted:
            _keep(self.logs_deleted, at, self.logs_deleted[at] - {broker})

    def note_making(self, at: TopicPartition, making: Making) -> None:
        """Note replicas that a proposal creates."""
        self.made[at] = making

    def note_known(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        """Note replicas that a broker is sent as existing ones, in a full update before their leader epoch rises."""
        for at in partitions if self.made else ():
            made = self.made.get(at)
            if made is not None and broker in made.replicas:
                self.made[at] = Making(made.written, made.replicas - {broker})

    def take_made(self, at: TopicPartition, held: Partition) -> frozenset[BrokerId]:
        """Take the replicas that are new to brokers because this controller has just created them.

        That they were unknown is no proof: a znode may have been unreadable, and the logs may exist.
        """
        made = self.made.pop(at, None)
        is_ours = made is not None and made.written in (held.state, held.assignment)
        return made.replicas - self.logs_left.get(at, NO_BROKERS) if made is not None and is_ours else NO_BROKERS

    def fail_replica(self, at: TopicPartition, broker: BrokerId) -> None:
        """Note a failed log directory that a broker reported for its replica."""
        failed = self.offline_replicas.get(at, NO_BROKERS)
        if broker not in failed:
            self.offline_replicas[at] = failed | {broker}
            self.touched[at] = None

    def heal_replica(self, at: TopicPartition, broker: BrokerId) -> None:
        """Note that a replica is accepted again, or gone, after its log directory had failed."""
        failed = self.offline_replicas.get(at, NO_BROKERS)
        if broker in failed:
            _keep(self.offline_replicas, at, failed - {broker})
            self.touched[at] = None

    @property
    def is_all_in_sync(self) -> bool:
        """Whether nothing is remembered that an ISR could change."""
        return not (self.caught_up or self.logs_deleted)

    def note_in_sync(self, at: TopicPartition, held: Partition, former: Partition) -> None:
        """Note a partition's ISR: replicas in it have all records, whatever happened before. Note who left, too."""
        isr = held.state.isr if held.state is not None else ()
        former_isr = former.state.isr if former.state is not None else ()
        adding, caught_up = held.assignment.adding, self.caught_up.get(at, NO_BROKERS)
        replicas, deleted = held.assignment.replicas, self.logs_deleted.get(at, NO_BROKERS)
        before = (*former.assignment.replicas, *former_isr)
        left = [r for r in before if r not in replicas and r not in isr and r not in deleted]
        if left:
            self.logs_left[at] = self.logs_left.get(at, NO_BROKERS).union(left)
        if adding or caught_up:
            _keep(self.caught_up, at, frozenset(r for r in adding if r in isr or r in caught_up))
        if deleted:
            joined = [r for r in isr if r not in former_isr]
            _keep(self.logs_deleted, at, frozenset(r for r in deleted if r in replicas and r not in joined))

    def forget_topic(self, name: TopicName, numbers: Collection[PartitionId]) -> None:
        """Forget a deleted topic's partitions."""
        noted = (self.offline_replicas, self.unannounced, self.logs_deleted, self.logs_left, self.caught_up, self.made)
        for said in noted:
            for number in numbers if said else ():
                said.pop(TopicPartition(name, number), None)


def _keep(kept: dict[TopicPartition, frozenset[BrokerId]], at: TopicPartition, brokers: frozenset[BrokerId]) -> None:
    if brokers:
        kept[at] = brokers
    else:
        kept.pop(at, None)

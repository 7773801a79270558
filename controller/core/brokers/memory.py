"""What does the duty for brokers remember of this term?"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct, field

from controller.core.state.brokers import NO_BROKERS, Broker
from controller.core.state.topics import Partition
from controller.core.telling.announcements import Making
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition


class BrokersMemory(Struct, frozen=True, eq=False):
    """Written by `Brokers` and its parts only; what other duties want noted they ask for as `Announcements`."""

    # The ids of replicas of ours, which host nothing: our own, those of registrations seen in this term, and those
    # recorded; False where that is all that is known, for a broker may have the id now.
    controllers: dict[BrokerId, bool] = field(default_factory=dict)
    # Those let in: one whose former life still has to be dealt with is not among them.
    brokers: dict[BrokerId, Broker] = field(default_factory=dict)
    # Those that get a full update in this turn.
    updated_in_full: dict[BrokerId, None] = field(default_factory=dict)
    # Registered, and about to leave.
    shutting_down: dict[BrokerId, None] = field(default_factory=dict)
    # Whose log directory is bad.
    offline_replicas: dict[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)
    # The leader has not heard which replicas, or which state, are in force, or may know a follower as it was before its
    # broker died: in this leader epoch no replica joins the ISR any more.
    unannounced: dict[TopicPartition, None] = field(default_factory=dict)
    # Sent a command to delete their logs, and not in the ISR since.
    logs_deleted: dict[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)
    # Being added, and in the ISR at some time.
    caught_up: dict[TopicPartition, frozenset[BrokerId]] = field(default_factory=dict)
    # The replicas that this controller proposed to make, until brokers hear of them.
    made: dict[TopicPartition, Making] = field(default_factory=dict)
    # To look at, and to announce, because of what brokers said.
    touched: dict[TopicPartition, None] = field(default_factory=dict)

    def note_unannounced(self, at: TopicPartition) -> None:
        """The leader may not know what is in force."""
        self.unannounced[at] = None

    def note_log_deletion(self, at: TopicPartition, broker: BrokerId) -> None:
        """A command to delete its log goes to a replica."""
        self.logs_deleted[at] = self.logs_deleted.get(at, NO_BROKERS) | {broker}

    def note_making(self, at: TopicPartition, making: Making) -> None:
        """Replicas are being made."""
        self.made[at] = making

    def take_made(self, at: TopicPartition, held: Partition) -> frozenset[BrokerId]:
        """The replicas that brokers now hear of for the first time, because this controller has just made them.

        That nothing was known of them before is no proof: a znode may have been unreadable, and the logs be there.
        """
        made = self.made.pop(at, None)
        is_ours = made is not None and made.written in (held.state, held.assignment)
        return made.replicas if made is not None and is_ours else NO_BROKERS

    def fail_replica(self, at: TopicPartition, broker: BrokerId) -> None:
        """A broker said that the log directory of its replica is bad."""
        failed = self.offline_replicas.get(at, NO_BROKERS)
        if broker not in failed:
            self.offline_replicas[at] = failed | {broker}
            self.touched[at] = None

    def heal_replica(self, at: TopicPartition, broker: BrokerId) -> None:
        """A broker accepted a replica whose log directory was bad before, or is gone."""
        failed = self.offline_replicas.get(at, NO_BROKERS)
        if broker in failed:
            _keep(self.offline_replicas, at, failed - {broker})
            self.touched[at] = None

    def note_in_sync(self, at: TopicPartition, held: Partition, former: Partition) -> None:
        """A partition has changed: its replicas in sync have all records, whatever was before."""
        isr = held.state.isr if held.state is not None else ()
        former_isr = former.state.isr if former.state is not None else ()
        adding, caught_up = held.assignment.adding, self.caught_up.get(at, NO_BROKERS)
        if adding or caught_up:
            _keep(self.caught_up, at, frozenset(r for r in adding if r in isr or r in caught_up))
        deleted = self.logs_deleted.get(at, NO_BROKERS)
        if deleted:
            joined = [r for r in isr if r not in former_isr]
            replicas = held.assignment.replicas
            _keep(self.logs_deleted, at, frozenset(r for r in deleted if r in replicas and r not in joined))

    def forget_topic(self, name: TopicName, numbers: Collection[PartitionId]) -> None:
        """A topic is gone, and with it everything that was said of its partitions."""
        for said in (self.offline_replicas, self.unannounced, self.logs_deleted, self.caught_up, self.made):
            for number in numbers if said else ():
                said.pop(TopicPartition(name, number), None)


def _keep(kept: dict[TopicPartition, frozenset[BrokerId]], at: TopicPartition, brokers: frozenset[BrokerId]) -> None:
    if brokers:
        kept[at] = brokers
    else:
        kept.pop(at, None)

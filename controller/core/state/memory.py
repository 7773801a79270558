"""What have brokers and clients said since this controller was elected?

ZooKeeper holds none of it. Losing it with the term costs a repetition: asking again, telling again, waiting again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from controller.core.state.brokers import Broker
from controller.core.state.topics import Partition
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition, Zxid
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

NOBODY: frozenset[BrokerId] = frozenset()


class Making(Struct, frozen=True):
    """Replicas that this controller makes by a write: they are new where ZooKeeper holds what it wrote."""

    written: PartitionState | Assignment
    replicas: frozenset[BrokerId]


class Memory:
    """The memory of one term, by the duty that owns each part. All read it through the `Cluster` view.

    What another duty wants changed of a part is a method here.
    """

    def __init__(self, own_id: BrokerId) -> None:
        # brokers.Brokers
        # The ids of replicas of ours, which host nothing: our own, those of registrations seen in this term, and those
        # recorded; False where that is all that is known, for a broker may have the id now.
        self.controllers: dict[BrokerId, bool] = {own_id: True}
        # Those let in: one whose former life still has to be dealt with is not among them.
        self.brokers: dict[BrokerId, Broker] = {}
        # Those that get a full update in this turn.
        self.told_everything: dict[BrokerId, None] = {}
        # Registered, and about to leave.
        self.shutting_down: dict[BrokerId, None] = {}
        # Whose log directory is bad.
        self.offline_replicas: dict[TopicPartition, frozenset[BrokerId]] = {}
        # The leader has not heard which replicas, or which state, are in force, or may know a follower as it was before
        # its broker died: in this leader epoch nobody joins the ISR any more.
        self.untold: dict[TopicPartition, None] = {}
        # Told to delete their logs, and not in the ISR since.
        self.emptied: dict[TopicPartition, frozenset[BrokerId]] = {}
        # Being added, and in the ISR at some time.
        self.caught_up: dict[TopicPartition, frozenset[BrokerId]] = {}
        # To look at, and to tell of, because of what brokers said.
        self.touched: dict[TopicPartition, None] = {}

        # reassignment.Moves
        # The brokers that have deleted replicas that leave.
        self.confirmed: dict[TopicPartition, frozenset[BrokerId]] = {}
        # Moves that have waited long enough for that.
        self.out_of_patience: dict[TopicPartition, None] = {}
        # Topics of which the ends of moves are about to be written together.
        self.gathering: dict[TopicName, None] = {}

        # elections.Elections
        # Somebody asked that the preferred replica leads.
        self.preferring: dict[TopicPartition, None] = {}
        # Topics whose settings were read for decisions at hand, and the partitions still to be decided with them.
        self.fresh_configs: dict[TopicName, dict[PartitionId, None]] = {}

        # reassignment.LegacyZnode
        # The entries of `/admin/reassign_partitions` that were accepted, and which znode they came from.
        self.legacy: dict[TopicPartition, Replicas] = {}
        self.legacy_czxid = Zxid(-1)

        # reassignment.ReassignmentFolder
        # Moves that a child of `/admin/reassignments` asked for.
        self.asked_by_child: dict[TopicPartition, None] = {}

        # counts.PartitionCounts
        # Without a leader that can serve; with another leader than the first replica.
        self.offline: dict[TopicPartition, None] = {}
        self.not_preferred: dict[TopicPartition, None] = {}

        # topics.Topics
        # Their deletion goes on although its request was taken away: brokers hear nothing of them until it is there
        # again.
        self.withdrawn: dict[TopicName, None] = {}

        # reassignment.ForeignWrites
        # Partitions whose replicas somebody else has changed in the topic's znode: that does not count, and is written
        # back.
        self.overwritten: dict[TopicName, dict[PartitionId, None]] = {}

        # steps.Steps
        # The replicas that this controller proposed to make, until brokers hear of them.
        self.made: dict[TopicPartition, Making] = {}

    def distrust(self, at: TopicPartition) -> None:
        """The leader may not know what is in force: `untold`."""
        self.untold[at] = None

    def use_up_preferences(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """These partitions have been decided, and with them whether the preferred replica leads."""
        for number in numbers if self.preferring else ():
            self.preferring.pop(TopicPartition(name, number), None)

    def use_up_config(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """These partitions have been decided; the next decision about one that needs settings has them read anew."""
        left = self.fresh_configs.pop(name, {})
        for number in numbers if left else ():
            left.pop(number, None)
        if left:
            self.fresh_configs[name] = left

    def fail_replica(self, at: TopicPartition, broker: BrokerId) -> None:
        """A broker said that the log directory of its replica is bad."""
        failed = self.offline_replicas.get(at, NOBODY)
        if broker not in failed:
            self.offline_replicas[at] = failed | {broker}
            self.touched[at] = None

    def heal_replica(self, at: TopicPartition, broker: BrokerId) -> None:
        """A broker accepted a replica whose log directory was bad before, or is gone."""
        failed = self.offline_replicas.get(at, NOBODY)
        if broker in failed:
            left = failed - {broker}
            if left:
                self.offline_replicas[at] = left
            else:
                del self.offline_replicas[at]
            self.touched[at] = None

    def note_emptied(self, at: TopicPartition, broker: BrokerId) -> None:
        """A replica is being told to delete its log; whatever becomes of that, it may be gone."""
        self.emptied[at] = self.emptied.get(at, NOBODY) | {broker}

    def take_made(self, at: TopicPartition, held: Partition) -> frozenset[BrokerId]:
        """The replicas that brokers now hear of for the first time, because this controller has just made them.

        That nobody knew of them before is no proof: a znode may have been unreadable, and the logs be there.
        """
        made = self.made.pop(at, None)
        is_ours = made is not None and made.written in (held.state, held.assignment)
        return made.replicas if made is not None and is_ours else NOBODY

    def note_in_sync(self, at: TopicPartition, held: Partition, former: Partition) -> None:
        """A partition has changed: its replicas in sync have all records, whatever was before."""
        isr = held.state.isr if held.state is not None else ()
        former_isr = former.state.isr if former.state is not None else ()
        adding, caught_up = held.assignment.adding, self.caught_up.get(at, NOBODY)
        if adding or caught_up:
            _keep(self.caught_up, at, frozenset(r for r in adding if r in isr or r in caught_up))
        emptied = self.emptied.get(at, NOBODY)
        if emptied:
            joined = [r for r in isr if r not in former_isr]
            replicas = held.assignment.replicas
            _keep(self.emptied, at, frozenset(r for r in emptied if r in replicas and r not in joined))

    def forget_topic(self, name: TopicName, numbers: Collection[PartitionId]) -> None:
        """A topic is gone, and with it everything that was said of its partitions."""
        for said in (
            self.offline_replicas,
            self.untold,
            self.confirmed,
            self.emptied,
            self.caught_up,
            self.preferring,
            self.made,
        ):
            if said:
                for number in numbers:
                    said.pop(TopicPartition(name, number), None)


def _keep(kept: dict[TopicPartition, frozenset[BrokerId]], at: TopicPartition, brokers: frozenset[BrokerId]) -> None:
    if brokers:
        kept[at] = brokers
    else:
        kept.pop(at, None)

"""What have brokers and clients said since this controller was elected?

ZooKeeper holds none of it. Losing it with the term costs a repetition: asking, announcing and waiting again.
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
    """Replicas that this controller creates by a write: they are new if ZooKeeper holds what it wrote."""

    written: PartitionState | Assignment
    replicas: frozenset[BrokerId]


class Memory:
    """The memory of one term, by the duty that owns each part. Other duties read it through the `Cluster` view.

    They change a part only through a method here.
    """

    def __init__(self, own_id: BrokerId) -> None:
        """Begin with empty memory."""
        # brokers.Brokers
        # The ids of our replicas, which host nothing: our own, those registered during this term, and recorded ones;
        # False if an id is only known from the record, for a broker may have taken it.
        self.controllers: dict[BrokerId, bool] = {own_id: True}
        # Admitted brokers: without those whose former registration is still being dealt with.
        self.brokers: dict[BrokerId, Broker] = {}
        # Brokers that get a full update in this turn.
        self.told_everything: dict[BrokerId, None] = {}
        # Registered brokers that are shutting down.
        self.shutting_down: dict[BrokerId, None] = {}
        # Replicas whose log directory has failed.
        self.offline_replicas: dict[TopicPartition, frozenset[BrokerId]] = {}
        # Partitions whose leader may not know the current replicas or state, or may know a follower from before its
        # broker died: in this leader epoch no replica joins the ISR.
        self.untold: dict[TopicPartition, None] = {}
        # Replicas that were sent a deletion, and have not been in the ISR since.
        self.emptied: dict[TopicPartition, frozenset[BrokerId]] = {}
        # Replicas being added that were once in the ISR.
        self.caught_up: dict[TopicPartition, frozenset[BrokerId]] = {}
        # Partitions to examine and announce because of brokers' answers.
        self.touched: dict[TopicPartition, None] = {}

        # reassignment.Moves
        # Brokers that confirmed the deletion of removed replicas.
        self.confirmed: dict[TopicPartition, frozenset[BrokerId]] = {}
        # Moves that have waited long enough for that.
        self.out_of_patience: dict[TopicPartition, None] = {}
        # Topics whose ended moves are about to be written together.
        self.gathering: dict[TopicName, None] = {}

        # elections.Elections
        # Partitions whose preferred replica was requested as leader.
        self.preferring: dict[TopicPartition, None] = {}
        # Topics whose settings were read for current decisions, and the partitions still to be decided with them.
        self.fresh_configs: dict[TopicName, dict[PartitionId, None]] = {}

        # reassignment.LegacyZnode
        # The accepted entries of `/admin/reassign_partitions`, and the znode that they came from.
        self.legacy: dict[TopicPartition, Replicas] = {}
        self.legacy_czxid = Zxid(-1)

        # reassignment.ReassignmentFolder
        # Moves requested by a child of `/admin/reassignments`.
        self.asked_by_child: dict[TopicPartition, None] = {}

        # counts.PartitionCounts
        # Partitions without a leader that can serve, and those not led by their first replica.
        self.offline: dict[TopicPartition, None] = {}
        self.not_preferred: dict[TopicPartition, None] = {}

        # topics.Topics
        # Topics whose deletion continues although its request was withdrawn: brokers are sent nothing about them until
        # the request is back.
        self.withdrawn: dict[TopicName, None] = {}

        # reassignment.ForeignWrites
        # Partitions whose replicas someone else changed in the topic's znode: such changes are ignored and reverted.
        self.overwritten: dict[TopicName, dict[PartitionId, None]] = {}

        # steps.Steps
        # The replicas that this controller proposed to create, until brokers are sent them.
        self.made: dict[TopicPartition, Making] = {}

    def distrust(self, at: TopicPartition) -> None:
        """Note that the leader may not know its current state: `untold`."""
        self.untold[at] = None

    def use_up_preferences(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """Clear requests for preferred leaders that have been decided."""
        for number in numbers if self.preferring else ():
            self.preferring.pop(TopicPartition(name, number), None)

    def use_up_config(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """Forget settings after their decision; the next one has them read again."""
        left = self.fresh_configs.pop(name, {})
        for number in numbers if left else ():
            left.pop(number, None)
        if left:
            self.fresh_configs[name] = left

    def fail_replica(self, at: TopicPartition, broker: BrokerId) -> None:
        """Note a failed log directory that a broker reported for its replica."""
        failed = self.offline_replicas.get(at, NOBODY)
        if broker not in failed:
            self.offline_replicas[at] = failed | {broker}
            self.touched[at] = None

    def heal_replica(self, at: TopicPartition, broker: BrokerId) -> None:
        """Note that a replica is accepted again, or gone, after its log directory had failed."""
        failed = self.offline_replicas.get(at, NOBODY)
        if broker in failed:
            left = failed - {broker}
            if left:
                self.offline_replicas[at] = left
            else:
                del self.offline_replicas[at]
            self.touched[at] = None

    def note_emptied(self, at: TopicPartition, broker: BrokerId) -> None:
        """Note that a replica is sent a deletion; whatever the outcome, its log may be gone."""
        self.emptied[at] = self.emptied.get(at, NOBODY) | {broker}

    def take_made(self, at: TopicPartition, held: Partition) -> frozenset[BrokerId]:
        """Take the replicas that are new to brokers because this controller has just created them.

        That they were unknown is no proof: a znode may have been unreadable, and the logs may exist.
        """
        made = self.made.pop(at, None)
        is_ours = made is not None and made.written in (held.state, held.assignment)
        return made.replicas if made is not None and is_ours else NOBODY

    def note_in_sync(self, at: TopicPartition, held: Partition, former: Partition) -> None:
        """Note a partition's ISR: replicas in it have all records, whatever happened before."""
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
        """Forget all memories of a deleted topic's partitions."""
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

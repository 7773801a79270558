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
    """The memory of one term. Each part is written by one duty and read by all through the `Cluster` view.

    Shape:
        `brokers` are the registered brokers that have been let in: one whose former life still has to be dealt with is
        not among them. `told_everything` are those that are told all there is in this turn. `untold` are partitions
        whose leader has not heard which replicas, or which state, are in force, or may know a follower as it was before
        its broker died: in this leader epoch nobody joins the ISR any more. `emptied` are replicas that were told to
        delete their logs and have not joined the ISR since, `caught_up` those being added that have been in the ISR;
        `confirmed` are the brokers that have deleted replicas that leave. `out_of_patience` are moves that have waited
        long enough for that; the ends of moves of a topic in `gathering` are about to be written together. `preferring`
        are partitions for which somebody asked that the preferred replica leads; `legacy` the entries of
        `/admin/reassign_partitions` that were accepted, and `legacy_czxid` tells which znode they came from.
        `fresh_configs` are topics whose settings were read for decisions at hand, and the partitions that are still to
        be decided with them. `asked_by_child` are moves that a child of `/admin/reassignments` asked for. `offline`
        partitions have no leader that can serve, `not_preferred` ones another leader than their first replica.
        `touched` are partitions to look at, and to tell of, because of what brokers said. `controllers` are the ids of
        replicas of ours, which host nothing: our own, those of registrations seen in this term, and those recorded;
        False where that is all that is known, for a broker may have the id now. `overwritten` are partitions whose
        replicas somebody else has changed in the topic's znode: that does not count, and is written back. `withdrawn`
        are topics whose deletion goes on although its request was taken away: brokers hear nothing of them until it is
        there again. `made` are replicas that this controller proposed to make, until brokers hear of them.
    """

    def __init__(self, own_id: BrokerId) -> None:
        """Nothing was said yet."""
        self.controllers: dict[BrokerId, bool] = {own_id: True}
        self.brokers: dict[BrokerId, Broker] = {}
        self.told_everything: dict[BrokerId, None] = {}
        self.shutting_down: dict[BrokerId, None] = {}
        self.offline_replicas: dict[TopicPartition, frozenset[BrokerId]] = {}
        self.untold: dict[TopicPartition, None] = {}
        self.emptied: dict[TopicPartition, frozenset[BrokerId]] = {}
        self.caught_up: dict[TopicPartition, frozenset[BrokerId]] = {}
        self.confirmed: dict[TopicPartition, frozenset[BrokerId]] = {}
        self.preferring: dict[TopicPartition, None] = {}
        self.fresh_configs: dict[TopicName, dict[PartitionId, None]] = {}
        self.out_of_patience: dict[TopicPartition, None] = {}
        self.gathering: dict[TopicName, None] = {}
        self.legacy: dict[TopicPartition, Replicas] = {}
        self.legacy_czxid = Zxid(-1)
        self.asked_by_child: dict[TopicPartition, None] = {}
        self.offline: dict[TopicPartition, None] = {}
        self.not_preferred: dict[TopicPartition, None] = {}
        self.touched: dict[TopicPartition, None] = {}
        self.withdrawn: dict[TopicName, None] = {}
        self.overwritten: dict[TopicName, dict[PartitionId, None]] = {}
        self.made: dict[TopicPartition, Making] = {}

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

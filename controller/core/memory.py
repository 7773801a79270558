"""What have brokers and clients said since this controller was elected?

ZooKeeper holds none of it. Losing it with the term costs a repetition: asking again, telling again, waiting again.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.commands import ReplicaStop
from controller.core.state.brokers import Broker
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition, Zxid

NOBODY: frozenset[BrokerId] = frozenset()


class Memory:
    """The memory of one term. Each part is written by one duty and read by all through the `Cluster` view.

    Shape:
        `brokers` are the registered brokers that have been let in: one whose former life still has to be dealt with is
        not among them. `told_everything` are those that are told all there is in this turn. `untold` are partitions
        whose leader has not heard which replicas are in force. `deleting` are replicas that were told to delete their
        logs and have not answered; `confirmed` the brokers that have deleted theirs. `out_of_patience` are moves that
        have waited long enough for that; the ends of moves of a topic in `gathering` are about to be written together.
        `preferring` are partitions for which somebody asked that the preferred replica leads; `legacy` the entries of
        `/admin/reassign_partitions` that were accepted, and `legacy_czxid` tells which znode they came from.
        `fresh_configs` are topics whose settings were read for the decision at hand. `asked_by_child` are moves that a
        child of `/admin/reassignments` asked for. `offline` partitions have no leader that can serve, `not_preferred`
        ones another leader than their first replica. `touched` are partitions to look at, and to tell of, because of
        what brokers said. `controllers` are the ids of replicas of ours, which host nothing: our own, those of
        registrations seen in this term, and those recorded; False where that is all that is known, for a broker may
        have the id now. `overwritten` are partitions whose replicas somebody else has changed in the topic's znode:
        that does not count, and is written back.
    """

    def __init__(self, own_id: BrokerId) -> None:
        """Nothing was said yet."""
        self.controllers: dict[BrokerId, bool] = {own_id: True}
        self.brokers: dict[BrokerId, Broker] = {}
        self.told_everything: dict[BrokerId, None] = {}
        self.shutting_down: dict[BrokerId, None] = {}
        self.offline_replicas: dict[TopicPartition, frozenset[BrokerId]] = {}
        self.untold: dict[TopicPartition, None] = {}
        self.deleting: dict[BrokerId, dict[TopicPartition, None]] = {}
        self.confirmed: dict[TopicPartition, frozenset[BrokerId]] = {}
        self.preferring: dict[TopicPartition, None] = {}
        self.fresh_configs: dict[TopicName, None] = {}
        self.out_of_patience: dict[TopicPartition, None] = {}
        self.gathering: dict[TopicName, None] = {}
        self.legacy: dict[TopicPartition, Replicas] = {}
        self.legacy_czxid = Zxid(-1)
        self.asked_by_child: dict[TopicPartition, None] = {}
        self.offline: dict[TopicPartition, None] = {}
        self.not_preferred: dict[TopicPartition, None] = {}
        self.touched: dict[TopicPartition, None] = {}
        self.overwritten: dict[TopicName, dict[PartitionId, None]] = {}

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

    def note_deleting(self, broker: BrokerId, stops: Iterable[ReplicaStop]) -> None:
        """A broker is being told to delete these replicas; whatever becomes of them, their logs will be gone."""
        deleted = {TopicPartition(stop.topic, stop.partition): None for stop in stops if stop.is_deletion}
        if deleted:
            self.deleting.setdefault(broker, {}).update(deleted)

    def note_answered(self, broker: BrokerId, stops: Iterable[ReplicaStop]) -> None:
        """A broker has answered that: a replica that is there now is a new one."""
        held = self.deleting.get(broker)
        if held:
            for stop in stops:
                if stop.is_deletion:
                    held.pop(TopicPartition(stop.topic, stop.partition), None)

    def forget_topic(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """A topic is gone, and with it everything that was said of its partitions."""
        for at in (TopicPartition(name, number) for number in numbers):
            self.offline_replicas.pop(at, None)
            self.untold.pop(at, None)
            self.confirmed.pop(at, None)
            self.preferring.pop(at, None)

"""How is a command sent to a broker, what is never sent, and does an answer count?"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.announcing.announcements import Announcements
from controller.core.messages.commands import Command, LeaderAndIsr, ReplicaStop, StopReplica
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged
from controller.core.messages.outbox import Outbox
from controller.core.stage import may_be_deleted
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId, TopicPartition

WITHHELD = "withheld replica deletion"


def send(broker: BrokerId, command: Command, cluster: Cluster, noted: Announcements, out: Outbox) -> None:
    """Send a command to a broker; replicas that it deletes count as deleted, and others that it hears of as known.

    Withholds, whatever a duty has decided, the deletion of a replica whose records may be needed.
    """
    if isinstance(command, StopReplica):
        stops = tuple(stop for stop in command.stops if not stop.is_deletion or _may_delete(broker, stop, cluster))
        if len(stops) < len(command.stops):
            _say_withheld(broker, command.stops, stops, out)
            if not stops:
                return
            command = StopReplica(stops)
        _note_log_deletions(broker, stops, cluster, noted)
    if isinstance(command, LeaderAndIsr):
        noted.note_known(broker, (TopicPartition(seen.topic, seen.partition) for seen in command.partitions))
    out.send(broker, cluster.brokers[broker].epoch, cluster.controller_epoch, command)


def _note_log_deletions(broker: BrokerId, stops: Iterable[ReplicaStop], cluster: Cluster, noted: Announcements) -> None:
    for stop in stops:
        at = TopicPartition(stop.topic, stop.partition)
        held = cluster.partition(at) if stop.is_deletion else None
        if held is not None and broker in held.assignment.replicas:
            noted.note_log_deletion(at, broker)
        elif held is not None:
            noted.note_former_log_deletion(at, broker)


def _may_delete(broker: BrokerId, stop: ReplicaStop, cluster: Cluster) -> bool:
    """Whether the whole topic is deleted, or the partition does not need this replica."""
    topic = cluster.topics.get(stop.topic)
    if topic is None:
        return False
    held = topic.partitions.get(stop.partition)
    if topic.is_queued_for_deletion or held is None:
        return topic.is_queued_for_deletion
    return held.state is not None and may_be_deleted(broker, held.assignment, held.state)


def _say_withheld(
    broker: BrokerId, wanted: tuple[ReplicaStop, ...], allowed: tuple[ReplicaStop, ...], out: Outbox
) -> None:
    withheld = [TopicPartition(stop.topic, stop.partition) for stop in wanted if stop not in allowed]
    named = ", ".join(map(str, withheld[:5])) + (" …" if len(withheld) > 5 else "")
    text = f"broker {broker} must not delete its replica of {named}: the only in-sync copy may be there"
    out.notice(WITHHELD, text)


def is_current(answer: Acknowledged, cluster: Cluster) -> bool:
    """Whether the answering broker has not restarted since; answers of its former process do not count."""
    held = cluster.brokers.get(answer.broker)
    return held is not None and held.epoch == answer.broker_epoch


def is_accepted(answer: Acknowledged, cluster: Cluster) -> bool:
    """Whether the broker processed the command, even if it rejected some partitions."""
    return answer.error is ErrorCode.NONE and is_current(answer, cluster)

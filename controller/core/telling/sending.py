"""How does a command leave for a broker, what never does, and does an answer count?"""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.messages.commands import Command, ReplicaStop, StopReplica
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged
from controller.core.messages.outbox import Outbox
from controller.core.stage import may_be_deleted
from controller.core.state.view import Cluster
from controller.core.telling.announcements import Announcements
from zk_layout.ids import BrokerId, TopicPartition

WITHHELD = "withheld replica deletion"


def send(broker: BrokerId, command: Command, cluster: Cluster, noted: Announcements, out: Outbox) -> None:
    """Tell a broker; the replicas it is told to delete are as good as gone from now on.

    Whatever a duty has decided, no broker is told to delete a replica whose records may be needed.
    """
    if isinstance(command, StopReplica):
        stops = tuple(stop for stop in command.stops if not stop.is_deletion or _may_delete(broker, stop, cluster))
        if len(stops) < len(command.stops):
            _say_withheld(broker, command.stops, stops, out)
            if not stops:
                return
            command = StopReplica(stops)
        _note_log_deletions(broker, stops, cluster, noted)
    out.tell(broker, cluster.brokers[broker].epoch, cluster.controller_epoch, command)


def _note_log_deletions(broker: BrokerId, stops: Iterable[ReplicaStop], cluster: Cluster, noted: Announcements) -> None:
    """One that is no replica any more is not remembered: when it is added again, it begins with nothing anyway."""
    for stop in stops:
        at = TopicPartition(stop.topic, stop.partition)
        held = cluster.partition(at) if stop.is_deletion else None
        if held is not None and broker in held.assignment.replicas:
            noted.note_log_deletion(at, broker)


def _may_delete(broker: BrokerId, stop: ReplicaStop, cluster: Cluster) -> bool:
    """Whether a replica goes with its whole topic, or the partition can do without it."""
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
    text = f"broker {broker} is not told to delete its replica of {named}: the only in-sync copy may be there"
    out.notice(WITHHELD, text)


def is_of_its_present_life(answer: Acknowledged, cluster: Cluster) -> bool:
    """Whether the broker that answered has not been restarted since: what an earlier one said, says nothing."""
    held = cluster.brokers.get(answer.broker)
    return held is not None and held.epoch == answer.broker_epoch


def is_accepted(answer: Acknowledged, cluster: Cluster) -> bool:
    """Whether a broker took a command in, be it that it refused some partitions of it."""
    return answer.error is ErrorCode.NONE and is_of_its_present_life(answer, cluster)

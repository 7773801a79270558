"""How does a command leave for a broker, and does an answer count?"""

from __future__ import annotations

from controller.core.commands import Command, StopReplica
from controller.core.errors import ErrorCode
from controller.core.events import Acknowledged
from controller.core.memory import Memory
from controller.core.outbox import Outbox
from controller.core.view import Cluster
from zk_layout.ids import BrokerId


def send(broker: BrokerId, command: Command, cluster: Cluster, memory: Memory, out: Outbox) -> None:
    """Tell a broker; the replicas it is told to delete are as good as gone from now on."""
    if isinstance(command, StopReplica):
        memory.note_deleting(broker, command.stops)
    out.tell(broker, cluster.brokers[broker].epoch, cluster.controller_epoch, command)


def is_of_its_present_life(answer: Acknowledged, cluster: Cluster) -> bool:
    """Whether the broker that answered has not been restarted since: what an earlier one said, says nothing."""
    held = cluster.brokers.get(answer.broker)
    return held is not None and held.epoch == answer.broker_epoch


def is_accepted(answer: Acknowledged, cluster: Cluster) -> bool:
    """Whether a broker took a command in, be it that it refused some partitions of it."""
    return answer.error is ErrorCode.NONE and is_of_its_present_life(answer, cluster)

"""Which moves are meant: all, those of topics, of a partition, or of a file?

Source: KIP-455, first revision: list and cancel for one partition, a topic, everything.
"""

from __future__ import annotations

from msgspec import Struct

from controller.reassign.cluster import Cluster
from controller.reassign.executing import read_plan_file
from controller.reassign.input_file import File
from controller.reassign.refusals import Refused, Unusable
from zk_layout.ids import PartitionId, TopicName, TopicPartition


class Selection(Struct, frozen=True):
    """What was named on the command line; nothing means everything."""

    plan_file: File | None = None
    topics: tuple[TopicName, ...] = ()
    partitions: tuple[PartitionId, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether nothing was named."""
        return self.plan_file is None and not self.topics


def selected(cluster: Cluster, selection: Selection) -> list[TopicPartition] | None:
    """The partitions meant; None for all of the cluster.

    Raises:
        Unusable: a partition without its topic.
        Refused: a topic or partition that does not exist.
    """
    if selection.partitions and len(selection.topics) != 1:
        raise Unusable("--partition needs exactly one --topic that it belongs to")
    if selection.plan_file is not None:
        return list(read_plan_file(selection.plan_file).targets)
    if not selection.topics:
        return None
    topics = cluster.topics(selection.topics)
    if lost := [topic for topic in selection.topics if topic not in topics]:
        raise Refused("\n".join(f"Topic {topic} not found." for topic in lost))
    found = [TopicPartition(topic, partition) for topic, its in topics.items() for partition in its]
    if not selection.partitions:
        return found
    wanted = [TopicPartition(selection.topics[0], partition) for partition in selection.partitions]
    if unknown := [at for at in wanted if at not in set(found)]:
        raise Refused(f"Unable to find partition: {', '.join(map(str, unknown))}")
    return wanted

"""How much work is a due topic, besides its due partitions?"""

from __future__ import annotations

from controller.core.turn.shared import Shared
from zk_layout.ids import TopicName

DELETED_AS_ONE = 2


def work_of(name: TopicName, shared: Shared) -> int:
    """The work of its waiting request parts, and of the partitions deleted with it, of which a few count as one."""
    topic = shared.cluster.topics.get(name)
    deleting = 0 if topic is None or not topic.is_queued_for_deletion else len(topic.partitions)
    return deleting // DELETED_AS_ONE + shared.requests.work(name, shared.settings.budget.requested)

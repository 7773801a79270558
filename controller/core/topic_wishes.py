"""What becomes of a wish about a topic that exists: to delete it, to give it partitions, to elect a leader?"""

from __future__ import annotations

from controller.core.admin import create_partitions, create_topics, elect_leaders
from controller.core.asks import Asks, Item, denied, refused, unknown
from controller.core.cluster import Cluster
from controller.core.draft import Draft
from controller.core.effects import Create
from controller.core.errors import ErrorCode, Refusal
from controller.core.replies import Result
from controller.core.requests import CreatePartitions, Election, Growth, IsrProposal, MoveWish, NewTopic, TopicReference
from controller.core.rules.change import Case
from zk_layout.znodes.admin import TopicDeletionAddress


def consider(item: Item, draft: Draft, case: Case | None, asks: Asks, cluster: Cluster) -> Result | None:
    """The answer to a wish; None where the draft takes it in, so that it is answered when its outcome is there.

    Shape:
        `case` is that of the partition, for a wish that concerns one; None where it does not exist.
    """
    match item.wanted:
        case NewTopic():
            return denied(item, create_topics.already_exists(item.at.topic))
        case Growth() as growth:
            return _grow(item, growth, draft, asks, cluster)
        case Election() as election:
            elected = elect_leaders.consider(election, case, cluster)
            if isinstance(elected, Refusal):
                return denied(item, elected)
            draft.take(item.at.partition, elected)
            return None
        case MoveWish() | IsrProposal():
            raise TypeError(f"{type(item.wanted).__name__} is no wish about a topic")
        case _:
            topic = draft.topic.name
            draft.write(Create(TopicDeletionAddress(topic), None), f"asked to delete topic {topic}")
            return None


def consider_going(item: Item, cluster: Cluster) -> Result | None:
    """The answer to a wish about a topic that is being deleted; None where just that is wished."""
    match item.wanted:
        case TopicReference():
            return None
        case NewTopic():
            return denied(item, create_topics.already_exists(item.at.topic))
        case Growth():
            return denied(item, create_partitions.QUEUED)
        case Election():
            return denied(item, elect_leaders.GOING)
        case _:
            return unknown(item, cluster)


def _grow(item: Item, growth: Growth, draft: Draft, asks: Asks, cluster: Cluster) -> Result | None:
    added = create_partitions.consider(growth, draft.topic, cluster)
    if isinstance(added, Refusal):
        return denied(item, added)
    request = asks.request(item.ask)
    if isinstance(request, CreatePartitions) and request.is_validation_only:
        return refused(item, ErrorCode.NONE, None)
    draft.grow(added)
    return None

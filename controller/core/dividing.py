"""Which topics and partitions does a request about topics concern, and what of it is refused at once?"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from controller.core.admin import create_partitions, create_topics, delete_topics
from controller.core.admin.authorization import CLUSTER, TOPIC, Authorizer, Operation, Resource
from controller.core.asks import WHOLE_TOPIC, Item, Wanted, denied
from controller.core.cluster import Cluster
from controller.core.errors import ErrorCode, Refusal
from controller.core.events import Asked, AskId
from controller.core.replies import Result, TopicDeleted
from controller.core.requests import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Election,
    ElectLeaders,
    TopicReference,
    TopicRequest,
)
from controller.core.tally import Tally
from zk_layout.ids import TopicName, TopicPartition


class Division(Struct):
    """The parts of a request: those that topics decide, and those answered here, by their place."""

    items: list[Item]
    refused: list[tuple[int, Result]]


class Divider:
    """Takes requests about topics apart, for one reign."""

    def __init__(self, cluster: Cluster, tally: Tally, is_allowed: Authorizer) -> None:
        """Share the reign's cluster."""
        self._cluster = cluster
        self._tally = tally
        self._is_allowed = is_allowed

    def divide(self, asked: Asked, request: TopicRequest) -> Division:
        """One part for each topic, or each partition, in the order asked."""
        match request:
            case CreateTopics():
                new = [(topic.name, topic) for topic in request.topics]
                operation = None if self._is_allowed(asked.caller, Operation.CREATE, CLUSTER) else Operation.CREATE
                return self._by_topic(asked, new, create_topics.refuse_within(request), operation)
            case CreatePartitions():
                more = [(growth.topic, growth) for growth in request.growths]
                return self._by_topic(asked, more, create_partitions.refuse_within(request), Operation.ALTER)
            case DeleteTopics():
                return self._deletions(asked, request)
            case ElectLeaders():
                return self._elections(asked.ask, request)

    def _by_topic(
        self,
        asked: Asked,
        wishes: Iterable[tuple[TopicName, Wanted]],
        refusals: list[Refusal | None],
        operation: Operation | None,
    ) -> Division:
        division = Division([], [])
        for index, ((name, wish), refused_alone) in enumerate(zip(wishes, refusals, strict=True)):
            item = Item(asked.ask, index, TopicPartition(name, WHOLE_TOPIC), wish)
            refusal = refused_alone or self._forbidden(asked, operation, name)
            if refusal is None:
                division.items.append(item)
            else:
                division.refused.append((index, denied(item, refusal)))
        return division

    def _deletions(self, asked: Asked, request: DeleteTopics) -> Division:
        """Names are looked up when it is their turn, ids now: a topic that is just being created has none yet."""
        division, cluster = Division([], []), self._cluster
        refused_whole = delete_topics.refuse_within(request, is_enabled=cluster.deletes_topics)
        for index, reference in enumerate(request.topics):
            found = refused_whole or delete_topics.find(reference, cluster)
            if not isinstance(found, Refusal):
                found = self._forbidden(asked, Operation.DELETE, found) or found
            if isinstance(found, Refusal):
                result = TopicDeleted(reference.name, reference.topic_id, found.error, found.message)
                division.refused.append((index, result))
            else:
                wanted = TopicReference(found, cluster.topics[found].topic_id if found in cluster.topics else None)
                division.items.append(Item(asked.ask, index, TopicPartition(found, WHOLE_TOPIC), wanted))
        return division

    def _elections(self, ask: AskId, request: ElectLeaders) -> Division:
        """Those asked for; where all are, the ones that are led by none, or not by their preferred leader."""
        if request.partitions is not None:
            partitions = list(dict.fromkeys(request.partitions))
        else:
            partitions = sorted(self._tally.offline if request.is_unclean else self._tally.not_preferred)
        wish = Election(request.is_unclean)
        return Division([Item(ask, index, at, wish) for index, at in enumerate(partitions)], [])

    def _forbidden(self, asked: Asked, operation: Operation | None, name: TopicName) -> Refusal | None:
        if operation is None or self._is_allowed(asked.caller, operation, Resource(TOPIC, name)):
            return None
        return Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")

"""What becomes of a request as it arrives? Answered at once, split by topic, or put off until topics are at rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controller.core.admin import (
    alter_partition,
    controlled_shutdown,
    describe_cluster,
    list_reassignments,
)
from controller.core.admin.refusal import refusal
from controller.core.agenda import Agenda
from controller.core.asks import Asks, Divided, Item
from controller.core.barriers import Barriers, PermitShutdown
from controller.core.cluster import Cluster
from controller.core.dividing import Divider
from controller.core.effects import Answer, Notice, Wake
from controller.core.errors import ErrorCode
from controller.core.events import Asked
from controller.core.outcomes import NO_TIME
from controller.core.producer_ids import ProducerIds
from controller.core.replies import IsrResult, PartitionsAltered, ReassignmentsListed, Result, ShutdownPermitted
from controller.core.reports import Reports
from controller.core.requests import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribeCluster,
    ElectLeaders,
    ListReassignments,
    Mode,
)
from zk_layout.ids import BrokerId, TopicPartition


class Reception:
    """Takes requests in for one reign."""

    def __init__(  # noqa: PLR0913 (the queues of the reign, each of its own)
        self,
        cluster: Cluster,
        cluster_id: str | None,
        asks: Asks,
        agenda: Agenda,
        barriers: Barriers,
        producer_ids: ProducerIds,
        divider: Divider,
        reports: Reports | None = None,
        *,
        redundancy: int = 0,
    ) -> None:
        """Share the reign's cluster and queues; for `redundancy` see `controlled_shutdown.endangered`."""
        self._cluster = cluster
        self._cluster_id = cluster_id
        self._asks = asks
        self._agenda = agenda
        self._barriers = barriers
        self._producer_ids = producer_ids
        self._divider = divider
        self._redundancy = redundancy
        self._reports = reports

    def admit(self, asked: Asked, now: float) -> Iterator[Answer | Notice | Wake]:
        """Take a request in; yields its answer where that can be given at once."""
        match asked.request:
            case DescribeCluster() as request:
                listener = asked.caller.listener
                reply = describe_cluster.reply(request, listener, self._cluster_id, self._cluster)
                yield Answer(asked.ask, reply)
            case ListReassignments() as request:
                yield Answer(asked.ask, self._list(request, now))
            case AlterReassignments() as request:
                yield from self._admit_wishes(asked, request)
            case AlterPartition() as request:
                yield from self._admit_proposals(asked, request)
            case ControlledShutdown() as request:
                yield from self._admit_shutdown(asked, request)
            case AllocateProducerIds() as request:
                self._producer_ids.queue(asked.ask, request)
            case CreateTopics() | DeleteTopics() | CreatePartitions() | ElectLeaders() as request:
                if request.timeout_ms <= 0:
                    yield Wake(f"{NO_TIME}{asked.ask}", now)
                parts = self._divider.divide(asked, request)
                yield from self._open(asked, request, parts.items, parts.refused)

    def _list(self, request: ListReassignments, now: float) -> ReassignmentsListed:
        reply = list_reassignments.reply(request, self._cluster)
        return reply if self._reports is None else self._reports.shown(reply, request.request_id, now)

    def _admit_wishes(self, asked: Asked, request: AlterReassignments) -> Iterator[Answer]:
        if request.mode not in tuple(Mode):
            message = f"mode {request.mode!r} is unknown; leave it out, or use 'gentle' or 'forced'"
            yield Answer(asked.ask, refusal(request, ErrorCode.INVALID_REQUEST, message))
            return
        # Of several wishes for one partition the last counts, as in Kafka.
        wishes = {wish.topic_partition: wish for wish in request.wishes}
        request = AlterReassignments(tuple(wishes.values()), request.mode, request.timeout_ms)
        items = [Item(asked.ask, i, w.topic_partition, w) for i, w in enumerate(request.wishes)]
        yield from self._open(asked, request, items, [])

    def _admit_proposals(self, asked: Asked, request: AlterPartition) -> Iterator[Answer]:
        error = alter_partition.refuse_sender(request, self._cluster)
        if error is not ErrorCode.NONE:
            yield Answer(asked.ask, PartitionsAltered((), error))
            return
        items, refused = [], []
        for index, proposal in enumerate(request.proposals):
            topic = alter_partition.topic_of(proposal, self._cluster)
            if topic is None:
                unknown = IsrResult(None, proposal.topic.topic_id, proposal.partition, ErrorCode.UNKNOWN_TOPIC_ID)
                refused.append((index, unknown))
            else:
                items.append(Item(asked.ask, index, TopicPartition(topic, proposal.partition), proposal))
        yield from self._open(asked, request, items, refused)

    def _open(
        self,
        asked: Asked,
        request: Divided,
        items: list[Item],
        refused: Sequence[tuple[int, Result]],
    ) -> Iterator[Answer]:
        answer = self._asks.open(asked.ask, request, items, len(items) + len(refused))
        for index, result in refused:
            answer = self._asks.settle(asked.ask, index, result)
        for item in items:
            self._agenda.add(item.at.topic, is_urgent=True)
        if answer is not None:
            yield answer

    def _admit_shutdown(self, asked: Asked, request: ControlledShutdown) -> Iterator[Answer | Notice]:
        error = controlled_shutdown.refuse(request, self._cluster)
        if error is not ErrorCode.NONE:
            yield Answer(asked.ask, ShutdownPermitted((), error))
            return
        if request.broker not in self._cluster.shutting_down:
            endangered = controlled_shutdown.endangered(request.broker, self._cluster, self._redundancy)
            if endangered:
                yield Notice("shutdown refused", _too_few_in_sync(request.broker, endangered, self._redundancy))
                yield Answer(asked.ask, ShutdownPermitted(endangered))
                return
        self._cluster.start_shutdown(request.broker)
        hosted = self._cluster.hosted.get(request.broker, {})
        self._barriers.put_off(PermitShutdown(asked.ask, request), set(hosted))


def _too_few_in_sync(broker: BrokerId, endangered: tuple[TopicPartition, ...], redundancy: int) -> str:
    named = ", ".join(map(str, endangered[:5])) + (" …" if len(endangered) > 5 else "")
    return (
        f"broker {broker} shall not shut down yet: {len(endangered)} partitions ({named}) would have fewer than "
        f"{redundancy} other in-sync replicas (controlled.shutdown.redundancy)"
    )

"""Who moves replicas, creates and deletes topics, and cancels moves all the while?"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from controller.connections.broker import Broken
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ReassignmentsAltered, Reply, TopicsCreated, TopicsDeleted
from controller.core.messages.requests import (
    AlterReassignments,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    PartitionReassignment,
    Request,
    TopicReference,
)
from controller.wire.cursor import Malformed
from tests.chaos.ledger import Partition
from tests.chaos.stage import Stage
from tests.chaos.topics_seen import TopicsSeen
from tests.equipment.any_request import ask
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition

REPLICATION_FACTOR = 3
PREFIX = "chaos-passing-"
_PAUSE_S = 0.7
_MOST_MOVES, _MOST_TOPICS, _PARTITIONS = 4, 6, 3
_ANSWER_WITHIN_S = 15.0
_VERSIONS: dict[type[Request], int] = {CreateTopics: 4, DeleteTopics: 1, AlterReassignments: 0}
_IN_TIME_MS = 10_000


class Churn:
    """Sends requests to the leader, as Kafka's tools do, and follows their effects in ZooKeeper."""

    def __init__(self, stage: Stage, partitions: tuple[Partition, ...], seed: int) -> None:
        """`partitions` are those to be moved."""
        self._stage = stage
        self._partitions = partitions
        self._source = random.Random(seed)
        self._targets: dict[Partition, Replicas | None] = {}
        self._topics = 0
        self._wanted = threading.Event()
        self._resting = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._keep_on, name="churn", daemon=True)
        self.moves: Counter[str] = Counter()
        self.topics: Counter[str] = Counter()
        self.trouble: list[str] = []

    def start(self) -> None:
        """Start sending requests."""
        self._wanted.set()
        self._thread.start()

    def rest(self) -> None:
        """Pause requests; those sent go on."""
        self._wanted.clear()
        self._resting.wait(2 * _ANSWER_WITHIN_S)

    def go_on(self) -> None:
        """Resume requests."""
        self._resting.clear()
        self._wanted.set()

    def stop(self) -> None:
        """Stop for good."""
        self._end.set()
        self._wanted.set()
        self._thread.join(3 * _ANSWER_WITHIN_S)

    def look(self) -> None:
        """Check which moves have ended; only while paused."""
        self._look(TopicsSeen.of(self._stage))

    def _keep_on(self) -> None:
        try:
            while not self._end.wait(_PAUSE_S):
                if not self._wanted.is_set():
                    self._resting.set()
                    self._wanted.wait()
                    continue
                self._ask_for_something()
        except Exception as error:
            self.trouble.append(f"nothing more was moved: {type(error).__name__}: {error}")
            self._resting.set()

    def _ask_for_something(self) -> None:
        seen = TopicsSeen.of(self._stage)
        self._look(seen)
        choices: list[tuple[int, Callable[[TopicsSeen], None]]] = [
            (6, self._move),
            (2, self._cancel),
            (2, self._create),
            (2, self._delete),
        ]
        ((_, chosen),) = self._source.choices(choices, weights=[weight for weight, _ in choices])
        chosen(seen)

    def _look(self, seen: TopicsSeen) -> None:
        for partition, target in tuple(self._targets.items()):
            assignment = seen.assignment(partition)
            if assignment is None or assignment.is_moving:
                continue
            del self._targets[partition]
            # After a cancel it may be at either end: the move was done, or undone.
            if target is None or assignment.replicas == target:
                self.moves["cancelled" if target is None else "finished"] += 1
            else:
                self.moves["not carried out"] += 1

    def _move(self, seen: TopicsSeen) -> None:
        partition = self._source.choice(self._partitions)
        assignment = seen.assignment(partition)
        if assignment is None or (len(self._targets) >= _MOST_MOVES and partition not in self._targets):
            return
        ids = [BrokerId(broker.id) for broker in self._stage.brokers]
        target = tuple(self._source.sample(ids, REPLICATION_FACTOR))
        if target != assignment.replicas:
            self._alter(partition, target)

    def _cancel(self, _: TopicsSeen) -> None:
        moving = [partition for partition, target in self._targets.items() if target is not None]
        if moving:
            self._alter(self._source.choice(moving), None)

    def _alter(self, partition: Partition, target: Replicas | None) -> None:
        topic, number = partition
        whole = TopicPartition(TopicName(topic), PartitionId(number))
        answer = self._ask(AlterReassignments((PartitionReassignment(whole, target),), timeout_ms=_IN_TIME_MS))
        what = "cancel" if target is None else "move"
        if not isinstance(answer, ReassignmentsAltered):
            self.moves[f"{what} unanswered"] += 1
            # Its outcome is no longer that of the former request.
            self._targets.pop(partition, None)
            return
        error = answer.error or next((result.error for result in answer.results), ErrorCode.NONE)
        if error is not ErrorCode.NONE:
            self.moves[f"{what} refused"] += 1
            return
        if target is not None:
            self.moves["asked"] += 1
            if partition in self._targets:
                self.moves["replaced"] += 1
        self._targets[partition] = target

    def _create(self, seen: TopicsSeen) -> None:
        if len(seen.starting_with(PREFIX)) >= _MOST_TOPICS:
            return
        self._topics += 1
        topic = NewTopic(TopicName(f"{PREFIX}{self._topics}"), _PARTITIONS, REPLICATION_FACTOR)
        answer = self._ask(CreateTopics((topic,), _IN_TIME_MS))
        self._count(answer, TopicsCreated, "created")

    def _delete(self, seen: TopicsSeen) -> None:
        names = seen.starting_with(PREFIX)
        if names:
            reference = TopicReference(TopicName(self._source.choice(names)))
            self._count(self._ask(DeleteTopics((reference,), _IN_TIME_MS)), TopicsDeleted, "deleted")

    def _count(self, answer: Reply | None, expected: type[TopicsCreated | TopicsDeleted], what: str) -> None:
        if not isinstance(answer, expected):
            self.topics[f"not {what}: unanswered"] += 1
        elif any(result.error is not ErrorCode.NONE for result in answer.results):
            self.topics[f"not {what}: refused"] += 1
        else:
            self.topics[what] += 1

    def _ask(self, request: Request) -> Reply | None:
        leader = self._stage.leader()
        if leader is None:
            return None
        with suppress(Broken, Malformed, TimeoutError):
            answer = ask(leader.address, request, version=_VERSIONS[type(request)], timeout_s=_ANSWER_WITHIN_S)
            assert isinstance(answer, Reply)
            return answer
        return None

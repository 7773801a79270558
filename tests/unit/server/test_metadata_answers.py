"""An answer about the cluster made in parts is the same as one made at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec import structs

from controller.core import metadata
from controller.core.clients.authorization import Authorizer
from controller.core.messages.effects import Answer
from controller.core.messages.events import Asked, CallId
from controller.core.messages.replies import ClusterDescription, Reply
from controller.core.messages.requests import Caller, DescribeCluster, Request, TopicReference
from controller.server import metadata_answers
from controller.server.inquiries import Inquiries
from controller.server.metadata_answers import MetadataAnswers
from controller.wire.metadata_bytes import MetadataEncoder
from tests.benchmarks.filling import Shape
from tests.benchmarks.storms import Rig
from zk_layout.facts import absent
from zk_layout.ids import TopicName, Zxid
from zk_layout.znodes.acls import AclOperation, ResourcePattern
from zk_layout.znodes.topics import TopicAddress

CALLER = Caller("PLAINTEXT", "127.0.0.1")
NAMES = [TopicName(f"topic-{n:06d}") for n in range(5)]
SOME = tuple(TopicReference(TopicName(name)) for name in (NAMES[3], "unknown", NAMES[1], NAMES[3], "nobody's"))


class Asking(Inquiries):
    """A term that answers at once; before each answer something may happen."""

    def __init__(self, is_allowed: Authorizer | None = None) -> None:
        super().__init__()
        self._rig = Rig(Shape(len(NAMES), 7, 3), is_encoding=False, is_allowed=is_allowed)
        for event in self._rig.everything():
            self._rig.emit(event)
        self._rig.run()
        self.asked: list[DescribeCluster] = []
        self.happens: Callable[[int], None] = lambda _: None

    async def ask(self, request: Request, caller: Caller) -> Reply:
        assert isinstance(request, DescribeCluster)
        self.happens(len(self.asked))
        self.asked.append(request)
        return self.describe(request, caller)

    def describe(self, request: DescribeCluster, caller: Caller = CALLER) -> ClusterDescription:
        effects = self._rig.machine.turn([Asked(CallId(1), request, caller)], self._rig.now)
        (reply,) = (effect.reply for effect in effects if isinstance(effect, Answer))
        assert isinstance(reply, ClusterDescription)
        return reply

    def lose(self, name: TopicName) -> None:
        self._rig.observe([absent(TopicAddress(name), Zxid(self._rig.next_zxid()))])
        self._rig.run()


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "PARTITIONS_AT_ONCE", 3)
    monkeypatch.setattr(metadata_answers, "MOST_PARTITIONS", 8)
    monkeypatch.setattr(metadata_answers, "MOST_NAMES", 2)
    monkeypatch.setattr(metadata_answers, "PIECES_AT_ONCE", 2)


@pytest.mark.parametrize("version", [4, 12])
@pytest.mark.parametrize("topics", [None, SOME, ()])
def test_parts_are_small_and_make_the_same_answer(version: int, topics: tuple[TopicReference, ...] | None) -> None:
    term = Asking()

    body = asyncio.run(MetadataAnswers(term).body(DescribeCluster(topics), version, CALLER))

    assert body == MetadataEncoder(version).encode(term.describe(DescribeCluster(topics)))
    parts = [term.describe(request) for request in term.asked]
    assert all(len(topic.partitions) <= 3 for part in parts for topic in part.topics)


@pytest.mark.parametrize("topics", [None, SOME])
def test_a_topic_that_goes_while_it_is_described_is_not_half_there(topics: tuple[TopicReference, ...] | None) -> None:
    term = Asking()
    gone = NAMES[3]

    def happens(asked_before: int) -> None:
        if asked_before and term.asked[-1].within is not None and term.asked[-1].within.topic == gone:
            term.lose(gone)

    term.happens = happens
    body = asyncio.run(MetadataAnswers(term).body(DescribeCluster(topics), 12, CALLER))

    expected = term.describe(DescribeCluster(topics))
    assert gone not in [t.name for t in expected.topics if t.partitions]
    assert body == MetadataEncoder(12).encode(expected)


def test_with_an_authorizer_each_user_is_shown_its_own() -> None:
    ann, bob = structs.replace(CALLER, principal="User:ann"), structs.replace(CALLER, principal="User:bob")

    def is_allowed(caller: Caller, operation: AclOperation, resource: ResourcePattern) -> bool:
        return operation is AclOperation.DESCRIBE and (caller == ann or resource.name == NAMES[4])

    term = Asking(is_allowed)

    async def story() -> list[bytes]:
        answers = MetadataAnswers(term)
        return [await answers.body(DescribeCluster(None), 12, caller) for caller in (ann, bob, ann, bob)]

    found = asyncio.run(story())

    expected = [MetadataEncoder(12).encode(term.describe(DescribeCluster(None), caller)) for caller in (ann, bob)]
    assert found == expected * 2
    assert len(term.describe(DescribeCluster(None), bob).topics) == 1
    asked_once = [request for request in term.asked if request.after is None and request.within is None]
    assert len(asked_once) == 2


@pytest.mark.parametrize("topics", [None, SOME])
def test_operations_are_included_in_each_part_if_requested(topics: tuple[TopicReference, ...] | None) -> None:
    term = Asking(lambda _caller, operation, _resource: operation is not AclOperation.ALTER)
    with_all = DescribeCluster(topics, with_cluster_operations=True, with_topic_operations=True)

    async def story() -> list[bytes]:
        answers = MetadataAnswers(term)
        return [await answers.body(request, 10, CALLER) for request in (DescribeCluster(topics), with_all)]

    found = asyncio.run(story())

    expected = [term.describe(DescribeCluster(topics)), term.describe(with_all)]
    assert found == [MetadataEncoder(10).encode(description) for description in expected]
    assert expected[1].operations is not None
    assert all(topic.operations is not None for topic in expected[1].topics)
    assert [topic.operations for topic in expected[0].topics] == [None] * len(expected[0].topics)


def test_topics_that_must_not_be_shown_take_turns_as_well() -> None:
    judged: list[str] = []

    def is_allowed(_caller: Caller, _operation: AclOperation, resource: ResourcePattern) -> bool:
        judged.append(resource.name)
        return False

    term = Asking(is_allowed)
    found = term.describe(DescribeCluster(None, most_partitions=2))

    assert (found.topics, found.is_whole, found.after) == ((), False, NAMES[1])
    assert judged == NAMES[:2]


class Slow(Asking):
    """A term that is slow to answer; counts its concurrent answers."""

    at_once = most_at_once = 0

    async def ask(self, request: Request, caller: Caller) -> Reply:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        reply = await super().ask(request, caller)
        await asyncio.sleep(0.01)
        self.at_once -= 1
        return reply


def test_a_client_that_has_hung_up_keeps_no_other_waiting() -> None:
    term = Slow()

    async def story() -> int:
        answers = MetadataAnswers(term)
        request = DescribeCluster(())
        gone = [asyncio.create_task(answers.body(request, 12, CALLER, lambda: True)) for _ in range(1000)]
        for _ in range(5):  # they wait for their turn
            await asyncio.sleep(0)
        asked_before = len(term.asked)
        await answers.body(request, 12, CALLER)
        assert all(isinstance(e, ConnectionResetError) for e in await asyncio.gather(*gone, return_exceptions=True))
        return len(term.asked) - asked_before

    assert asyncio.run(story()) == 1


def test_small_questions_are_asked_together_and_large_answers_made_one_by_one() -> None:
    term = Slow()

    async def story() -> tuple[int, list[DescribeCluster]]:
        answers = MetadataAnswers(term)
        await asyncio.gather(*(answers.body(DescribeCluster(()), 12, CALLER) for _ in range(80)))
        small_at_once = term.most_at_once
        term.asked.clear()
        await asyncio.gather(*(answers.body(DescribeCluster(None), version, CALLER) for version in (9, 10, 11)))
        return small_at_once, term.asked

    small_at_once, asked = asyncio.run(story())

    assert small_at_once > 1
    assert asked == asked[: len(asked) // 3] * 3

"""A process knows the cluster whether or not it leads, and hands a term facts that it no longer folds itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from controller.core.candidacy.events import Claimed
from controller.core.messages.commands import LiveBroker
from controller.core.messages.events import Event, Loaded, Observed
from controller.following.cluster import ClusterFollower
from controller.following.facts import Facts
from controller.server.relay import INTRODUCTION_S
from controller.zk.answers import Refused
from controller.zk.session import Session
from tests.simulation.zookeeper import MakeNode, Permission, RemoveNode, SetData
from tests.unit.following.following_process import FollowingProcess
from zk_layout import catalog
from zk_layout.ids import BrokerId, TopicName
from zk_layout.watched import followed, watched
from zk_layout.znodes import brokers
from zk_layout.znodes.acls import FOLDERS, ResourceType
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

OWN_ID = BrokerId(100)
ORDERS = TopicAddress(TopicName("orders"))
OF_TOPICS = next(folder for folder in FOLDERS if folder.endswith(f"/{ResourceType.TOPIC}"))


def path_of(broker: int) -> str:
    return BrokerAddress(BrokerId(broker)).path


def registered(broker: int, *, is_ours: bool = False) -> MakeNode:
    registration = Registration((Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker),), is_ours=is_ours)
    return MakeNode(path_of(broker), catalog.encode(registration))


class Following(FollowingProcess):
    """A process that follows the cluster."""

    def __init__(self) -> None:
        super().__init__(*FOLDERS)
        self.follower = ClusterFollower(self.bridge, self.notices.append, judges=True)

    def begin(self) -> None:
        self.process._loop.start(self.follower.follow())

    def ids(self) -> list[int]:
        return [live.broker for live in self.process.do(self.follower.live_brokers())]

    def until(self, *ids: int) -> None:
        self.ensemble.until(lambda: list(self.follower.state.brokers) == list(ids))


@pytest.fixture
def following() -> Iterator[Following]:
    made = Following()
    yield made
    made.process.end()


def test_brokers_are_those_that_are_registered_but_for_replicas_of_ours(following: Following) -> None:
    following.ensemble.write(registered(1), registered(901, is_ours=True))
    following.begin()
    following.until(1, 901)

    (live,) = following.process.do(following.follower.live_brokers())
    assert live == LiveBroker(BrokerId(1), (Endpoint("PLAINTEXT", "127.0.0.1", 9001),))
    leader = following.process.do(following.follower.registered(BrokerId(901)))
    assert leader == LiveBroker(BrokerId(901), (Endpoint("PLAINTEXT", "127.0.0.1", 9901),))
    assert following.process.do(following.follower.registered(BrokerId(2))) is None


def test_a_name_that_kafka_does_not_use_is_left_to_terms_to_report(following: Following) -> None:
    """A leader would report it twice."""
    following.ensemble.write(MakeNode(f"{brokers.ROOT}/seven"), MakeNode(f"{OF_TOPICS}/odd name"), registered(1))
    following.begin()
    following.until(1)

    assert [notice for notice in following.notices if notice.kind == "unknown znode"] == []


def test_brokers_that_come_and_go_are_known_through_lost_sessions(following: Following) -> None:
    following.begin()
    assert following.ids() == []
    following.ensemble.write(registered(1))
    following.until(1)
    following.ensemble.write(registered(2), RemoveNode(path_of(1)))
    following.until(2)

    following.ensemble.zookeeper.close_session(following.process.bridge.session)
    following.ensemble.write(registered(3))
    assert following.ids() == [2]
    following.until(2, 3)


def test_while_zookeeper_is_silent_they_are_those_of_before(following: Following) -> None:
    following.ensemble.write(registered(1))
    following.begin()
    following.until(1)
    following.process.connection.drop(down_s=60.0)
    assert following.ids() == [1]


def test_before_anything_was_read_there_are_none_before_a_client_stops_waiting(following: Following) -> None:
    async def asked() -> list[LiveBroker]:
        async with asyncio.timeout(INTRODUCTION_S):
            return list(await following.follower.live_brokers())

    following.process.connection.drop(down_s=60.0)
    following.begin()
    assert following.process.do(asked()) == []


class Even(Random):
    """No message takes longer than another."""

    def random(self) -> float:
        return 0.5


def test_however_many_they_are_they_are_read_in_time(following: Following) -> None:
    following.ensemble.network.random = Even()
    following.ensemble.write(*map(registered, range(300)))
    following.begin()
    assert len(following.ids()) == 300


def test_brokers_that_may_not_be_listed_cost_no_rights_and_no_notice(following: Following) -> None:
    following.ensemble.write(registered(1))
    following.ensemble.zookeeper.acls[brokers.ROOT] = Permission.ALL & ~Permission.READ
    following.begin()
    following.ensemble.until(lambda: not following.follower.state.rights.known.is_closed(ResourceType.TOPIC))
    assert following.ids() == []

    following.ensemble.zookeeper.acls.clear()
    following.until(1)
    following.ensemble.write(SetData(path_of(1), b"{"))
    following.wait(5)
    assert following.notices == []
    assert following.ids() == [1]


def test_a_term_hears_what_is_read_and_the_process_folds_nothing_of_it(following: Following) -> None:
    topic = catalog.encode(Topic({0: Assignment((BrokerId(1),))}))  # type: ignore[dict-item]
    following.begin()
    following.until()
    following.ensemble.write(registered(1), MakeNode(ORDERS.path, topic))
    facts, heard = following.follower.for_term(watched(), 1_000_000), list[Event]()

    state = facts.hand_over(heard.append, following.notices.append)
    following.process.do(facts.load())

    assert isinstance(heard[-1], Loaded)
    seen = {fact.address for event in heard if isinstance(event, Observed) for fact in event.facts}
    assert {ORDERS, BrokerAddress(BrokerId(1))} <= seen
    assert (state.brokers, state.topics.views) == ({}, {})
    assert state is not following.follower.state
    facts.reader.stop()


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("after_ms", range(0, 600, 25))
def test_a_term_that_has_loaded_knows_all_that_was_written_before_its_claim(
    following: Following, after_ms: int, is_cut: bool
) -> None:
    """However its facts came about: one topic is created and another deleted, before the claim or after."""
    ensemble, process, heard = following.ensemble, following.process, list[Event]()
    topic = catalog.encode(Topic({0: Assignment((BrokerId(1),))}))  # type: ignore[dict-item]
    former = TopicAddress(TopicName("former"))
    ensemble.write(MakeNode(former.path, topic))
    following.begin()
    following.wait(1)
    ensemble.write_later(after_ms / 1000, MakeNode(ORDERS.path, topic), RemoveNode(former.path))
    if is_cut:
        ensemble.clock.after(after_ms / 1000, lambda: process.connection.drop(0.2))

    session = Session(process.bridge, lambda _: None, OWN_ID)
    claim = process.do(session.claim(Registration((Endpoint("PLAINTEXT", "c", 9092),)), replace=False))
    facts = following.follower.for_term(watched(), 1_000_000)
    state = facts.hand_over(heard.append, following.notices.append)
    process.do(facts.load())
    for event in heard[: heard.index(Loaded()) + 1]:
        state.fold(event)

    assert isinstance(claim, Claimed)
    nodes = ensemble.zookeeper.nodes
    if ORDERS.path in nodes and nodes[ORDERS.path].czxid < nodes["/controller"].czxid:
        assert list(state.topics.views) == [ORDERS.topic]
    facts.reader.stop()


def test_facts_are_folded_without_a_term_and_handed_over_as_they_are(following: Following) -> None:
    facts, heard = Facts(following.process.bridge, watched()), list[Event]()
    following.ensemble.write(registered(1))
    following.process.do(facts.load())
    following.ensemble.write(registered(2))
    following.ensemble.until(lambda: list(facts.state.brokers) == [1, 2])

    state = facts.hand_over(heard.append, following.notices.append)
    following.ensemble.write(registered(3))
    following.ensemble.until(lambda: bool(heard))

    assert state is facts.state
    assert list(state.brokers) == [1, 2]
    with pytest.raises(AssertionError, match="handed over before"):
        facts.hand_over(heard.append, following.notices.append)
    facts.reader.stop()


def test_a_term_is_not_loaded_where_brokers_may_not_be_listed(following: Following) -> None:
    following.ensemble.zookeeper.acls[brokers.ROOT] = Permission.ALL & ~Permission.READ

    with pytest.raises(Refused):
        following.process.do(following.follower.for_term(watched(), 1_000_000).load())


def test_what_is_always_followed_is_what_clients_need() -> None:
    assert set(followed(follows_rights=True).parents) <= set(watched(follows_rights=True).parents)

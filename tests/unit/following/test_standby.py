"""Does a term that gets what its standby has followed begin with the same as one that reads everything after its claim?

Others write all the time, connections are lost, and the claim comes at any moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from controller.core.candidacy.events import Claimed
from controller.core.messages.effects import Notice, ReadAgain
from controller.core.messages.events import Event, Loaded, Observed
from controller.core.state.cluster import ClusterState
from controller.core.state.topics import Partition
from controller.following.facts import Facts
from controller.following.standby import BEGIN_AFTER_S, Standby, WarmFacts
from controller.zk.bridge import Bridge
from controller.zk.bulk import BulkReader
from controller.zk.session import Session
from tests.simulation.zookeeper import MakeNode, Operation, Permission, RemoveNode, SetData
from tests.unit.following.changing_topics import NAMES, Changes
from tests.unit.following.following_process import FollowingProcess
from tests.unit.zk.simulated import Process
from tests.unit.zk.test_state_watch import ORDERS, at, made, state
from zk_layout.ids import BrokerId, TopicName, Zxid
from zk_layout.watched import watched
from zk_layout.znodes import topics
from zk_layout.znodes.brokers import Endpoint, Registration
from zk_layout.znodes.topics import TopicAddress

OWN_ID = BrokerId(100)
REGISTRATION = Registration((Endpoint("PLAINTEXT", "c", 9092),))
REQUEST_BYTES = 1_000_000


def of_partition(held: Partition) -> tuple[Any, ...]:
    """What a znode shows; that of an absent one is as of whenever it was looked for."""
    as_of = held.as_of if held.state is not None or held.is_malformed else None
    return held.assignment, held.state, held.epoch, held.is_malformed, held.is_state_known, as_of


def content(state: ClusterState) -> dict[str, Any]:
    """All that a term would begin with, but for the order in which it was seen, and states of partitions that their
    topic no longer lists."""
    changes, views = state.changes, state.topics.views
    return {
        "topics": {
            name: (
                view.czxid,
                view.as_of,
                view.version,
                view.is_malformed,
                view.is_queued_for_deletion,
                view.deletions,
                {number: of_partition(held) for number, held in view.partitions.items() if held.assignment.replicas},
            )
            for name, view in views.items()
        },
        "hosted": {b: {t: set(n) for t, n in held.items()} for b, held in state.placement.hosted.items() if held},
        "counts": {b: count for b, count in state.placement.replica_counts.items() if count},
        "preferred": {b: count for b, count in state.placement.preferred_counts.items() if count},
        "partitions": state.placement.partition_count,
        "brokers": state.brokers,
        "marks": state.topics.marks,
        "notifications": state.notifications,
        "pause": (state.pause.stat, state.pause.value),
        "highest epoch": state.writer_epochs.highest,
        "unreadable": (state.unreadable.malformed, state.unreadable.refusals),
        "unseen": {
            name: {number for number in numbers if views[name].partitions[number].assignment.replicas}
            for name, numbers in changes.unseen.items()
        },
        "gone": changes.gone_topics,
        "isr changes": sorted(address.name for address, _ in changes.isr_changes),
        "malformed": sorted(changes.malformed),
        "refused": sorted(changes.refused),
        "new brokers": set(changes.brokers),
        "changed marks": set(changes.marks),
    }


def loaded(process: Process, facts: Facts) -> ClusterState:
    """What a machine has folded when it is told that everything has been read."""
    heard: list[Event] = []
    state = facts.hand_over(heard.append, lambda _: None)
    state.was_followed = True  # as a machine has it
    process.do(facts.load())
    for event in heard[: heard.index(Loaded()) + 1]:
        state.fold(event)
    return state


class Standing(FollowingProcess):
    """A standby, others who write, and a claim."""

    def __init__(self, *, is_recursive: bool) -> None:
        super().__init__()
        self._is_recursive = is_recursive
        self.follow(BulkReader(self.process.bridge))
        self.claimed_at = 0

    def follow(self, bulk: BulkReader) -> None:
        self.facts = WarmFacts(self.process.bridge, watched(), bulk, is_recursive=self._is_recursive)

    def prepare(self) -> None:
        self.process.do(self.facts.prepare())

    def claim(self) -> None:
        session = Session(self.process.bridge, lambda _: None, OWN_ID)
        assert isinstance(self.process.do(session.claim(REGISTRATION, replace=False)), Claimed)
        self.claimed_at = self.ensemble.zookeeper.nodes["/controller"].czxid

    def write_every(self, changes: Changes, random: Random, for_s: float) -> None:
        """Let others write until somebody leads, or the time is over."""
        until = self.ensemble.clock.now + for_s

        def act() -> None:
            if "/controller" in self.ensemble.zookeeper.nodes or self.ensemble.clock.now > until:
                return
            self.ensemble.write(*changes.next())
            self.ensemble.clock.after(random.choice((0.0, 0.001, 0.01, 0.1)), act)

        act()

    def begins(self) -> tuple[ClusterState, list[Event]]:
        """What a term begins with, and a list of what it hears."""
        heard: list[Event] = []
        warm = self.facts.hand_over(heard.append, lambda _: None)
        warm.was_followed = True  # as a machine has it
        self.process.do(self.facts.load())
        for event in heard:
            warm.fold(event)
        return warm, heard

    def leaders_read(self, warm: ClusterState, heard: list[Event]) -> list[BrokerId | None]:
        """The leaders of the listed partitions, once the term has heard something more."""
        self.ensemble.until(lambda: heard)
        for event in heard:
            warm.fold(event)
        listed = (held for held in warm.topics.views[ORDERS].partitions.values() if held.assignment.replicas)
        return [None if held.state is None else held.state.leader for held in listed]

    def cold(self) -> ClusterState:
        """What somebody reads who was not there before."""
        other = Process(self.ensemble)
        state = loaded(other, Facts(other.bridge, watched()))
        other.end()
        return state


@pytest.fixture(params=[False, True], ids=["one-shot", "recursive"])
def standing(request: pytest.FixtureRequest) -> Iterator[Standing]:
    made = Standing(is_recursive=request.param)
    yield made
    made.process.end()


@pytest.mark.parametrize("seed", range(60))
def test_it_begins_with_what_another_reads_that_was_not_there_before(standing: Standing, seed: int) -> None:
    random = Random(seed)
    changes = Changes(random, standing.ensemble.zookeeper)
    for _ in range(random.randint(0, 30)):
        standing.ensemble.write(*changes.next())
    standing.write_every(changes, random, 60.0)
    standing.prepare()
    for _ in range(random.randint(0, 3)):
        standing.ensemble.clock.after(random.uniform(0, 3), lambda: standing.process.connection.drop(0.2))
    standing.wait(random.uniform(0, 3))
    standing.claim()

    warm = loaded(standing.process, standing.facts)

    assert content(warm) == content(standing.cold())
    standing.facts.stop()


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("after_ms", range(0, 120, 6))
@pytest.mark.parametrize("what", ["state", "topic", "both"])
def test_a_change_counts_whenever_it_comes(standing: Standing, after_ms: int, is_cut: bool, what: str) -> None:
    """One change to what was read long ago: before the claim, while it is on its way, and while the rest is read."""
    ensemble = standing.ensemble
    ensemble.write(*made(ORDERS, 2), MakeNode(at(0), state(1)), MakeNode(at(1), state(1)))
    standing.prepare()
    standing.wait(1)
    changes: dict[str, list[Operation]] = {
        "state": [SetData(at(1), state(2))],
        "topic": [RemoveNode(at(0)), *made(TopicName("payments"), 1)],
        "both": [SetData(at(1), state(2)), SetData(TopicAddress(ORDERS).path, made(ORDERS, 1)[0].data)],
    }
    ensemble.write_later(after_ms / 1000, *changes[what])
    if is_cut:
        ensemble.clock.after(after_ms / 1000, lambda: standing.process.connection.drop(0.2))
    standing.claim()
    warm = loaded(standing.process, standing.facts)

    for name, view in warm.topics.views.items():
        assert ensemble.zookeeper.nodes[TopicAddress(name).path].czxid == view.czxid
    nodes = ensemble.zookeeper.nodes
    for path, node in nodes.items():
        if path.startswith(f"{topics.ROOT}/{ORDERS}/") and path.endswith("/state") and node.mzxid < standing.claimed_at:
            number = path.split("/")[-2]
            held = warm.topics.views[ORDERS].partitions[int(number)]  # type: ignore[index]
            assert held.as_of == node.mzxid
    standing.facts.stop()


def test_reads_that_are_under_way_at_a_claim_are_awaited(standing: Standing) -> None:
    """A topic of many partitions is created, is read in many requests, and the rest of the cluster in few."""
    bridge = standing.process.bridge
    standing.follow(BulkReader(bridge, answers_in_flight=1, request_bytes=500))
    standing.prepare()
    standing.ensemble.write(*made(ORDERS, 300), *(MakeNode(at(number), state(1)) for number in range(300)))
    standing.claim()
    warm = loaded(standing.process, standing.facts)

    assert all(held.state is not None for held in warm.topics.views[ORDERS].partitions.values())
    standing.facts.stop()


def test_states_that_change_between_their_read_and_their_watch_are_read_again(standing: Standing) -> None:
    """One after the other, while all are read for the first time."""
    bridge, count = standing.process.bridge, 120
    standing.follow(BulkReader(bridge, answers_in_flight=1, request_bytes=500))
    standing.ensemble.write(*made(ORDERS, count), *(MakeNode(at(number), state(1)) for number in range(count)))
    for number in range(count):
        standing.ensemble.write_later(number * 0.01, SetData(at(number), state(2)))
    standing.prepare()
    standing.wait(2)
    standing.claim()
    warm = loaded(standing.process, standing.facts)

    leaders = [held.state and held.state.leader for held in warm.topics.views[ORDERS].partitions.values()]
    assert leaders == [2] * count
    standing.facts.stop()


@pytest.mark.parametrize("after_ms", range(100, 800, 100))
def test_states_that_change_after_they_were_read_over_a_connection_that_was_lost_are_read_again(
    standing: Standing, after_ms: int
) -> None:
    """Nothing watches while there is no connection, and what is read over the next one tells nothing of the rest."""
    bridge, count = standing.process.bridge, 60
    standing.follow(BulkReader(bridge, answers_in_flight=1, request_bytes=300))
    standing.ensemble.write(*made(ORDERS, count), *(MakeNode(at(number), state(1)) for number in range(count)))
    standing.ensemble.clock.after(after_ms / 1000, lambda: standing.process.connection.drop(0.5))
    standing.ensemble.write_later(after_ms / 1000 + 0.2, *(SetData(at(number), state(2)) for number in range(count)))
    standing.prepare()
    standing.claim()
    warm = loaded(standing.process, standing.facts)

    leaders = [held.state and held.state.leader for held in warm.topics.views[ORDERS].partitions.values()]
    assert leaders == [2] * count
    standing.facts.stop()


def test_only_what_has_changed_is_read(standing: Standing) -> None:
    names = [TopicName(f"topic-{number}") for number in range(200)]
    for name in names:
        standing.ensemble.write(*made(name, 3), *(MakeNode(at(number, name), state(1)) for number in range(3)))
    standing.prepare()
    standing.wait(1)
    heard: list[Event] = []
    standing.facts.hand_over(heard.append, lambda _: None)
    standing.ensemble.write(SetData(at(1, names[7]), state(2)))
    standing.claim()
    standing.process.do(standing.facts.load())
    read = [fact.address.path for event in heard if isinstance(event, Observed) for fact in event.facts]

    assert {path for path in read if path.startswith(topics.ROOT)} == {at(1, names[7])}


def test_what_came_and_went_meanwhile_is_kept_nowhere(standing: Standing) -> None:
    """A standby follows for weeks."""
    changes = Changes(Random(7), standing.ensemble.zookeeper)
    standing.prepare()
    for _ in range(300):
        standing.ensemble.write(*changes.next())
        standing.wait(0.05)
    held = standing.facts.state.changes

    assert (held.partitions, held.topics, held.gone_topics, held.malformed) == ({}, {}, {}, [])
    assert set(standing.facts.state.topics.views) <= set(NAMES)


def _set_again(bridge: Bridge) -> set[str]:
    return {path for request in bridge._watches.of_all(Zxid(1)) for path in request.data}


def test_a_leader_sets_the_watches_of_its_standby_not_again(standing: Standing) -> None:
    """They were many, and a leader writes states itself."""
    standing.ensemble.write(*made(ORDERS, 2), MakeNode(at(0), state(1)), MakeNode(at(1), state(1)))
    standing.prepare()
    held = standing.process.bridge
    assert {at(0), at(1)} <= _set_again(held)
    standing.claim()
    loaded(standing.process, standing.facts)

    assert not {at(0), at(1)} & _set_again(held)
    assert TopicAddress(ORDERS).path in _set_again(held)
    standing.facts.stop()


def test_notices_of_before_are_given_to_the_term(standing: Standing) -> None:
    standing.ensemble.write(MakeNode(f"{topics.ROOT}/odd name"))
    standing.prepare()
    notices: list[Notice] = []
    standing.facts.hand_over(lambda _: None, notices.append)

    assert [notice.kind for notice in notices] == ["unknown znode"]
    standing.facts.stop()


@pytest.mark.parametrize("hidden", [TopicAddress(ORDERS).path, at(0)])
def test_what_may_no_longer_be_read_counts_as_never_read(standing: Standing, hidden: str) -> None:
    """It may have changed since it was read."""
    ensemble = standing.ensemble
    ensemble.write(*made(ORDERS, 2), MakeNode(at(0), state(1)), MakeNode(at(1), state(1)))
    standing.prepare()
    ensemble.zookeeper.acls[hidden] = Permission.ALL & ~Permission.READ
    ensemble.write(SetData(TopicAddress(ORDERS).path, made(ORDERS, 1)[0].data), SetData(at(0), state(2)))
    standing.wait(3)
    standing.claim()
    warm, heard = standing.begins()
    assert content(warm) == content(standing.cold())

    ensemble.zookeeper.acls.clear()
    heard.clear()
    standing.facts.reader.read_again(ReadAgain((hidden,)))
    assert standing.leaders_read(warm, heard) == [2]
    standing.facts.stop()


@pytest.mark.parametrize("is_claimed_first", [False, True])
def test_a_topic_that_became_malformed_counts_as_never_read(standing: Standing, is_claimed_first: bool) -> None:
    """It may have changed between what was read last and what cannot be read now."""
    ensemble, path = standing.ensemble, TopicAddress(ORDERS).path
    ensemble.write(*made(ORDERS, 2), MakeNode(at(0), state(1)), MakeNode(at(1), state(1)))
    standing.prepare()
    standing.wait(1)
    if is_claimed_first:
        standing.claim()
    ensemble.write(SetData(path, b"["), SetData(at(0), state(2)))
    if not is_claimed_first:
        standing.wait(1)
        standing.claim()
    warm, heard = standing.begins()
    assert content(warm) == content(standing.cold())

    heard.clear()
    ensemble.write(SetData(path, made(ORDERS, 1)[0].data))
    assert standing.leaders_read(warm, heard) == [2]
    standing.facts.stop()


def test_the_highest_epoch_is_that_of_a_state_that_is_there(standing: Standing) -> None:
    """States of a topic that was deleted, or that were written anew, ask no term to lead above them."""
    standing.ensemble.write(
        *made(ORDERS, 1), MakeNode(at(0), state(1).replace(b'"controller_epoch":1', b'"controller_epoch":77'))
    )
    standing.prepare()
    assert standing.facts.state.writer_epochs.highest == 77
    standing.ensemble.write(SetData(at(0), state(2)))
    standing.wait(1)
    standing.claim()

    assert loaded(standing.process, standing.facts).writer_epochs.highest == 1
    standing.facts.stop()


class Kept(FollowingProcess):
    """A process that keeps a standby's facts."""

    def __init__(self) -> None:
        super().__init__()
        self.ensemble.write(*made(ORDERS, 2), MakeNode(at(0), state(1)), MakeNode(at(1), state(1)))
        self.standby = Standby(self.bridge, watched(), REQUEST_BYTES)
        self.process._loop.start(self.standby.follow())
        self.standby.note(is_led_by_another=True)

    def until_whole(self) -> None:
        self.ensemble.until(lambda: self.standby.figures()["standby_partitions"] == 2)


@pytest.fixture
def kept() -> Iterator[Kept]:
    made = Kept()
    yield made
    made.process.end()


def test_facts_are_given_to_one_term_and_kept_anew_when_another_leads_again(kept: Kept) -> None:
    kept.until_whole()
    kept.standby.note(is_led_by_another=False)
    facts = kept.standby.take(watched())
    assert facts is not None
    assert list(facts.state.topics.views) == [ORDERS]
    assert kept.standby.take(watched()) is None
    kept.wait(BEGIN_AFTER_S + 5)
    assert kept.standby.figures()["standby_partitions"] == 0
    assert list(facts.state.topics.views) == [ORDERS]

    facts.reader.stop()
    kept.standby.note(is_led_by_another=True)
    kept.until_whole()


def test_without_all_facts_a_term_reads_everything(kept: Kept) -> None:
    kept.wait(BEGIN_AFTER_S + 0.005)
    facts = kept.standby._facts
    assert facts is not None
    assert kept.standby.take(watched()) is None
    assert facts.reader.has_ended


def test_facts_of_a_lost_session_are_given_to_no_term(kept: Kept) -> None:
    kept.until_whole()
    kept.ensemble.zookeeper.close_session(kept.process.bridge.session)
    kept.ensemble.until(lambda: kept.standby.figures()["standby_partitions"] == 0)
    assert kept.standby.take(watched()) is None
    kept.standby.note(is_led_by_another=True)
    kept.ensemble.write(SetData(at(0), state(2)))
    kept.until_whole()


def test_facts_of_something_else_than_the_term_watches_are_not_given(kept: Kept) -> None:
    kept.until_whole()
    assert kept.standby.take(watched(follows_reassignments=True)) is None


def test_nothing_is_kept_before_another_leads() -> None:
    process = FollowingProcess()
    standby = Standby(process.bridge, watched(), REQUEST_BYTES)
    process.process._loop.start(standby.follow())
    process.wait(10)
    assert standby._facts is None
    process.process.end()


def test_the_gauges_show_what_is_known_and_what_is_due(kept: Kept) -> None:
    kept.until_whole()
    before = kept.standby.figures()
    kept.ensemble.write(RemoveNode(at(0)))  # mostly a sign that its topic is being deleted: no haste
    kept.ensemble.until(lambda: kept.standby.figures()["standby_states_due"] == 1)
    kept.ensemble.until(lambda: kept.standby.figures()["standby_states_due"] == 0)
    kept.wait(1)
    assert kept.standby.figures()["standby_zxid"] > before["standby_zxid"] > 0

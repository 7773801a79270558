"""Does the controller see ZooKeeper's content: all of it once, every change, and nothing twice for long?

The reader runs on a real and on the simulated ZooKeeper: simulated worlds see what a controller sees. Failures
of connections and servers are tested on real ones only, in
`test_zookeeper_adapter_connections`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest
from kazoo.client import KazooClient

from controller.core.messages.events import Loaded, Observed, Surveyed
from tests.conformance.adapter_world import (
    STATE,
    create_parents,
    create_states,
    create_topic,
    every_state_is_known,
    held,
    present_facts,
    register,
    someone,
    topic_data,
)
from tests.conformance.reader_backends import RealWorld, SimulatedWorld, World
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerId, PartitionId, TopicName
from zk_layout.znodes.brokers import BrokerAddress, Registration
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Topic, TopicAddress

TOPIC = "/brokers/topics/orders"
STATE_0 = f"{TOPIC}/partitions/0/state"


@pytest.fixture(params=["simulated", "real"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "simulated":
        yield SimulatedWorld()
        return
    connect = request.getfixturevalue("zookeeper")
    with someone(connect) as other, asyncio.Runner() as runner:
        yield RealWorld(connect, other, runner)


def test_loading_shows_every_znode_once_topics_with_their_states_and_then_says_so(world: World) -> None:
    other = world.other
    create_parents(other)
    for broker in (1, 2):
        register(other, broker)
    for number in range(40):
        create_topic(other, f"t{number}", 5)
    create_topic(other, "new", 3, with_states=False)
    other.create("/admin/delete_topics/t1")
    other.create("/isr_change_notification/isr_change_0000000001", b'{"version":1,"partitions":[]}')
    other.create("/log_dir_event_notification/log_dir_event_0000000000", b'{"version":1,"broker":1,"event":1}')
    other.create("/kafka_zk_controller/replica_deletions/t2", b'{"version":1,"topic_id":null,"replicas":{"0":[3]}}')
    other.create("/kafka_zk_controller/waiting_moves/t2-0", b'{"version":1,"czxid":1,"moves":{}}')
    other.create("/kafka_zk_controller/throttled_topics/t2", b'{"version":1,"prior":null,"ours":{"0:3":5}}')
    other.create("/kafka_zk_controller/throttled_brokers/3", b'{"version":1,"prior":null,"ours":"5"}')
    other.create("/kafka_zk_controller/move_records/7-0", b"records that cannot be read are some all the same")
    other.create("/admin/reassign_partitions", b'{"version":1,"partitions":[]}')
    other.create("/admin/reassign_partitions_status/7", b"a status that cannot be read is one all the same")
    with world.loaded(chunk=30) as (seen, *_):
        assert seen.events[-1] == Loaded()
        observed = [event.facts for event in seen.events if isinstance(event, Observed)]
        shown = [fact.address for facts in observed for fact in facts]
        assert len(shown) == len(set(shown))
        for facts in observed:
            addresses = {fact.address for fact in facts}
            assert len(facts) < 30 + 6
            for fact in facts:
                if isinstance(fact.value, Topic) and isinstance(fact.address, TopicAddress):
                    states = {StateAddress(fact.address.topic, p) for p in fact.value.partitions}
                    assert states <= addresses
        assert isinstance(shown[0], BrokerAddress)
        counts = {kind: sum(type(a).__name__ == kind for a in shown) for kind in {type(a).__name__ for a in shown}}
        assert counts == {
            "BrokerAddress": 2,
            "TopicAddress": 41,
            "StateAddress": 203,
            "ReassignmentStatusAddress": 1,
            "StatusRootAddress": 1,
            "DefaultBrokerConfigAddress": 1,
            "TopicDeletionAddress": 1,
            "ReplicaDeletionsAddress": 1,
            "WaitingMovesAddress": 1,
            "ThrottledTopicAddress": 1,
            "ThrottledBrokerAddress": 1,
            "MoveRecordsAddress": 1,
            "IsrChangeAddress": 1,
            "LogDirEventAddress": 1,
            "FeatureAddress": 1,
            "ControllerIdsAddress": 1,
            "PauseAddress": 1,
            "LegacyReassignmentAddress": 1,
            "PreferredElectionAddress": 1,
            "ProducerIdBlockAddress": 1,
        }
        assert seen.is_gone("/feature")
        assert seen.is_gone("/brokers/topics/new/partitions/2/state")
        state = seen.fact("/brokers/topics/t7/partitions/3/state")
        assert state is not None
        assert isinstance(state.value, PartitionState)
        assert state.stat is not None
        assert state.as_of == state.stat.mzxid == other.exists(state.address.path).mzxid


def test_an_absence_is_as_of_the_answer_that_said_so(world: World) -> None:
    other = world.other
    create_parents(other)
    with world.loaded() as (seen, *_):
        _, stat = other.get("/admin/delete_topics")
        first = seen.fact("/feature")
        assert first is not None
        create_topic(other, "orders", 1)
        created = other.exists(TOPIC).czxid
        world.until(lambda: seen.version(TOPIC) == 0)
        other.delete(TOPIC, recursive=True)
        world.until(lambda: seen.is_gone(TOPIC))
        gone = seen.fact(TOPIC)
        assert gone is not None
        assert stat.czxid <= first.as_of < created < gone.as_of


def test_topics_that_come_change_and_go_are_told_with_their_states(world: World) -> None:
    other = world.other
    create_parents(other)
    with world.loaded() as (seen, *_):
        create_topic(other, "orders", 1, with_states=False)
        world.until(lambda: seen.version(TOPIC) == 0)
        assert seen.is_gone(STATE_0)

        create_states(other, "orders", range(3))
        other.set(TOPIC, topic_data(3))
        world.until(lambda: seen.version(TOPIC) == 1)
        # The state of partition 0 was read before; the controller itself writes it from now on.
        assert seen.is_gone(STATE_0)
        assert seen.version(f"{TOPIC}/partitions/2/state") == 0
        last = seen.events[-1]
        assert isinstance(last, Observed)
        assert len(last.facts) == 3

        other.delete(TOPIC, recursive=True)
        world.until(lambda: seen.is_gone(TOPIC))


def test_a_topic_deleted_and_created_again_is_told_as_new_with_all_its_states(world: World) -> None:
    other = world.other
    create_parents(other)
    create_topic(other, "orders", 2)
    with world.loaded() as (seen, *_):
        first = seen.fact(STATE_0)
        assert first is not None
        transaction = other.transaction()
        for path in ("1/state", "1", "0/state", "0"):
            transaction.delete(f"{TOPIC}/partitions/{path}")
        transaction.delete(f"{TOPIC}/partitions")
        transaction.delete(TOPIC)
        transaction.create(TOPIC, topic_data(1))
        for path in ("/partitions", "/partitions/0"):
            transaction.create(TOPIC + path)
        transaction.create(STATE_0, STATE % 9)
        assert not [r for r in transaction.commit() if isinstance(r, Exception)]
        world.until(lambda: (f := seen.fact(STATE_0)) and f.as_of > first.as_of)
        again = seen.fact(STATE_0)
        assert again is not None
        assert isinstance(again.value, PartitionState)
        assert again.value.leader_epoch == 9


def test_a_registration_created_again_has_another_epoch_and_an_empty_one_is_not_there_yet(world: World) -> None:
    other = world.other
    create_parents(other)
    register(other, 1)
    with world.loaded() as (seen, *_):
        first = seen.fact("/brokers/ids/1")
        assert first is not None
        assert first.stat is not None
        data = other.get("/brokers/ids/1")[0]
        transaction = other.transaction()
        transaction.delete("/brokers/ids/1")
        transaction.create("/brokers/ids/1", b"", ephemeral=True)
        transaction.commit()
        world.until(lambda: seen.is_gone("/brokers/ids/1"))

        other.set("/brokers/ids/1", data)
        world.until(lambda: seen.version("/brokers/ids/1") == 1)
        again = seen.fact("/brokers/ids/1")
        assert again is not None
        assert again.stat is not None
        assert again.stat.czxid > first.stat.czxid
        assert isinstance(again.value, Registration)

        other.delete("/brokers/ids/1")
        world.until(lambda: seen.is_gone("/brokers/ids/1"))


@pytest.mark.parametrize("path", ["/admin/reassign_partitions", "/latest_producer_id_block"])
def test_what_need_not_exist_is_told_when_it_comes_changes_and_goes(world: World, path: str) -> None:
    other = world.other
    create_parents(other)
    with world.loaded() as (seen, *_):
        for _ in range(2):
            other.create(path, b'{"version":1,"partitions":[]}')
            world.until(lambda: seen.version(path) == 0)
            other.set(path, b'{"version":1,"partitions":[]}')
            world.until(lambda: seen.version(path) == 1)
            other.delete(path)
            world.until(lambda: seen.is_gone(path))


def test_a_deletion_asked_for_again_at_once_is_told_again(world: World) -> None:
    other = world.other
    path = "/admin/delete_topics/orders"
    create_parents(other)
    other.create(path)
    with world.loaded() as (seen, *_):
        first = seen.fact(path)
        assert first is not None
        transaction = other.transaction()
        transaction.delete(path)
        transaction.create(path)
        transaction.commit()
        world.until(lambda: (f := seen.fact(path)) and f.is_present and f.as_of > first.as_of)


def test_malformed_znodes_are_facts_and_strange_names_are_noticed_once(world: World) -> None:
    other = world.other
    create_parents(other)
    for name in ("007", "abc", "٣"):
        other.create(f"/brokers/ids/{name}", b"?")
    other.create("/brokers/ids/7", b"?")
    other.create(TOPIC, b"{")
    with world.loaded() as (seen, notices, *_):
        other.create("/brokers/ids/def")
        world.until(lambda: len(notices) == 4)
        other.set("/brokers/ids/abc", b"!")
        register(other, 8)
        world.until(lambda: seen.version("/brokers/ids/8") == 0)

        assert len(notices) == 4
        ids = {a.broker for a in seen.facts if isinstance(a, BrokerAddress)}
        assert ids == {7, 8}
        for path in ("/brokers/ids/7", TOPIC):
            fact = seen.fact(path)
            assert fact is not None
            assert isinstance(fact.value, Malformed)


def test_the_folder_of_moves_is_read_only_where_it_is_followed_and_seen_from_its_creation_on(world: World) -> None:
    other = world.other
    folder, child = "/admin/reassignments", "/admin/reassignments/a-1-7"
    create_parents(other)
    with world.loaded(follows=True) as (seen, notices, *_), world.loaded() as (blind, *_):
        assert seen.is_gone(folder)

        other.create(folder, b'{"version":1,"controller_epoch":7}')
        other.create(child, b'{"version":1,"assignment":[10,11,15]}')
        world.until(lambda: seen.version(child) == 0 and seen.version(folder) == 0)
        other.set(child, b'{"version":1,"assignment":[10,11]}')
        other.set(folder, b"")
        world.until(lambda: seen.version(child) == 1 and seen.version(folder) == 1)
        other.create(f"{folder}/a-07")
        world.until(lambda: notices)
        other.delete(child)
        world.until(lambda: seen.is_gone(child))

        assert not [path for path in map(lambda a: a.path, blind.facts) if path.startswith(folder)]


def test_a_read_tells_now_and_with_a_watch_every_later_change_too(world: World) -> None:
    other = world.other
    create_parents(other)
    create_topic(other, "orders", 60)
    with world.loaded() as reading:
        seen = reading.seen
        states = tuple(StateAddress(TopicName("orders"), PartitionId(p)) for p in range(60))
        for address in states:
            other.set(address.path, STATE % 1)
        world.pass_time(0.1)
        assert seen.version(STATE_0) == 0

        reading.read(states, False)
        world.until(lambda: all(seen.version(a.path) == 1 for a in states))

        for some in (states[:2], states):
            reading.read(some, True)
            world.until(lambda: isinstance(e := seen.events[-1], Observed) and len(e.facts) == len(some))  # noqa: B023  # awaited here
            for _ in range(2):
                versions = {address.path: other.set(address.path, STATE % 2).version for address in some}
                world.until(lambda: versions.items() <= seen.present().items())  # noqa: B023  # awaited here

        other.delete(STATE_0)
        world.until(lambda: seen.is_gone(STATE_0))


def test_a_survey_lists_everything_below_a_topic_children_first_with_their_versions(world: World) -> None:
    other = world.other
    create_parents(other)
    create_topic(other, "orders", 2)
    other.create(f"{STATE_0}/note")
    other.create(f"{TOPIC}/mine")
    other.set(f"{TOPIC}/mine", b"twice")
    with world.loaded() as reading:
        reading.survey(TopicName("orders"))
        reading.survey(TopicName("nowhere"))
        surveys = world.until(lambda: (s := [e for e in reading.seen.events if isinstance(e, Surveyed)])[1:] and s)

    orders = [(address.path.removeprefix(f"{TOPIC}/"), version) for address, version in surveys[0].found]
    assert orders == [
        ("partitions/0/state/note", 0),
        ("partitions/0/state", 0),
        ("partitions/1/state", 0),
        ("partitions/0", 0),
        ("partitions/1", 0),
        ("mine", 1),
        ("partitions", 0),
    ]
    assert surveys[1] == Surveyed(TopicName("nowhere"), ())


def test_nothing_is_told_after_stop(world: World) -> None:
    other = world.other
    create_parents(other)
    with world.loaded() as reading:
        reading.stop()
        count = len(reading.seen.events)
        create_topic(other, "orders", 3)
        world.pass_time(0.3)
        assert len(reading.seen.events) == count


def test_znodes_changing_while_they_are_loaded_are_not_missed(world: World) -> None:
    other = world.other
    create_parents(other)
    for number in range(300):
        create_topic(other, f"old{number}", 2)
    with ExitStack() as last:
        with world.meddling(meddle):
            for _ in range(5):
                with world.loaded(chunk=100) as (seen, *_):
                    world.pass_time(0.2)
                    assert seen.is_loaded
            seen, *_ = last.enter_context(world.loaded(chunk=100))
            world.pass_time(0.3)
        truth = held(other)
        world.until(lambda: present_facts(seen, truth) == truth)
        assert every_state_is_known(seen, truth)


def meddle(client: KazooClient) -> Iterator[None]:
    """Create, change and delete topics and registrations, one after the other."""
    random = Random(1)
    alive: list[str] = []
    number = 0
    while True:
        yield
        match random.randrange(5):
            case 0 | 1:
                number += 1
                create_topic(client, f"new{number}", random.randrange(1, 4))
                alive.append(f"new{number}")
            case 2 if alive:
                client.set(f"/brokers/topics/{random.choice(alive)}", topic_data(random.randrange(1, 6)))
            case 3 if alive:
                client.delete(f"/brokers/topics/{alive.pop(random.randrange(len(alive)))}", recursive=True)
            case _:
                path = f"/brokers/ids/{random.randrange(5)}"
                if client.exists(path):
                    client.delete(path)
                else:
                    register(client, int(path.rpartition("/")[2]))


def test_events_of_a_broker_id_are_those_of_its_registration(world: World) -> None:
    other = world.other
    create_parents(other)
    with world.loaded() as (seen, *_):
        for broker in range(1, 6):
            register(other, broker, 9000 + broker)
        world.until(lambda: all(seen.version(f"/brokers/ids/{b}") == 0 for b in range(1, 6)))
        fact = seen.facts[BrokerAddress(BrokerId(4))]
        assert isinstance(fact.value, Registration)
        assert fact.value.endpoints[0].port == 9004

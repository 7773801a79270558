"""Does the controller see what ZooKeeper holds: all of it once, every change, and nothing twice for long?"""

import asyncio
import random
import threading
import time
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.core.effects import Notice, Read, Survey
from controller.core.events import Loaded, Observed, Surveyed
from controller.lab.zookeeper import ZooKeeperServer
from controller.zk.answers import SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.bulk import BulkReader, ChunkSize
from controller.zk.connect_settings import ZooKeeperSettings
from controller.zk.reader import Reader
from tests.conformance.adapter_world import (
    PARENTS,
    STATE,
    Line,
    Seen,
    connected,
    create_states,
    create_topic,
    loaded,
    register,
    someone,
    topic_data,
    until,
)
from zk_layout.facts import Malformed
from zk_layout.ids import BrokerId, PartitionId, TopicName
from zk_layout.znodes.brokers import BrokerAddress, Registration
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Topic, TopicAddress

TOPIC = "/brokers/topics/orders"
STATE_0 = f"{TOPIC}/partitions/0/state"


def test_loading_shows_every_znode_once_topics_with_their_states_and_then_says_so(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            for parent in PARENTS:
                other.ensure_path(parent)
            for broker in (1, 2):
                register(other, broker)
            for number in range(40):
                create_topic(other, f"t{number}", 5)
            create_topic(other, "new", 3, with_states=False)
            other.create("/admin/delete_topics/t1")
            other.create("/isr_change_notification/isr_change_0000000001", b'{"version":1,"partitions":[]}')
            other.create("/log_dir_event_notification/log_dir_event_0000000000", b'{"version":1,"broker":1,"event":1}')
            other.create(
                "/kafka_zk_controller/replica_deletions/t2", b'{"version":1,"topic_id":null,"replicas":{"0":[3]}}'
            )
            other.create("/admin/reassign_partitions", b'{"version":1,"partitions":[]}')
            other.create("/admin/reassign_partitions_status/7", b"a status that cannot be read is one all the same")
            async with loaded(zookeeper, chunk=30) as (seen, _):
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
                counts = {
                    kind: sum(type(a).__name__ == kind for a in shown) for kind in {type(a).__name__ for a in shown}
                }
                assert counts == {
                    "BrokerAddress": 2,
                    "TopicAddress": 41,
                    "StateAddress": 203,
                    "ReassignmentStatusAddress": 1,
                    "StatusRootAddress": 1,
                    "DefaultBrokerConfigAddress": 1,
                    "TopicDeletionAddress": 1,
                    "ReplicaDeletionsAddress": 1,
                    "IsrChangeAddress": 1,
                    "LogDirEventAddress": 1,
                    "FeatureAddress": 1,
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

    asyncio.run(story())


def test_an_absence_is_as_of_the_answer_that_said_so(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
            async with loaded(zookeeper) as (seen, _):
                _, stat = other.get("/admin/delete_topics")
                first = seen.fact("/feature")
                assert first is not None
                create_topic(other, "orders", 1)
                created = other.exists(TOPIC).czxid
                await until(lambda: seen.version(TOPIC) == 0)
                other.delete(TOPIC, recursive=True)
                await until(lambda: seen.is_gone(TOPIC))
                gone = seen.fact(TOPIC)
                assert gone is not None
                assert stat.czxid <= first.as_of < created < gone.as_of

    asyncio.run(story())


def create_parents(client: KazooClient) -> None:
    for parent in PARENTS:
        client.ensure_path(parent)


def test_topics_that_come_change_and_go_are_told_with_their_states(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
            async with loaded(zookeeper) as (seen, _):
                create_topic(other, "orders", 1, with_states=False)
                await until(lambda: seen.version(TOPIC) == 0)
                assert seen.is_gone(STATE_0)

                create_states(other, "orders", range(3))
                other.set(TOPIC, topic_data(3))
                await until(lambda: seen.version(TOPIC) == 1)
                # The state of partition 0 was told before; the controller itself writes it from now on.
                assert seen.is_gone(STATE_0)
                assert seen.version(f"{TOPIC}/partitions/2/state") == 0
                last = seen.events[-1]
                assert isinstance(last, Observed)
                assert len(last.facts) == 3

                other.delete(TOPIC, recursive=True)
                await until(lambda: seen.is_gone(TOPIC))

    asyncio.run(story())


def test_a_topic_deleted_and_created_again_is_told_as_new_with_all_its_states(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
            create_topic(other, "orders", 2)
            async with loaded(zookeeper) as (seen, _):
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
                await until(lambda: (f := seen.fact(STATE_0)) and f.as_of > first.as_of)
                again = seen.fact(STATE_0)
                assert again is not None
                assert isinstance(again.value, PartitionState)
                assert again.value.leader_epoch == 9

    asyncio.run(story())


def test_a_registration_created_again_has_another_epoch_and_an_empty_one_is_not_there_yet(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
            register(other, 1)
            async with loaded(zookeeper) as (seen, _):
                first = seen.fact("/brokers/ids/1")
                assert first is not None
                assert first.stat is not None
                data = other.get("/brokers/ids/1")[0]
                transaction = other.transaction()
                transaction.delete("/brokers/ids/1")
                transaction.create("/brokers/ids/1", b"", ephemeral=True)
                transaction.commit()
                await until(lambda: seen.is_gone("/brokers/ids/1"))

                other.set("/brokers/ids/1", data)
                await until(lambda: seen.version("/brokers/ids/1") == 1)
                again = seen.fact("/brokers/ids/1")
                assert again is not None
                assert again.stat is not None
                assert again.stat.czxid > first.stat.czxid
                assert isinstance(again.value, Registration)

                other.delete("/brokers/ids/1")
                await until(lambda: seen.is_gone("/brokers/ids/1"))

    asyncio.run(story())


@pytest.mark.parametrize("path", ["/admin/reassign_partitions", "/latest_producer_id_block"])
def test_what_need_not_exist_is_told_when_it_comes_changes_and_goes(zookeeper: str, path: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
            async with loaded(zookeeper) as (seen, _):
                for _ in range(2):
                    other.create(path, b'{"version":1,"partitions":[]}')
                    await until(lambda: seen.version(path) == 0)
                    other.set(path, b'{"version":1,"partitions":[]}')
                    await until(lambda: seen.version(path) == 1)
                    other.delete(path)
                    await until(lambda: seen.is_gone(path))

    asyncio.run(story())


def test_a_deletion_asked_for_again_at_once_is_told_again(zookeeper: str) -> None:
    async def story() -> None:
        path = "/admin/delete_topics/orders"
        with someone(zookeeper) as other:
            create_parents(other)
            other.create(path)
            async with loaded(zookeeper) as (seen, _):
                first = seen.fact(path)
                assert first is not None
                transaction = other.transaction()
                transaction.delete(path)
                transaction.create(path)
                transaction.commit()
                await until(lambda: (f := seen.fact(path)) and f.is_present and f.as_of > first.as_of)

    asyncio.run(story())


def test_malformed_znodes_are_facts_and_strange_names_are_noticed_once(zookeeper: str) -> None:
    async def story() -> None:
        notices: list[Notice] = []
        with someone(zookeeper) as other:
            create_parents(other)
            for name in ("007", "abc", "٣"):
                other.create(f"/brokers/ids/{name}", b"?")
            other.create("/brokers/ids/7", b"?")
            other.create(TOPIC, b"{")
            async with connected(zookeeper) as bridge:
                seen = Seen()
                reader = Reader(bridge, seen, notice=notices.append)
                await reader.load()
                other.create("/brokers/ids/def")
                await until(lambda: len(notices) == 4)
                other.set("/brokers/ids/abc", b"!")
                register(other, 8)
                await until(lambda: seen.version("/brokers/ids/8") == 0)

                assert len(notices) == 4
                ids = {a.broker for a in seen.facts if isinstance(a, BrokerAddress)}
                assert ids == {7, 8}
                for path in ("/brokers/ids/7", TOPIC):
                    fact = seen.fact(path)
                    assert fact is not None
                    assert isinstance(fact.value, Malformed)
                reader.stop()

    asyncio.run(story())


def test_the_folder_of_moves_is_read_only_where_it_is_followed_and_seen_from_its_creation_on(zookeeper: str) -> None:
    async def story() -> None:
        folder, child = "/admin/reassignments", "/admin/reassignments/a-1-7"
        with someone(zookeeper) as other:
            create_parents(other)
            async with connected(zookeeper) as bridge, loaded(zookeeper) as (blind, _):
                seen, notices = Seen(), list[Notice]()
                reader = Reader(bridge, seen, notice=notices.append, follows_reassignments=True)
                await reader.load()
                assert seen.is_gone(folder)

                other.create(folder, b'{"version":1,"controller_epoch":7}')
                other.create(child, b'{"version":1,"assignment":[10,11,15]}')
                await until(lambda: seen.version(child) == 0 and seen.version(folder) == 0)
                other.set(child, b'{"version":1,"assignment":[10,11]}')
                other.set(folder, b"")
                await until(lambda: seen.version(child) == 1 and seen.version(folder) == 1)
                other.create(f"{folder}/a-07")
                await until(lambda: notices)
                other.delete(child)
                await until(lambda: seen.is_gone(child))

                assert not [path for path in map(lambda a: a.path, blind.facts) if path.startswith(folder)]
                reader.stop()

    asyncio.run(story())


def test_a_read_tells_now_and_with_a_watch_every_later_change_too(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
            create_topic(other, "orders", 60)
            async with loaded(zookeeper) as (seen, reader):
                states = tuple(StateAddress(TopicName("orders"), PartitionId(p)) for p in range(60))
                for address in states:
                    other.set(address.path, STATE % 1)
                await asyncio.sleep(0.1)
                assert seen.version(STATE_0) == 0

                reader.read(Read(states))
                await until(lambda: all(seen.version(a.path) == 1 for a in states))

                for some in (states[:2], states):
                    await watched(seen, reader, some)
                    for _ in range(2):
                        await shown(seen, {a.path: other.set(a.path, STATE % 2).version for a in some})

                other.delete(STATE_0)
                await until(lambda: seen.is_gone(STATE_0))

    asyncio.run(story())


async def watched(seen: Seen, reader: Reader, addresses: tuple[StateAddress, ...]) -> None:
    reader.read(Read(addresses, watch=True))
    await until(lambda: isinstance(e := seen.events[-1], Observed) and len(e.facts) == len(addresses))


async def shown(seen: Seen, versions: dict[str, int]) -> None:
    await until(lambda: all(seen.version(path) == version for path, version in versions.items()))


def test_a_survey_lists_everything_below_a_topic_children_first_with_their_versions(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            for parent in PARENTS:
                other.ensure_path(parent)
            create_topic(other, "orders", 2)
            other.create(f"{STATE_0}/note")
            other.create(f"{TOPIC}/mine")
            other.set(f"{TOPIC}/mine", b"twice")
            async with loaded(zookeeper) as (seen, reader):
                reader.survey(Survey(TopicName("orders")))
                reader.survey(Survey(TopicName("nowhere")))
                surveys = await until(lambda: (s := [e for e in seen.events if isinstance(e, Surveyed)])[1:] and s)

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

    asyncio.run(story())


def test_nothing_is_told_after_stop(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
            async with loaded(zookeeper) as (seen, reader):
                reader.stop()
                count = len(seen.events)
                create_topic(other, "orders", 3)
                await asyncio.sleep(0.3)
                assert len(seen.events) == count
                await reader.wait()

    asyncio.run(story())


def test_znodes_changing_while_they_are_loaded_are_not_missed(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
            for number in range(300):
                create_topic(other, f"old{number}", 2)
            is_over = threading.Event()
            writer = threading.Thread(target=meddle, args=(zookeeper, is_over))
            writer.start()
            for _ in range(5):
                async with loaded(zookeeper, chunk=100) as (seen, _):
                    await asyncio.sleep(0.2)
                    assert seen.is_loaded
            async with loaded(zookeeper, chunk=100) as (seen, _):
                await asyncio.sleep(0.3)
                is_over.set()
                await asyncio.to_thread(writer.join)
                await settled_as(seen, other)

    asyncio.run(story())


def meddle(connect: str, is_over: threading.Event) -> None:
    """Create, change and delete topics, registrations and deletion wishes until told to stop."""
    dice = random.Random(1)
    with someone(connect) as client:
        alive: list[str] = []
        number = 0
        while not is_over.is_set():
            match dice.randrange(5):
                case 0 | 1:
                    number += 1
                    create_topic(client, f"new{number}", dice.randrange(1, 4))
                    alive.append(f"new{number}")
                case 2 if alive:
                    client.set(f"/brokers/topics/{dice.choice(alive)}", topic_data(dice.randrange(1, 6)))
                case 3 if alive:
                    client.delete(f"/brokers/topics/{alive.pop(dice.randrange(len(alive)))}", recursive=True)
                case _:
                    path = f"/brokers/ids/{dice.randrange(5)}"
                    if client.exists(path):
                        client.delete(path)
                    else:
                        register(client, int(path.rpartition("/")[2]))


async def settled_as(seen: Seen, client: KazooClient) -> None:
    """What was seen becomes exactly what ZooKeeper holds in the watched families."""

    def held() -> dict[str, int]:
        return {
            f"{parent}/{name}": client.exists(f"{parent}/{name}").version
            for parent in ("/brokers/ids", "/brokers/topics", "/admin/delete_topics")
            for name in client.get_children(parent)
        }

    truth = await asyncio.to_thread(held)

    def shown() -> dict[str, int]:
        return {path: version for path, version in seen.present().items() if path in truth or path.count("/") == 3}

    try:
        await until(lambda: shown() == truth, 20)
    except TimeoutError:
        assert shown() == truth
    for path in truth:
        fact = seen.fact(path)
        assert fact is not None
        if isinstance(fact.value, Topic):
            for number in fact.value.partitions:
                assert seen.fact(f"{path}/partitions/{number}/state") is not None


def test_watches_and_what_happened_meanwhile_survive_a_restart_of_the_server(tmp_path: Path) -> None:
    async def story() -> None:
        with ZooKeeperServer(tmp_path / "zookeeper") as server:
            with someone(server.connect) as other:
                create_parents(other)
                for number in range(50):
                    create_topic(other, f"t{number}", 2)
            async with Line(server.connect) as line, loaded(line.connect) as (seen, _):
                before = len(seen.events)
                await asyncio.to_thread(server.restart)
                await asyncio.sleep(1.5)
                line.cut()
                line.on_request = lambda _: "close"
                with someone(server.connect) as other:
                    other.set("/brokers/topics/t3", topic_data(4))
                    other.delete("/brokers/topics/t4", recursive=True)
                    other.create("/admin/preferred_replica_election", b'{"version":1,"partitions":[]}')
                    create_topic(other, "late", 1)
                    line.on_request = lambda _: None
                    await settled_as(seen, other)
                    await until(lambda: seen.version("/admin/preferred_replica_election") == 0)
                    # Only what had changed was read again.
                    told = [f for e in seen.events[before:] if isinstance(e, Observed) for f in e.facts]
                    assert len(told) < 15

                    other.set("/brokers/topics/t5", topic_data(3))
                    create_topic(other, "later", 1)
                    await settled_as(seen, other)

    asyncio.run(story())


def test_loading_goes_on_after_the_connection_was_lost(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
            for number in range(100):
                create_topic(other, f"t{number}", 3)
            async with Line(zookeeper) as line, connected(line.connect) as bridge:
                counts = {22: 0}

                def drop(operation: int) -> str | None:
                    if operation == 22:
                        counts[22] += 1
                        return "close" if counts[22] in (3, 5) else None
                    return None

                line.on_request = drop
                seen = Seen()
                reader = Reader(bridge, seen)
                await reader.load()
                assert counts[22] > 5
                await settled_as(seen, other)
                assert sum(isinstance(a, StateAddress) for a in seen.facts) == 300
                reader.stop()

    asyncio.run(story())


@pytest.mark.parametrize("how", ["close", "unimplemented"])
def test_servers_without_multi_read_are_found_out_once_and_read_singly(zookeeper: str, how: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
            for number in range(60):
                create_topic(other, f"t{number}", 3)
            async with Line(zookeeper) as line:
                line.on_request = lambda operation: how if operation == 22 else None
                async with connected(line.connect) as bridge:
                    seen = Seen()
                    reader = Reader(bridge, seen)
                    await reader.load()
                    assert sum(isinstance(a, StateAddress) for a in seen.facts) == 180
                    create_topic(other, "late", 3)
                    await until(lambda: seen.version("/brokers/topics/late") == 0)
                    line.cut()
                    create_topic(other, "later", 3)
                    await until(lambda: seen.version("/brokers/topics/later") == 0)
                    assert line.requests.count(22) == (1 if how == "unimplemented" else 2)
                    reader.stop()

    asyncio.run(story())


def test_the_end_of_the_session_ends_the_load(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
        async with Line(zookeeper) as line:
            bridge = Bridge(ZooKeeperSettings(line.connect, 4_000))
            await bridge.start()
            line.is_mute = True
            seen = Seen()
            reader = Reader(bridge, seen)
            load = asyncio.create_task(reader.load())
            await asyncio.sleep(0.1)
            await bridge.stop()
            with pytest.raises(SessionEnded):
                await load
            assert not seen.is_loaded

    asyncio.run(story())


def test_very_large_topic_znodes_are_read_a_few_at_a_time(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            paths = [f"/big{number}" for number in range(60)]
            for path in paths:
                other.create(path, b"x" * 500_000)
        async with Line(zookeeper) as line, connected(line.connect) as bridge:
            size = ChunkSize()
            started = time.monotonic()
            found = await BulkReader(bridge).read(paths, size)
            assert [len(node.data) for node, _ in found if node is not None] == [500_000] * 60
            assert size.now == 2
            assert time.monotonic() - started < 30

    asyncio.run(story())


def test_events_of_a_broker_id_are_those_of_its_registration(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
            async with loaded(zookeeper) as (seen, _):
                for broker in range(1, 6):
                    register(other, broker, 9000 + broker)
                await until(lambda: all(seen.version(f"/brokers/ids/{b}") == 0 for b in range(1, 6)))
                fact = seen.facts[BrokerAddress(BrokerId(4))]
                assert isinstance(fact.value, Registration)
                assert fact.value.endpoints[0].port == 9004

    asyncio.run(story())

"""Does reading go on when the connection is lost, the server restarts, or knows no multi-read?

Real servers only: it is about their sockets and versions, of which the simulated ZooKeeper has none.
"""

import asyncio
import time
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.core.messages.events import Observed
from controller.lab.zookeeper import ZooKeeperServer
from controller.settings.zookeeper import ZooKeeperSettings
from controller.zk.answers import SessionEnded
from controller.zk.bridge import Bridge
from controller.zk.bulk import BulkReader, ChunkSize
from controller.zk.protocol import GetData, Node, SetWatches, Sync
from controller.zk.reader import Reader
from tests.conformance.adapter_world import (
    Line,
    Seen,
    connected,
    create_parents,
    create_topic,
    every_state_is_known,
    held,
    loaded,
    present_facts,
    someone,
    topic_data,
    until,
)
from zk_layout.znodes.partition_state import StateAddress


async def settled_as(seen: Seen, client: KazooClient) -> None:
    """Wait until the facts equal ZooKeeper's content in the watched families."""
    truth = await asyncio.to_thread(held, client)
    await until(lambda: present_facts(seen, truth) == truth, 20)
    assert every_state_is_known(seen, truth)


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
                    present_facts = [f for e in seen.events[before:] if isinstance(e, Observed) for f in e.facts]
                    assert len(present_facts) < 15

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


def test_who_comes_back_reads_what_the_server_shows_when_it_has_caught_up(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            create_parents(other)
        async with Line(zookeeper) as line, connected(line.connect) as bridge:
            await bridge.exists("/brokers/topics", watch=True)
            before = len(line.requests)
            line.cut()

            await bridge.get("/brokers/topics")

            asked = [kind for kind in line.requests[before:] if kind in (Sync.type, SetWatches.type, GetData.type)]
            assert asked == [Sync.type, SetWatches.type, GetData.type]

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
            assert [len(node.data) for node, _ in found if isinstance(node, Node)] == [500_000] * 60
            assert size.now == 2
            assert time.monotonic() - started < 30

    asyncio.run(story())

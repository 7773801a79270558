"""Does the adapter work with a real ZooKeeper 3.5, which knows no multi-read? Kafka 2.4 brings its jars."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.core.candidacy.events import Claimed
from controller.core.messages.effects import Commit, Create, Delete, Operation, operation
from controller.core.messages.events import CommitId, Committed, Conflicted, Event
from controller.core.transactions.sizes import RequestSizes
from controller.lab.errors import LabError
from controller.lab.jars import kafka_class_path
from controller.lab.zookeeper import ZooKeeperServer
from controller.zk.reader import Reader
from controller.zk.session import Session
from controller.zk.writer import DEFAULT_REQUEST_BYTES, Writer
from tests.conformance.adapter_world import Seen, connected, create_topic, registration, someone, until
from zk_layout.ids import BrokerId, TopicName, ZnodeVersion
from zk_layout.znodes.admin import LegacyReassignmentAddress, TopicDeletionAddress
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Topic, TopicAddress


class OldServer(ZooKeeperServer):
    """A server on the jars of Kafka 2.4."""

    def _argv(self) -> list[str | Path]:
        argv = super()._argv()
        argv[argv.index("-cp") + 1] = ":".join(map(str, kafka_class_path("2.4.1")))
        return argv


@pytest.fixture(scope="module")
def old_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    try:
        server = OldServer(tmp_path_factory.mktemp("zookeeper-3.5"))
    except LabError as error:
        pytest.skip(str(error))
    with server:
        yield server


def fence_version(zk: KazooClient) -> ZnodeVersion:
    """The version of the epoch, which an earlier test may have written."""
    if not zk.exists("/controller_epoch"):
        zk.create("/controller_epoch", b"0")
    return ZnodeVersion(zk.get("/controller_epoch")[1].version)


def test_election_load_and_writing_work_without_the_multi_read(old_server: ZooKeeperServer) -> None:
    async def story() -> None:
        assert "version: 3.5." in old_server.ask("srvr")
        async with connected(old_server.connect) as bridge:
            session = Session(bridge, lambda _: None, BrokerId(100))
            await session.prepare()
            session.start()
            assert bridge.knows_multi_read is False
            term = await session.claim(registration(), replace=False)
            assert isinstance(term, Claimed)
            with someone(old_server.connect) as other:
                for number in range(60):
                    create_topic(other, f"t{number}", 5)
                seen = Seen()
                reader = Reader(bridge, seen)
                await reader.load()
                assert sum(isinstance(a, StateAddress) for a in seen.facts) == 300

                outcomes: list[Event] = []
                writer = Writer(bridge, outcomes.append, fence_version=term.fence_version)
                deletion = Create(TopicDeletionAddress(TopicName("t1")), None)
                writer.submit(Commit(CommitId(1), (operation(deletion),), ("a test wants it",)))
                await until(lambda: outcomes)
                assert isinstance(outcomes[0], Committed)
                await until(lambda: seen.version("/admin/delete_topics/t1") == 0)

                other.set("/brokers/topics/t7", b"{}")
                await until(lambda: seen.version("/brokers/topics/t7") == 1)
            reader.stop()
            session.stop()

    asyncio.run(story())


def test_the_largest_transaction_is_accepted_and_read_again_after_a_restart(old_server: ZooKeeperServer) -> None:
    """Old servers allow a kilobyte on top of jute.maxbuffer for what they add before they store it."""
    name = TopicName("large")
    write = Create(TopicAddress(name), Topic({}))
    counted = RequestSizes(DEFAULT_REQUEST_BYTES)
    largest = Operation(write, b"x" * counted.most_data_bytes(write.address.path))
    assert counted.empty_bytes + counted.write_bytes(largest) == DEFAULT_REQUEST_BYTES

    async def story() -> None:
        async with connected(old_server.connect) as bridge:
            with someone(old_server.connect) as other:
                other.ensure_path("/brokers/topics")
                version = fence_version(other)
            outcomes: list[Event] = []
            writer = Writer(bridge, outcomes.append, fence_version=version)
            writer.submit(Commit(CommitId(1), (largest,), ("as large as may be",)))
            await until(lambda: outcomes)
            assert isinstance(outcomes[0], Committed)

    asyncio.run(story())
    old_server.stop()
    old_server.start()
    with someone(old_server.connect) as other:
        assert other.get(write.address.path)[0] == largest.data
        other.delete(write.address.path)


def test_a_request_that_was_replaced_is_not_deleted_in_its_place(old_server: ZooKeeperServer) -> None:
    legacy = LegacyReassignmentAddress()

    async def story() -> None:
        async with connected(old_server.connect) as bridge:
            with someone(old_server.connect) as other:
                other.ensure_path("/admin")
                other.create(legacy.path, b"first")
                seen, outcomes = Seen(), list[Event]()
                reader = Reader(bridge, seen)
                await reader.load()
                writer = Writer(bridge, outcomes.append, fence_version=fence_version(other), lives=reader.lives)

                async def outcome() -> Event:
                    stat = seen.facts[legacy].stat
                    assert stat is not None
                    outcomes.clear()
                    delete = operation(Delete(legacy, stat.version, stat.czxid))
                    writer.submit(Commit(CommitId(1), (delete,), ("a test wants it",)))
                    await until(lambda: outcomes)
                    return outcomes[0]

                # Nothing is awaited between: our watch has not fired yet.
                other.delete(legacy.path)
                other.create(legacy.path, b"second")
                assert isinstance(await outcome(), Conflicted)
                _, stat = other.get(legacy.path)
                await until(lambda: seen.facts[legacy].as_of == stat.mzxid)
                assert isinstance(await outcome(), Committed)
                reader.stop()

    asyncio.run(story())

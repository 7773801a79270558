"""Does the adapter work with real ZooKeepers of other versions? 3.5 knows no multi-read."""

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
from controller.lab.jars import Module, class_path
from controller.lab.zookeeper import ZooKeeperServer
from controller.zk import protocol
from controller.zk.answers import Change, Disconnected
from controller.zk.protocol import AddRecursiveWatch, Sync
from controller.zk.reader import Reader
from controller.zk.session import Session
from controller.zk.writer import DEFAULT_REQUEST_BYTES, Writer
from tests.conformance.adapter_world import Seen, connected, create_topic, registration, someone, until
from tests.conformance.warm_rounds import claim_again_and_again
from zk_layout.ids import BrokerId, TopicName, ZnodeVersion
from zk_layout.znodes.admin import LegacyReassignmentAddress, TopicDeletionAddress
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import Topic, TopicAddress

# The last of each line that still serves clusters; the lab's own is 3.9.5.
VERSIONS = ("3.5.9", "3.6.4", "3.8.6")


def jars(version: str) -> tuple[Path, ...]:
    """A server's jars, with what the published module does not ask for."""
    modules = [
        Module("org.apache.zookeeper", "zookeeper", version),
        Module("io.dropwizard.metrics", "metrics-core", "4.1.12.1"),
        Module("org.xerial.snappy", "snappy-java", "1.1.10.5"),
    ]
    return class_path(f"zookeeper-{version}", version, lambda: modules)


class OtherServer(ZooKeeperServer):
    """A server of another version than the lab's."""

    def __init__(self, version: str, directory: Path) -> None:
        self.version = version
        super().__init__(directory)

    def _argv(self) -> list[str | Path]:
        argv = super()._argv()
        argv[argv.index("-cp") + 1] = ":".join(map(str, jars(self.version)))
        return argv


@pytest.fixture(scope="module", params=VERSIONS)
def old_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherServer]:
    try:
        server = OtherServer(request.param, tmp_path_factory.mktemp(f"zookeeper-{request.param}"))
    except LabError as error:
        pytest.skip(str(error))
    with server:
        yield server


def fence_version(zk: KazooClient) -> ZnodeVersion:
    """The version of the epoch, which an earlier test may have written."""
    if not zk.exists("/controller_epoch"):
        zk.create("/controller_epoch", b"0")
    return ZnodeVersion(zk.get("/controller_epoch")[1].version)


def test_election_load_and_writing_work_with_the_multi_read_or_without(old_server: OtherServer) -> None:
    async def story() -> None:
        assert f"version: {old_server.version}" in old_server.ask("srvr")
        async with connected(old_server.connect) as bridge:
            session = Session(bridge, lambda _: None, BrokerId(100))
            await session.prepare()
            session.start()
            assert bridge.knows_multi_read is not old_server.version.startswith("3.5.")
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


def test_the_largest_transaction_is_accepted_and_read_again_after_a_restart(old_server: OtherServer) -> None:
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


def test_a_request_that_was_replaced_is_not_deleted_in_its_place(old_server: OtherServer) -> None:
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


@pytest.mark.parametrize("is_recursive", [False, True])
def test_a_warm_standby_misses_nothing(old_server: OtherServer, is_recursive: bool) -> None:
    """With one watch for all states where the server knows such watches."""
    with someone(old_server.connect) as other:
        other.ensure_path("/warm")
    with someone(f"{old_server.connect}/warm") as others:
        told = asyncio.run(
            claim_again_and_again(f"{old_server.connect}/warm", others, rounds=3, is_recursive=is_recursive)
        )

    knows = not old_server.version.startswith("3.5.")
    assert all(made.is_recursive is (is_recursive and knows) for made in told)


def test_a_server_that_knows_no_recursive_watches_hangs_up_and_keeps_the_session(old_server: OtherServer) -> None:
    """A busy one may hang up before its answer is read: the bridge gives it a second chance."""

    async def story() -> tuple[int, bool]:
        async with connected(old_server.connect) as bridge:
            session = bridge.session
            try:
                code = (await bridge.ask(AddRecursiveWatch("/brokers"))).code
            except Disconnected:
                code = protocol.CONNECTION_LOSS
            await bridge.exists("/")
            return code, bridge.session == session

    knows = not old_server.version.startswith("3.5.")
    code, keeps_session = asyncio.run(story())
    assert code in ((protocol.OK,) if knows else (protocol.UNIMPLEMENTED, protocol.CONNECTION_LOSS))
    assert keeps_session


def test_a_one_shot_watch_of_children_leaves_the_recursive_watch_above_as_it_is(old_server: OtherServer) -> None:
    """Servers before 3.9 hold one watch of a session at a path, whatever its kind: the reader's must be elsewhere."""

    async def story() -> list[tuple[str, Change]]:
        async with connected(old_server.connect) as bridge:
            told: list[tuple[str, Change]] = []
            bridge.watch_listeners.append(lambda event: told.append((event.path, event.change)))
            await bridge.watch_below("/above", "/state")
            await bridge.children("/above/parent", watch=True)
            with someone(old_server.connect) as other:
                other.create("/above/parent/first")
                other.create("/above/parent/second")
            await bridge.ask(Sync("/"))
            await bridge.children("/above/parent", watch=True)
            bridge.unwatch_below()
            with someone(old_server.connect) as other:
                other.create("/above/parent/third")
            await bridge.ask(Sync("/"))
            return told

    with someone(old_server.connect) as other:
        other.ensure_path("/above/parent")
    told = asyncio.run(story())
    with someone(old_server.connect) as other:
        other.delete("/above", recursive=True)

    child = ("/above/parent", Change.CHILDREN)
    created = [(f"/above/parent/{name}", Change.CREATED) for name in ("first", "second")]
    knows = not old_server.version.startswith("3.5.")
    assert told == ([created[0], child, created[1], child] if knows else [child, child])

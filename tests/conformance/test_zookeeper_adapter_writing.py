"""Is a decision written all or nothing, and does its outcome say exactly what happened?"""

import asyncio

import pytest
from kazoo.client import KazooClient

from controller.core.messages.effects import Commit, Create, Delete, Operation, Set, Write, operation
from controller.core.messages.events import CommitId, Committed, Conflicted, Event, Fenced, Unknown
from controller.core.transactions.sizes import RequestSizes
from controller.zk.answers import ConnectionState
from controller.zk.preparation import create_parents
from controller.zk.writer import DEFAULT_REQUEST_BYTES, Writer
from tests.conformance.adapter_world import Line, connected, someone, until
from zk_layout import catalog
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, TopicName, ZnodeVersion
from zk_layout.watched import PERSISTENT
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ORDERS = TopicName("orders")
ZERO = PartitionId(0)
FENCE = ZnodeVersion(0)


def state(leader_epoch: int) -> PartitionState:
    return PartitionState(BrokerId(1), LeaderEpoch(leader_epoch), ControllerEpoch(1), (BrokerId(1),))


def commit(number: int, *writes: Write) -> Commit:
    return Commit(CommitId(number), tuple(map(operation, writes)), ("a test wants it",))


def creation_of_orders(number: int = 1) -> Commit:
    return commit(
        number,
        Create(PartitionsAddress(ORDERS), None),
        Create(PartitionAddress(ORDERS, ZERO), None),
        Create(StateAddress(ORDERS, ZERO), state(0)),
    )


def prepare(client: KazooClient) -> None:
    client.create("/controller_epoch", b"1")
    client.create("/brokers/topics/orders", b"{}", makepath=True)


def test_a_znode_without_data_holds_null_as_those_that_brokers_create(zookeeper: str) -> None:
    """Empty is something else: brokers below 3.0 take `/latest_producer_id_block` for JSON unless it is null."""

    async def story() -> None:
        with someone(zookeeper) as other:
            async with connected(zookeeper) as bridge:
                await create_parents(bridge)
                assert [other.get(path)[0] for path in PERSISTENT] == [None] * len(PERSISTENT)

                prepare(other)
                outcomes: list[Event] = []
                Writer(bridge, outcomes.append, fence_version=FENCE).submit(creation_of_orders())
                await until(lambda: outcomes)
                assert other.get(PartitionAddress(ORDERS, ZERO).path)[0] is None

    asyncio.run(story())


def test_a_commit_is_told_with_the_zxid_that_its_znodes_have(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            prepare(other)
            async with connected(zookeeper) as bridge:
                outcomes: list[Event] = []
                writer = Writer(bridge, outcomes.append, fence_version=FENCE)
                writer.submit(creation_of_orders())
                # Sent without waiting: it builds on the first.
                writer.submit(commit(2, Set(StateAddress(ORDERS, ZERO), state(1), ZnodeVersion(0))))
                await until(lambda: len(outcomes) == 2)

                data, stat = other.get(StateAddress(ORDERS, ZERO).path)
                assert outcomes == [
                    Committed(CommitId(1), stat.czxid),
                    Committed(CommitId(2), stat.mzxid),
                ]
                assert catalog.decode(StateAddress(ORDERS, ZERO), data) == state(1)

                writer.submit(commit(3, Delete(StateAddress(ORDERS, ZERO), ZnodeVersion(1))))
                await until(lambda: len(outcomes) == 3)
                assert other.exists(StateAddress(ORDERS, ZERO).path) is None

    asyncio.run(story())


def test_a_conflict_names_the_write_that_was_refused_and_nothing_is_written(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            prepare(other)
            async with connected(zookeeper) as bridge:
                outcomes: list[Event] = []
                writer = Writer(bridge, outcomes.append, fence_version=FENCE)
                address = TopicAddress(ORDERS)
                topic = Topic({ZERO: Assignment((BrokerId(1),))})
                other.set(address.path, b"{}")
                good = Create(PartitionsAddress(ORDERS), None)
                missing = TopicAddress(TopicName("nope"))
                writer.submit(commit(1, good, Set(address, topic, ZnodeVersion(0))))
                writer.submit(commit(2, good, Create(address, topic)))
                writer.submit(commit(3, good, Set(missing, topic, ZnodeVersion(0))))
                writer.submit(commit(4, Create(PartitionAddress(ORDERS, ZERO), None)))
                await until(lambda: len(outcomes) == 4)

                path = address.path
                assert outcomes == [
                    Conflicted(CommitId(1), address, f"cannot set {path} at version 0: another version"),
                    Conflicted(CommitId(2), address, f"cannot create {path}: exists already"),
                    Conflicted(CommitId(3), missing, f"cannot set {missing.path} at version 0: no such znode"),
                    Conflicted(
                        CommitId(4),
                        PartitionAddress(ORDERS, ZERO),
                        f"cannot create {path}/partitions/0: no such znode",
                    ),
                ]
                assert other.get_children(path) == []

    asyncio.run(story())


def test_a_risen_epoch_fences_everything_in_flight_and_later(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            prepare(other)
            async with connected(zookeeper) as bridge:
                outcomes: list[Event] = []
                writer = Writer(bridge, outcomes.append, fence_version=FENCE)
                other.set("/controller_epoch", b"2")
                for number in range(1, 4):
                    writer.submit(creation_of_orders(number))
                await until(lambda: len(outcomes) == 3)
                assert outcomes == [Fenced(CommitId(number)) for number in (1, 2, 3)]
                assert writer.is_fenced
                other.delete("/controller_epoch")
                writer.submit(creation_of_orders(4))
                assert outcomes[-1] == Fenced(CommitId(4))
                assert other.get_children("/brokers/topics/orders") == []

    asyncio.run(story())


def test_a_missing_epoch_fences_as_well(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            prepare(other)
            other.delete("/controller_epoch")
            async with connected(zookeeper) as bridge:
                outcomes: list[Event] = []
                Writer(bridge, outcomes.append, fence_version=FENCE).submit(creation_of_orders())
                await until(lambda: outcomes)
                assert outcomes == [Fenced(CommitId(1))]

    asyncio.run(story())


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_lost_answer_is_unknown_and_the_next_commit_goes_through(zookeeper: str, is_carried_out: bool) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            prepare(other)
            async with Line(zookeeper) as line, connected(line.connect) as bridge:
                outcomes: list[Event] = []
                writer = Writer(bridge, outcomes.append, fence_version=FENCE)

                def lose(operation: int) -> str | None:
                    if operation == 14 and not outcomes:
                        line.is_mute = True
                        return None if is_carried_out else "close"
                    return None

                line.on_request = lose
                writer.submit(creation_of_orders())
                await asyncio.sleep(0.3)
                line.is_mute = False
                line.cut()
                await until(lambda: outcomes)
                writer.submit(creation_of_orders(2))
                await until(lambda: len(outcomes) == 2)

                assert outcomes[0] == Unknown(CommitId(1))
                assert isinstance(outcomes[1], Conflicted if is_carried_out else Committed)

    asyncio.run(story())


def test_a_transaction_that_the_server_would_never_take_is_not_sent(zookeeper: str) -> None:
    async def story() -> None:
        with someone(zookeeper) as other:
            prepare(other)
            async with connected(zookeeper) as bridge:
                outcomes: list[Event] = []
                writer = Writer(bridge, outcomes.append, fence_version=FENCE)
                wide = Topic({PartitionId(p): Assignment(tuple(map(BrokerId, range(20)))) for p in range(20_000)})
                narrow = Create(PartitionsAddress(ORDERS), None)
                writer.submit(commit(1, narrow, Set(TopicAddress(ORDERS), wide, ZnodeVersion(0))))
                (refused,) = outcomes
                assert isinstance(refused, Conflicted)
                assert refused.address == TopicAddress(ORDERS)
                assert "jute.maxbuffer" in refused.reason

                writer.submit(commit(2, narrow))
                await until(lambda: len(outcomes) == 2)
                assert isinstance(outcomes[1], Committed)

    asyncio.run(story())


@pytest.mark.parametrize("chroot", ["", "/kafka"])
def test_what_the_core_counts_is_what_the_server_counts_to_the_byte(zookeeper: str, chroot: str) -> None:
    """The largest transaction that passes is accepted; one byte more, and the server hangs up."""

    async def story() -> None:
        with someone(zookeeper) as other:
            other.create(f"{chroot}/brokers/topics/orders", b"{}", makepath=True)
            other.create(f"{chroot}/controller_epoch", b"1")
            async with connected(zookeeper + chroot) as bridge:
                counted = RequestSizes(DEFAULT_REQUEST_BYTES, len(bridge.full("/controller_epoch")) - 17)
                outcomes: list[Event] = []
                unbounded = Writer(bridge, outcomes.append, fence_version=FENCE, max_request_bytes=1 << 30)
                write = Set(TopicAddress(ORDERS), Topic({}), ZnodeVersion(0))
                overhead = counted.empty_bytes + counted.write_bytes(Operation(write, b""))

                def of_size(size: int) -> Commit:
                    made = Operation(write, b"x" * (size - overhead))
                    assert counted.empty_bytes + counted.write_bytes(made) == size
                    return Commit(CommitId(size), (made,), ("as large as may be",))

                unbounded.submit(of_size(DEFAULT_REQUEST_BYTES + 1))
                await until(lambda: len(outcomes) == 1)
                assert isinstance(outcomes[0], Unknown)
                await until(lambda: bridge.state is ConnectionState.CONNECTED)
                unbounded.submit(of_size(DEFAULT_REQUEST_BYTES))
                await until(lambda: len(outcomes) == 2)
                assert isinstance(outcomes[1], Committed)
                data, _ = other.get(f"{chroot}/brokers/topics/orders")
                assert len(data) == DEFAULT_REQUEST_BYTES - overhead
                other.delete(f"{chroot}/brokers/topics/orders")

    asyncio.run(story())

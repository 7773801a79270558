"""Brokers are asked for the sizes of replicas over sockets, and every query has an outcome."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import structs

from controller.brokers.log_dirs import LogDirs
from controller.core.messages.commands import LeaderAndIsr, PartitionView
from controller.core.messages.effects import DescribeDisks, DescribeLogDirs
from controller.core.messages.events import Directory, DisksDescribed, LogDirsDescribed, ReplicaSize
from controller.lab.ports import free_port
from controller.lab.simulated_broker import SimulatedBroker, SimulatedSettings
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    TopicName,
    TopicPartition,
)
from zk_layout.znodes.brokers import Endpoint, Registration

BROKER, EPOCH = BrokerId(1), BrokerEpoch(7)
HERE, ELSEWHERE = (TopicPartition(TopicName("orders"), PartitionId(number)) for number in (0, 1))


def question(port: int, listener: str = "PLAINTEXT") -> DescribeLogDirs:
    return DescribeLogDirs(BROKER, EPOCH, Registration((Endpoint(listener, "127.0.0.1", port),)), (HERE, ELSEWHERE))


async def outcome_of(asked: DescribeLogDirs, version: int = 1) -> Any:
    heard: asyncio.Queue[Any] = asyncio.Queue()
    log_dirs = LogDirs("PLAINTEXT", version, "a test", heard.put_nowait, answer_within_s=20.0)
    try:
        log_dirs.describe(asked)
        return await heard.get()
    finally:
        await log_dirs.close()


async def leading_broker(**more: Any) -> SimulatedBroker:
    """A broker that leads one partition of 12,345 bytes."""
    broker = SimulatedBroker(SimulatedSettings(BROKER, partition_bytes=12_345, **more), None)
    await broker.start()
    epochs = ControllerEpoch(1), LeaderEpoch(1), PartitionEpoch(1)
    view = PartitionView(
        HERE.topic, None, HERE.partition, epochs[0], BROKER, epochs[1], (BROKER,), epochs[2], 0, (BROKER,)
    )
    broker.model.receive(LeaderAndIsr((), (view,), ()), BrokerId(900), ControllerEpoch(1), BrokerEpoch(-1), 0.0)
    return broker


def test_a_broker_says_what_it_has_in_every_version() -> None:
    async def scenario() -> list[LogDirsDescribed]:
        broker = await leading_broker()
        try:
            return [await outcome_of(question(broker.port), version) for version in (1, 2, 3)]
        finally:
            await broker.stop()

    assert asyncio.run(scenario()) == [LogDirsDescribed(BROKER, EPOCH, {HERE: ReplicaSize(12_345)})] * 3


def test_a_question_about_what_waits_and_one_about_moves_under_way_do_not_give_each_other_up() -> None:
    async def scenario() -> set[bool]:
        broker, heard = await leading_broker(), asyncio.Queue[Any]()
        log_dirs = LogDirs("PLAINTEXT", 1, "a test", heard.put_nowait, answer_within_s=20.0)
        try:
            for is_of_waiting in (False, True):
                log_dirs.describe(structs.replace(question(broker.port), is_of_waiting=is_of_waiting))
            async with asyncio.timeout(20.0):
                both = [await heard.get(), await heard.get()]
        finally:
            await log_dirs.close()
            await broker.stop()
        assert {described.error for described in both} == {None}
        return {described.is_of_waiting for described in both}

    assert asyncio.run(scenario()) == {False, True}


def test_a_broker_that_cannot_be_reached_is_an_outcome_too() -> None:
    heard = asyncio.run(outcome_of(question(free_port())))

    assert heard.sizes == {}
    assert heard.error is not None
    assert "Connect call failed" in heard.error


def test_a_broker_without_the_listener_is_an_outcome_too() -> None:
    heard = asyncio.run(outcome_of(question(1, "OTHER")))

    assert heard == LogDirsDescribed(BROKER, EPOCH, {}, "it has no listener PLAINTEXT")


def test_an_unexpected_error_is_an_outcome_too() -> None:
    described = asyncio.run(outcome_of(question(free_port()), version=99))

    assert described.sizes == {}
    assert described.error


# ---- the room of disks ----------------------------------------------------------------------------------------

ROOM = Directory("/data", 10**12, 10**11)


async def room_of(port: int) -> DisksDescribed:
    heard: asyncio.Queue[Any] = asyncio.Queue()
    log_dirs = LogDirs("PLAINTEXT", 1, "a test", heard.put_nowait, answer_within_s=20.0)
    try:
        log_dirs.describe_disks(DescribeDisks(BROKER, EPOCH, question(port).registration, (HERE, ELSEWHERE)))
        described: DisksDescribed = await heard.get()
        return described
    finally:
        await log_dirs.close()


def test_a_broker_says_how_much_room_it_has_and_what_it_has_at_that_moment() -> None:
    async def scenario() -> DisksDescribed:
        broker = await leading_broker(disk=ROOM)
        try:
            return await room_of(broker.port)
        finally:
            await broker.stop()

    assert asyncio.run(scenario()) == DisksDescribed(BROKER, EPOCH, (ROOM,), {HERE: ReplicaSize(12_345)})


def test_an_old_broker_is_not_sent_a_version_on_which_it_would_hang_up() -> None:
    async def scenario() -> DisksDescribed:
        broker = await leading_broker(disk=ROOM, describe_log_dirs=1)
        try:
            return await room_of(broker.port)
        finally:
            await broker.stop()

    described = asyncio.run(scenario())
    assert described == DisksDescribed(BROKER, EPOCH, error="it knows no version 4 of DescribeLogDirs, up to 1 only")


def test_a_broker_whose_room_cannot_be_asked_for_is_an_outcome_too() -> None:
    described = asyncio.run(room_of(free_port()))

    assert described.directories == ()
    assert described.error is not None
    assert "Connect call failed" in described.error

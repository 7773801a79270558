"""Links take turns in rounds of the event loop, and none that has gone keeps a round from the others."""

from __future__ import annotations

import asyncio

import pytest

from controller.brokers.rounds import COMMAND_AS_PARTITIONS, PARTITIONS_A_ROUND, Rounds
from controller.core.messages.commands import Command, LeaderAndIsr, ReplicaStop, StopReplica, UpdateMetadata
from tests.unit.wire.test_partition_bytes import view
from zk_layout.ids import LeaderEpoch, PartitionId, TopicName

ONE = ReplicaStop(TopicName("orders"), PartitionId(1), LeaderEpoch(5), False)
ALONE, SMALL = StopReplica((ONE,) * PARTITIONS_A_ROUND), StopReplica((ONE,))
FITTING = PARTITIONS_A_ROUND // (COMMAND_AS_PARTITIONS + 1)


async def encode(rounds: Rounds, name: int, command: Command, encoded: list[int]) -> None:
    await rounds.take(command)
    encoded.append(name)


def test_a_link_that_is_closed_while_it_waits_takes_nothing() -> None:
    async def story() -> None:
        rounds, encoded = Rounds(), list[int]()
        tasks = [asyncio.create_task(encode(rounds, number, ALONE, encoded)) for number in range(4)]
        await asyncio.sleep(0)

        tasks[1].cancel()
        tasks[2].cancel()
        async with asyncio.timeout(20):
            await asyncio.gather(*tasks, return_exceptions=True)

        assert encoded == [0, 3]

    asyncio.run(story())


def test_a_small_command_does_not_overtake_a_large_one_that_waits() -> None:
    async def story() -> None:
        rounds, encoded = Rounds(), list[int]()
        commands = [SMALL, ALONE, SMALL, ALONE]
        await asyncio.gather(*(encode(rounds, number, made, encoded) for number, made in enumerate(commands)))

        assert encoded == [0, 1, 2, 3]

    asyncio.run(story())


@pytest.mark.parametrize(
    "command", [LeaderAndIsr((view(1),) * 250, (view(1),) * 240, ()), UpdateMetadata((view(1),) * 490, ())]
)
def test_every_kind_of_command_counts_by_its_partitions(command: Command) -> None:
    async def story() -> None:
        rounds, encoded = Rounds(), list[int]()
        tasks = [asyncio.create_task(encode(rounds, number, command, encoded)) for number in range(2)]
        await asyncio.sleep(0)

        assert encoded == [0]
        await asyncio.gather(*tasks)

    asyncio.run(story())


def test_what_comes_while_others_have_waited_waits_too() -> None:
    async def story() -> None:
        rounds, encoded = Rounds(), list[int]()
        tasks = [asyncio.create_task(encode(rounds, number, SMALL, encoded)) for number in range(3 * FITTING)]
        for number in range(1, 4):
            await asyncio.sleep(0)
            assert len(encoded) <= number * FITTING, "no round has more than fits"
        await asyncio.gather(*tasks)

        assert encoded == [*range(3 * FITTING)]

    asyncio.run(story())


def test_what_all_brokers_are_sent_alike_takes_a_round_of_its_own_only_once() -> None:
    async def story() -> None:
        rounds, encoded = Rounds(), list[int]()
        alike = UpdateMetadata((view(1),) * 5 * PARTITIONS_A_ROUND, ())
        tasks = [asyncio.create_task(encode(rounds, number, alike, encoded)) for number in range(9)]
        await asyncio.sleep(0)
        assert encoded == [0]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert encoded == [*range(9)]
        await asyncio.gather(*tasks)

    asyncio.run(story())


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_what_is_encoded_afresh_has_a_round_of_its_own_again(*, is_forgotten: bool) -> None:
    async def story() -> None:
        rounds, encoded = Rounds(), list[int]()
        alike = UpdateMetadata((view(1),) * PARTITIONS_A_ROUND, ())
        await encode(rounds, 0, alike, encoded)
        await asyncio.sleep(0)
        if is_forgotten:
            rounds.forget()
        then: list[Command] = [alike, SMALL]
        tasks = [asyncio.create_task(encode(rounds, number, made, encoded)) for number, made in enumerate(then, 1)]
        await asyncio.sleep(0)

        assert encoded == ([0, 1] if is_forgotten else [0, 1, 2])
        await asyncio.gather(*tasks)

    asyncio.run(story())

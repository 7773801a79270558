"""A simulated broker obeys over real sockets, and a leader among them asks for its ISR."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from controller.brokers.links import Links
from controller.core.messages.commands import LeaderAndIsr, LiveBroker, PartitionView, UpdateMetadata
from controller.core.messages.effects import Answer, Connect, Tell
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged, Asked
from controller.core.messages.replies import IsrResult, PartitionsAltered
from controller.core.messages.requests import AlterPartition
from controller.lab.simulated_broker import SimulatedBroker, SimulatedSettings
from controller.server.listener import ListenerSettings, Server
from controller.wire.apis import ApiKey
from controller.wire.commands import CommandEncoder
from controller.wire.versions import parse_protocol
from tests.equipment.broker_versions import KAFKA_2_4, KAFKA_2_8
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    PartitionId,
    Replicas,
    TopicId,
    TopicName,
    TopicPartition,
)
from zk_layout.znodes.brokers import Endpoint

CONTROLLER, LEADER, FOLLOWER = BrokerId(1000), BrokerId(1), BrokerId(2)
UNCHECKED = BrokerEpoch(-1)
ORDERS, ORDERS_ID = TopicName("orders"), TopicId("AAECAwQFBgcICQoLDA0ODw")


def view(isr: Replicas, leader_epoch: int, topic_id: TopicId | None = ORDERS_ID) -> PartitionView:
    return PartitionView(
        ORDERS,
        topic_id,
        PartitionId(0),
        ControllerEpoch(1),
        LEADER,
        LeaderEpoch(leader_epoch),
        isr,
        PartitionEpoch(leader_epoch),
        0,
        (LEADER, FOLLOWER),
    )


class Controller:
    """Links to the brokers and a listener for them; grants every ISR the first `refusals` times not."""

    def __init__(self, refusals: int = 0) -> None:
        self.acknowledged: list[Acknowledged] = []
        self.proposed: list[AlterPartition] = []
        self.refusals = refusals
        encoder = CommandEncoder(CONTROLLER, parse_protocol("3.9"), "PLAINTEXT")
        self.links = Links(encoder, "PLAINTEXT", self.acknowledged.append)
        self.server = Server(CONTROLLER, (ListenerSettings("PLAINTEXT", "127.0.0.1", 0),))

    def asked(self, asked: Asked) -> None:
        request = asked.request
        assert isinstance(request, AlterPartition)
        self.proposed.append(request)
        if len(self.proposed) <= self.refusals:
            self.server.answer(Answer(asked.call, PartitionsAltered(error=ErrorCode.NOT_CONTROLLER)))
            return
        results = tuple(
            IsrResult(
                p.topic.name,
                p.topic.topic_id,
                p.partition,
                ErrorCode.NONE,
                LEADER,
                p.leader_epoch,
                p.isr,
                0,
                PartitionEpoch(p.partition_epoch + 1),
            )
            for p in request.proposals
        )
        self.server.answer(Answer(asked.call, PartitionsAltered(results)))

    def tell(self, broker: BrokerId, command: LeaderAndIsr | UpdateMetadata) -> None:
        self.links.tell(Tell(broker, UNCHECKED, ControllerEpoch(1), command))

    def introduce(self, *brokers: SimulatedBroker) -> None:
        ours = LiveBroker(CONTROLLER, (Endpoint("PLAINTEXT", "127.0.0.1", self.server.ports["PLAINTEXT"]),))
        live = (ours, *(LiveBroker(b.settings.broker, b.registration.endpoints) for b in brokers))
        for broker in brokers:
            self.links.connect(Connect(broker.settings.broker, UNCHECKED, broker.registration))
            self.tell(broker.settings.broker, UpdateMetadata((), live))


@contextlib.asynccontextmanager
async def cluster(controller: Controller, *settings: SimulatedSettings) -> AsyncIterator[tuple[SimulatedBroker, ...]]:
    brokers = tuple(SimulatedBroker(each, None) for each in settings)
    await controller.server.start()
    controller.server.begin_term(controller.asked)
    for broker in brokers:
        await broker.start()
    controller.introduce(*brokers)
    try:
        yield brokers
    finally:
        await controller.links.close()
        for broker in brokers:
            await broker.stop()
        await controller.server.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.mark.parametrize(("traits", "topic_id"), [("new", ORDERS_ID), ("old", None)])
@pytest.mark.parametrize("refusals", [0, 2])
def test_a_leader_asks_for_the_isr_its_followers_have_reached_until_it_gets_it(
    traits: str, topic_id: TopicId | None, refusals: int
) -> None:
    async def story() -> None:
        controller = Controller(refusals)
        settings = [SimulatedSettings(broker, replication_delay_s=0.02) for broker in (LEADER, FOLLOWER)]
        if traits == "old":
            settings = [SimulatedSettings(broker, traits=KAFKA_2_8) for broker in (LEADER, FOLLOWER)]
        async with cluster(controller, *settings) as (leader, follower):
            for broker in (LEADER, FOLLOWER):
                controller.tell(broker, LeaderAndIsr((view((LEADER,), 3, topic_id),), (), ()))

            await until(lambda: leader.seen.isr_changes_granted == 1)

            assert len(controller.proposed) == refusals + 1
            (proposal,) = controller.proposed[-1].proposals
            assert proposal.isr == (LEADER, FOLLOWER)
            assert (proposal.leader_epoch, proposal.partition_epoch) == (3, 3)
            assert proposal.topic.topic_id == topic_id
            replica = leader.model.replicas[TopicPartition(ORDERS, PartitionId(0))]
            assert (replica.isr, replica.partition_epoch) == ((LEADER, FOLLOWER), 4)
            assert follower.seen.isr_changes_asked == 0
            assert [a.error for a in controller.acknowledged] == [ErrorCode.NONE] * 4

    asyncio.run(story())


def test_an_old_command_is_refused_and_the_controller_hears_of_it() -> None:
    async def story() -> None:
        controller = Controller()
        async with cluster(controller, SimulatedSettings(LEADER)) as (leader,):
            for leader_epoch in (5, 4):
                controller.tell(LEADER, LeaderAndIsr((view((LEADER,), leader_epoch),), (), ()))

            await until(lambda: len(controller.acknowledged) == 3)

            assert controller.acknowledged[-1].errors == {
                TopicPartition(ORDERS, PartitionId(0)): ErrorCode.STALE_CONTROLLER_EPOCH
            }
            assert leader.seen.commands == {ApiKey.UPDATE_METADATA: 1, ApiKey.LEADER_AND_ISR: 2}

    asyncio.run(story())


def test_a_broker_that_only_counts_acknowledges_everything_and_wants_nothing() -> None:
    async def story() -> None:
        controller = Controller()
        async with cluster(controller, SimulatedSettings(LEADER, counts_only=True)) as (leader,):
            for leader_epoch in (5, 4):
                controller.tell(LEADER, LeaderAndIsr((view((LEADER,), leader_epoch),), (), ()))

            await until(lambda: len(controller.acknowledged) == 3)

            assert [a.errors for a in controller.acknowledged] == [{}, {}, {}]
            assert leader.seen.commands[ApiKey.LEADER_AND_ISR] == 2
            assert leader.seen.first_at[ApiKey.LEADER_AND_ISR] <= leader.seen.last_at[ApiKey.LEADER_AND_ISR]
            assert leader.model.replicas == {}
            assert controller.proposed == []

    asyncio.run(story())


def test_a_broker_that_would_write_state_znodes_is_refused() -> None:
    with pytest.raises(ValueError, match="choose traits with AlterPartition"):
        SimulatedBroker(SimulatedSettings(LEADER, traits=KAFKA_2_4), None)

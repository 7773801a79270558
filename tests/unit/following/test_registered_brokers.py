"""A replica that does not lead knows the brokers to which it passes its clients on."""

from __future__ import annotations

import asyncio
from random import Random

from controller.following.registered_brokers import BELIEVED_FOR_S, RegisteredBrokers
from controller.server.relay import INTRODUCTION_S
from tests.simulation.zookeeper import MakeNode, RemoveNode
from tests.unit.zk.simulated import Ensemble, Process
from zk_layout import catalog
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration


def register(ensemble: Ensemble, broker: int, *, is_ours: bool = False) -> None:
    registration = Registration((Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker),), is_ours=is_ours)
    ensemble.write(MakeNode(BrokerAddress(BrokerId(broker)).path, catalog.encode(registration)))


def ids_of(process: Process, brokers: RegisteredBrokers) -> list[int]:
    return [live.broker for live in process.do(brokers())]


def wait(ensemble: Ensemble, for_s: float) -> None:
    end = ensemble.clock.now + for_s
    ensemble.clock.after(for_s, lambda: None)
    ensemble.until(lambda: ensemble.clock.now >= end)


def test_they_are_those_that_are_registered_but_for_replicas_of_ours() -> None:
    ensemble = Ensemble()
    register(ensemble, 1)
    register(ensemble, 901, is_ours=True)
    process = Process(ensemble)
    (live,) = process.do(RegisteredBrokers(lambda: process.bridge)())
    assert live.broker == 1
    assert live.endpoints == (Endpoint("PLAINTEXT", "127.0.0.1", 9001),)


def test_they_are_looked_up_again_after_a_while() -> None:
    ensemble = Ensemble()
    process = Process(ensemble)
    brokers = RegisteredBrokers(lambda: process.bridge)
    assert ids_of(process, brokers) == []
    register(ensemble, 1)
    assert ids_of(process, brokers) == []
    wait(ensemble, BELIEVED_FOR_S)
    assert ids_of(process, brokers) == [1]
    ensemble.write(RemoveNode(BrokerAddress(BrokerId(1)).path))
    wait(ensemble, BELIEVED_FOR_S)
    assert ids_of(process, brokers) == []


def test_while_zookeeper_is_silent_they_are_those_of_before() -> None:
    ensemble = Ensemble()
    register(ensemble, 1)
    process = Process(ensemble)
    brokers = RegisteredBrokers(lambda: process.bridge)
    assert ids_of(process, brokers) == [1]
    wait(ensemble, BELIEVED_FOR_S)
    process.connection.drop(down_s=60.0)
    assert ids_of(process, brokers) == [1]


def test_while_zookeeper_is_silent_they_are_known_before_a_client_learns_that_there_are_none() -> None:
    async def asked() -> list[int]:
        async with asyncio.timeout(INTRODUCTION_S):
            return [live.broker for live in await brokers()]

    ensemble = Ensemble()
    register(ensemble, 1)
    process = Process(ensemble)
    brokers = RegisteredBrokers(lambda: process.bridge)
    assert process.do(asked()) == [1]
    wait(ensemble, BELIEVED_FOR_S)
    process.connection.drop(down_s=60.0)
    assert process.do(asked()) == [1]


class Even(Random):
    """No message takes longer than another."""

    def random(self) -> float:
        return 0.5


def test_however_many_they_are_they_are_looked_up_in_time() -> None:
    ensemble = Ensemble()
    ensemble.network.random = Even()
    for broker in range(300):
        register(ensemble, broker)
    process = Process(ensemble)
    assert len(ids_of(process, RegisteredBrokers(lambda: process.bridge))) == 300

"""A simulated broker is registered in a real ZooKeeper exactly as long as it listens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from controller.lab.simulated_broker import SimulatedBroker, SimulatedSettings
from controller.lab.zookeeper import zookeeper_client
from zk_layout.ids import BrokerId
from zk_layout.znodes import brokers as registrations


@pytest.fixture
def client(zookeeper: str) -> Iterator[KazooClient]:
    with zookeeper_client(zookeeper) as client:
        yield client


def test_it_is_found_under_its_id_with_its_address_and_its_epoch(client: KazooClient) -> None:
    async def story() -> None:
        broker = SimulatedBroker(SimulatedSettings(BrokerId(7), rack="r1"), client)
        await broker.start()
        try:
            data, stat = client.get("/brokers/ids/7")
            registration = registrations.decode(data)
            endpoint = registration.endpoint("PLAINTEXT")
            assert endpoint is not None
            assert (endpoint.host, endpoint.port, registration.rack) == ("127.0.0.1", broker.port, "r1")
            assert broker.broker_epoch == stat.czxid
            assert stat.ephemeralOwner == client.client_id[0]
        finally:
            await broker.stop()
        assert client.exists("/brokers/ids/7") is None

    asyncio.run(story())


def test_many_share_one_session_and_a_taken_id_is_refused(client: KazooClient) -> None:
    async def story() -> None:
        brokers = [SimulatedBroker(SimulatedSettings(BrokerId(n), counts_only=True), client) for n in range(1, 11)]
        for broker in brokers:
            await broker.start()
        again = SimulatedBroker(SimulatedSettings(BrokerId(1)), client)
        try:
            assert len(client.get_children("/brokers/ids")) == 10
            assert len({broker.broker_epoch for broker in brokers}) == 10
            with pytest.raises(NodeExistsError):
                await again.start()
        finally:
            for broker in (*brokers, again):
                await broker.stop()
        assert client.get_children("/brokers/ids") == []

    asyncio.run(story())

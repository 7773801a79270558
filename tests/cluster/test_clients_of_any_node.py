"""Kafka's own tools, which take the controller for one more broker, get a broker's answers from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from controller.brokers.dialing import PlaintextDialer
from controller.core.messages.commands import LiveBroker
from controller.core.messages.effects import Answer
from controller.core.messages.events import Asked
from controller.core.messages.replies import ClusterDescription, Node
from controller.core.messages.requests import DescribeCluster
from controller.lab.cluster import LocalCluster
from controller.server.listener import ListenerSettings, Server
from controller.server.relay import Brokers
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint

OWN_ID = BrokerId(1000)


class OnlyNode:
    """A controller's listener in front of a real cluster that lists no other node than itself, so that
    clients ask it everything."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.asked: list[str] = []
        self.loop = asyncio.new_event_loop()
        brokers = Brokers(OWN_ID, self.live_brokers, PlaintextDialer())
        self.server = Server(OWN_ID, (ListenerSettings("PLAINTEXT", "127.0.0.1", 0),), brokers=brokers)

    async def live_brokers(self) -> tuple[LiveBroker, ...]:
        return tuple(
            LiveBroker(BrokerId(broker_id), (Endpoint("PLAINTEXT", "127.0.0.1", broker.port),))
            for broker_id, broker in self.cluster.brokers.items()
        )

    def ask(self, asked: Asked) -> None:
        self.asked.append(type(asked.request).__name__)
        assert isinstance(asked.request, DescribeCluster)
        ourselves = Node(OWN_ID, "127.0.0.1", self.server.ports["PLAINTEXT"])
        self.server.answer(Answer(asked.call, ClusterDescription((ourselves,), "cluster", OWN_ID, ())))

    def run(self, tool: str, *args: str) -> str:
        port = self.server.ports["PLAINTEXT"]
        result = self.cluster.tools.run(tool, "--bootstrap-server", f"127.0.0.1:{port}", *args, timeout_s=60)
        assert result.exit_code == 0, result.output
        assert "Exception" not in result.output, result.output
        return result.output


@contextmanager
def only_node(cluster: LocalCluster) -> Iterator[OnlyNode]:
    node = OnlyNode(cluster)
    loop = node.loop
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(node.server.start(), loop).result(10)
        loop.call_soon_threadsafe(node.server.begin_term, node.ask)
        yield node
    finally:
        asyncio.run_coroutine_threadsafe(node.server.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def create_topic(cluster: LocalCluster, topic: str) -> None:
    created = cluster.tools.run(
        "kafka-topics", "--bootstrap-server", cluster.bootstrap_servers, "--create", "--topic", topic,
        "--partitions", "1", "--replication-factor", "1",
    )  # fmt: skip
    assert created.exit_code == 0, created.output


def the_configuration_of_a_topic_is_changed_and_shown(node: OnlyNode) -> None:
    create_topic(node.cluster, "asked-of-any")
    topic = ("--entity-type", "topics", "--entity-name", "asked-of-any")
    node.run("kafka-configs", *topic, "--alter", "--add-config", "retention.ms=4711")
    assert "retention.ms=4711" in node.run("kafka-configs", *topic, "--describe")


def the_own_nodes_throttle_is_cleared_without_an_error(node: OnlyNode) -> None:
    own = ("--entity-type", "brokers", "--entity-name", str(OWN_ID))
    node.run("kafka-configs", *own, "--alter", "--add-config", "follower.replication.throttled.rate=1000")
    node.run("kafka-configs", *own, "--describe")


def there_are_no_groups_on_this_node(node: OnlyNode) -> None:
    assert node.run("kafka-consumer-groups", "--list").strip() == ""


def every_node_says_what_it_answers(node: OnlyNode) -> None:
    assert f"id: {OWN_ID}" in node.run("kafka-broker-api-versions")


def a_quota_is_set_and_shown(node: OnlyNode) -> None:
    client = ("--entity-type", "clients", "--entity-name", "somebody")
    node.run("kafka-configs", *client, "--alter", "--add-config", "producer_byte_rate=1234")
    assert "producer_byte_rate=1234" in node.run("kafka-configs", *client, "--describe")


SINCE_2_4 = (
    the_own_nodes_throttle_is_cleared_without_an_error,
    there_are_no_groups_on_this_node,
    every_node_says_what_it_answers,
)


@pytest.mark.parametrize(
    "story",
    [*SINCE_2_4, the_configuration_of_a_topic_is_changed_and_shown, a_quota_is_set_and_shown],
    ids=lambda story: story.__name__,
)
def test_with_clients_and_brokers_3_9(cluster_3_9: LocalCluster, story: Callable[[OnlyNode], None]) -> None:
    with only_node(cluster_3_9) as node:
        story(node)


@pytest.mark.parametrize("story", SINCE_2_4, ids=lambda story: story.__name__)
def test_with_clients_and_brokers_2_4(cluster_2_4: LocalCluster, story: Callable[[OnlyNode], None]) -> None:
    with only_node(cluster_2_4) as node:
        story(node)

"""librdkafka, and with it the clients of many languages, is answered by our node; its bytes are not always Java's."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from controller.core.clients.refusal import refusal
from controller.core.messages.effects import Answer
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked
from controller.core.messages.replies import ClusterDescription, Node, PartitionMetadata, Reply, TopicMetadata
from controller.core.messages.requests import (
    AlterScramCredentials,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribeCluster,
    ElectLeaders,
    Request,
)
from controller.server.listener import Server
from tests.unit.server.clients import OWN_ID, serving
from tests.unit.server.test_relay import askable, brokers
from zk_layout.ids import LeaderEpoch, PartitionId, TopicName
from zk_layout.znodes.scram import MECHANISMS, credential

admin = pytest.importorskip("confluent_kafka.admin", reason="confluent-kafka is not installed: make")
kafka = pytest.importorskip("confluent_kafka")

T = TypeVar("T")
WITHIN_S = 10.0


class OnlyNode:
    """Leads a cluster without other nodes, and carries out every request."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.asked: list[Request] = []
        server.begin_term(self.answer)

    def answer(self, asked: Asked) -> None:
        self.asked.append(asked.request)
        self.server.answer(Answer(asked.call, self.reply(asked.request)))

    def reply(self, request: Request) -> Reply:
        if not isinstance(request, DescribeCluster):
            return refusal(request, ErrorCode.NONE)
        ourselves = Node(OWN_ID, "127.0.0.1", self.server.ports["OUTSIDE"])
        partition = PartitionMetadata(PartitionId(0), ErrorCode.NONE, OWN_ID, LeaderEpoch(0), (OWN_ID,), (OWN_ID,), ())
        orders = TopicMetadata(TopicName("orders"), None, ErrorCode.NONE, (partition,))
        return ClusterDescription((ourselves,), "cluster", OWN_ID, (orders,))


def asking(use: Callable[[Any], T]) -> tuple[T, list[Request]]:
    """What librdkafka gets, and what it asked for."""

    async def story() -> tuple[T, list[Request]]:
        async with brokers(1) as (broker,), serving(brokers=askable([broker.live()])) as server:
            node = OnlyNode(server)
            client = admin.AdminClient(
                {"bootstrap.servers": f"127.0.0.1:{server.ports['OUTSIDE']}", "broker.address.family": "v4"}
            )
            found = await asyncio.to_thread(use, client)
            del client
            return found, node.asked

    return asyncio.run(story())


def test_all_topics_are_listed() -> None:
    found, asked = asking(lambda client: client.list_topics(timeout=WITHIN_S))

    assert list(found.topics) == ["orders"]
    assert found.controller_id == OWN_ID
    assert any(isinstance(request, DescribeCluster) and request.topics is None for request in asked)


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (lambda client: client.create_topics([admin.NewTopic("a", 2, 1)]), CreateTopics),
        (lambda client: client.create_partitions([admin.NewPartitions("a", 2)]), CreatePartitions),
        (lambda client: client.delete_topics(["a"]), DeleteTopics),
    ],
)
def test_topics_are_changed(use: Callable[[Any], dict[str, Any]], kind: type[Request]) -> None:
    found, asked = asking(lambda client: {name: future.result(WITHIN_S) for name, future in use(client).items()})

    assert found == {"a": None}
    assert any(isinstance(request, kind) for request in asked)


def test_leaders_are_elected() -> None:
    at = [kafka.TopicPartition("a", 0)]
    found, asked = asking(lambda client: client.elect_leaders(kafka.ElectionType.PREFERRED, at).result(WITHIN_S))

    assert list(found.values()) == [None]
    assert any(isinstance(request, ElectLeaders) and request.partitions is not None for request in asked)


def test_scram_users_are_changed() -> None:
    info = admin.ScramCredentialInfo(admin.ScramMechanism.SCRAM_SHA_256, 4096)
    wanted = admin.UserScramCredentialUpsertion("ann", info, b"secret", b"salt")
    _, asked = asking(lambda client: client.alter_user_scram_credentials([wanted])["ann"].result(WITHIN_S))

    (request,) = (request for request in asked if isinstance(request, AlterScramCredentials))
    (upsertion,) = request.upsertions
    assert (upsertion.user, upsertion.mechanism, upsertion.iterations) == ("ann", 1, 4096)
    salted_password = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)
    assert upsertion.credential == credential(MECHANISMS[1], b"salt", salted_password, 4096)

"""If clients change ACLs through our controller, does every broker follow, and does it show the same?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    AclBinding,
    AclCreated,
    AclsCreated,
    AclsDeleted,
    AclsDescribed,
    ClusterDescription,
)
from controller.core.messages.requests import (
    AclCreation,
    AclFilter,
    CreateAcls,
    DeleteAcls,
    DescribeAcls,
    DescribeCluster,
    TopicReference,
)
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.zookeeper import zookeeper_client
from tests.cluster.replica import Replica, holder, wait_until
from tests.equipment.any_request import ask
from zk_layout.ids import TopicName

WITH_AUTHORIZER: dict[str, Any] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, TRANSACTION = 2, 3, 5
READ, WRITE, DESCRIBE = 3, 4, 8
DENY, ALLOW = 2, 3
EVERYTHING = AclFilter(ANY, None, ANY, None, None, ANY, ANY)
US = "User:ANONYMOUS"


@pytest.fixture(scope="module", params=["2.4.1", "3.9.1"])
def guarded(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Two brokers with an authorizer."""
    try:
        cluster = LocalCluster(ClusterSettings(version=request.param, broker_ids=(1, 2), overrides=WITH_AUTHORIZER))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


def leading(cluster: LocalCluster, directory: Path) -> Replica:
    """The daemon with the brokers' authorizer."""
    return Replica(cluster.zookeeper_connect, directory, inter_broker_protocol_version="auto", **WITH_AUTHORIZER)


def described(address: str, wanted: AclFilter = EVERYTHING) -> frozenset[AclBinding]:
    reply = ask(address, DescribeAcls(wanted), version=1)
    assert isinstance(reply, AclsDescribed)
    assert (reply.error, len(set(reply.bindings))) == (ErrorCode.NONE, len(reply.bindings))
    return frozenset(reply.bindings)


def may_describe(address: str, topic: str) -> bool:
    reply = ask(address, DescribeCluster((TopicReference(TopicName(topic)),)))
    assert isinstance(reply, ClusterDescription)
    return reply.topics[0].error is not ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _shows(address: str, bindings: frozenset[AclBinding]) -> bool:
    return described(address) == bindings


def _denies(address: str, topic: str) -> bool:
    return not may_describe(address, topic)


def test_every_broker_follows_and_shows_the_same(guarded: LocalCluster, tmp_path: Path) -> None:
    brokers = [broker.address for broker in guarded.brokers.values()]
    with leading(guarded, tmp_path) as leader, zookeeper_client(guarded.zookeeper_connect) as zookeeper:
        leader.await_phase("active")
        assert holder(zookeeper) == leader.broker_id
        nodes = [leader.address, *brokers]

        created = leader.ask(
            CreateAcls(
                (
                    AclCreation(TOPIC, "secret", LITERAL, US, "*", DESCRIBE, DENY),
                    AclCreation(TOPIC, "secret", PREFIXED, "User:ann", "10.0.0.1", READ, ALLOW),
                    AclCreation(GROUP, "billing 1", LITERAL, "User:ann", "*", READ, ALLOW),
                    AclCreation(TRANSACTION, "t", LITERAL, "User:ann", "*", WRITE, ALLOW),
                    AclCreation(TRANSACTION, "t", PREFIXED, "User:bob", "*", WRITE, ALLOW),
                    AclCreation(4, "cluster", LITERAL, "User:bob", "*", WRITE, ALLOW),
                )
            ),
            version=1,
        )
        wrong = AclCreated(ErrorCode.INVALID_REQUEST, "The only valid name for the CLUSTER resource is kafka-cluster")
        assert created == AclsCreated((*(AclCreated(),) * 5, wrong))
        here = described(leader.address)
        assert len(here) == 5
        for broker in brokers:
            wait_until(partial(_shows, broker, here), f"{broker} showed the same")
            wait_until(partial(_denies, broker, "secret"), f"{broker} denied it")
            assert may_describe(broker, "public")

        for wanted in (
            AclFilter(TOPIC, "secret-1", MATCH, None, None, ANY, ANY),
            AclFilter(TRANSACTION, "t", PREFIXED, None, None, ANY, ANY),
            AclFilter(ANY, None, LITERAL, "User:ann", None, ANY, ALLOW),
            AclFilter(ANY, "t", ANY, None, "*", WRITE, ANY),
            AclFilter(99, None, ANY, None, None, ANY, ANY),
        ):
            assert [described(node, wanted) for node in nodes[1:]] == [described(leader.address, wanted)] * len(brokers)

        for bad in (
            AclCreation(4, "cluster", LITERAL, "User:bob", "*", WRITE, ALLOW),
            AclCreation(TOPIC, "", LITERAL, "User:bob", "*", WRITE, ALLOW),
            AclCreation(TOPIC, "a/b", LITERAL, "User:bob", "*", WRITE, ALLOW),
            AclCreation(99, "x", LITERAL, "User:bob", "*", WRITE, ALLOW),
            AclCreation(TOPIC, "x", LITERAL, "bob", "*", WRITE, ALLOW),
            AclCreation(TOPIC, "x", MATCH, "User:bob", "*", WRITE, ALLOW),
            AclCreation(TOPIC, "x", LITERAL, "User:bob", "*", ANY, ALLOW),
        ):
            ours = leader.ask(CreateAcls((bad,)), version=1)
            assert [r.error for r in ours.results] != [ErrorCode.NONE]
            if guarded.version == "3.9.1":  # older brokers answer some differently, or close the connection
                assert [ask(broker, CreateAcls((bad,)), version=1) for broker in brokers] == [ours, ours], bad

        deleted = leader.ask(
            DeleteAcls(
                (
                    AclFilter(TOPIC, "secret", LITERAL, US, None, ANY, ANY),
                    AclFilter(GROUP, "nobody", LITERAL, None, None, ANY, ANY),
                    EVERYTHING,
                )
            ),
            version=1,
        )
        assert isinstance(deleted, AclsDeleted)
        assert [len(result.deleted) for result in deleted.results] == [1, 0, 4]
        assert {binding for result in deleted.results for binding in result.deleted} == here
        for node in nodes:
            wait_until(partial(_shows, node, frozenset()), f"{node} knew of no rights")
            assert may_describe(node, "secret")
        assert not leader.complaints()


def test_kafkas_tool_works_with_us_among_the_nodes(guarded: LocalCluster, tmp_path: Path) -> None:
    def kafka_acls(bootstrap: str, *args: str) -> str:
        said = guarded.tools.run("kafka.admin.AclCommand", "--bootstrap-server", bootstrap, *args)
        assert said.exit_code == 0, said.output
        return said.stdout

    brokers = [broker.address for broker in guarded.brokers.values()]
    with leading(guarded, tmp_path) as leader:
        leader.await_phase("active")
        named = ("--topic", "orders")
        kafka_acls(leader.address, "--add", "--allow-principal", "User:ann", "--operation", "Read", *named)
        wait_until(lambda: len(described(leader.address)) == 1, "we followed")
        assert "User:ann" in kafka_acls(leader.address, "--list", *named)
        kafka_acls(leader.address, "--remove", "--force", *named)
        for node in (leader.address, *brokers):
            wait_until(partial(_shows, node, frozenset()), f"{node} knew of no rights")
        assert not leader.complaints()


def test_without_an_authorizer_it_is_disabled(guarded: LocalCluster, tmp_path: Path) -> None:
    settings = {"inter.broker.protocol.version": "auto", "controller.preflight.tolerate": "authorizer"}
    with Replica(guarded.zookeeper_connect, tmp_path, 901, **settings) as leader:
        leader.await_phase("active")

        reply = leader.ask(DescribeAcls(EVERYTHING), version=1)

        assert reply == AclsDescribed((), ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")

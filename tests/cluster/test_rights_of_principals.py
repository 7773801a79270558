"""Principals × requests × resources: our node allows and denies the same as a broker.

If our node cannot answer for a broker it closes the connection, so that the client asks a broker. It may do so only
if the broker denies something, or if the answer depends on the principal.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from controller.brokers.dialing import SecuredDialer
from controller.connections.broker import Broken, BrokerConnection
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from controller.lab.ports import free_port
from controller.lab.zookeeper import zookeeper_client
from controller.security.jaas import PLAIN_LOGIN
from controller.security.towards_brokers import TowardsBrokers
from controller.settings.security import BrokerSecurity, Secret
from controller.wire.frames import framed
from tests.cluster.replica import Replica, holder, wait_until
from tests.unit.server.test_relay import parsed, request
from zk_layout.catalog import encode
from zk_layout.znodes.acls import (
    AclAddress,
    AclEntry,
    AclOperation,
    Acls,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from zk_layout.znodes.brokers import Endpoint

LISTENER, PROTOCOL = "INSIDE", "SASL_PLAINTEXT"
AUTHORIZATION = frozenset({29, 30, 31, 53, 65})  # of topics, groups, the cluster, transactional ids, tokens
CLOSED = "closed"
PATIENCE_S = 20
USERS = ("admin", "nobody", "reader", "writer", "alterer", "configurer", "broker", "creator", "owner", "denied")
RELAYED = frozenset({10, 22, 32, 33, 38, 39, 40, 41, 44, 48, 49, 50})
OF_WHO_ASKS = frozenset({38, 39, 40, 41})
TOPIC, CLUSTER = ResourceType.TOPIC, ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")
GIVEN = (
    (ResourcePattern(TOPIC, "a"), "reader", "Describe Read"),
    (ResourcePattern(TOPIC, "a"), "writer", "Write"),
    (ResourcePattern(TOPIC, "a"), "alterer", "Alter Delete"),
    (ResourcePattern(TOPIC, "a"), "configurer", "DescribeConfigs AlterConfigs"),
    (ResourcePattern(TOPIC, "a", PatternType.PREFIXED), "owner", "All"),
    (ResourcePattern(TOPIC, "*"), "denied", "All"),
    (ResourcePattern(ResourceType.GROUP, "g"), "reader", "Read"),
    (ResourcePattern(ResourceType.TRANSACTIONAL_ID, "t"), "writer", "Write"),
    (CLUSTER, "alterer", "Alter"),
    (CLUSTER, "configurer", "DescribeConfigs AlterConfigs"),
    (CLUSTER, "broker", "ClusterAction"),
    (CLUSTER, "creator", "Create IdempotentWrite"),
    (CLUSTER, "reader", "Describe"),
)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def array(*parts: bytes) -> bytes:
    return struct.pack(">i", len(parts)) + b"".join(parts)


def compact(value: str) -> bytes:
    return bytes([len(value) + 1]) + value.encode()


NOTHING, NUMBER = b"\xff\xff", struct.pack(">i", 5000)
NO_ARRAY = b"\xff\xff\xff\xff"


class Api(Struct, frozen=True):
    """One request, and the first version of Kafka that has it."""

    name: str
    key: int
    version: int
    body: bytes
    since: str = "2.4"
    is_flexible: bool = False


def configs(*resources: tuple[int, str]) -> list[Api]:
    """The three requests about the same configurations; none changes anything."""
    named = [kind.to_bytes(1, "big") + text(name) for kind, name in resources]
    altered = array(*(one + array() for one in named)) + b"\1"
    described = array(*(one + NO_ARRAY for one in named)) + b"\0"
    return [
        Api("DescribeConfigs", 32, 1, described),
        Api("AlterConfigs", 33, 0, altered),
        Api("IncrementalAlterConfigs", 44, 0, altered),
    ]


# A controller that was never elected, and an old life of the broker: a broker refuses the command.
SENDER = b"\0\0\0\x63" + bytes(4) + bytes(8)
REPLICAS = b"\2\0\0\0\1"
PARTITION = bytes(4) + bytes(4) + b"\0\0\0\1" + bytes(4) + REPLICAS + bytes(4) + REPLICAS + b"\1\1\0"
COMMANDS = (
    Api("LeaderAndIsr", 4, 4, SENDER + b"\2" + compact("a") + b"\2" + PARTITION + b"\0\0\1\0", is_flexible=True),
    Api("StopReplica", 5, 2, SENDER + b"\0\2" + compact("a") + b"\2" + bytes(4) + b"\0\0", is_flexible=True),
    Api("UpdateMetadata", 6, 6, SENDER + b"\1\1\0", is_flexible=True),
    Api("ControlledShutdown", 7, 2, b"\0\0\0\x63" + bytes(8)),
)
APIS = (
    *COMMANDS,
    Api("Metadata", 3, 8, array(text("a"), text("b")) + b"\0\1\1"),
    Api("FindCoordinator", 10, 1, text("g") + b"\0"),
    Api("FindCoordinator", 10, 1, text("t") + b"\1"),
    Api("FindCoordinator", 10, 1, text("other") + b"\0"),
    Api("ListGroups", 16, 1, b""),
    *(
        Api("CreateTopics", 19, 4, array(text(name) + b"\0\0\0\1\0\1" + array() + array()) + NUMBER + b"\1")
        for name in ("a-new", "b-new")
    ),
    *(Api("DeleteTopics", 20, 1, array(text(name)) + NUMBER) for name in ("a-none", "none")),
    Api("InitProducerId", 22, 0, NOTHING + NUMBER),
    Api("InitProducerId", 22, 0, text("other") + NUMBER),
    Api("DescribeAcls", 29, 1, b"\2" + NOTHING + b"\1" + NOTHING + NOTHING + b"\1\1"),
    Api("CreateAcls", 30, 1, array(b"\2" + text("zz") + b"\3" + text("User:zz") + text("*") + b"\3\3")),
    Api("DeleteAcls", 31, 1, array(b"\2" + text("nothing") + b"\3" + NOTHING + NOTHING + b"\1\1")),
    *configs((2, "a")),
    *configs((2, "b")),
    *configs((4, "")),
    *configs((2, "a"), (2, "b")),
    Api("AlterReplicaLogDirs", 34, 1, array(text("/d") + array(text("a") + array(bytes(4))))),
    Api("DescribeLogDirs", 35, 3, b"\0\0", "3.2", is_flexible=True),
    Api("CreatePartitions", 37, 1, array(text("a") + b"\0\0\0\3" + NO_ARRAY) + NUMBER + b"\1"),
    Api("CreatePartitions", 37, 1, array(text("b") + b"\0\0\0\3" + NO_ARRAY) + NUMBER + b"\1"),
    Api("DescribeDelegationToken", 41, 0, NO_ARRAY),
    Api("ElectLeaders", 43, 1, b"\0" + array(text("a") + array(bytes(4))) + NUMBER),
    Api("AlterPartitionReassignments", 45, 0, NUMBER + b"\2" + compact("a") + b"\2" + bytes(4) + bytes(4), "2.4", True),
    Api("ListPartitionReassignments", 46, 0, NUMBER + b"\0\0", "2.4", is_flexible=True),
    Api("DescribeClientQuotas", 48, 0, array() + b"\0", "2.6"),
    Api(
        "AlterClientQuotas",
        49,
        0,
        array(array(text("user") + text("zz")) + array(text("producer_byte_rate") + bytes(8) + b"\1")) + b"\1",
        "2.6",
    ),
    # For all users: a broker 3.9.1 sends no answer at all without the right.
    Api("DescribeUserScramCredentials", 50, 0, b"\2" + compact("zz") + b"\0\0", "2.7", is_flexible=True),
    Api("AlterUserScramCredentials", 51, 0, b"\2" + compact("zz") + b"\1\0" + b"\1\0", "2.7", is_flexible=True),
    Api("AlterPartition", 56, 2, b"\0\0\0\x63" + bytes(8) + b"\1\0", "3.5", is_flexible=True),
    Api("UpdateFeatures", 57, 0, NUMBER + b"\2" + compact("zz") + b"\0\1\0\0" + b"\0", "2.7", is_flexible=True),
    Api("DescribeCluster", 60, 0, b"\1\0", "2.8", is_flexible=True),
    Api("AllocateProducerIds", 67, 0, b"\0\0\0\x63" + bytes(8) + b"\0", "3.0", is_flexible=True),
)


def jaas(user: str) -> str:
    users = " ".join(f'user_{name}="{name}-s3cret"' for name in USERS)
    return f'{PLAIN_LOGIN} required username="{user}" password="{user}-s3cret" {users};'


SETTINGS: dict[str, Any] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
    "inter.broker.listener.name": LISTENER,
    "listener.security.protocol.map": f"{LISTENER}:{PROTOCOL}",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.inside.plain.sasl.jaas.config": jaas("admin"),
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
}


@pytest.fixture(params=["2.4.1", "3.9.1"])
def judging(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    try:
        with running(request.param) as cluster:
            yield cluster
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))


@contextmanager
def running(version: str, settings: Mapping[str, Any] = SETTINGS) -> Iterator[LocalCluster]:
    """Two brokers, and ACLs that exist before they start."""
    cluster = LocalCluster(ClusterSettings(version=version, broker_ids=(1, 2), overrides=settings))
    for broker in cluster.brokers.values():
        at = f"{LISTENER}://127.0.0.1:{broker.port}"
        broker.properties.update({"listeners": at, "advertised.listeners": at})
    try:
        cluster.zookeeper.start()
        with zookeeper_client(cluster.zookeeper_connect) as zookeeper:
            for pattern in dict.fromkeys(pattern for pattern, _, _ in GIVEN):
                entries = [
                    AclEntry(f"User:{user}", "*", AclOperation(operation), PermissionType.ALLOW)
                    for given, user, operations in GIVEN
                    for operation in operations.split()
                    if given == pattern
                ]
                zookeeper.create(AclAddress(pattern).path, encode(Acls(tuple(entries))), makepath=True)
            denied = Acls((AclEntry("User:denied", "*", AclOperation.ALL, PermissionType.DENY),))
            zookeeper.create(AclAddress(ResourcePattern(TOPIC, "b")).path, encode(denied))
        cluster.start_brokers(cluster.brokers)
        yield cluster
    finally:
        cluster.kill()


def errors_in(read: Any) -> list[int]:
    """Every error in an answer, at any depth."""
    if isinstance(read, tuple | list):
        return [error for part in read for error in errors_in(part)]
    if not is_dataclass(read):
        return []
    found = [int(read.error_code)] if hasattr(read, "error_code") else []
    for field in fields(read):
        found += errors_in(getattr(read, field.name))
    return sorted(error for error in found if error in AUTHORIZATION)


def answers(address: str, user: str, apis: list[Api]) -> list[list[int] | str]:
    """A principal's errors for each request, or that the connection is closed."""
    security = TowardsBrokers(
        BrokerSecurity(PROTOCOL, None, "PLAIN", Secret(jaas(user))), time.monotonic, lambda *_: None
    )
    host, _, port = address.rpartition(":")
    endpoint = Endpoint(LISTENER, host, int(port), PROTOCOL)

    async def one(api: Api, connection: BrokerConnection) -> list[int] | str:
        frame = framed(request(api.key, api.version, api.body, is_flexible=api.is_flexible))
        began = time.monotonic()
        try:
            answer = await connection.ask(frame, timeout_s=PATIENCE_S)
        except Broken:
            assert time.monotonic() - began < PATIENCE_S, f"no answer to {api.name} for {user} at {address}"
            return CLOSED
        folder = "".join(f"_{c.lower()}" if c.isupper() else c for c in api.name).lstrip("_")
        module = import_module(f"kio.schema.{folder}.v{api.version}.response")
        return errors_in(parsed(module, f"{api.name}Response", answer))

    async def all_of_them() -> list[list[int] | str]:
        connection = BrokerConnection(SecuredDialer(security), endpoint)
        try:
            return [await one(api, connection) for api in apis]
        finally:
            connection.drop()

    return asyncio.run(all_of_them())


def is_as_it_should_be(api: Api, brokers: list[int] | str, ours: list[int] | str) -> bool:
    if ours != CLOSED:
        return ours == brokers
    return brokers != CLOSED and api.key in RELAYED and (api.key in OF_WHO_ASKS or bool(brokers))


@pytest.mark.timeout(300)
def test_who_may_do_what_through_our_node_may_do_it_through_a_broker(judging: LocalCluster, tmp_path: Path) -> None:
    release = judging.version.rpartition(".")[0]
    apis = [api for api in APIS if api.since <= release]
    with zookeeper_client(judging.zookeeper_connect) as zookeeper:
        wait_until(lambda: holder(zookeeper) in judging.brokers, "a broker was the controller")
        native = judging.brokers[holder(zookeeper) or 0].address
    created = Api("CreateTopics", 19, 4, array(*(text(n) + b"\0\0\0\1\0\1" + bytes(8) for n in "ab")) + NUMBER + b"\0")
    assert answers(native, "admin", [created]) == [[]]
    expected = {user: answers(native, user, apis) for user in USERS}

    port = free_port()
    at = {"listeners": f"{LISTENER}://127.0.0.1:{port}", "inter.broker.protocol.version": release}
    with Replica(judging.zookeeper_connect, tmp_path, new_cluster=False, **{**SETTINGS, **at}) as ours:
        ours.port = port
        ours.await_phase("active")
        found = {user: answers(ours.address, user, apis) for user in USERS}

    different = [
        (user, api.name, api.body, of_broker, of_ours)
        for user in USERS
        for api, of_broker, of_ours in zip(apis, expected[user], found[user], strict=True)
        if not is_as_it_should_be(api, of_broker, of_ours)
    ]
    assert different == []
    assert all(errors == [] for errors in expected["admin"])
    closed = [api.key for api, errors in zip(apis, found["admin"], strict=True) if errors == CLOSED]
    assert closed == [41]  # tokens: the answer depends on the principal
    assert sum(bool(errors) for user in USERS for errors in expected[user]) > 100


def software(name: str, number: str) -> bytes:
    return request(18, 3, compact(name) + compact(number) + b"\0", is_flexible=True)


TOKEN = b"\0admin\0admin-s3cret"
HANDSHAKE = request(17, 1, text("PLAIN"), is_flexible=False)
SIZED = struct.pack(">i", len(TOKEN)) + TOKEN
BEFORE_A_LOGIN: dict[str, list[bytes]] = {
    "no name": [software("", "1"), software("a", "1")],
    "no version": [software("a", ""), software("a", "1")],
    "a blank": [software("a b", "1"), software("a-b", "1.0")],
    "an end of line": [software("a", "1\n"), software("a", "1")],
    "a handshake of a later version": [request(17, 9, text("PLAIN"), is_flexible=False)],
    "a token of a later version": [
        HANDSHAKE,
        request(36, 9, bytes([len(TOKEN) + 1]) + TOKEN + b"\0", is_flexible=True),
    ],
    "a token of a negative version": [HANDSHAKE, request(36, -1, SIZED, is_flexible=False)],
    "a token": [HANDSHAKE, request(36, 1, SIZED, is_flexible=False), software("", "1")],
    "a command": [request(6, 6, SENDER + b"\1\1\0", is_flexible=True)],
}


def heard(address: str, frames: list[bytes]) -> list[bytes | str]:
    """Number and error of each answer, or that the connection is closed."""
    host, _, port = address.rpartition(":")
    found: list[bytes | str] = []
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        stream = connection.makefile("rb")
        for frame in frames:
            try:
                connection.sendall(framed(frame))
                size = stream.read(4)
            except ConnectionError:
                size = b""
            if len(size) < 4:
                return [*found, CLOSED]
            found.append(stream.read(int.from_bytes(size, "big"))[:6])
    return found


@pytest.mark.timeout(300)
def test_what_a_broker_refuses_of_a_stranger_our_node_refuses_too(judging: LocalCluster, tmp_path: Path) -> None:
    release, port = judging.version.rpartition(".")[0], free_port()
    at = {"listeners": f"{LISTENER}://127.0.0.1:{port}", "inter.broker.protocol.version": release}
    expected = {what: heard(judging.brokers[1].address, frames) for what, frames in BEFORE_A_LOGIN.items()}
    with Replica(judging.zookeeper_connect, tmp_path, new_cluster=False, **{**SETTINGS, **at}) as ours:
        ours.port = port
        ours.await_phase("active")
        found = {what: heard(ours.address, frames) for what, frames in BEFORE_A_LOGIN.items()}

    assert found == expected
    assert sum(CLOSED in answered for answered in expected.values()) >= 4

"""Requests about the controller's own node need the same rights as on a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pytest

from controller.brokers.dialing import PlaintextDialer
from controller.core.clients.authorization import CLUSTER
from controller.core.messages.commands import LiveBroker
from controller.core.messages.requests import Caller
from controller.server.relay import Brokers
from controller.wire.frames import framed
from tests.unit.server.clients import OWN_ID, connected, serving
from tests.unit.server.test_relay import CLEARED_NEW, DESCRIBED_NEW, parsed, request
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType

MOVED = b"\2\3/d\2\2t\2\0\0\0\0\0\0\0"
CLUSTER_AUTHORIZATION_FAILED = 31


def without(forbidden: AclOperation | None) -> Brokers:
    """No brokers, and an authorizer that forbids one operation on the cluster."""

    async def none() -> Sequence[LiveBroker]:
        return ()

    def is_allowed(caller: Caller, operation: AclOperation, resource: ResourcePattern) -> bool:
        assert (caller.principal, resource) == ("User:ANONYMOUS", CLUSTER)
        return operation is not forbidden

    return Brokers(OWN_ID, none, PlaintextDialer(), 5.0, is_allowed)


def errors_in(read: Any) -> list[int]:
    """Every error of an answer."""
    found = [read.error_code] if hasattr(read, "error_code") else []
    for name in ("results", "responses", "partitions", "topics", "partition_errors"):
        for part in getattr(read, name, ()):
            found += errors_in(part)
    return [int(error) for error in found if error]


@pytest.mark.parametrize(
    ("key", "version", "body", "name", "needs", "otherwise"),
    [
        (35, 4, b"\0\0", "DescribeLogDirs", AclOperation.DESCRIBE, []),
        (34, 2, MOVED, "AlterReplicaLogDirs", AclOperation.ALTER, [57]),
        (32, 4, DESCRIBED_NEW, "DescribeConfigs", AclOperation.DESCRIBE_CONFIGS, []),
        (44, 1, CLEARED_NEW, "IncrementalAlterConfigs", AclOperation.ALTER_CONFIGS, []),
    ],
)
def test_the_right_is_asked_for(
    key: int, version: int, body: bytes, name: str, needs: AclOperation, otherwise: list[int]
) -> None:
    folder = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
    module = import_module(f"kio.schema.{folder}.v{version}.response")

    async def answered(forbidden: AclOperation | None) -> list[int]:
        async with serving(brokers=without(forbidden)) as server, connected(server) as client:
            answer = await client.ask_raw(request(key, version, body, is_flexible=True))
            return errors_in(parsed(module, f"{name}Response", answer))

    assert asyncio.run(answered(None)) == otherwise
    assert asyncio.run(answered(needs)) == [CLUSTER_AUTHORIZATION_FAILED]


def test_of_each_group_that_is_described_the_right_to_is_asked_for() -> None:
    module = import_module("kio.schema.describe_groups.v5.response")

    async def none() -> Sequence[LiveBroker]:
        return ()

    def is_allowed(_: Caller, operation: AclOperation, resource: ResourcePattern) -> bool:
        return (operation, resource) == (AclOperation.DESCRIBE, ResourcePattern(ResourceType.GROUP, "g"))

    async def story() -> list[tuple[str, int]]:
        judging = Brokers(OWN_ID, none, PlaintextDialer(), 5.0, is_allowed)
        async with serving(brokers=judging) as server, connected(server) as client:
            answer = await client.ask_raw(request(15, 5, b"\3\2g\2h\0\0", is_flexible=True))
            return [(g.group_id, g.error_code) for g in parsed(module, "DescribeGroupsResponse", answer).groups]

    assert asyncio.run(story()) == [("g", 16), ("h", 30)]


WHO = b"\0\0\0\1" + b"\0\0\0\1" + bytes(8)  # controller, its epoch, our broker epoch
ISR = b"\2\0\0\0\1"
PARTITION = bytes(4) + b"\0\0\0\1" * 2 + bytes(4) + ISR + bytes(4) + ISR + b"\1\1\0"
COMMANDS = [
    ("LeaderAndIsr", 4, 4, WHO + b"\2\2t\2" + PARTITION + b"\0\0" + b"\1\0", [31, 31]),
    (
        "LeaderAndIsr",
        4,
        7,
        WHO[:4] + b"\0" + WHO[4:] + b"\2\2\2t" + bytes(16) + b"\2" + PARTITION + b"\0\0\0\1\0",
        [31, 31],
    ),
    ("StopReplica", 5, 2, WHO + b"\1\2\2t\2" + bytes(4) + b"\0\0", [31, 31]),
    ("StopReplica", 5, 4, WHO[:4] + b"\0" + WHO[4:] + b"\2\2t\2" + bytes(4) + bytes(4) + b"\1\0\0\0", [31, 31]),
    ("UpdateMetadata", 6, 6, WHO + b"\1\1\0", [31]),
    ("UpdateMetadata", 6, 8, WHO[:4] + b"\0" + WHO[4:] + b"\1\1\0", [31]),
]


@pytest.mark.parametrize(("name", "key", "version", "body", "refused"), COMMANDS)
def test_who_may_not_command_brokers_hears_so_as_from_a_broker(
    name: str, key: int, version: int, body: bytes, refused: list[int]
) -> None:
    folder = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
    module = import_module(f"kio.schema.{folder}.v{version}.response")
    heard: list[tuple[str, AclOperation, bool]] = []

    async def answered(forbidden: AclOperation | None) -> list[int]:
        async with serving(brokers=without(forbidden)) as server, connected(server) as client:
            server.judge(lambda *_: False, lambda _, *decided: heard.append((decided[0], decided[1], decided[3])))
            answer = await client.ask_raw(request(key, version, body, is_flexible=True))
            return errors_in(parsed(module, f"{name}Response", answer))

    assert asyncio.run(answered(None)) == []
    assert asyncio.run(answered(AclOperation.CLUSTER_ACTION)) == refused
    assert heard == [(name, AclOperation.CLUSTER_ACTION, True), (name, AclOperation.CLUSTER_ACTION, False)]


@pytest.mark.parametrize(("key", "version"), [(4, 8), (4, 99), (5, 5), (6, 9), (6, -1)])
def test_a_command_in_a_version_that_no_broker_knows_ends_the_connection(key: int, version: int) -> None:
    async def is_hung_up_on() -> bool:
        async with serving() as server, connected(server) as client:
            client.writer.write(framed(request(key, version, WHO + bytes(20), is_flexible=True)))
            return await client.is_hung_up_on()

    assert asyncio.run(is_hung_up_on())


@pytest.mark.parametrize(
    ("key", "version", "body", "is_flexible", "expected"),
    [
        (35, 4, b"\0\0", True, [("DescribeLogDirs", AclOperation.DESCRIBE, False)]),
        (16, 1, b"", False, []),  # without a right to see a group, none is listed
        (44, 1, CLEARED_NEW, True, [("IncrementalAlterConfigs", AclOperation.ALTER_CONFIGS, True)]),
    ],
)
def test_decisions_are_reported_where_they_count(
    key: int, version: int, body: bytes, is_flexible: bool, expected: list[object]
) -> None:
    heard: list[tuple[str, AclOperation, bool]] = []

    async def story() -> None:
        async with serving(brokers=without(AclOperation.DESCRIBE)) as server, connected(server) as client:
            server.judge(lambda *_: False, lambda _, *decided: heard.append((decided[0], decided[1], decided[3])))
            await client.ask_raw(request(key, version, body, is_flexible=is_flexible))

    asyncio.run(story())

    assert heard == expected

"""Clients that change too many partitions get the same answers and delays from us as from Kafka (KIP-599)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from controller.core.messages.errors import ErrorCode
from controller.core.messages.requests import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Growth,
    NewTopic,
    TopicReference,
    TopicRequest,
)
from controller.lab.asking import connection_to
from controller.lab.cluster import LocalCluster
from controller.wire.frames import RequestHeader
from tests.cluster.replica import Replica, holder, wait_until
from tests.equipment.client_side import api_key_of, decode_reply, encode_request
from zk_layout.ids import TopicName

COUNTED, MUTED, FREE = "counted", "muted", "free"
EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
AT_ONCE_MS = 1_500
"""The longest time of a request on a busy machine, by which throttle times shrink."""

Answered = tuple[list[tuple[ErrorCode, str | None]], int]


def ask(address: str, client_id: str, *asked: tuple[TopicRequest, int]) -> list[tuple[Answered, float]]:
    """The result for the topics in each of several requests over one connection, its throttle time, and how long its
    answer takes."""

    async def in_turn() -> list[tuple[Answered, float]]:
        connection, answers = connection_to(address), []
        try:
            for request, version in asked:
                number = connection.next_correlation_id()
                header, began = RequestHeader(api_key_of(request), version, number, client_id), time.monotonic()
                reply: Any = decode_reply(header, await connection.ask(encode_request(header, request), timeout_s=30))
                results = sorted((result.error, result.message) for result in reply.results)
                answers.append(((results, reply.throttle_ms), time.monotonic() - began))
        finally:
            connection.drop()
        return answers

    return asyncio.run(in_turn())


def asked_once(address: str, client_id: str, request: TopicRequest, version: int) -> Answered:
    ((answer, _),) = ask(address, client_id, (request, version))
    return answer


def new(*names: str, partitions: int, validate: bool = False) -> CreateTopics:
    return CreateTopics(tuple(NewTopic(TopicName(name), partitions, 1) for name in names), 30_000, validate)


def grown(name: str, partitions: int) -> CreatePartitions:
    return CreatePartitions((Growth(TopicName(name), partitions),), 30_000)


def gone(*names: str) -> DeleteTopics:
    return DeleteTopics(tuple(TopicReference(TopicName(name)) for name in names), 30_000)


def story(address: str, name: str) -> list[Answered]:
    """Two partitions a second, 22 at once: one request after the other, each for its expected debt."""
    steps: Sequence[tuple[TopicRequest, int]] = (
        (new(f"{name}-a", f"{name}-b", partitions=40), 7),  # one of both, to a debt of 18
        (new(f"{name}-c", partitions=10), 5),  # an old client: 28
        (new(f"{name}-d", partitions=5, validate=True), 7),
        (new(f"{name}-d", partitions=5), 6),
        (new(f"{name}-c", partitions=5), 7),  # exists already: not counted
        (grown(f"{name}-c", 11), 3),
        (grown(f"{name}-c", 12), 2),  # 30
        (gone(f"{name}-c"), 5),
        (gone(f"{name}-none"), 6),
        (gone(f"{name}-c"), 4),  # 42
    )
    return [asked_once(address, COUNTED, request, version) for request, version in steps]


def muted(address: str, name: str) -> tuple[int, float]:
    """One partition a second, 11 at once: the throttle time of an old client that creates 14, and how long its next
    request takes on the same connection."""
    (first, took_s), (_, waited_s) = ask(
        address, MUTED, (new(f"{name}-e", partitions=14), 1), (new(f"{name}-e", partitions=1), 5)
    )
    assert first == ([(ErrorCode.NONE, None)], 0)  # version 1 has no room for a throttle time
    assert took_s < 10
    return 3_000, waited_s


def set_by_tool(cluster: LocalCluster, *how: str) -> None:
    """Set the counted client's quota with Kafka's own tool."""
    whom = ("--entity-type", "clients", "--entity-name", COUNTED)
    changed = cluster.tools.run(
        "kafka-configs", "--bootstrap-server", cluster.bootstrap_servers, "--alter", *how, *whom
    )
    assert "Completed updating config" in changed.output


def set_by_hand(zk: KazooClient) -> None:
    """Write the muted client's quota for all users, in another level's znode."""
    entity = f"users/ANONYMOUS/clients/{MUTED}"
    zk.create(f"/config/{entity}", b'{"version":1,"config":{"controller_mutation_rate":"1.0"}}', makepath=True)
    notification = json.dumps({"version": 2, "entity_path": entity}).encode()
    zk.create("/config/changes/config_change_", notification, sequence=True)


def test_changes_are_counted_refused_and_throttled_as_by_kafka(
    cluster_3_9: LocalCluster, zk: KazooClient, tmp_path: Path
) -> None:
    set_by_hand(zk)
    set_by_tool(cluster_3_9, "--add-config", "controller_mutation_rate=2")
    wait_until(lambda: holder(zk) in cluster_3_9.brokers, "a broker was the controller")
    native = cluster_3_9.brokers[holder(zk) or 0].address
    expected, expected_wait = story(native, "native"), muted(native, "native")

    with Replica(cluster_3_9.zookeeper_connect, tmp_path) as leader:
        leader.await_phase("active")
        found, wait = story(leader.address, "ours"), muted(leader.address, "ours")

        words = [
            [(error, text and text.replace("native", "ours")) for error, text in results] for results, _ in expected
        ]
        assert [results for results, _ in found] == words
        throttles = [(ours, theirs) for (_, ours), (_, theirs) in zip(found, expected, strict=True)]
        assert [abs(ours - theirs) < AT_ONCE_MS for ours, theirs in throttles] == [True] * len(found), throttles
        assert [ours == 0 for ours, _ in throttles] == [theirs == 0 for _, theirs in throttles]
        for throttle_ms, waited_s in (expected_wait, wait):
            assert 0.3 * throttle_ms < 1_000 * waited_s < throttle_ms + AT_ONCE_MS
        assert leader.measure("requests_throttled_total", kind="DeleteTopics") == 2

        set_by_tool(cluster_3_9, "--delete-config", "controller_mutation_rate")
        wait_until(
            lambda: asked_once(leader.address, COUNTED, new("ours-d", partitions=5), 7)[1] == 0, "it was not limited"
        )
        of_all = [f"{by}-{letter}" for by in ("native", "ours") for letter in "abde"]
        asked_once(leader.address, FREE, gone(*of_all), 5)
        assert not leader.complaints()
    zk.delete("/config/users/ANONYMOUS", recursive=True)

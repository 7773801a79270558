"""Do the same requests of the same users get the same from our node as from a broker?

A leading broker is asked first, and beside it a replica of ours without an authorizer, which must serve no client.
Then two others start, one of which leads while the other stands by, and all three get the same requests.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, is_dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from controller.brokers.dialing import SecuredDialer
from controller.connections.broker import Broken, BrokerConnection
from controller.core.messages.errors import ErrorCode
from controller.lab.cluster import LocalCluster
from controller.lab.ports import free_port
from controller.lab.zookeeper import zookeeper_client
from controller.security.towards_brokers import TowardsBrokers
from controller.settings.security import BrokerSecurity, Secret
from controller.wire.apis import BY_BROKERS_ON_STANDBY, OF_THE_USER, RELAYABLE, VersionRange
from controller.wire.frames import framed
from tests.cluster.replica import Replica, holder, wait_until
from tests.cluster.test_rights_of_principals import (
    AUTHORIZATION,
    LISTENER,
    PROTOCOL,
    SETTINGS,
    USERS,
    array,
    jaas,
    running,
    text,
)
from tests.rights.requests import Sent, some
from tests.unit.server.test_relay import parsed
from zk_layout.znodes.brokers import Endpoint

PATIENCE_S = 10.0
CLOSED, SILENT = "closed", "silent"
LEADER, STANDBY = "leader", "standby"
Answer = tuple[int, ...] | str
"""Every error in an answer, or a word for a closed connection or a missing answer."""


class Judged(StrEnum):
    """How our answer compares with that of a broker."""

    SAME = "the same errors"
    OTHER = "the same refusals, other errors"
    CLOSED = "closed, as a broker refuses it or sees who asks"
    ELSEWHERE = "NOT_CONTROLLER, by who does not lead"
    STRICTER = "refused more"
    LAXER = "refused less"


class Difference(Struct, frozen=True):
    """One request that was not answered as by a broker."""

    node: str
    judged: Judged
    sent: Sent
    brokers: Answer
    ours: Answer


class Comparison(Struct):
    """The outcomes by node, and the differences."""

    counts: dict[str, Counter[Judged]]
    differences: list[Difference]
    refused: int = 0

    def of(self, judged: Judged) -> list[Difference]:
        """The count of one kind."""
        return [difference for difference in self.differences if difference.judged is judged]


def compare(version: str, count: int, seed: int, directory: Path) -> Comparison:
    """Send so many requests to each node.

    Raises:
        JarsUnavailable, JavaUnavailable: as of every cluster.
    """
    chance = random.Random(seed)
    with running(version) as cluster, ExitStack() as replicas:
        with zookeeper_client(cluster.zookeeper_connect) as zookeeper:
            wait_until(lambda: holder(zookeeper) in cluster.brokers, "a broker was the controller")
            native = cluster.brokers[holder(zookeeper) or 0].address
        _create_topics(native)
        ranges = asyncio.run(_ranges(native))
        sent = [some(chance, USERS, ranges) for _ in range(count)]
        brokers = ask_all(native, sent)
        nodes: dict[str, list[Answer]] = {}
        unfit = {key: value for key, value in SETTINGS.items() if key not in ("authorizer.class.name", "super.users")}
        alone = replicas.enter_context(_replica(cluster, directory, 903, unfit))
        wait_until(lambda: "this process has none" in alone.get("/readyz")[1], "it knows that it must not lead")
        nodes["without authorizer"] = ask_all(alone.address, sent)
        leader = replicas.enter_context(_replica(cluster, directory, 901, SETTINGS))
        leader.await_phase("active")
        grants = [warning for warning in leader.leader()["warnings"] if "super.users" in warning]
        assert not grants, "brokers do not tell that they have super.users"
        standby = replicas.enter_context(_replica(cluster, directory, 902, SETTINGS))
        standby.await_phase("standby")
        nodes[LEADER], nodes[STANDBY] = ask_all(leader.address, sent), ask_all(standby.address, sent)
        nodes["without authorizer, beside ours"] = ask_all(alone.address, sent)
    return _compared(sent, brokers, nodes)


def _compared(sent: Sequence[Sent], brokers: Sequence[Answer], nodes: dict[str, list[Answer]]) -> Comparison:
    found = Comparison({node: Counter() for node in nodes}, [], sum(bool(refusals(answer)) for answer in brokers))
    for node, answers in nodes.items():
        for one, of_broker, of_ours in zip(sent, brokers, answers, strict=True):
            judged = judge(one, of_broker, of_ours, node)
            found.counts[node][judged] += 1
            if judged is not Judged.SAME:
                found.differences.append(Difference(node, judged, one, of_broker, of_ours))
    return found


def judge(sent: Sent, brokers: Answer, ours: Answer, node: str) -> Judged:
    """Compare our answer with a broker's.

    A connection may be closed over a request that depends on the principal, by a replica without authorizer over any,
    and otherwise only over a relayed one that a broker refuses.
    """
    leads = node == LEADER
    if ours == brokers:
        return Judged.SAME
    if ours == CLOSED:
        is_of_the_asker = sent.key in OF_THE_USER or (not leads and sent.key in BY_BROKERS_ON_STANDBY)
        is_relayed = sent.key in RELAYABLE and bool(brokers)
        is_right = is_of_the_asker or is_relayed or node not in (LEADER, STANDBY)
        return Judged.CLOSED if is_right else Judged.STRICTER
    if SILENT in (brokers, ours):
        return Judged.OTHER if ours != SILENT else Judged.STRICTER
    if not leads and set(ours) == {ErrorCode.NOT_CONTROLLER}:
        return Judged.ELSEWHERE
    refused, refused_here = refusals(brokers), refusals(ours)
    if refused == refused_here:
        return Judged.OTHER
    return Judged.LAXER if refused - refused_here else Judged.STRICTER


def refusals(answer: Answer) -> Counter[int]:
    """The authorization errors, with their counts."""
    return Counter(() if isinstance(answer, str) else [error for error in answer if error in AUTHORIZATION])


def ask_all(address: str, sent: Sequence[Sent]) -> list[Answer]:
    """One node's answer to each request, each user on a separate connection."""

    async def all_of_them() -> list[Answer]:
        connections = {user: _connection(address, user) for user in USERS}
        try:
            return [await _answer(connections[one.user], one) for one in sent]
        finally:
            for connection in connections.values():
                connection.drop()

    return asyncio.run(all_of_them())


async def _answer(connection: BrokerConnection, sent: Sent) -> Answer:
    began = time.monotonic()
    try:
        answer = await connection.ask(framed(sent.frame), timeout_s=PATIENCE_S)
    except Broken:
        return CLOSED if time.monotonic() - began < PATIENCE_S else SILENT
    if sent.key in OF_THE_USER:  # kio does not read the times of a token that is none
        at = 4 + sent.is_flexible
        return tuple(filter(None, (int.from_bytes(answer[at : at + 2], "big", signed=True),)))
    module = import_module(f"kio.schema.{sent.folder}.v{sent.version}.response")
    return tuple(sorted(_errors(parsed(module, f"{sent.name}Response", answer))))


def _errors(read: Any) -> Iterator[int]:
    if isinstance(read, tuple | list):
        for part in read:
            yield from _errors(part)
    elif is_dataclass(read):
        if error := int(getattr(read, "error_code", 0)):
            yield error
        for one in fields(read):
            yield from _errors(getattr(read, one.name))


def _connection(address: str, user: str) -> BrokerConnection:
    host, _, port = address.rpartition(":")
    security = TowardsBrokers(
        BrokerSecurity(PROTOCOL, None, "PLAIN", Secret(jaas(user))), time.monotonic, lambda *_: None
    )
    return BrokerConnection(SecuredDialer(security), Endpoint(LISTENER, host, int(port), PROTOCOL))


async def _ranges(address: str) -> dict[int, VersionRange]:
    connection = _connection(address, "admin")
    try:
        return dict(await connection.versions(PATIENCE_S))
    finally:
        connection.drop()


def _create_topics(address: str) -> None:
    placed = array(*(text(name) + b"\0\0\0\1\0\1" + bytes(8) for name in "ab"))
    frame = b"\0\x13\0\4\0\0\0\5\xff\xff" + placed + b"\0\0\x13\x88\0"
    there = (ErrorCode.TOPIC_ALREADY_EXISTS,) * 2
    wait_until(lambda: ask_all(address, [Sent("admin", 19, 4, frame)]) == [there], "the topics were there")


@contextmanager
def _replica(cluster: LocalCluster, directory: Path, number: int, settings: dict[str, Any]) -> Iterator[Replica]:
    port = free_port()
    protocol = cluster.version.rpartition(".")[0]
    at = {"listeners": f"{LISTENER}://127.0.0.1:{port}", "inter.broker.protocol.version": protocol}
    with Replica(cluster.zookeeper_connect, directory, number, new_cluster=False, **{**settings, **at}) as replica:
        replica.port = port
        wait_until(lambda: replica.get("/leader")[0] == 200, "it shows how it stands")
        yield replica

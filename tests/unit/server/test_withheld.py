"""A process acts for clients with its own rights only once it knows that brokers have no authorizer."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from controller.core.clients.authorization import NOT_KNOWN_YET, Withheld
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import (
    BrokerConfig,
    ConfigSource,
    PartitionsAltered,
    ProducerIdsAllocated,
    ShutdownPermitted,
)
from controller.core.messages.requests import (
    AclCreation,
    AclFilter,
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    Caller,
    ControlledShutdown,
    CreateAcls,
    CreatePartitions,
    DeleteAcls,
    DeleteTopics,
    DescribeAcls,
    DescribeCluster,
    ElectLeaders,
    Growth,
    ListReassignments,
    PartitionReassignment,
    Request,
    TopicReference,
    UpdateFeatures,
)
from controller.lab.listening import MessageServer
from controller.server.listener import Server
from controller.wire.apis import ApiKey
from controller.wire.frames import framed
from controller.wire.requests import decode_header
from tests.unit.connections.certificates import clients, make_identity
from tests.unit.preflight.world import encode_described
from tests.unit.server.clients import Client, Desk, connected, serving
from tests.unit.server.test_forwarding import CREATION, Leads, answered, error_of
from tests.unit.server.test_own_node_rights import errors_in
from tests.unit.server.test_relay import (
    CLEARED_NEW,
    DESCRIBED_NEW,
    Broker,
    askable,
    brokers,
    find_coordinator,
    parsed,
    request,
)
from tests.unit.server.test_tls_listener import secured
from zk_layout.ids import BrokerEpoch, BrokerId, PartitionId, TopicName, TopicPartition
from zk_layout.znodes.acls import AclOperation, ResourcePattern

KNOWN = Withheld("broker 1 uses the authorizer AclAuthorizer, and this process has none", is_known=True)
ORDERS = TopicName("orders")
ANY_FILTER = AclFilter(1, None, 1, None, None, 1, 1)
OF_TOPICS: tuple[tuple[Request, int], ...] = (
    (CREATION, 5),
    (DeleteTopics((TopicReference(ORDERS),)), 4),
    (CreatePartitions((Growth(ORDERS, 2),)), 1),
)
OF_CLUSTER: tuple[tuple[Request, int], ...] = (
    (AlterReassignments((PartitionReassignment(TopicPartition(ORDERS, PartitionId(0)), (BrokerId(1),)),)), 0),
    (ListReassignments(None), 0),
    (ElectLeaders((TopicPartition(ORDERS, PartitionId(0)),)), 1),
    (UpdateFeatures(()), 0),
)
OF_ANY_NODE: tuple[tuple[Request, int], ...] = (
    (CreateAcls((AclCreation(2, "*", 3, "User:eve", "*", 2, 3),)), 1),
    (DeleteAcls((ANY_FILTER,)), 1),
    (DescribeAcls(ANY_FILTER), 1),
    (DescribeCluster(None), 4),
)
OF_BROKERS: tuple[tuple[Request, int, Any], ...] = (
    (AlterPartition(BrokerId(1), BrokerEpoch(7), ()), 1, PartitionsAltered()),
    (ControlledShutdown(BrokerId(1), BrokerEpoch(7)), 2, ShutdownPermitted()),
    (AllocateProducerIds(BrokerId(1), BrokerEpoch(7)), 0, ProducerIdsAllocated()),
)


def errors_of(reply: Any) -> set[ErrorCode]:
    """All errors in an answer."""
    found = {part.error for part in getattr(reply, "results", ())} | {getattr(reply, "error", ErrorCode.NONE)}
    return {ErrorCode(error) for error in found if error}


@pytest.mark.parametrize("withheld", [NOT_KNOWN_YET, KNOWN])
def test_who_leads_does_nothing_for_clients_and_everything_for_brokers(withheld: Withheld) -> None:
    async def story() -> None:
        desk = Desk()
        async with serving() as server, connected(server) as client:
            server.begin_term(desk.asked.append)
            server.withhold(lambda: withheld)
            of_topics, of_cluster = (
                (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                if withheld is KNOWN
                else (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER)
            )
            for asked, version in OF_TOPICS:
                assert errors_of(await client.ask(asked, version)) == {of_topics}, asked
            for asked, version in OF_CLUSTER:
                assert errors_of(await client.ask(asked, version)) == {of_cluster}, asked
            for asked, version in OF_ANY_NODE:
                async with connected(server) as other:
                    other.send(asked, version)
                    assert await other.is_hung_up_on(), asked
            assert not desk.asked

            for count, (asked, version, reply) in enumerate(OF_BROKERS, 1):
                header = client.send(asked, version)
                desk.answer(server, (await desk.until(count))[-1], reply)
                assert not errors_of(await client.receive(header))

    asyncio.run(story())


@pytest.mark.parametrize("withheld", [NOT_KNOWN_YET, KNOWN])
@pytest.mark.parametrize(
    ("key", "version", "body", "name"),
    [
        (34, 2, b"\2\3/d\2\2t\2\0\0\0\0\0\0\0", "AlterReplicaLogDirs"),
        (35, 4, b"\0\0", "DescribeLogDirs"),
        (32, 4, DESCRIBED_NEW, "DescribeConfigs"),
        (44, 1, CLEARED_NEW, "IncrementalAlterConfigs"),
    ],
)
def test_no_client_is_shown_or_may_change_anything_of_this_node(
    withheld: Withheld, key: int, version: int, body: bytes, name: str
) -> None:
    folder = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
    module = __import__(f"kio.schema.{folder}.v{version}.response", fromlist=["response"])

    async def story() -> None:
        async with serving() as server, connected(server) as client:
            server.withhold(lambda: withheld)
            answer = await client.ask_raw(request(key, version, body, is_flexible=True))
            assert errors_in(parsed(module, f"{name}Response", answer)) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]

    asyncio.run(story())


@pytest.mark.parametrize("withheld", [NOT_KNOWN_YET, KNOWN])
def test_who_stands_by_passes_nothing_on(withheld: Withheld) -> None:
    async def story() -> None:
        leads, desk = Leads(), Desk()
        async with (
            brokers(1) as (broker,),
            serving() as leader,
            serving(brokers=leads.brokers) as standby,
            serving(brokers=askable([broker.live()])) as relaying,
        ):
            leader.begin_term(desk.asked.append)
            leads.port = leader.ports["OUTSIDE"]
            for server in (standby, relaying):
                server.withhold(lambda: withheld)
            async with connected(standby) as client:
                for asked, version in (*OF_TOPICS, *OF_CLUSTER):
                    assert errors_of(await client.ask(asked, version)) == {ErrorCode.NOT_CONTROLLER}, asked
            for asked, version in OF_ANY_NODE:
                async with connected(relaying) as client:
                    client.send(asked, version)
                    assert await client.is_hung_up_on(), asked
            async with connected(relaying) as client:
                client.writer.write(framed(find_coordinator(1)))
                assert await client.is_hung_up_on()
            assert not desk.asked
            assert broker.connections == 0

    asyncio.run(story())


class Judge(Broker):
    """Reports the authorizer it has."""

    def __init__(self, number: int, authorizer: str | None) -> None:
        super().__init__(number)
        self.authorizer = authorizer
        self.described = 0
        self.server = MessageServer(self._tell)

    async def _tell(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        header = decode_header(frame)
        if header.api_key != ApiKey.DESCRIBE_CONFIGS:
            await self._serve(frame, writer)
            return
        self.described += 1
        reported = None if self.authorizer is None else {"authorizer.class.name": self.authorizer}
        writer.write(encode_described(header, None if reported is None else "3.9", reported))


@contextlib.asynccontextmanager
async def passing_on_to(broker: Judge) -> AsyncIterator[Server]:
    """A replica without an authorizer, beside a broker."""
    await broker.server.start()
    try:
        async with serving(brokers=askable([broker.live()])) as server:
            server.withhold(lambda: None)
            yield server
    finally:
        await broker.server.stop()


async def is_passed_on(client: Client, number: int) -> bool:
    client.writer.write(framed(find_coordinator(number)))
    try:
        return bool(await client.frame())
    except (AssertionError, ConnectionResetError):
        return False


@pytest.mark.parametrize("authorizer", ["kafka.security.authorizer.AclAuthorizer", "org.example.Ranger", None])
def test_a_broker_that_judges_or_does_not_say_is_not_asked_with_rights_of_this_process(authorizer: str | None) -> None:
    async def story() -> None:
        async with passing_on_to(Judge(1, authorizer)) as server, connected(server) as client:
            assert not await is_passed_on(client, 1)

    asyncio.run(story())


def test_a_broker_is_asked_once_on_a_connection_and_again_on_the_next() -> None:
    async def story() -> None:
        broker = Judge(1, "")
        async with passing_on_to(broker) as server, connected(server) as client:
            assert await is_passed_on(client, 1)
            assert await is_passed_on(client, 2)
            assert broker.described == 1

            broker.authorizer = "kafka.security.authorizer.AclAuthorizer"  # it comes back with one at the same address
            await broker.server.stop()
            await broker.server.start()
            assert not await is_passed_on(client, 3)
            assert broker.described == 2

    asyncio.run(story())


@pytest.mark.parametrize(
    ("judges", "expected"), [(False, ErrorCode.NONE), (True, ErrorCode.NOT_CONTROLLER)], ids=["open", "judging"]
)
def test_a_leader_of_ours_is_asked_with_rights_of_this_process_only_if_it_has_no_authorizer(
    judges: bool, expected: ErrorCode
) -> None:
    async def story() -> None:
        leads, desk = Leads(), Desk()
        async with (
            serving(own_id=BrokerId(1001)) as leader,
            serving(brokers=leads.brokers) as standby,
            connected(standby) as client,
        ):
            standby.withhold(lambda: None)
            leader.begin_term(desk.asked.append)
            authorizer = "kafka.security.authorizer.AclAuthorizer" if judges else None
            leader.show(lambda: {"authorizer.class.name": BrokerConfig(authorizer, ConfigSource.DEFAULT)})
            leads.port = leader.ports["OUTSIDE"]
            if judges:
                assert error_of(await client.ask(CREATION)) is expected
                assert not desk.asked
            else:
                assert error_of(await answered(client, leader, desk)) is expected

    asyncio.run(story())


def test_who_shows_no_certificate_has_the_rights_of_anonymous_and_no_others(tmp_path: Path) -> None:
    identity = make_identity(tmp_path / "identity.pem")
    judged: list[tuple[str, AclOperation]] = []

    def is_allowed(caller: Caller, operation: AclOperation, resource: ResourcePattern) -> bool:
        judged.append((caller.principal, operation))
        return resource.name == "group" and len(judged) == 1

    async def story() -> None:
        async with (
            brokers(1) as (broker,),
            serving(
                brokers=askable([broker.live()], is_allowed=is_allowed), listeners=secured(identity, ssl.CERT_NONE)
            ) as server,
            connected(server, tls=clients(identity, shows_it=False)) as client,
        ):
            server.withhold(lambda: None)
            assert await is_passed_on(client, 1)
            assert not await is_passed_on(client, 2)

    asyncio.run(story())

    assert judged == [("User:ANONYMOUS", AclOperation.DESCRIBE)] * 2

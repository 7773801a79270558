"""What any broker can answer is answered by one; what is about the controller's own node is not."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Sequence
from typing import Any

import kio.schema.alter_configs.v2.response
import kio.schema.describe_configs.v1.response
import kio.schema.describe_configs.v4.response
import kio.schema.describe_log_dirs.v1.response
import kio.schema.describe_log_dirs.v4.response
import kio.schema.incremental_alter_configs.v0.response
import kio.schema.incremental_alter_configs.v1.response
import kio.schema.list_groups.v0.response
import kio.schema.list_groups.v4.response
import kio.schema.list_transactions.v0.response
import pytest
from kio.serial import entity_reader
from structlog.testing import capture_logs

from controller.brokers.dialing import PlaintextDialer
from controller.core.clients.authorization import Authorizer, anybody
from controller.core.messages.commands import LiveBroker
from controller.core.messages.replies import ClusterDescription
from controller.core.messages.requests import Caller, DescribeCluster, ListReassignments
from controller.lab.listening import MessageServer
from controller.server.connection_quotas import ConnectionQuotas, OpenConnection
from controller.server.listener import ListenerSettings
from controller.server.relay import MOST_READ_AHEAD_BYTES, Brokers
from controller.server.repeated_lines import FIRST
from controller.settings.limits import Limits
from controller.wire.apis import SERVED, ApiKey, VersionRange
from controller.wire.frames import framed
from controller.wire.replies import encode_api_versions
from controller.wire.requests import ApiVersionsRequest, decode_header
from tests.unit.server.clients import OWN_ID, Client, Desk, connected, serving
from zk_layout.ids import BrokerId
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType
from zk_layout.znodes.brokers import Endpoint

FIND_COORDINATOR, DESCRIBE_CONFIGS, PRODUCE, UNREGISTER_BROKER = 10, 32, 0, 64
DESCRIBE_USER_SCRAM_CREDENTIALS = 50
RANGES = {
    PRODUCE: VersionRange(0, 9),
    3: VersionRange(0, 9),
    ApiKey.LEADER_AND_ISR: VersionRange(0, 4),
    UNREGISTER_BROKER: VersionRange(0, 0),
    FIND_COORDINATOR: VersionRange(0, 3),
    DESCRIBE_CONFIGS: VersionRange(1, 3),
    DESCRIBE_USER_SCRAM_CREDENTIALS: VersionRange(0, 0),
}


class Broker:
    """Lists its versions, and answers everything else with its own number and the bytes it received."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.introductions = 0
        self.is_mute = False
        self.more = b""
        self.server = MessageServer(self._serve)

    @property
    def connections(self) -> int:
        return self.server.connections

    def live(self, listener: str = "OUTSIDE", protocol: str = "PLAINTEXT") -> LiveBroker:
        endpoint = Endpoint(listener, "127.0.0.1", self.server.port, protocol)
        return LiveBroker(BrokerId(self.number), (Endpoint("INSIDE", "127.0.0.1", 1), endpoint))

    async def _serve(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        header = decode_header(frame)
        if self.is_mute:
            return
        if header.api_key == ApiKey.API_VERSIONS:
            self.introductions += 1
            writer.write(encode_api_versions(header, RANGES))
        else:
            writer.write(framed(struct.pack(">ii", header.correlation_id, self.number), frame, self.more))


@contextlib.asynccontextmanager
async def brokers(count: int) -> AsyncIterator[list[Broker]]:
    started = [Broker(number) for number in range(1, count + 1)]
    for broker in started:
        await broker.server.start()
    try:
        yield started
    finally:
        for broker in started:
            await broker.server.stop()


def askable(live: Sequence[LiveBroker], timeout_s: float = 5.0, is_allowed: Authorizer = anybody) -> Brokers:
    async def live_brokers() -> Sequence[LiveBroker]:
        return live

    return Brokers(OWN_ID, live_brokers, PlaintextDialer(), timeout_s, is_allowed)


def find_coordinator(correlation_id: int) -> bytes:
    return struct.pack(">hhih", FIND_COORDINATOR, 0, correlation_id, -1) + b"\0\5group"


async def asked(client: Client, correlation_id: int) -> int:
    """The number of the broker that answered."""
    sent = find_coordinator(correlation_id)
    answer = await client.ask_raw(sent)
    answered, number = struct.unpack_from(">ii", answer)
    assert answered == correlation_id
    assert answer[8:] == sent
    return int(number)


def test_a_request_for_any_broker_is_answered_by_one_byte_for_byte() -> None:
    async def story() -> None:
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live()])) as server,
            connected(server) as client,
        ):
            assert await asked(client, 77) == 1
            assert await asked(client, 78) == 1
            assert broker.connections == 1

    asyncio.run(story())


def test_what_a_client_has_no_right_to_is_not_passed_on() -> None:
    may = {"group": True, "other": False}
    judged: list[tuple[str, AclOperation]] = []

    def is_allowed(caller: Caller, operation: AclOperation, resource: ResourcePattern) -> bool:
        judged.append((caller.address, operation))
        return may[resource.name]

    async def story() -> None:
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live()], is_allowed=is_allowed)) as server,
        ):
            async with connected(server) as client:
                assert await asked(client, 1) == broker.number
                may["group"] = False
                client.writer.write(framed(find_coordinator(2)))
                assert await client.is_hung_up_on()
            async with connected(server) as client:
                client.writer.write(framed(struct.pack(">hhihi", 41, 0, 3, -1, -1)))  # tokens belong to the client
                assert await client.is_hung_up_on()

    with capture_logs() as logs:
        asyncio.run(story())

    assert judged == [("127.0.0.1", AclOperation.DESCRIBE)] * 2
    reasons = [line["reason"] for line in logs if line["log_level"] == "warning"]
    assert "FindCoordinator (10) is not passed on for this client; brokers answer it" in reasons[0]


@pytest.mark.parametrize(
    ("is_new", "may_write", "is_passed_on"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_who_may_write_to_any_topic_gets_a_producer_id_from_brokers_that_give_it(
    monkeypatch: pytest.MonkeyPatch, *, is_new: bool, may_write: bool, is_passed_on: bool
) -> None:
    if is_new:
        monkeypatch.setitem(RANGES, ApiKey.DESCRIBE_CLUSTER, VersionRange(0, 0))
    wanted: list[tuple[str, AclOperation, ResourceType]] = []

    def is_allowed_for_any(caller: Caller, operation: AclOperation, kind: ResourceType) -> bool:
        wanted.append((caller.address, operation, kind))
        return may_write

    async def story() -> None:
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live()], is_allowed=lambda *_: False)) as server,
            connected(server) as client,
        ):
            server.judge(is_allowed_for_any, lambda *_: None)
            client.writer.write(framed(struct.pack(">hhihhi", 22, 0, 1, -1, -1, 5000)))
            assert await (client.frame() if is_passed_on else client.is_hung_up_on())

    asyncio.run(story())

    assert wanted == ([("127.0.0.1", AclOperation.WRITE, ResourceType.TOPIC)] if is_new else [])


def test_a_replica_that_stands_by_describes_the_cluster_as_a_broker_does() -> None:
    async def story() -> None:
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live()])) as server,
            connected(server) as client,
        ):
            offered = (await client.ask(ApiVersionsRequest("a-test", "1"), 3)).ranges
            assert offered[ApiKey.METADATA] == RANGES[3]
            header = client.send(DescribeCluster(None), 4)
            answer = await client.frame()
            assert struct.unpack_from(">ii", answer) == (header.correlation_id, 1)
            assert decode_header(answer[8:]).api_key == ApiKey.METADATA

    asyncio.run(story())


def test_a_replica_that_leads_describes_the_cluster_itself() -> None:
    async def story() -> None:
        desk = Desk()
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live()])) as server,
            connected(server) as client,
        ):
            server.begin_term(desk)
            header = client.send(DescribeCluster(None), 4)
            (asked_of_us,) = await desk.until(1)
            desk.answer(server, asked_of_us, ClusterDescription((), "cluster", OWN_ID, ()))
            described = await client.receive(header)
            assert isinstance(described, ClusterDescription)
            assert described.controller == OWN_ID
            assert broker.connections == 0

    asyncio.run(story())


def test_one_client_always_gets_the_same_broker_and_many_clients_are_spread() -> None:
    async def story() -> None:
        async with (
            brokers(3) as some,
            serving(brokers=askable([b.live() for b in some])) as server,
        ):
            chosen = set()
            for _ in range(30):
                async with connected(server) as client:
                    numbers = {await asked(client, n) for n in range(3)}
                    assert len(numbers) == 1
                    chosen |= numbers
            assert chosen == {1, 2, 3}

    asyncio.run(story())


def test_api_versions_adds_what_the_broker_answers_for_any_and_asks_it_once() -> None:
    async def story() -> None:
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live()])) as server,
        ):
            for _ in range(4):
                async with connected(server) as client:
                    await client.ask(ApiVersionsRequest())
            async with connected(server) as client:
                ranges = (await client.ask(ApiVersionsRequest())).ranges

            assert ranges[FIND_COORDINATOR] == VersionRange(0, 3)
            assert ranges[DESCRIBE_CONFIGS] == VersionRange(1, 3)  # answered by both
            assert ranges[ApiKey.METADATA] == VersionRange(0, 9)  # a connection may outlive the term
            assert {key: ranges[key] for key in SERVED if key != ApiKey.METADATA} == {
                key: served for key, served in SERVED.items() if key != ApiKey.METADATA
            }
            assert ranges[PRODUCE] == VersionRange(0, 9)
            assert UNREGISTER_BROKER not in ranges
            assert broker.introductions == 1
            assert broker.connections == 1

    asyncio.run(story())


def test_requests_relayed_and_answered_here_keep_their_order_on_one_connection() -> None:
    async def story() -> None:
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live()])) as server,
            connected(server) as client,
        ):
            server.begin_term(Desk())
            server.refuse_all()
            client.writer.write(framed(find_coordinator(1)))
            between = client.send(ListReassignments(None))
            client.writer.write(framed(find_coordinator(3)))

            assert struct.unpack_from(">i", await client.frame()) == (1,)
            await client.receive(between)
            assert struct.unpack_from(">i", await client.frame()) == (3,)

    asyncio.run(story())


def test_losing_the_broker_closes_the_client_connection_and_the_next_one_gets_another() -> None:
    async def story() -> None:
        async with brokers(2) as some:
            live = [b.live() for b in some]
            async with serving(brokers=askable(live)) as server:
                async with connected(server) as client:
                    number = await asked(client, 1)
                    await some[number - 1].server.stop()
                    client.writer.write(framed(find_coordinator(2)))
                    assert await client.is_hung_up_on()
                for _ in range(5):
                    async with connected(server) as client:
                        assert await asked(client, 3) == 3 - number

    asyncio.run(story())


def test_without_a_live_broker_the_client_connection_is_closed() -> None:
    async def story() -> None:
        ourselves = LiveBroker(OWN_ID, (Endpoint("OUTSIDE", "127.0.0.1", 9),))
        async with serving(brokers=askable([ourselves])) as server, connected(server) as client:
            client.writer.write(framed(find_coordinator(1)))
            assert await client.is_hung_up_on()

    asyncio.run(story())


@pytest.mark.parametrize(("listener", "protocol"), [("OTHER", "PLAINTEXT"), ("OUTSIDE", "SASL_PLAINTEXT")])
def test_nothing_is_relayed_to_another_listener_or_a_secured_one(listener: str, protocol: str) -> None:
    async def story() -> None:
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live(listener, protocol)])) as server,
            connected(server) as client,
        ):
            client.writer.write(framed(find_coordinator(1)))
            assert await client.is_hung_up_on()
            assert broker.connections == 0

    asyncio.run(story())


def test_a_listener_that_does_not_relay_says_so() -> None:
    async def story() -> None:
        silent = (ListenerSettings("OUTSIDE", "127.0.0.1", 0, relays=False),)
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live()]), listeners=silent) as server,
            connected(server) as client,
        ):
            ranges = (await client.ask(ApiVersionsRequest())).ranges
            assert FIND_COORDINATOR not in ranges
            assert PRODUCE in ranges  # old clients break without
            assert broker.connections == 0

    asyncio.run(story())


def test_while_no_broker_can_be_asked_the_oldest_common_versions_are_offered() -> None:
    async def story() -> None:
        live: list[LiveBroker] = []
        async with brokers(1) as (broker,), serving(brokers=askable(live)) as server, connected(server) as client:
            ranges = (await client.ask(ApiVersionsRequest())).ranges
            assert ranges[FIND_COORDINATOR] == VersionRange(0, 2)

            live.append(broker.live())
            assert await asked(client, 5) == 1

    asyncio.run(story())


def test_a_mute_broker_delays_api_versions_by_a_second_at_most_and_then_no_more() -> None:
    async def story() -> None:
        async with brokers(1) as (broker,):
            broker.is_mute = True
            async with serving(brokers=askable([broker.live()])) as server:
                loop = asyncio.get_running_loop()
                took = []
                for _ in range(2):
                    async with connected(server) as client:
                        began = loop.time()
                        assert (await client.ask(ApiVersionsRequest())).ranges[FIND_COORDINATOR] == VersionRange(0, 2)
                        took.append(loop.time() - began)
                assert 0.9 < took[0] < 5
                assert took[1] < 0.9

    asyncio.run(story())


def test_many_clients_that_ask_while_no_broker_can_be_asked_do_not_fill_the_log() -> None:
    async def story() -> None:
        async with serving(brokers=askable([])) as server:
            for _ in range(40):
                async with connected(server) as client:
                    await client.ask(ApiVersionsRequest())

    with capture_logs() as logs:
        asyncio.run(story())
    said = [line for line in logs if line["event"] == "no broker available to answer clients' requests"]
    assert 1 <= len(said) <= FIRST


def test_a_broker_that_cannot_be_reached_does_not_hide_what_the_others_answer() -> None:
    async def story() -> None:
        async with brokers(1) as (broker,):
            dead = [LiveBroker(BrokerId(n), (Endpoint("OUTSIDE", "127.0.0.1", 1),)) for n in range(2, 12)]
            async with serving(brokers=askable([broker.live(), *dead])) as server, connected(server) as client:
                ranges = (await client.ask(ApiVersionsRequest())).ranges
                assert ranges[DESCRIBE_USER_SCRAM_CREDENTIALS] == VersionRange(0, 0)
                assert await asked(client, 1) == 1

    asyncio.run(story())


def test_metadata_that_waits_for_a_broker_delays_no_request_answered_here() -> None:
    async def story() -> None:
        limits = Limits(open_bytes=1)
        async with (
            brokers(1) as (broker,),
            serving(limits, brokers=askable([broker.live()])) as server,
            connected(server) as patient,
            connected(server) as client,
        ):
            broker.is_mute = True
            patient.send(DescribeCluster(None), 4)
            while not broker.connections:
                await asyncio.sleep(0.01)
            async with asyncio.timeout(3):
                await client.ask(ListReassignments(None))

    asyncio.run(story())


def test_metadata_that_is_relayed_counts_with_what_is_read_ahead_of_its_answer() -> None:
    async def story() -> None:
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live()])) as server,
            connected(server) as client,
        ):
            broker.is_mute = True
            client.send(DescribeCluster(None), 4)
            while not broker.connections:
                await asyncio.sleep(0.01)
            assert server._service.pools._relayed.taken_bytes >= MOST_READ_AHEAD_BYTES

    asyncio.run(story())


def test_metadata_is_offered_as_every_broker_answers_it_while_none_can_be_asked() -> None:
    async def story() -> None:
        async with serving(brokers=askable([])) as server, connected(server) as client:
            assert (await client.ask(ApiVersionsRequest())).ranges[ApiKey.METADATA] == VersionRange(0, 9)

    asyncio.run(story())


@pytest.mark.parametrize("introduces_itself", [True, False])
def test_a_registered_address_that_is_our_own_is_never_relayed_to_over_and_over(introduces_itself: bool) -> None:
    async def story() -> None:
        live: list[LiveBroker] = []
        async with serving(brokers=askable(live)) as server:
            live.append(LiveBroker(BrokerId(7), (Endpoint("OUTSIDE", "127.0.0.1", server.ports["OUTSIDE"]),)))
            async with connected(server) as client:
                if introduces_itself:
                    await client.ask(ApiVersionsRequest())
                client.send(DescribeCluster(None), 4)
                assert await client.is_hung_up_on()
            assert entered == 2

    entered = 0

    class Counted(ConnectionQuotas):
        def enter(self, connection: OpenConnection) -> OpenConnection | None:
            nonlocal entered
            entered += 1
            return super().enter(connection)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("controller.server.service.ConnectionQuotas", Counted)
        asyncio.run(story())


def test_a_mute_broker_delays_a_client_that_asks_at_once_by_seconds_and_others_not_at_all() -> None:
    async def story() -> None:
        async with brokers(1) as (broker,):
            broker.is_mute = True
            async with serving(brokers=askable([broker.live()], timeout_s=30.0)) as server:
                loop = asyncio.get_running_loop()
                took = []
                for _ in range(2):
                    async with connected(server) as client:
                        began = loop.time()
                        client.send(DescribeCluster(None), 4)
                        assert await client.is_hung_up_on()
                        took.append(loop.time() - began)
                assert took[0] < 5
                assert took[1] < 0.9

    asyncio.run(story())


def request(key: int, version: int, body: bytes, *, is_flexible: bool) -> bytes:
    return struct.pack(">hhih", key, version, 5, -1) + (b"\0" if is_flexible else b"") + body


def parsed(module: Any, entity: str, answer: bytes) -> Any:
    kind = getattr(module, entity)
    header = 5 if kind.__flexible__ else 4
    assert struct.unpack_from(">i", answer) == (5,)
    read, size = entity_reader(kind)(answer, header)
    assert header + size == len(answer)
    return read


@pytest.mark.parametrize(
    ("key", "version", "module", "entity"),
    [
        (16, 0, kio.schema.list_groups.v0.response, "ListGroupsResponse"),
        (16, 4, kio.schema.list_groups.v4.response, "ListGroupsResponse"),
        (35, 1, kio.schema.describe_log_dirs.v1.response, "DescribeLogDirsResponse"),
        (35, 4, kio.schema.describe_log_dirs.v4.response, "DescribeLogDirsResponse"),
        (66, 0, kio.schema.list_transactions.v0.response, "ListTransactionsResponse"),
    ],
)
def test_this_node_has_no_groups_no_logs_and_no_transactions(key: int, version: int, module: Any, entity: str) -> None:
    async def story() -> None:
        async with serving() as server, connected(server) as client:
            answer = await client.ask_raw(request(key, version, b"not even read", is_flexible=False))
            read = parsed(module, entity, answer)
            assert getattr(read, "error_code", 0) == 0
            assert not getattr(read, "groups", ())
            assert not getattr(read, "transaction_states", ())
            for log_dir in getattr(read, "results", ()):
                assert log_dir.error_code == 0
                assert not log_dir.topics
            assert len(getattr(read, "results", "1")) == 1  # none at all would mean: not authorized

    asyncio.run(story())


CLEARED_OLD = b"\0\0\0\1" + b"\4" + b"\0\4" + b"1000" + b"\0\0\0\1" + b"\0\1k" + b"\1" + b"\xff\xff" + b"\0"
CLEARED_NEW = b"\2" + b"\4" + b"\5" + b"1000" + b"\2" + b"\2k" + b"\1" + b"\0" + b"\0" + b"\0" + b"\0" + b"\0"
REPLACED_NEW = b"\2" + b"\4" + b"\5" + b"1000" + b"\2" + b"\2k" + b"\2v" + b"\0" + b"\0" + b"\0" + b"\0"
DESCRIBED_OLD = b"\0\0\0\1" + b"\4" + b"\0\4" + b"1000" + b"\xff\xff\xff\xff" + b"\0"
DESCRIBED_NEW = b"\2" + b"\4" + b"\5" + b"1000" + b"\0" + b"\0" + b"\0\0" + b"\0"


@pytest.mark.parametrize(
    ("key", "version", "body", "module", "entity"),
    [
        (
            44,
            0,
            CLEARED_OLD,
            kio.schema.incremental_alter_configs.v0.response,
            "IncrementalAlterConfigsResponse",
        ),
        (
            44,
            1,
            CLEARED_NEW,
            kio.schema.incremental_alter_configs.v1.response,
            "IncrementalAlterConfigsResponse",
        ),
        (33, 2, REPLACED_NEW, kio.schema.alter_configs.v2.response, "AlterConfigsResponse"),
        (32, 1, DESCRIBED_OLD, kio.schema.describe_configs.v1.response, "DescribeConfigsResponse"),
        (32, 4, DESCRIBED_NEW, kio.schema.describe_configs.v4.response, "DescribeConfigsResponse"),
    ],
)
def test_the_own_nodes_configuration_is_answered_here_even_when_brokers_are_there(
    key: int, version: int, body: bytes, module: Any, entity: str
) -> None:
    async def story() -> None:
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live()])) as server,
            connected(server) as client,
        ):
            is_flexible = getattr(module, entity).__flexible__
            answer = await client.ask_raw(request(key, version, body, is_flexible=is_flexible))
            read = parsed(module, entity, answer)
            (result,) = getattr(read, "responses", ()) or read.results
            assert (result.error_code, result.resource_type, result.resource_name) == (0, 4, "1000")
            assert broker.connections == 0

    asyncio.run(story())


def test_another_resources_configuration_is_relayed() -> None:
    async def story() -> None:
        async with (
            brokers(1) as (broker,),
            serving(brokers=askable([broker.live()])) as server,
            connected(server) as client,
        ):
            sent = request(44, 0, CLEARED_OLD.replace(b"1000", b"0007"), is_flexible=False)
            assert (await client.ask_raw(sent))[8:] == sent
            assert broker.connections == 1

    asyncio.run(story())


def test_long_answers_of_brokers_wait_until_others_have_been_taken() -> None:
    async def story() -> None:
        limits = Limits(queued_bytes=1_000_000, request_s=1.0)
        async with (
            brokers(1) as (broker,),
            serving(limits, brokers=askable([broker.live()])) as server,
            connected(server) as mute,
            connected(server) as client,
        ):
            broker.more = bytes(8_000_000)
            pool = server._service.pools.responses
            mute.reader._transport.pause_reading()  # type: ignore[attr-defined] # asyncio has no public way
            mute.writer.write(framed(find_coordinator(1)))
            while not pool.taken_bytes:
                await asyncio.sleep(0.01)
            client.writer.write(framed(find_coordinator(2)))
            size = struct.unpack(">i", await client.reader.readexactly(4))[0]
            assert pool.taken_bytes < 9_000_000
            assert len(await client.reader.readexactly(size)) > 8_000_000
            broker.more = b""
            assert await asked(client, 3) == 1
            assert pool.taken_bytes == 0

    asyncio.run(story())

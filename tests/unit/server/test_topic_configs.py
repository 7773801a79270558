"""Answers to CreateTopics are completed from a live broker, and never wait long for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from controller.core.messages.commands import LiveBroker
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import BrokerConfig, ConfigSource, TopicConfig, TopicCreated, TopicsCreated
from controller.core.messages.requests import CreateTopics, NewTopic
from controller.core.topics.effective_configs import ASKED, SYNONYMS
from controller.lab.listening import MessageServer
from controller.lab.ports import free_port
from controller.lab.wire.configs_broker_side import Question
from controller.server.relay import Brokers
from controller.server.topic_configs import completed
from controller.wire.apis import ApiKey, VersionRange
from controller.wire.replies import encode_api_versions
from controller.wire.requests import ApiVersionsRequest, decode_header
from tests.unit.server.clients import Desk, connected, serving
from tests.unit.server.test_relay import askable
from zk_layout.ids import BrokerId, TopicName
from zk_layout.znodes.brokers import Endpoint

TOPIC = TopicName("new")
ASK = CreateTopics((NewTopic(TOPIC, 1, 1),), 100)
OWN = TopicConfig("retention.ms", "5")
CREATED = TopicsCreated((TopicCreated(TOPIC, partition_count=1, replication_factor=1, configs=(OWN,)),))
RANGES: dict[int, VersionRange] = {
    ApiKey.LEADER_AND_ISR: VersionRange(0, 4),
    ApiKey.DESCRIBE_CONFIGS: VersionRange(0, 4),
}
SAID = {
    "log.retention.ms": BrokerConfig("7", ConfigSource.STATIC_BROKER),
    "min.insync.replicas": BrokerConfig("2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
}
COMPLETE = (TopicConfig("min.insync.replicas", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER), OWN)


class Broker:
    """Reports what it was given; nothing while it does not answer."""

    def __init__(self, configs: Mapping[str, BrokerConfig] | None = None) -> None:
        self.configs = configs
        self.is_mute = False
        self.asked: list[str] = []
        self.server = MessageServer(self._serve)

    def live(self) -> LiveBroker:
        return LiveBroker(BrokerId(1), (Endpoint("OUTSIDE", "127.0.0.1", self.server.port),))

    async def _serve(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        header = decode_header(frame)
        if self.is_mute:
            return
        if header.api_key == ApiKey.API_VERSIONS:
            writer.write(encode_api_versions(header, RANGES))
            return
        question = Question(frame)
        self.asked.append(question.resource_name)
        refused = question.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        writer.write(question.answer(self.configs) if self.configs is not None else refused)


@contextlib.asynccontextmanager
async def running(broker: Broker) -> AsyncIterator[None]:
    await broker.server.start()
    try:
        yield
    finally:
        await broker.server.stop()


async def created(
    brokers: Brokers | None, version: int = 7, reply: TopicsCreated = CREATED, inter_broker_listener: str | None = None
) -> TopicCreated:
    """The client's answer."""
    desk = Desk()
    serves = serving(brokers=brokers, inter_broker_listener=inter_broker_listener)
    async with serves as server, connected(server) as client:
        server.begin_term(desk)
        if inter_broker_listener is not None:
            await client.ask(ApiVersionsRequest())  # for which a broker is asked on the client's listener
        header = client.send(ASK, version)
        (asked,) = await desk.until(1)
        desk.answer(server, asked, reply)
        answer = await client.receive(header)
    assert isinstance(answer, TopicsCreated)
    return answer.results[0]


def test_a_broker_is_asked_on_the_listener_between_brokers_whatever_the_clients_is() -> None:
    """The clients' listener may need a login that this process lacks, or has wrong; the brokers' one is tried first."""

    async def story() -> None:
        broker, closed_port = Broker(SAID), free_port()
        async with running(broker):
            inside = Endpoint("INSIDE", "127.0.0.1", broker.server.port)
            live = LiveBroker(BrokerId(1), (Endpoint("OUTSIDE", "127.0.0.1", closed_port), inside))
            result = await created(askable([live]), inter_broker_listener="INSIDE")

        assert (result.error, result.configs) == (ErrorCode.NONE, COMPLETE)

    asyncio.run(story())


def test_what_its_creator_did_not_set_is_reported_by_a_broker() -> None:
    async def story() -> None:
        broker = Broker(SAID)
        async with running(broker):
            result = await created(askable([broker.live()]))

        assert (result.error, result.configs) == (ErrorCode.NONE, COMPLETE)
        assert broker.asked == ["1"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("version", "reply"),
    [(4, CREATED), (7, TopicsCreated((TopicCreated(TOPIC, ErrorCode.TOPIC_ALREADY_EXISTS),)))],
    ids=["not asked for", "nothing created"],
)
def test_no_broker_is_asked_in_vain(version: int, reply: TopicsCreated) -> None:
    async def story() -> None:
        broker = Broker(SAID)
        async with running(broker):
            await created(askable([broker.live()]), version, reply)

        assert broker.asked == []

    asyncio.run(story())


def test_a_hundred_answers_at_once_cost_one_question() -> None:
    async def story() -> None:
        broker, desk = Broker(SAID), Desk()
        async with (
            running(broker),
            serving(brokers=askable([broker.live()])) as server,
            contextlib.AsyncExitStack() as stack,
        ):
            server.begin_term(desk)
            clients = [await stack.enter_async_context(connected(server)) for _ in range(100)]
            headers = [client.send(ASK, 7) for client in clients]
            for asked in list(await desk.until(100)):
                desk.answer(server, asked, CREATED)
            for client, header in zip(clients, headers, strict=True):
                answer = await client.receive(header)
                assert isinstance(answer, TopicsCreated)
                assert answer.results[0].configs == COMPLETE

        assert broker.asked == ["1"]

    asyncio.run(story())


@pytest.mark.parametrize("is_mute", [True, False], ids=["mute", "unwilling"])
def test_a_topic_is_reported_created_without_its_settings_where_no_broker_says_them(is_mute: bool) -> None:
    async def story() -> None:
        broker = Broker()
        broker.is_mute = is_mute
        async with running(broker):
            loop = asyncio.get_running_loop()
            began = loop.time()
            result = await created(askable([broker.live()]))

            assert loop.time() - began < 3.0
        assert (result.error, result.partition_count, result.configs) == (ErrorCode.NONE, 1, None)
        assert result.configs_error is ErrorCode.BROKER_NOT_AVAILABLE

    with capture_logs() as logs:
        asyncio.run(story())

    (line,) = [line for line in logs if line["log_level"] == "warning"]
    assert line["event"] == "no broker reports the default settings of a new topic"
    assert ("no answer" if is_mute else "CLUSTER_AUTHORIZATION_FAILED") in line["reason"]


def test_without_brokers_to_ask_a_topic_is_reported_without_its_settings() -> None:
    async def story() -> None:
        result = await created(None)

        assert (result.error, result.configs) == (ErrorCode.NONE, None)

    asyncio.run(story())


def test_topics_with_the_same_settings_share_them() -> None:
    reply = TopicsCreated(tuple(structs.replace(CREATED.results[0], topic=TopicName(f"t{i}")) for i in range(10_000)))
    broker = {name: BrokerConfig("1", ConfigSource.DEFAULT) for name in ASKED}

    full = completed(reply, broker)

    assert len({id(result.configs) for result in full.results}) == 1
    assert len(full.results[0].configs or ()) > len(SYNONYMS)


def test_who_has_to_wait_hears_so_with_the_settings() -> None:
    throttled = structs.replace(CREATED, throttle_ms=700)

    assert completed(throttled, {}).throttle_ms == completed(throttled, None).throttle_ms == 700

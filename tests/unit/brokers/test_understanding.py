"""A controller that the brokers would not understand finds it out before it claims anything."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from controller.brokers.dialing import PlaintextDialer
from controller.brokers.understanding import Understanding
from controller.lab.listening import MessageServer
from controller.wire.replies import encode_api_versions
from controller.wire.requests import decode_header
from controller.wire.versions import ApiKey, VersionRange, parse_protocol
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint, Registration

KAFKA_2_4 = {ApiKey.LEADER_AND_ISR: 4, ApiKey.STOP_REPLICA: 2, ApiKey.UPDATE_METADATA: 6}
KAFKA_3_9 = {ApiKey.LEADER_AND_ISR: 7, ApiKey.STOP_REPLICA: 4, ApiKey.UPDATE_METADATA: 8}


class Broker:
    """Answers ApiVersions, and counts how often it was asked."""

    def __init__(self, newest: Mapping[ApiKey, int]) -> None:
        self.asked = 0
        self._ranges: dict[int, VersionRange] = {api: VersionRange(0, version) for api, version in newest.items()}

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Registration]:
        server = MessageServer(self._serve)
        await server.start()
        yield Registration((Endpoint("PLAINTEXT", "127.0.0.1", server.port),))
        await server.stop()

    async def _serve(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        writer.write(encode_api_versions(decode_header(frame), self._ranges))


def complaint(protocol: str, *brokers: Broker, times: int = 1, dead: Registration | None = None) -> str | None:
    """What is found, after asking so often, of brokers 1, 2 ..., and of broker 9 which is dead."""

    async def look() -> str | None:
        async with contextlib.AsyncExitStack() as stack:
            registered = {
                BrokerId(number): await stack.enter_async_context(b.listening()) for number, b in enumerate(brokers, 1)
            }
            if dead is not None:
                registered[BrokerId(9)] = dead

            async def registrations() -> Mapping[BrokerId, Registration]:
                return registered

            understanding = Understanding(parse_protocol(protocol), "PLAINTEXT", PlaintextDialer())
            found = [await understanding.complaint(registrations) for _ in range(times)]
            return found[-1]

    return asyncio.run(look())


def test_a_broker_that_is_too_old_is_named_with_what_it_understands() -> None:
    reason = complaint("3.9", Broker(KAFKA_3_9), Broker(KAFKA_2_4))

    assert reason == (
        "broker 2 understands LEADER_AND_ISR 0 to 4, and inter.broker.protocol.version=3.9-IV0 means 7; "
        "the newest it understands is 2.5"
    )


def test_newer_brokers_understand_an_older_controller_and_are_asked_once() -> None:
    broker = Broker(KAFKA_3_9)

    assert complaint("2.4", broker, times=3) is None
    assert broker.asked == 1


def test_brokers_that_complain_are_asked_again() -> None:
    broker = Broker(KAFKA_2_4)

    assert complaint("2.8", broker, times=3) is not None
    assert broker.asked == 3


def test_a_broker_that_cannot_be_reached_has_no_say() -> None:
    nobody = Registration((Endpoint("PLAINTEXT", "127.0.0.1", 1),))

    assert complaint("3.9", dead=nobody) is None
    assert complaint("3.9", Broker(KAFKA_2_4), dead=nobody) is not None


def test_a_broker_without_the_listener_and_a_cluster_without_brokers_have_no_say() -> None:
    assert complaint("3.9") is None
    assert complaint("3.9", dead=Registration((Endpoint("OTHER", "127.0.0.1", 1),))) is None

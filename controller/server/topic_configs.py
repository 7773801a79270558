"""What settings does a new topic have that nobody gave it? Those that a live broker uses.

Source: KIP-525; Kafka's ZkAdminManager.maybePopulateMetadataAndConfigs, where the controller is a broker and knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog
from msgspec import structs

from controller.connections.broker import Broken, BrokerConnection
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import BrokerConfig, TopicConfig, TopicCreated, TopicsCreated
from controller.core.topics.effective_configs import ASKED, effective
from controller.server.relay import Brokers, NobodyToAsk
from controller.server.repeated_lines import RepeatedLines
from controller.wire.broker_configs import Refused, decode_answer, encode_question
from controller.wire.cursor import Malformed

WITHIN_S = 1.0
KNOWN_FOR_S = 1.0
_log = structlog.get_logger(__name__)

BrokerConfigs = Mapping[str, BrokerConfig]


class TopicConfigs:
    """Asks one live broker what it uses for topics; what it says is believed for a second.

    Topics are there whether a broker answers or not: an answer to CreateTopics waits a few seconds at most, and says
    without a broker that the settings are missing.
    """

    def __init__(self, brokers: Brokers | None) -> None:
        self._brokers = brokers
        self._asking = asyncio.Lock()
        self._known: dict[str, tuple[BrokerConfigs | None, float]] = {}
        self._repeated = RepeatedLines()

    async def of_a_broker(self, listener: str) -> BrokerConfigs | None:
        """What a broker that can be reached on this listener uses; None where nobody says."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            configs, until = self._known.get(listener, (None, 0.0))
            if now >= until:
                configs = await self._ask(listener)
                self._known[listener] = (configs, asyncio.get_running_loop().time() + KNOWN_FOR_S)
        return configs

    async def _ask(self, listener: str) -> BrokerConfigs | None:
        if self._brokers is None:
            return None
        try:
            return await _described(self._brokers, listener)
        except (NobodyToAsk, Broken, Malformed, Refused) as error:
            unsaid = self._repeated.say(listener, asyncio.get_running_loop().time())
            if unsaid is not None:
                more = {"unsaid": unsaid} if unsaid else {}
                _log.warning("no broker says what a new topic's settings are by default", reason=str(error), **more)
            return None


async def _described(brokers: Brokers, listener: str) -> BrokerConfigs:
    broker, endpoint = await brokers.choose(listener)
    connection = BrokerConnection(brokers.dialer, endpoint)
    try:
        await brokers.introduce(broker, connection)
        question = encode_question(broker.broker, ASKED, connection.next_correlation_id())
        return decode_answer(await connection.ask(question, timeout_s=WITHIN_S))
    except Broken:
        brokers.lost(broker, listener)  # the next answer need not wait for it
        raise
    finally:
        connection.drop()


def is_to_be_completed(reply: TopicsCreated) -> bool:
    """Whether any topic was, or could be, created."""
    return any(result.configs is not None for result in reply.results)


def completed(reply: TopicsCreated, broker: BrokerConfigs | None) -> TopicsCreated:
    """The answer with all settings of each topic that was, or could be, created."""
    made: dict[tuple[TopicConfig, ...], tuple[TopicConfig, ...]] = {}

    def complete(result: TopicCreated) -> TopicCreated:
        own = result.configs
        if own is None:
            return result
        if broker is None:
            return structs.replace(result, configs=None, configs_error=ErrorCode.BROKER_NOT_AVAILABLE)
        if own not in made:
            made[own] = effective({config.name: config.value or "" for config in own}, broker)
        return structs.replace(result, configs=made[own])

    return structs.replace(reply, results=tuple(map(complete, reply.results)))

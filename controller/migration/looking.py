"""What does ZooKeeper say of a cluster that may migrate, and what do its brokers? Writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from controller.connections.broker import Broken, BrokerConnection, Dialer
from controller.core.state.cluster import ClusterState
from controller.following.facts import Facts
from controller.migration.on_brokers import KEYS
from controller.migration.on_brokers import PROTOCOL as PROTOCOL_KEY
from controller.migration.sightings import BrokerAnswer, Seen
from controller.wire import broker_configs, log_dirs
from controller.wire.apis import ApiKey, VersionRange
from controller.wire.cursor import Malformed as Garbled
from controller.wire.versions import parse_reported
from controller.zk.answers import Refused
from controller.zk.bridge import Bridge
from zk_layout import catalog
from zk_layout.catalog import Address
from zk_layout.codec import Malformed, Undecodable
from zk_layout.ids import BrokerId, ControllerEpoch
from zk_layout.watched import watched
from zk_layout.znodes import configs, delegation_tokens, replicas
from zk_layout.znodes.brokers import Endpoint, Registration
from zk_layout.znodes.configs import Config, TopicConfigAddress
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim, ControllerEpochAddress
from zk_layout.znodes.migration import Migration, MigrationAddress
from zk_layout.znodes.scram import MECHANISMS

ANSWER_WITHIN_S = 5.0
AT_ONCE = 64
_NEWEST_LOG_DIRS = 3

ChoosesEndpoint = Callable[[Registration], Endpoint | None]


class Look:
    """One look at a cluster."""

    def __init__(self, bridge: Bridge, dialer: Dialer, endpoint_of: ChoosesEndpoint) -> None:
        """`dialer` connects to the endpoint of each broker that `endpoint_of` chooses; None where there is none."""
        self._bridge = bridge
        self._dialer = dialer
        self._endpoint_of = endpoint_of
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._unreadable: dict[str, str] = {}

    async def see(self, quorum: Collection[int] = ()) -> Seen:
        """Read everything, and ask every broker. `quorum` are ids of KRaft controllers that an operator names.

        Raises:
            SessionEnded: the session has ended.
            Refused: ZooKeeper does not let us list brokers or topics.
        """
        facts = Facts(self._bridge, watched(follows_reassignments=True))
        try:
            await facts.load()
        finally:
            facts.reader.stop()
        holder, epoch, progress = await asyncio.gather(
            self._value(ControllerAddress()), self._value(ControllerEpochAddress()), self._value(MigrationAddress())
        )
        assert holder is None or isinstance(holder, ControllerClaim | Malformed)
        assert progress is None or isinstance(progress, Migration | Malformed)
        seen = Seen(facts.state, holder, ControllerEpoch(epoch) if isinstance(epoch, int) else None, progress)
        seen.quorum = frozenset(quorum)
        seen.running = await self._running()
        await self._read_configs(seen)
        seen.answers = await self._ask_brokers(facts.state, seen.brokers)
        seen.unreadable = self._unreadable
        return seen

    # ---- ZooKeeper ------------------------------------------------------------------------------------------

    async def _value(self, address: Address) -> object:
        """The value of a znode, or what is wrong with it; None if it is absent."""
        try:
            node, _ = await self._bridge.get(address.path)
        except Refused as error:
            return Malformed(str(error), 0)
        return None if node is None else catalog.decode(address, node.data)

    async def _read_configs(self, seen: Seen) -> None:
        names = sorted(seen.state.topics.views)
        users, brokers = await asyncio.gather(self._children(configs.USERS), self._children(configs.BROKERS))
        of_topics, of_users, of_brokers, tokens = await asyncio.gather(
            asyncio.gather(*(self._config(TopicConfigAddress(name).path) for name in names)),
            asyncio.gather(*(self._config(f"{configs.USERS}/{user}") for user in users)),
            asyncio.gather(*(self._config(f"{configs.BROKERS}/{broker}") for broker in brokers)),
            self._children(delegation_tokens.ROOT),
        )
        mechanisms = {mechanism.name for mechanism in MECHANISMS.values()}
        seen.topic_configs = {name: held for name, held in zip(names, of_topics, strict=True) if held.config}
        seen.broker_configs = dict(zip(brokers, of_brokers, strict=True))
        seen.users = tuple(u for u, held in zip(users, of_users, strict=True) if mechanisms & held.config.keys())
        seen.tokens = tokens

    async def _config(self, path: str) -> Config:
        """Settings made at run time; none where they cannot be read, which is noted."""
        async with self._slots:
            try:
                node, _ = await self._bridge.get(path)
                return Config({}) if node is None else configs.decode(node.data)
            except (Refused, Undecodable) as error:
                self._unreadable[path] = str(error)
                return Config({})

    async def _children(self, path: str) -> tuple[str, ...]:
        try:
            names, _ = await self._bridge.children(path)
        except Refused as error:
            self._unreadable[path] = str(error)
            return ()
        return tuple(sorted(names or ()))

    async def _running(self) -> frozenset[BrokerId] | None:
        """The replicas of this controller that say that they run; None if ZooKeeper does not let us see."""
        try:
            names, _ = await self._bridge.children(replicas.ROOT)
        except Refused:
            return None
        return frozenset(BrokerId(int(name)) for name in names or () if name.isdecimal())

    # ---- brokers --------------------------------------------------------------------------------------------

    async def _ask_brokers(self, state: ClusterState, brokers: Collection[BrokerId]) -> dict[BrokerId, BrokerAnswer]:
        asked = (self._ask(broker, self._endpoint_of(state.brokers[broker].registration)) for broker in brokers)
        return dict(zip(brokers, await asyncio.gather(*asked), strict=True))

    async def _ask(self, broker: BrokerId, endpoint: Endpoint | None) -> BrokerAnswer:
        if endpoint is None:
            return BrokerAnswer("it has no listener that this command can use")
        async with self._slots:
            connection = BrokerConnection(self._dialer, endpoint)
            try:
                ranges = await connection.versions(ANSWER_WITHIN_S)
                settings = await _settings_of(broker, connection)
                directories = await _directories_of(connection, ranges)
            except (Broken, Garbled, broker_configs.Refused) as error:
                return BrokerAnswer(str(error))
            finally:
                connection.drop()
        return BrokerAnswer("", settings, parse_reported(settings.get(PROTOCOL_KEY, "")), directories)


async def _settings_of(broker: BrokerId, connection: BrokerConnection) -> dict[str, str]:
    """Its effective settings; a setting without a value is empty."""
    question = broker_configs.encode_question(broker, KEYS, connection.next_correlation_id())
    found = broker_configs.decode_answer(await connection.ask(question, timeout_s=ANSWER_WITHIN_S))
    return {key: config.value or "" for key, config in found.items() if key in KEYS}


async def _directories_of(connection: BrokerConnection, ranges: Mapping[int, VersionRange]) -> dict[str, str] | None:
    """Its log directories with their errors; None if it does not report them."""
    offered = ranges.get(ApiKey.DESCRIBE_LOG_DIRS)
    if offered is None:
        return None
    version = min(_NEWEST_LOG_DIRS, offered.highest)
    request = log_dirs.encode_describe((), version, connection.next_correlation_id(), "kafka-zk-controller")
    answer = await connection.ask(*request.chunks, timeout_s=ANSWER_WITHIN_S)
    try:
        found = log_dirs.decode_directories(answer, version)
    except log_dirs.Refused:
        return None
    return {path: "" if not error else error.name for path, error in found.items()} or None

"""How does a controller see many brokers without many Java processes? Each as a socket, a znode, and a pure model."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from kazoo.client import KazooClient
from msgspec import Struct

from controller.brokers.dialing import PlaintextDialer
from controller.connections.broker import Broken, BrokerConnection
from controller.core.messages.commands import Command, LeaderAndIsr, StopReplica, UpdateMetadata
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Directory, ReplicaSize
from controller.core.messages.replies import BrokerConfig, ConfigSource, IsrResult, PartitionsAltered
from controller.core.messages.requests import AlterPartition, IsrProposal
from controller.lab.broker_model import KAFKA_3_9, BrokerModel, Disk, Traits
from controller.lab.listening import MessageServer
from controller.lab.wire.configs_broker_side import Question
from controller.lab.wire.log_dirs_broker_side import decode_describe, encode_described
from controller.lab.wire.to_controller import decode_reply, encode_request
from controller.wire.apis import ApiKey, VersionRange
from controller.wire.broker_side import ReceivedCommand, decode_command, encode_acknowledgement
from controller.wire.cursor import Malformed
from controller.wire.frames import RequestHeader
from controller.wire.replies import encode_api_versions
from controller.wire.requests import decode_header
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, PartitionId, TopicId, TopicName, TopicPartition
from zk_layout.znodes import brokers as registrations
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration

_RANGES: dict[int, VersionRange] = {
    ApiKey.LEADER_AND_ISR: VersionRange(0, 7),
    ApiKey.STOP_REPLICA: VersionRange(0, 4),
    ApiKey.UPDATE_METADATA: VersionRange(0, 8),
    ApiKey.API_VERSIONS: VersionRange(0, 4),
    ApiKey.DESCRIBE_LOG_DIRS: VersionRange(0, 4),
    ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 1),
}
CONFIGS: Mapping[str, BrokerConfig] = MappingProxyType(
    {
        name: BrokerConfig(value, ConfigSource.DEFAULT)
        for name, value in {
            "authorizer.class.name": "",
            "log.cleanup.policy": "delete",
            "log.retention.hours": "168",
            "log.retention.minutes": None,
            "log.retention.ms": None,
            "log.segment.bytes": "1073741824",
            "message.max.bytes": "1048588",
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "false",
        }.items()
    }
)
"""A few of a broker's settings, as on a 3.9 broker with defaults."""
_RETRY_S = 0.05
_ANSWER_WITHIN_S = 30.0
# A command that is not decoded is answered as if empty: an answer that lists no partition refuses none.
_UNREAD_SENDER = (BrokerId(-1), ControllerEpoch(0), BrokerEpoch(-1))
_UNREAD: dict[ApiKey, Command] = {
    ApiKey.LEADER_AND_ISR: LeaderAndIsr((), (), ()),
    ApiKey.UPDATE_METADATA: UpdateMetadata((), ()),
    ApiKey.STOP_REPLICA: StopReplica(()),
}


class SimulatedSettings(Struct, frozen=True):
    """What distinguishes one simulated broker from another.

    Units:
        `replication_delay_s`: how long after a command all followers on live brokers have caught up.
        `partition_bytes`: the size it reports for every replica that leads, or has had that long to grow.

    Shape:
        With `counts_only` commands are not even decoded: they are counted and acknowledged, and the broker makes no
        requests. `disk` is its only log directory; it knows DescribeLogDirs up to version `describe_log_dirs`, and
        hangs up on later ones, as brokers do. Ten such brokers with 100,000 partitions cost next to nothing. `port` 0
        takes a free one.
    """

    broker: BrokerId
    listener: str = "PLAINTEXT"
    port: int = 0
    rack: str | None = None
    traits: Traits = KAFKA_3_9
    replication_delay_s: float = 0.0
    partition_bytes: int = 0
    disk: Directory = Directory("/simulated", -1, -1)
    describe_log_dirs: int = 4
    counts_only: bool = False


class Seen:
    """The commands a broker has received, and when.

    Units:
        Times are those of the event loop, in seconds, at the arrival of a command's last byte.
    """

    def __init__(self) -> None:
        self.commands: Counter[ApiKey] = Counter()
        self.size_bytes: Counter[ApiKey] = Counter()
        self.first_at: dict[ApiKey, float] = {}
        self.last_at: dict[ApiKey, float] = {}
        self.isr_changes_asked = 0
        self.isr_changes_granted = 0

    def command(self, key: ApiKey, size_bytes: int, at: float) -> None:
        """Count one more command."""
        self.commands[key] += 1
        self.size_bytes[key] += size_bytes
        self.first_at.setdefault(key, at)
        self.last_at[key] = at


class SimulatedBroker:
    """One broker: listens on 127.0.0.1, registers in ZooKeeper, obeys, and asks for ISR changes as a leader does.

    It has no data: its followers are in sync as soon as they are alive and the delay has passed. Its leader changes an
    ISR with AlterPartition only, so its traits must be those of a broker from 2.7 on.
    """

    def __init__(self, settings: SimulatedSettings, zookeeper: KazooClient | None, disk: Disk | None = None) -> None:
        """`zookeeper` is a started client, which brokers may share; without one the broker is not registered and its
        broker epoch is not checked. Listens only after `start`.

        Raises:
            ValueError: its traits are those of a broker that writes state znodes itself.
        """
        if not settings.traits.uses_alter_partition and not settings.counts_only:
            raise ValueError("a simulated broker does not write state znodes; choose traits with AlterPartition")
        self.settings = settings
        self.model = BrokerModel(settings.broker, settings.traits, disk)
        self.seen = Seen()
        self._zookeeper = zookeeper
        self._server = MessageServer(self._serve, settings.port)
        self._brokers: dict[BrokerId, Endpoint] = {}
        self._names: dict[TopicId, TopicName] = {}
        self._changes: dict[TopicPartition, IsrProposal] = {}
        self._held_since: dict[TopicPartition, float] = {}
        self._stirred = asyncio.Event()
        self._catch_up: asyncio.TimerHandle | None = None
        self._proposing: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port, once it listens."""
        return self._server.port

    @property
    def registration(self) -> Registration:
        """Its registration in ZooKeeper."""
        return Registration((Endpoint(self.settings.listener, "127.0.0.1", self.port),), self.settings.rack)

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The czxid of its registration; -1 without one."""
        return self.model.broker_epoch

    async def start(self) -> None:
        """Listen, then register.

        Raises:
            NodeExistsError: another broker of this id is registered.
        """
        await self._server.start()
        self._proposing = asyncio.get_running_loop().create_task(self._propose_all())
        if self._zookeeper is not None:
            self.model.broker_epoch = await asyncio.to_thread(self._register, self._zookeeper)

    async def stop(self) -> None:
        """Vanish: the registration first, then every connection."""
        if self._zookeeper is not None and self.model.broker_epoch >= 0:
            await asyncio.to_thread(self._unregister, self._zookeeper)
        if self._catch_up is not None:
            self._catch_up.cancel()
        if self._proposing is not None:
            self._proposing.cancel()
            await asyncio.wait([self._proposing])
        await self._server.stop()

    def _register(self, zookeeper: KazooClient) -> BrokerEpoch:
        _, stat = zookeeper.create(
            BrokerAddress(self.settings.broker).path,
            registrations.encode(self.registration),
            ephemeral=True,
            makepath=True,
            include_data=True,
        )
        return BrokerEpoch(stat.czxid)

    def _unregister(self, zookeeper: KazooClient) -> None:
        zookeeper.delete(BrokerAddress(self.settings.broker).path)

    # -- commands it receives --

    async def _serve(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(self._answer(frame))

    def _answer(self, frame: bytes) -> bytes:
        header = decode_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            return encode_api_versions(header, _RANGES | {ApiKey.DESCRIBE_LOG_DIRS: self._describable})
        if header.api_key == ApiKey.DESCRIBE_LOG_DIRS:
            return self._describe(frame)
        if header.api_key == ApiKey.DESCRIBE_CONFIGS:
            return Question(frame).answer(CONFIGS)
        key = ApiKey(header.api_key)
        self.seen.command(key, len(frame), asyncio.get_running_loop().time())
        if self.settings.counts_only:
            return encode_acknowledgement(ReceivedCommand(header, *_UNREAD_SENDER, _UNREAD[key]))
        received = decode_command(frame)
        acknowledgement = self.model.receive(
            received.command, received.controller, received.controller_epoch, received.broker_epoch, self._now()
        )
        if acknowledgement.error is ErrorCode.NONE:
            self._obeyed(received)
        return encode_acknowledgement(received, acknowledgement.error, acknowledgement.errors)

    @property
    def _describable(self) -> VersionRange:
        return VersionRange(0, self.settings.describe_log_dirs)

    def _describe(self, frame: bytes) -> bytes:
        """The sizes of its replicas, as far as a broker without data has any."""
        header, asked = decode_describe(frame)
        if header.api_version not in self._describable:
            raise Malformed(f"DescribeLogDirs {header.api_version} is not known")
        hosted = self.model.hosted()
        sizes = {at: ReplicaSize(self._size_of(at)) for at in (hosted if asked is None else asked) if at in hosted}
        return encode_described(header, self.settings.disk, sizes)

    def _size_of(self, at: TopicPartition) -> int:
        delay_s = self.settings.replication_delay_s
        if self.model.leads(at) or not delay_s:
            return self.settings.partition_bytes
        held_s = self._now() - self._held_since.get(at, self._now())
        return round(self.settings.partition_bytes * min(1.0, held_s / delay_s))

    def _obeyed(self, received: ReceivedCommand) -> None:
        command = received.command
        if isinstance(command, UpdateMetadata):
            self._brokers = {
                broker.broker: endpoint
                for broker in command.brokers
                for endpoint in broker.endpoints
                if endpoint.listener == self.settings.listener
            }
        elif isinstance(command, LeaderAndIsr):
            views = (*command.partitions, *command.new)
            for view in views:
                self._held_since.setdefault(TopicPartition(view.topic, view.partition), self._now())
            self._names.update({view.topic_id: view.topic for view in views if view.topic_id is not None})
        else:
            return
        if self._catch_up is None:
            loop = asyncio.get_running_loop()
            self._catch_up = loop.call_later(self.settings.replication_delay_s, self._followers_caught_up)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # -- requests it makes --

    def _followers_caught_up(self) -> None:
        self._catch_up = None
        self.model.assume_followers_in_sync(self._now())
        for proposal in self.model.proposals(self._now()):
            self._changes[self._subject(proposal)] = proposal
        if self._changes:
            self._stirred.set()

    def _subject(self, proposal: IsrProposal) -> TopicPartition:
        name = proposal.topic.name
        if name is None:
            assert proposal.topic.topic_id is not None
            name = self._names[proposal.topic.topic_id]
        return TopicPartition(name, proposal.partition)

    async def _propose_all(self) -> None:
        connection: BrokerConnection | None = None
        endpoint: Endpoint | None = None
        try:
            while True:
                await self._stirred.wait()
                self._stirred.clear()
                target = self._brokers.get(self.model.controller) if self.model.controller is not None else None
                if connection is None or target != endpoint:
                    if connection is not None:
                        connection.retire()
                    endpoint = target
                    connection = None if target is None else BrokerConnection(PlaintextDialer(), target)
                if connection is None or not await self._propose(connection):
                    await asyncio.sleep(_RETRY_S)
                if self._changes:
                    self._stirred.set()
        finally:
            if connection is not None:
                connection.retire()

    async def _propose(self, connection: BrokerConnection) -> bool:
        """Ask for the ISR changes wanted; True if the controller settled them all."""
        by_id = {tp: proposal for tp, proposal in self._changes.items() if proposal.topic.topic_id is not None}
        by_name = {tp: proposal for tp, proposal in self._changes.items() if proposal.topic.topic_id is None}
        for changes, version in ((by_id, 3), (by_name, 0)):
            if changes and not await self._ask(connection, changes, version):
                return False
        return True

    async def _ask(
        self, connection: BrokerConnection, changes: dict[TopicPartition, IsrProposal], version: int
    ) -> bool:
        correlation_id = connection.next_correlation_id()
        header = RequestHeader(ApiKey.ALTER_PARTITION, version, correlation_id, f"broker-{self.settings.broker}")
        proposals = tuple(
            sorted(changes.values(), key=lambda proposal: (proposal.topic.topic_id or "", proposal.topic.name or ""))
        )
        request = AlterPartition(self.settings.broker, self.broker_epoch, proposals, names_topics_by_id=version >= 2)
        self.seen.isr_changes_asked += len(proposals)
        try:
            frame = await connection.ask(encode_request(header, request), timeout_s=_ANSWER_WITHIN_S)
            reply = decode_reply(header, frame)
        except (Broken, Malformed):
            connection.drop()
            return False
        assert isinstance(reply, PartitionsAltered)
        if reply.error is not ErrorCode.NONE:
            connection.drop()  # look for the controller again, as brokers do
            return False
        return self._settle(reply.results, changes)

    def _settle(self, results: Sequence[IsrResult], changes: dict[TopicPartition, IsrProposal]) -> bool:
        """True if nothing has to be asked again."""
        is_done = True
        for result in results:
            name = result.topic if result.topic_id is None else self._names.get(result.topic_id)
            subject = TopicPartition(name or TopicName(""), PartitionId(result.partition))
            proposal = changes.get(subject)
            if proposal is None:
                continue
            self.seen.isr_changes_granted += result.error is ErrorCode.NONE
            state = result.leader_epoch, result.isr, result.partition_epoch
            if self.model.settle(subject, proposal, result.error, *state):
                is_done = False
            elif self._changes.get(subject) is proposal:
                del self._changes[subject]
        return is_done

"""A simulated ZooKeeper with brokers that answer in memory, as a cluster before, in and after a migration to KRaft."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from math import inf
from typing import Any

from controller.core.messages.errors import ErrorCode
from controller.lab.wire.log_dirs_broker_side import decode_describe
from controller.migration.findings import Finding, Result, Trap
from controller.migration.judging import judge
from controller.migration.looking import Look
from controller.migration.sightings import Seen
from controller.wire.apis import ApiKey, VersionRange
from controller.wire.frames import encode_response_header, framed
from controller.wire.replies import encode_api_versions
from controller.wire.requests import decode_header
from controller.wire.schema import encode_entity, response_schema
from tests.simulation.zookeeper import MakeNode, RemoveNode
from tests.unit.preflight.world import Answering, encode_described
from tests.unit.zk.simulated import EPOCH, Ensemble, Process
from zk_layout import catalog
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, TopicId, TopicName
from zk_layout.znodes import brokers
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim
from zk_layout.znodes.migration import Migration, MigrationAddress
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

FILE = {
    "zookeeper.metadata.migration.enable": "false",
    "controller.quorum.voters": "",
    "broker.id.generation.enable": "true",
    "reserved.broker.max.id": "1000",
    "control.plane.listener.name": "",
    "authorizer.class.name": "",
    "log.message.format.version": "3.0-IV1",
}
ORDERS = TopicName("orders")
NEWEST = {ApiKey.DESCRIBE_CONFIGS: 4, ApiKey.DESCRIBE_LOG_DIRS: 4}


class Broker:
    """What it has in its file, and its log directories; `is_mute` answers nothing."""

    def __init__(
        self,
        *,
        protocol: str | None = "3.9-IV0",
        is_mute: bool = False,
        directories: Mapping[str, ErrorCode] | None = None,
        refuses_directories: bool = False,
        **file: str,
    ) -> None:
        self.protocol, self.is_mute = protocol, is_mute
        self.directories = {"/data": ErrorCode.NONE} if directories is None else directories
        self.refuses_directories = refuses_directories
        self.file = {**FILE, **{key.replace("_", "."): value for key, value in file.items()}}

    def answer(self, frame: bytes) -> bytes | None:
        """Answer one request."""
        header = decode_header(frame)
        if self.is_mute:
            return None
        if header.api_key == ApiKey.API_VERSIONS:
            return encode_api_versions(header, {api: VersionRange(0, version) for api, version in NEWEST.items()})
        if header.api_key == ApiKey.DESCRIBE_CONFIGS:
            return encode_described(header, self.protocol, self.file)
        header, asked = decode_describe(frame)
        assert asked == ()
        schema = response_schema(ApiKey.DESCRIBE_LOG_DIRS, header.api_version)
        results = tuple(
            schema.make("DescribeLogDirsResult", error_code=error, log_dir=path, topics=())
            for path, error in self.directories.items()
        )
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if self.refuses_directories else ErrorCode.NONE
        entity = schema.make("DescribeLogDirsResponse", error_code=error, results=() if error else results)
        return framed(encode_response_header(header), encode_entity(entity))


class World:
    """Brokers 1, 2 and 3, led by broker 1, with one topic: ready to migrate."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        self._answering: dict[str, Broker] = {}
        for number in (1, 2, 3):
            self.starts(number, Broker())
        self.write(EPOCH, b"7")
        self.has(ControllerAddress(), ControllerClaim(BrokerId(1)))
        self.write("/latest_producer_id_block", b'{"version":1,"broker":2,"block_start":"1000","block_end":"1999"}')
        self.creates(ORDERS, {0: (1, 2), 1: (2, 3)})

    # the cluster

    def starts(self, number: int, broker: Broker, *, is_ours: bool = False) -> World:
        """A broker is registered; one of the same id is replaced."""
        endpoint = Endpoint("PLAINTEXT", f"broker-{number}", 9092)
        broker.file.setdefault("broker.id", str(number))
        self._answering[endpoint.host] = broker
        self.write(BrokerAddress(BrokerId(number)).path, brokers.encode(Registration((endpoint,), is_ours=is_ours)))
        return self

    def all_have(self, **file: Any) -> World:
        """Every broker has this in its file."""
        for number in (1, 2, 3):
            self.starts(number, Broker(**file))
        return self

    def stops(self, *numbers: int) -> World:
        """Registrations go."""
        for number in numbers:
            self.ensemble.write(RemoveNode(BrokerAddress(BrokerId(number)).path))
        return self

    def creates(self, name: TopicName, assignments: Mapping[int, tuple[int, ...]], *, has_id: bool = True) -> World:
        """A topic whose replicas are all in sync."""
        given = {PartitionId(n): Assignment(tuple(map(BrokerId, some))) for n, some in assignments.items()}
        self.has(TopicAddress(name), Topic(given, TopicId(f"id-of-{name}".ljust(22, "_")) if has_id else None))
        for number, assignment in given.items():
            self.is_led(name, number, assignment.replicas[0], *assignment.replicas)
        return self

    def is_led(self, name: TopicName, number: int, leader: int, *isr: int, epoch: int = 5) -> World:
        """A partition's state; `epoch` is the controller's."""
        state = PartitionState(BrokerId(leader), LeaderEpoch(3), ControllerEpoch(epoch), tuple(map(BrokerId, isr)))
        return self.has(StateAddress(name, PartitionId(number)), state)

    def is_led_by_kraft(self, epoch: int = 5) -> World:
        """Dual write."""
        self.has(ControllerAddress(), ControllerClaim(BrokerId(3000), kraft_epoch=epoch))
        return self.has(MigrationAddress(), Migration(3000, epoch, 812, epoch))

    def has(self, address: Any, value: Any) -> World:
        """A znode has this value."""
        return self.write(address.path, catalog.encode(value))

    def write(self, path: str, data: bytes) -> World:
        """Another client writes a znode, and creates its parents."""
        zookeeper = self.ensemble.zookeeper
        zookeeper.make_path(path.rpartition("/")[0])
        if path in zookeeper.nodes:
            zookeeper.nodes[path].data = data
        else:
            self.ensemble.write(MakeNode(path, data))
        return self

    # the check

    def look(self, *quorum: int) -> Seen:
        """Everything that is seen; nothing was written."""
        before = {path: (node.data, node.version) for path, node in self.ensemble.zookeeper.nodes.items()}
        process, dialer = Process(self.ensemble), Dialer(self._answering)
        seen = process.do(Look(process.bridge, dialer, lambda registered: registered.endpoints[0]).see(quorum))
        process.end()
        after = {path: (node.data, node.version) for path, node in self.ensemble.zookeeper.nodes.items()}
        assert before == after
        return seen

    def findings(self, trap: Trap | None = None, *quorum: int) -> list[Finding]:
        """What is found, of one question or of all, apart from what is in order."""
        found = [f for f in judge(self.look(*quorum)) if f.result is not Result.OK]
        return [f for f in found if trap is None or f.trap is trap]


class Dialer:
    """Connections in memory."""

    def __init__(self, answering: Mapping[str, Broker]) -> None:
        self._answering = answering

    async def open_connection(self, endpoint: Endpoint) -> Any:
        """Connect."""
        reader = asyncio.StreamReader()
        return reader, Answering(reader, self._answering[endpoint.host].answer)

    def lasts_s(self, _: object) -> float:
        """For ever."""
        return inf


def ready() -> World:
    """A cluster in which only the ids of its quorum had to be set."""
    return World().all_have(controller_quorum_voters="3000@k1:9093")

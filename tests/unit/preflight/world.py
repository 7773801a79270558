"""A simulated ZooKeeper, brokers that answer in memory, and a process that checks them before it claims."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, TypeVar

from controller.core.candidacy.events import Event, Unsound, Watching
from controller.core.messages.errors import ErrorCode
from controller.preflight.findings import Verdict
from controller.preflight.looking import Preflight
from controller.process.claimant import Claimant
from controller.process.preflight import wanted_of
from controller.settings import load
from controller.settings.zookeeper import ZooKeeperSettings
from controller.wire.apis import ApiKey, VersionRange
from controller.wire.frames import FrameBuffer, RequestHeader, encode_response_header, framed
from controller.wire.packing import LEGACY
from controller.wire.replies import encode_api_versions
from controller.wire.requests import decode_header
from controller.wire.versions import parse_wanted
from controller.zk.bridge import Bridge
from tests.simulation.kazoo_client import kazoo_client
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Line
from tests.simulation.zookeeper import MakeNode, RemoveNode
from tests.simulation.zookeeper_server import ServerConnection
from tests.unit.zk.simulated import Ensemble
from zk_layout import catalog
from zk_layout.ids import BrokerId
from zk_layout.znodes import brokers
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration

KAFKA_2_4 = {ApiKey.LEADER_AND_ISR: 4, ApiKey.STOP_REPLICA: 2, ApiKey.UPDATE_METADATA: 6, ApiKey.DESCRIBE_CONFIGS: 2}
KAFKA_3_9 = {ApiKey.LEADER_AND_ISR: 7, ApiKey.STOP_REPLICA: 4, ApiKey.UPDATE_METADATA: 8, ApiKey.DESCRIBE_CONFIGS: 4}
CLUSTER_ID = b'{"version":"1","id":"abc"}'
OUR_ADDRESS = ("controller", 9095)
PORT = 9092

_Told = TypeVar("_Told", bound=Event)
Answer = Callable[[bytes], bytes | None]


class Broker:
    """Its reports about itself: no protocol means a refusal, and a busy broker reports no protocol."""

    def __init__(
        self,
        newest: Mapping[ApiKey, int] = KAFKA_3_9,
        protocol: str | None = "3.9-IV0",
        listener: str = "PLAINTEXT",
        *,
        is_mute: bool = False,
        authorizer: str = "",
        settings: Mapping[str, str] | None = None,
        rack: str | None = None,
        also: tuple[str, ...] = (),
    ) -> None:
        self.rack = rack
        self.also = also
        self.reported = {"authorizer.class.name": authorizer, **(settings or {})}
        self.ranges: dict[int, VersionRange] = {api: VersionRange(0, version) for api, version in newest.items()}
        self.protocol = protocol
        self.listener = listener
        self.is_mute = is_mute
        self.is_busy = False
        self.asked = 0

    def answer(self, frame: bytes) -> bytes | None:
        """Answer one request."""
        self.asked += 1
        header = decode_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            return encode_api_versions(header, self.ranges)
        return None if self.is_busy else encode_described(header, self.protocol, self.reported)


def encode_described(header: RequestHeader, protocol: str | None, reported: Mapping[str, str] | None = None) -> bytes:
    """An answer to DescribeConfigs v1 as brokers write it. A value that begins with `!` was set at run time for all
    brokers, with `!!` for this one, and would otherwise be `false`."""
    error = ErrorCode.NONE if protocol is not None else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    resource = struct.pack(">h", error) + LEGACY.nullable_string(None) + b"\4" + LEGACY.string("1")
    configs = struct.pack(">i", 0)
    if protocol is not None:
        all_of_it = {"inter.broker.protocol.version": protocol, **(reported or {})}
        configs = struct.pack(">i", len(all_of_it))
        for key, value in all_of_it.items():
            source = (b"\4", b"\3", b"\2")[len(value) - len(value.lstrip("!"))]
            written = LEGACY.string(key) + LEGACY.nullable_string(value.lstrip("!"))
            synonyms = [written + source]
            if source != b"\4":
                synonyms.append(LEGACY.string(key) + LEGACY.nullable_string("false") + b"\5")
            configs += written + b"\1" + source + b"\0" + struct.pack(">i", len(synonyms)) + b"".join(synonyms)
    return framed(encode_response_header(header), struct.pack(">ii", 0, 1), resource, configs)


class Answering:
    """The writing end of a connection in memory; every request is answered at once."""

    def __init__(self, reader: asyncio.StreamReader, answer: Answer) -> None:
        self._reader = reader
        self._answer = answer
        self._frames = FrameBuffer(1 << 20)
        self.transport = self

    def write(self, data: bytes) -> None:
        for frame in self._frames.feed(bytes(data)):
            answered = self._answer(frame)
            if answered is not None:
                self._reader.feed_data(answered)

    async def drain(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass


class World:
    """One process with these settings, and the brokers of its cluster."""

    def __init__(self, *settings: str, is_new_cluster: bool = False) -> None:
        self.ensemble = Ensemble()
        self.emitted: list[Event] = []
        self.verdicts: list[Verdict] = []
        self.brokers: dict[BrokerId, Broker] = {}
        self.is_reached = True
        self.bug: Exception | None = None
        self.now_ms = 0
        self._answering: dict[tuple[str, int], Broker] = {}
        self._expected: dict[str, bool] = {}
        self._loop = SimulatedLoop(self.ensemble.clock)  # type: ignore[abstract]  # it asks for no more
        self.settings = load(
            None,
            [
                "zookeeper.connect=simulated:2181",
                "broker.id=901",
                "listeners=PLAINTEXT://0.0.0.0:9095",
                f"advertised.listeners=PLAINTEXT://{OUR_ADDRESS[0]}:{OUR_ADDRESS[1]}",
                "inter.broker.protocol.version=3.9",
                *settings,
            ],
            {},
            {"inter.broker.protocol.version": parse_wanted},
        )
        self.wanted = wanted_of(self.settings, is_new_cluster=is_new_cluster)
        dialer: Any = self
        preflight = Preflight(
            self.wanted, self.settings.listening.advertised, dialer, self, wall_clock=lambda: self.now_ms / 1000
        )
        self._look = preflight.look
        self.claimant = Claimant(self.settings.claim, self, self.emitted.append, new_bridge=self._bridge)

    # the cluster

    def runs(self, *running: Broker) -> World:
        """Brokers 1, 2 ... register in a cluster that has an id."""
        self.write("/cluster/id", CLUSTER_ID)
        for broker in running:
            self.starts(broker)
        return self

    def starts(self, broker: Broker) -> BrokerId:
        """Start one more broker."""
        number = BrokerId(len(self.brokers) + 1)
        endpoint = Endpoint(broker.listener, f"broker-{number}", PORT, "PLAINTEXT")
        self.brokers[number] = broker
        self._answering[endpoint.host, PORT] = broker
        others = (Endpoint(name, f"broker-{number}", PORT + 1, "PLAINTEXT") for name in broker.also)
        self.write(BrokerAddress(number).path, brokers.encode(Registration((endpoint, *others), broker.rack)))
        return number

    def restarts(self, number: int, broker: Broker, *, after_s: float = 0.0) -> None:
        """Replace a broker by another, which registers later."""
        path = BrokerAddress(BrokerId(number)).path
        data = self.ensemble.zookeeper.nodes[path].data
        self.stops(number)
        self.goes_on(after_s)
        self.ensemble.write(MakeNode(path, data))
        self.brokers[BrokerId(number)] = self._answering[f"broker-{number}", PORT] = broker

    def stops(self, number: int) -> None:
        """Stop a broker."""
        self.ensemble.write(RemoveNode(BrokerAddress(BrokerId(number)).path))
        del self._answering[f"broker-{number}", PORT]

    def write(self, path: str, data: bytes) -> None:
        """Another client writes a znode, and creates its parents."""
        nodes = self.ensemble.zookeeper.nodes
        if parent := path.rpartition("/")[0]:
            self.ensemble.zookeeper.make_path(parent)
        if path in nodes:
            self.ensemble.write(RemoveNode(path))
        self.ensemble.write(MakeNode(path, data))

    def has(self, value: Any, address: Any) -> World:
        """A znode has this value."""
        self.write(address.path, catalog.encode(value))
        return self

    # the process

    def until(self, kind: type[_Told], after: int = 0) -> _Told:
        """Run the process until it emits an event of this kind; return that."""
        if not self._loop._tasks:
            self._loop.start(self.claimant.reach())

        def found() -> _Told | None:
            return next((event for event in self.emitted[after:] if isinstance(event, kind)), None)

        return self.ensemble.until(found)

    def refusal(self) -> str:
        """Why it does not claim; nothing was written."""
        before = dict(self.ensemble.zookeeper.nodes)
        event = self.until(Unsound)
        assert Watching() not in self.emitted
        assert dict(self.ensemble.zookeeper.nodes) == before
        return event.reason

    def passes(self) -> Verdict:
        """It may claim; return its findings."""
        self.until(Watching)
        assert not [event for event in self.emitted if isinstance(event, Unsound)]
        return self.verdicts[-1]

    def goes_on(self, for_s: float) -> None:
        """Let time pass."""
        clock = self.ensemble.clock
        until = clock.now + for_s
        clock.after(for_s, lambda: None)
        while clock.now < until and clock.step():
            pass

    def claims(self) -> Event:
        """The outcome of a claim."""
        task = self._loop.start(self.claimant.claim(replace=True))
        self.ensemble.until(task.done)
        result: Event = task.result()
        return result

    async def look(self, bridge: Bridge, clash: Any) -> Verdict:
        """As the daemon's, and recorded."""
        if self.bug is not None:
            raise self.bug
        verdict = await self._look(bridge, clash)
        self.verdicts.append(verdict)
        return verdict

    # what it touches

    def _bridge(self, settings: ZooKeeperSettings) -> Bridge:
        def dial(line: Line) -> ServerConnection:
            return ServerConnection(self.ensemble.zookeeper, line.answer, line.hang_up)

        return Bridge(settings, kazoo_client(settings, self.ensemble.network, self._loop, dial))

    async def open_connection(self, endpoint: Endpoint) -> Any:
        """Connect; a dialer's only duty."""
        address = endpoint.host, endpoint.port
        broker = self._answering.get(address)
        is_us = address == OUR_ADDRESS and self.is_reached
        if (broker is None or broker.is_mute) and not is_us:
            raise ConnectionRefusedError(f"connection refused at {endpoint.host}:{endpoint.port}")
        reader = asyncio.StreamReader(loop=self._loop)
        return reader, Answering(reader, self._greeted if is_us or broker is None else broker.answer)

    def lasts_s(self, _: Any) -> float:
        return inf

    def _greeted(self, frame: bytes) -> bytes:
        header = decode_header(frame)
        if header.client_id in self._expected:
            self._expected[header.client_id] = True
        return encode_api_versions(header, {})

    def expect(self, client_id: str) -> Callable[[], bool]:
        """As the listeners do."""
        self._expected[client_id] = False
        return lambda: self._expected.pop(client_id)

"""Which commands work alike on the broker model and on a real broker? Only this module knows their differences."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from controller.core.messages.commands import Command, LeaderAndIsr, LiveBroker, PartitionView, UpdateMetadata
from controller.core.messages.effects import Tell
from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import IsrResult, PartitionsAltered
from controller.core.messages.requests import AlterPartition, IsrProposal
from controller.lab.asking import connection_to
from controller.lab.broker_model import BrokerModel, Traits
from controller.lab.kafka_broker import KafkaBroker
from controller.lab.ports import free_port
from controller.lab.zookeeper import ZooKeeperServer
from controller.wire.commands import CommandEncoder
from controller.wire.frames import FrameBuffer
from controller.wire.replies import encode_api_versions, encode_reply
from controller.wire.requests import ApiVersionsRequest, decode_request
from controller.wire.versions import parse_protocol
from tests.chaos.proxy import Mode, Proxies
from zk_layout import catalog
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicPartition
from zk_layout.znodes.brokers import Endpoint
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.partition_state import PartitionState, StateAddress

BROKER = BrokerId(1)
CONTROLLER = BrokerId(100)
LAG_S = 0.6
PATIENCE_S = 20.0
SESSION_S = 4.0
MAX_FRAME = 1 << 20

# Answers to a proposal besides an error; the ISR in force has one broker more than the proposed one.
AS_IT_IS = "as it is"
HANDED_OVER = "handed over"  # granted, with another leader in the next leader epoch
LEFT_OUT = "left out"
_FOLLOWER = BrokerId(2)


class Backend(Protocol):
    """One broker with id 1, and this test as its controller with id 100."""

    broker_epoch: BrokerEpoch
    controller_endpoint: Endpoint

    def tell(
        self, command: Command, controller_epoch: int, broker_epoch: int
    ) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
        """Send a command; return the answer."""

    def hosts(self, at: TopicPartition) -> bool:
        """Whether this replica's log is on its disk."""

    def put_state(self, at: TopicPartition, state: PartitionState) -> None:
        """Write a partition's state znode, as a controller does before its command."""

    def wanted_isr(self, at: TopicPartition) -> tuple[BrokerId, ...]:
        """The ISR that it proposes as the leader: to the controller, or in the state znode."""

    def times_asked(self, at: TopicPartition, answer: ErrorCode | str, expected: int) -> int:
        """How often it proposes an ISR if each proposal gets this answer; counts on after the expected ones."""

    def times_asked_later(self, at: TopicPartition, then: PartitionView, answer: ErrorCode | str, expected: int) -> int:
        """How often it proposes in a new leader epoch, if the former proposal is answered only after that."""

    def fetches_from(self, at: TopicPartition, leader: FakeLeader) -> bool:
        """Whether it follows this leader."""

    def lose_session(self, command: Command, controller_epoch: int) -> None:
        """Send it a command while it is cut off from ZooKeeper and its session expires; it registers again."""

    def start_again(self) -> None:
        """End it and start it: what a lost session leaves behind concerns no other test."""

    def grant(self, at: TopicPartition) -> None:
        """Answer what it proposes from now on as it wishes, so that it asks no more."""


class FakeLeader:
    """A listener to which followers can connect."""

    def __init__(self, broker: BrokerId) -> None:
        self.broker = broker
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self.endpoint = Endpoint("PLAINTEXT", "127.0.0.1", self._listener.getsockname()[1])

    def was_called(self, within_s: float) -> bool:
        """Whether a follower connects, or has connected."""
        self._listener.settimeout(within_s)
        try:
            connection, _ = self._listener.accept()
        except TimeoutError:
            return False
        connection.close()
        return True

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()


class Modelled:
    """The broker model."""

    def __init__(self, traits: Traits) -> None:
        self.broker_epoch = BrokerEpoch(10)
        self.controller_endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9)
        self._model = BrokerModel(BROKER, traits)
        self._model.broker_epoch = self.broker_epoch
        self._now = 0.0

    def tell(
        self, command: Command, controller_epoch: int, broker_epoch: int
    ) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
        """Send a command; return the answer."""
        answer = self._model.receive(
            command, CONTROLLER, ControllerEpoch(controller_epoch), BrokerEpoch(broker_epoch), self._now
        )
        return answer.error, answer.errors

    def hosts(self, at: TopicPartition) -> bool:
        """Whether this replica's log is on its disk."""
        return at in self._model.hosted()

    def put_state(self, at: TopicPartition, state: PartitionState) -> None:
        """Nothing to write: the model has no ZooKeeper."""

    def wanted_isr(self, at: TopicPartition) -> tuple[BrokerId, ...]:
        """The ISR that it proposes as the leader."""
        self._now += 2 * self._model.traits.replica_lag_s
        return next(w for w in self._model.proposals(self._now) if w.topic.name == at.topic).isr

    def times_asked(self, at: TopicPartition, answer: ErrorCode | str, expected: int) -> int:
        """How often it proposes an ISR in five checks, if each proposal gets this answer."""
        asked, again = 0, list[IsrProposal]()
        for _ in range(5):
            self._now += 2 * self._model.traits.replica_lag_s
            all_wanted, again = [*again, *self._model.proposals(self._now)], []
            for wanted in all_wanted:
                if wanted.topic.name != at.topic:
                    continue
                asked += 1
                error = answer if isinstance(answer, ErrorCode) else ErrorCode.NONE
                isr = (*wanted.isr, _FOLLOWER) if answer == AS_IT_IS else wanted.isr
                epoch = LeaderEpoch(wanted.leader_epoch + (answer == HANDED_OVER))
                if answer == LEFT_OUT or self._model.settle(at, wanted, error, epoch, isr, wanted.partition_epoch):
                    again.append(wanted)
        return asked

    def times_asked_later(self, at: TopicPartition, then: PartitionView, answer: ErrorCode | str, expected: int) -> int:
        """How often it proposes in a new leader epoch, if the former proposal is answered only after that."""
        self._now += 2 * self._model.traits.replica_lag_s
        (former,) = [wanted for wanted in self._model.proposals(self._now) if wanted.topic.name == at.topic]
        self.tell(LeaderAndIsr((then,), (), ()), then.controller_epoch, self.broker_epoch)
        error = answer if isinstance(answer, ErrorCode) else ErrorCode.NONE
        self._model.settle(at, former, error, then.leader_epoch, then.isr, then.partition_epoch)
        return self.times_asked(at, answer, expected)

    def fetches_from(self, at: TopicPartition, leader: FakeLeader) -> bool:
        """Whether it follows this leader."""
        return at in self._model.replicas

    def lose_session(self, command: Command, controller_epoch: int) -> None:
        """Send it this command while it has no ZooKeeper."""
        self._model.has_zookeeper = False
        self.tell(command, controller_epoch, self.broker_epoch)
        self._model.has_zookeeper = True
        self.broker_epoch = self._model.broker_epoch = BrokerEpoch(self.broker_epoch + 5)

    def start_again(self) -> None:
        """Nothing is left behind."""

    def grant(self, at: TopicPartition) -> None:
        """It asks only when a test looks."""


class RealBroker:
    """A real broker, which gets commands over a socket."""

    def __init__(self, server: ZooKeeperServer, version: str, protocol: str, directory: Path) -> None:
        chroot = f"/{directory.name}"
        self._zookeeper = KazooClient(server.connect)
        self._zookeeper.start()
        self._zookeeper.ensure_path(chroot)
        self._zookeeper.chroot = chroot
        self._zookeeper.create("/controller", catalog.encode(ControllerClaim(CONTROLLER)), ephemeral=True)
        self._zookeeper.create("/controller_epoch", b"1")
        self._proxies = Proxies()
        self._link = self._proxies.link("ZooKeeper", server.port)
        self._broker = KafkaBroker(
            BROKER,
            version,
            f"127.0.0.1:{self._link.port}{chroot}",
            directory,
            overrides={
                "zookeeper.session.timeout.ms": int(SESSION_S * 1000),
                "inter.broker.protocol.version": protocol,
                "replica.lag.time.max.ms": int(LAG_S * 1000),
                "controlled.shutdown.enable": "false",
            },
        )
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self.controller_endpoint = Endpoint("PLAINTEXT", "127.0.0.1", self._listener.getsockname()[1])
        self.asked: list[AlterPartition] = []
        self.answers: dict[str, ErrorCode | str] = {}
        self._held_back: dict[str, threading.Event] = {}
        self._in_force: dict[str, PartitionView] = {}
        threading.Thread(target=self._listen, daemon=True).start()
        self._encoder = CommandEncoder(CONTROLLER, parse_protocol(protocol), "PLAINTEXT")
        self._writes_isr = not parse_protocol(protocol).leaders_use_alter_partition

    def start(self) -> None:
        """Start it, and connect to it."""
        self._broker.start()
        self.broker_epoch = self._registered()
        self._runner = asyncio.Runner()
        self._connection = connection_to(self._broker.address)

    def start_again(self) -> None:
        """End it and start it: what a lost session leaves behind concerns no other test."""
        self._disconnect()
        self._broker.stop()
        self.start()

    def _disconnect(self) -> None:
        with suppress(AttributeError):  # it may never have started
            self._connection.drop()
            self._runner.close()

    def _registered(self) -> BrokerEpoch:
        _, stat = self._zookeeper.get(f"/brokers/ids/{BROKER}")
        return BrokerEpoch(stat.czxid)

    def close(self) -> None:
        """End it."""
        self._disconnect()
        self._listener.close()
        self._broker.kill()
        self._proxies.stop()
        self._zookeeper.stop()
        self._zookeeper.close()

    def tell(
        self, command: Command, controller_epoch: int, broker_epoch: int
    ) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
        """Send a command; return the answer."""
        tell = Tell(BROKER, BrokerEpoch(broker_epoch), ControllerEpoch(controller_epoch), command)
        frames = [
            self._runner.run(self._connection.ask(*request.chunks, timeout_s=PATIENCE_S))
            for request in self._encoder.encode(tell, self._connection.next_correlation_id(2))
        ]
        answer = self._encoder.decode_acknowledgement(tell, *frames)
        return answer.error, dict(answer.errors)

    def hosts(self, at: TopicPartition) -> bool:
        """Whether this replica's log is on its disk and not being deleted."""
        return str(at) in self._broker.replicas

    def put_state(self, at: TopicPartition, state: PartitionState) -> None:
        """Write a partition's state znode."""
        path = StateAddress(at.topic, at.partition).path
        self._zookeeper.create(path, catalog.encode(state), makepath=True)

    def wanted_isr(self, at: TopicPartition) -> tuple[BrokerId, ...]:
        """The ISR that it proposes as the leader: by AlterPartition, or in the state znode."""
        address = StateAddress(at.topic, at.partition)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for request in list(self.asked):
                for proposal in request.proposals:
                    if proposal.topic.name == at.topic:
                        return proposal.isr
            if self._writes_isr:
                data, stat = self._zookeeper.get(address.path)
                state = catalog.decode(address, data)
                if stat.version and isinstance(state, PartitionState):
                    return state.isr
            time.sleep(0.05)
        raise AssertionError(f"broker {BROKER} never wanted another ISR for {at}\n{self._schedulers()}")

    def _schedulers(self) -> str:
        """What the threads do that look for followers to take out of the ISR."""
        self._broker.process.signal(signal.SIGQUIT)  # Java prints its threads
        time.sleep(1.0)
        threads = self._broker.process.output_since_start().decode(errors="replace").split("\n\n")
        return "\n".join(thread for thread in threads if thread.lstrip().startswith('"kafka-scheduler'))

    def times_asked(self, at: TopicPartition, answer: ErrorCode | str, expected: int) -> int:
        """How often it proposes an ISR, if each proposal gets this answer."""
        self.answers[at.topic] = answer
        return len(self._await_proposals(at, LeaderEpoch(0), expected))

    def _await_proposals(self, at: TopicPartition, since: LeaderEpoch, expected: int) -> list[IsrProposal]:
        """Those since this leader epoch: the expected ones, however busy the machine is, and what follows."""

        def proposals() -> list[IsrProposal]:
            found = [p for request in list(self.asked) for p in request.proposals if p.topic.name == at.topic]
            return [p for p in found if p.leader_epoch >= since]

        deadline = time.monotonic() + PATIENCE_S
        while len(proposals()) < expected and time.monotonic() < deadline:
            time.sleep(0.05)
        if len(proposals()) < expected:
            raise AssertionError(f"broker {BROKER} did not ask {expected} times for {at}\n{self._schedulers()}")
        time.sleep(6 * LAG_S)
        return proposals()

    def times_asked_later(self, at: TopicPartition, then: PartitionView, answer: ErrorCode | str, expected: int) -> int:
        """How often it asks in a new leader epoch, if the former proposal is answered only after that."""
        self.answers[at.topic], self._in_force[at.topic] = answer, then
        released = self._held_back[at.topic] = threading.Event()
        self.wanted_isr(at)
        self.tell(LeaderAndIsr((then,), (), ()), then.controller_epoch, self.broker_epoch)
        time.sleep(3 * LAG_S)
        released.set()
        return len(self._await_proposals(at, then.leader_epoch, expected))

    def fetches_from(self, at: TopicPartition, leader: FakeLeader) -> bool:
        """Whether it follows this leader."""
        return leader.was_called(within_s=3 * LAG_S)

    def lose_session(self, command: Command, controller_epoch: int) -> None:
        """Send it this command, which it answers only when it can reach ZooKeeper again."""
        former = self.broker_epoch
        self._proxies.become(self._link, Mode.CUT)
        mended = threading.Timer(SESSION_S + 2.0, self._proxies.become, (self._link, Mode.OPEN))
        mended.start()
        self.tell(command, controller_epoch, former)
        mended.join()
        deadline = time.monotonic() + PATIENCE_S
        while self.broker_epoch == former:
            if time.monotonic() > deadline:
                raise AssertionError(f"broker {BROKER} does not register again")
            time.sleep(0.1)
            with suppress(NoNodeError):
                self.broker_epoch = self._registered()
        itself = UpdateMetadata((), (LiveBroker(BROKER, (self.controller_endpoint,)),))
        while self.tell(itself, controller_epoch, self.broker_epoch)[0] is not ErrorCode.NONE:
            if time.monotonic() > deadline:
                raise AssertionError(f"broker {BROKER} does not note its new epoch")
            time.sleep(0.1)  # its registration is seen before it has noted the epoch of it (KAFKA-9839)

    def grant(self, at: TopicPartition) -> None:
        """Answer what it proposes from now on as it wishes, so that it asks no more."""
        self.answers.pop(at.topic, None)
        self._in_force.pop(at.topic, None)
        if released := self._held_back.pop(at.topic, None):
            released.set()

    # the controller's listener

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = FrameBuffer(MAX_FRAME)
        with connection, suppress(OSError):
            while data := connection.recv(65536):
                for frame in buffer.feed(data):
                    self._answer(connection, frame)

    def _answer(self, connection: socket.socket, frame: bytes) -> None:
        header, request = decode_request(frame)
        if isinstance(request, ApiVersionsRequest):
            connection.sendall(encode_api_versions(header))
        elif isinstance(request, AlterPartition):
            self.asked.append(request)
            for proposal in request.proposals:
                if released := self._held_back.get(proposal.topic.name or ""):
                    released.wait(PATIENCE_S)
            results = [self._result(proposal) for proposal in request.proposals]
            answered = tuple(result for result in results if result is not None)
            connection.sendall(encode_reply(header, PartitionsAltered(answered)))

    def _result(self, proposal: IsrProposal) -> IsrResult | None:
        answer = self.answers.get(proposal.topic.name or "", ErrorCode.NONE)
        if answer == LEFT_OUT:
            return None
        then = self._in_force.get(proposal.topic.name or "")
        if then is not None and answer == AS_IT_IS:
            return IsrResult(
                proposal.topic.name, None, proposal.partition, ErrorCode.NONE, BROKER, then.leader_epoch, then.isr, 0,
                then.partition_epoch,
            )  # fmt: skip
        is_as_before, is_handed_over = answer == AS_IT_IS, answer == HANDED_OVER
        return IsrResult(
            proposal.topic.name,
            proposal.topic.topic_id,
            proposal.partition,
            answer if isinstance(answer, ErrorCode) else ErrorCode.NONE,
            _FOLLOWER if is_handed_over else BROKER,
            LeaderEpoch(proposal.leader_epoch + is_handed_over),
            (*proposal.isr, _FOLLOWER) if is_as_before else proposal.isr,
            0,
            PartitionEpoch(proposal.partition_epoch + (0 if is_as_before else 1)),
        )


@contextmanager
def real_broker(server: ZooKeeperServer, version: str, protocol: str, directory: Path) -> Iterator[RealBroker]:
    """A running real broker of one version."""
    broker = RealBroker(server, version, protocol, directory)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()

"""Where scenarios are played: one ZooKeeper, one machine, brokers that obey at once, and no delays."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from controller.core.machine import Machine
from controller.core.messages import effects
from controller.core.messages.commands import Command, LeaderAndIsr, StopReplica
from controller.core.messages.effects import (
    Answer,
    Commit,
    Connect,
    Create,
    Delete,
    DescribeBrokerConfig,
    DescribeDisks,
    DescribeLogDirs,
    DescribeLogEnds,
    Disconnect,
    Drained,
    Effect,
    Notice,
    Read,
    ReadAgain,
    ReadChildren,
    Set,
    StepDown,
    Survey,
    Tell,
    Wake,
)
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import (
    Acknowledged,
    Alarm,
    Asked,
    BrokerConfigDescribed,
    CallId,
    Committed,
    Conflicted,
    Directory,
    DisksDescribed,
    Event,
    Fenced,
    LogDirsDescribed,
    LogEndsDescribed,
    QuotasRead,
    ReplicaSize,
    SettingsChanged,
    Unknown,
    Woke,
)
from controller.core.messages.requests import Caller, Request
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.transactions.sizes import RequestSizes
from tests.scenarios.writing import Telling, reply_lines, write_lines
from tests.simulation.clock import Clock
from tests.simulation.network import Network
from tests.simulation.reader import Reader
from tests.simulation.world import PATHS
from tests.simulation.zookeeper import CheckVersion, MakeNode, Operation, RemoveNode, SetData, ZooKeeper
from zk_layout import catalog
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, SessionId, TopicPartition
from zk_layout.watched import watched
from zk_layout.znodes.acls import AclOperation, ResourcePattern
from zk_layout.znodes.brokers import Endpoint, Registration
from zk_layout.znodes.configs import BrokerConfigAddress, Config
from zk_layout.znodes.features import FeatureAddress, Features
from zk_layout.znodes.producer_ids import ProducerIdBlockAddress
from zk_layout.znodes.quotas import QuotaEntity

OWN_ID = BrokerId(100)
EPOCH = "/controller_epoch"
FEATURE = FeatureAddress()
TURNS = 1000


class _AtOnce(Network):
    """A network without any delay."""

    def delay(self) -> float:
        """None."""
        return 0.0


def _operation_of(made: effects.Operation) -> Operation:
    """One write as ZooKeeper gets it."""
    write, data = made.write, made.data
    match write:
        case Create(address, _, is_sequential):
            return MakeNode(address.path, data, is_sequential=is_sequential)
        case Set(address, _, expected):
            return SetData(address.path, data, expected)
        case Delete(address, expected):
            return RemoveNode(address.path, expected)


class Theatre:
    """Everything a scenario's commands can touch; `output` is what they brought about."""

    def __init__(self) -> None:
        self.output: list[str] = []
        self.strangers: list[str] = []  # what the reader says of names that are none of Kafka's
        self.settings: dict[str, Any] = {}
        self.own_id = OWN_ID
        self.now = 0.0
        self.zookeeper = ZooKeeper(lambda *_: None, lambda *_: None)
        # A story says itself whether producer ids were ever given.
        for path in [path for path in PATHS if path != ProducerIdBlockAddress().path]:
            self.zookeeper.make_path(path)
        self.zookeeper.make_path(FEATURE.path)
        self.zookeeper.nodes[EPOCH].data = b"0"
        self.zookeeper.nodes[FEATURE.path].data = catalog.encode(Features(is_enabled=True))
        self.world = self.zookeeper.open_session()
        self.brokers: dict[BrokerId, SessionId] = {}
        self.forbidden: set[str] = set()
        self.caller = Caller("PLAINTEXT", "127.0.0.1")
        self.mute: dict[BrokerId, None] = {}
        self.refusals: dict[str, tuple[ErrorCode, TopicPartition | None]] = {}  # of a command, or of one partition
        self.known_epochs: dict[BrokerId, ControllerEpoch] = {}
        self.racks: dict[BrokerId, str] = {}
        self.without_log: dict[tuple[BrokerId, TopicPartition], LeaderEpoch] = {}
        self.trouble: deque[str] = deque()
        self.refused: set[str] = set()
        self.shown: dict[BrokerId, dict[str, str]] = {}
        self.sizes: dict[BrokerId, dict[TopicPartition, ReplicaSize]] = {}
        self.disks: dict[BrokerId, tuple[Directory, ...]] = {}
        self.ends: dict[BrokerId, dict[TopicPartition, int]] = {}
        self.bad_disks: dict[BrokerId, frozenset[TopicPartition]] = {}
        self.machine: Machine | None = None
        self.reader: Reader | None = None
        self._session = SessionId(0)
        self._events: deque[Event] = deque()
        self._held: deque[Event] = deque()
        self._unsent: deque[Commit] = deque()
        self._alarms: dict[Alarm, float] = {}
        self._asks = 0
        self._telling = Telling()
        self._clock = Clock()

    def say(self, line: str) -> None:
        """One line of output."""
        self.output.append(line)

    def _say_more(self, verb: str, broker: BrokerId) -> None:
        if self.output and self.output[-1].startswith(verb):
            self.output[-1] += f",{broker}"
        else:
            self.say(f"{verb}{broker}")

    # what commands do

    def write(self, *operations: Operation) -> None:
        """Someone else writes to ZooKeeper."""
        done = self.zookeeper.multi(self.world, operations)
        if done.errors:
            raise ValueError(f"a scenario's write failed: {operations} {done.errors}")
        self.run()

    def register(self, broker: BrokerId, *, is_ours: bool = False) -> None:
        """A broker's registration appears."""
        session = self.brokers[broker] = self.zookeeper.open_session()
        endpoints = (Endpoint("PLAINTEXT", f"host{broker}", 9092),)
        registration = Registration(endpoints, self.racks.get(broker), is_ours=is_ours)
        path = f"/brokers/ids/{broker}"
        self.zookeeper.multi(
            session, [MakeNode(path, b"", is_ephemeral=True), SetData(path, catalog.encode(registration), 0)]
        )

    def elect(self) -> None:
        """A new controller begins its term, whatever became of the one before."""
        if self.reader is not None:
            self.reader.close()
            self.zookeeper.close_session(self._session)
        self._events.clear()
        self._held.clear()
        self._alarms.clear()
        self._telling = Telling()
        network = _AtOnce(self._clock, Random(0))
        self.reader = Reader(
            self.zookeeper,
            network,
            self._events.append,
            notice=lambda notice: self.strangers.append(notice.text),
            what=watched(
                follows_reassignments=bool(self.settings.get("keeps_reassignment_znodes")), follows_rights=True
            ),
            wake_s=0.0,
        )
        self.reader.connect()
        self._settle()
        self._session = self.reader.session
        epoch = ControllerEpoch(int(self.zookeeper.nodes[EPOCH].data) + 1)
        self.zookeeper.multi(self._session, [SetData(EPOCH, str(epoch).encode())])
        self._fence = self.zookeeper.nodes[EPOCH].version
        own = catalog.encode(Registration((Endpoint("PLAINTEXT", "controller", 9092),), is_ours=True))
        self.zookeeper.multi(self._session, [MakeNode(f"/brokers/ids/{self.own_id}", own, is_ephemeral=True)])
        self.machine = Machine(self._machine_settings(), epoch, SeededRandom(str(epoch).encode()), self._is_allowed)
        self.say(f"controller epoch {epoch}")
        self.reader.load()
        self.run()

    def _machine_settings(self) -> MachineSettings:
        return MachineSettings(own_id=self.own_id, cluster_id="scenario", **self.settings)

    def adjust(self, changed: Mapping[str, Any]) -> None:
        """The operator changes settings while a term goes on."""
        self.settings.update(changed)
        self._events.append(SettingsChanged(self._machine_settings()))
        self.run()

    def _is_allowed(self, _caller: Caller, operation: AclOperation, resource: ResourcePattern) -> bool:
        return self.forbidden.isdisjoint((operation.value, f"{operation.value}:{resource.name}"))

    def ask(self, request: Request) -> None:
        """A request comes in."""
        self._asks += 1
        self._events.append(Asked(CallId(self._asks), request, self.caller))
        self.run()

    def limit(self, entity: QuotaEntity, rate: float | None) -> None:
        """Someone sets a quota, or takes it away, and it was read."""
        self._events.append(QuotasRead(((entity, rate),)))
        self.run()

    def reply(self) -> None:
        """What was held back arrives: a transaction at ZooKeeper, or its answer."""
        if self._unsent:
            self._write(self._unsent.popleft(), "")
        else:
            self._events.append(self._held.popleft())
        self.run()

    def wait(self, seconds: float) -> None:
        """Time goes by; alarms ring in their order."""
        end = self.now + seconds
        while True:
            due = sorted((at, repr(alarm), alarm) for alarm, at in self._alarms.items() if at <= end)
            if not due:
                break
            at, _, alarm = due[0]
            self.now = max(self.now, at)
            del self._alarms[alarm]
            self._events.append(Woke(alarm))
            self.run()
        self.now = end

    def epoch_of(self, broker: BrokerId) -> BrokerEpoch:
        """A registered broker's epoch."""
        return BrokerEpoch(self.zookeeper.nodes[f"/brokers/ids/{broker}"].czxid)

    # turns

    def _settle(self) -> None:
        """Let what is under way to and from ZooKeeper arrive."""
        while (at := self._clock.next_at()) is not None and at <= self._clock.now:
            self._clock.step()

    def run(self) -> None:
        """Turn after turn until nothing happens any more."""
        for _ in range(TURNS):
            self._settle()
            if self.machine is None:
                self._events.clear()
                return
            due = [alarm for alarm, at in self._alarms.items() if at <= self.now]
            for alarm in due:
                del self._alarms[alarm]
                self._events.append(Woke(alarm))
            if not self._events:
                return
            events = list(self._events)
            self._events.clear()
            self._carry_out(self._turn(self.machine, events))
        raise RuntimeError("the scenario does not come to rest")

    def _turn(self, machine: Machine, events: Sequence[Event]) -> Sequence[Effect]:
        return machine.turn(events, self.now)

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        tells = [e for e in effects if isinstance(e, Tell)]
        is_told = False
        for effect in effects:
            if self.machine is None:
                return
            if isinstance(effect, Tell):
                if not is_told:
                    self.output.extend(self._telling.lines(tells))
                    is_told = True
                self._obey(effect)
            else:
                self._carry_out_one(effect)

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case Commit():
                self._commit(effect)
            case Read(addresses, watch):
                assert self.reader is not None
                self.reader.read(addresses, watch)
                self._settle()
            case Survey(topic):
                assert self.reader is not None
                self.reader.survey(topic)
                self._settle()
            case Connect(broker, _, _):
                self._say_more("  connect ", broker)
            case Disconnect(broker):
                self._say_more("  disconnect ", broker)
            case Answer(_, reply):
                self.output.extend(reply_lines(reply))
            case Wake(alarm, at):
                self._alarms[alarm] = at
            case ReadChildren(parent):
                assert self.reader is not None
                self.reader.read_children(parent)
                self._settle()
            case DescribeLogDirs():
                self._describe(effect)
            case _:
                self._carry_out_rare(effect)

    def _carry_out_rare(self, effect: Effect) -> None:
        match effect:
            case Notice(kind, text):
                self.say(f"  notice ({kind}) {text}")
            case StepDown(reason):
                self.say(f"  step down: {reason}")
                self.machine = None
            case DescribeDisks():
                self._describe_disks(effect)
            case DescribeBrokerConfig():
                self._show(effect)
            case DescribeLogEnds():
                self._end(effect)
            case ReadAgain(paths):
                assert self.reader is not None
                self.reader.read_again(paths)
            case Drained():
                self.say("  drained")
                self.machine = None
            case _:
                pass

    def _obey(self, tell: Tell) -> None:
        if tell.broker in self.mute or tell.broker not in self.brokers:
            return
        refused, refused_at = self.refusals.pop(type(tell.command).__name__, (ErrorCode.NONE, None))
        if tell.controller_epoch < self.known_epochs.get(tell.broker, ControllerEpoch(0)):
            refused = ErrorCode.STALE_CONTROLLER_EPOCH
        if self._expects_a_log(tell):
            refused = ErrorCode.UNKNOWN_SERVER_ERROR
        bad = self.bad_disks.get(tell.broker, frozenset())
        errors = {at: ErrorCode.KAFKA_STORAGE_ERROR for at in _logs_touched(tell.command) if at in bad}
        if refused_at is not None:
            errors[refused_at], refused = refused, ErrorCode.NONE
        self._events.append(Acknowledged(tell.broker, tell.broker_epoch, tell.command, refused, errors))

    def _expects_a_log(self, tell: Tell) -> bool:
        """Whether the command gives a leader epoch that the broker noted without a log."""
        if not isinstance(tell.command, LeaderAndIsr):
            return False
        views = (*tell.command.partitions, *tell.command.new)
        given = {(tell.broker, TopicPartition(view.topic, view.partition)): view.leader_epoch for view in views}
        return any(given.get(replica) == epoch for replica, epoch in self.without_log.items())

    def _describe(self, asked: DescribeLogDirs) -> None:
        """Asked again and again: not printed. Who is mute says nothing, and the connection tells so."""
        held = self.sizes.get(asked.broker, {})
        sizes = {at: held[at] for at in asked.partitions if at in held}
        error = "no answer" if asked.broker in self.mute else None
        described = LogDirsDescribed(asked.broker, asked.broker_epoch, sizes, error, asked.is_of_waiting)
        self._events.append(described)

    def _describe_disks(self, asked: DescribeDisks) -> None:
        """As with sizes. A broker whose disks no command has described is an old one."""
        held = self.sizes.get(asked.broker, {})
        sizes = {at: held[at] for at in asked.partitions if at in held}
        error = None if asked.broker in self.disks else "it is too old"
        if asked.broker in self.mute:
            error = "no answer"
        directories = self.disks.get(asked.broker, ())
        said = (directories, sizes) if error is None else ((), {})
        self._events.append(DisksDescribed(asked.broker, asked.broker_epoch, *said, error))

    def _show(self, asked: DescribeBrokerConfig) -> None:
        """As with sizes. A broker has taken in at once what is written, unless it shows something else."""
        node = self.zookeeper.nodes.get(BrokerConfigAddress(asked.broker).path)
        config = None if node is None else catalog.decode(BrokerConfigAddress(asked.broker), node.data)
        written = config.config if isinstance(config, Config) else {}
        shown = self.shown.get(asked.broker, {key: written[key] for key in asked.keys if key in written})
        error = "no answer" if asked.broker in self.mute else None
        self._events.append(BrokerConfigDescribed(asked.broker, asked.broker_epoch, {} if error else shown, error))

    def _end(self, asked: DescribeLogEnds) -> None:
        """As with sizes."""
        held = self.ends.get(asked.broker, {})
        ends = {at: held[at] for at in asked.partitions if at in held}
        error = "no answer" if asked.broker in self.mute else None
        self._events.append(LogEndsDescribed(asked.broker, asked.broker_epoch, {} if error else ends, error))

    def _commit(self, commit: Commit) -> None:
        self.say(f"commit #{commit.commit}  {commit.why[0] if commit.why else ''}".rstrip())
        for why in commit.why[1:]:
            self.say(f"          {why}")
        for write in commit.writes:
            node = self.zookeeper.nodes.get(write.address.path)
            before = None if node is None else catalog.decode(write.address, node.data)
            self.output.extend(write_lines(write, before))
        trouble = self.trouble.popleft() if self.trouble else ""
        if trouble == "hold-request":
            self.say(f"unanswered #{commit.commit}")
            self._unsent.append(commit)
            return
        self._write(commit, trouble)

    def _write(self, commit: Commit, trouble: str) -> None:
        kind, _, path = trouble.partition(" ")
        sizes = RequestSizes(self.zookeeper.frame_limit)
        is_too_large = sum(map(sizes.write_bytes, commit.operations)) > sizes.room_bytes
        if kind == "lose-request" or is_too_large:
            self.say(f"unknown #{commit.commit}")
            self._events.append(Unknown(commit.commit))
            return
        if kind == "conflict":
            self.zookeeper.multi(self.world, [SetData(path, self.zookeeper.nodes[path].data)])
        forbidden = next((w.address for w in commit.writes if w.address.path in self.refused), None)
        if forbidden is not None:
            self.say(f"refused #{commit.commit}  no permission to write {forbidden.path}")
            self.zookeeper.multi(self._session, [CheckVersion("/absent", 0)])  # it takes a zxid
            self._events.append(Conflicted(commit.commit, forbidden, "no permission"))
            return
        operations = list(map(_operation_of, commit.operations))
        done = self.zookeeper.multi(self._session, [CheckVersion(EPOCH, self._fence), *operations])
        if kind == "remove-at-once" and done.failed_at is None:
            self.zookeeper.multi(self.world, [RemoveNode(path)])
        failed_at = done.failed_at
        if failed_at == 0:
            self.say(f"fenced #{commit.commit}")
            self._events.append(Fenced(commit.commit))
        elif failed_at is not None:
            address = commit.writes[failed_at - 1].address
            self.say(f"conflicted #{commit.commit}  {done.errors[failed_at]} {address.path}")
            self._events.append(Conflicted(commit.commit, address, str(done.errors[failed_at])))
        elif kind == "lose-reply":
            self.say(f"unknown #{commit.commit}  (it was written)")
            self._events.append(Unknown(commit.commit))
        elif kind == "hold-reply":
            self.say(f"unanswered #{commit.commit}  (it was written)")
            self._held.append(Committed(commit.commit, done.zxid))
        elif kind == "crash":
            self.say(f"committed #{commit.commit}, and the controller crashes")
            self.machine = None
        else:
            self.say(f"committed #{commit.commit}")
            self._events.append(Committed(commit.commit, done.zxid))


def _logs_touched(command: Command) -> list[TopicPartition]:
    """The partitions whose logs a broker opens or deletes for a command."""
    match command:
        case LeaderAndIsr(existing, new, _):
            return [TopicPartition(view.topic, view.partition) for view in (*existing, *new)]
        case StopReplica(stops):
            return [TopicPartition(stop.topic, stop.partition) for stop in stops if stop.is_deletion]
        case _:
            return []

"""How long does a turn of the machine take under load? Facts, requests and answers without any server.

ZooKeeper is a test double that accepts every transaction, brokers accept every command, and time passes
only when a storm lets it. Measured is a turn's cost for the event loop: the machine, and the metrics after it.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from controller.core.clients.authorization import Authorizer
from controller.core.machine import Machine
from controller.core.messages.commands import UpdateMetadata
from controller.core.messages.effects import (
    Answer,
    Commit,
    Create,
    Delete,
    DescribeLogDirs,
    Effect,
    Read,
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
    CallId,
    Committed,
    Event,
    Loaded,
    LogDirsDescribed,
    Observed,
    ReplicaSize,
    Surveyed,
    Woke,
)
from controller.core.messages.replies import Reply
from controller.core.messages.requests import (
    AlterPartition,
    AlterReassignments,
    Caller,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    ListReassignments,
    Request,
)
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings, TurnBudget
from controller.monitoring.monitoring import Turns
from controller.runtime.journal import Journal
from controller.runtime.pump import MOST_EVENTS_A_TURN, NO_TIME
from controller.settings.zookeeper import ZooKeeperSettings
from controller.wire.apis import ApiKey
from controller.wire.commands import CommandEncoder
from controller.wire.frames import RequestHeader
from controller.wire.replies import encode_reply
from controller.wire.versions import parse_protocol
from controller.zk.acls import acl_of
from controller.zk.writer import Writer
from metrics.recorder import Recorder
from tests.benchmarks.filling import Shape
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionId,
    Replicas,
    TopicId,
    TopicName,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

OWN = BrokerId(900)
FACTS_AN_EVENT = 2_000  # about the reader's batch size
EPOCH = ControllerEpoch(7)
CLIENT = Caller("CONTROLLER", "127.0.0.1")
FIGURES_EVERY_TURNS = 20
KEYS: dict[type[Request], tuple[ApiKey, int]] = {
    AlterPartition: (ApiKey.ALTER_PARTITION, 3),
    AlterReassignments: (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0),
    CreatePartitions: (ApiKey.CREATE_PARTITIONS, 3),
    CreateTopics: (ApiKey.CREATE_TOPICS, 7),
    DeleteTopics: (ApiKey.DELETE_TOPICS, 6),
    ElectLeaders: (ApiKey.ELECT_LEADERS, 2),
    ListReassignments: (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0),
}
_PAGE_MIB = 4096 / 1024**2


class Storm(Struct):
    """The cost of one storm.

    Shape:
        Besides the turns: the other blocking steps for a turn (encoding its transactions,
        a line of the journal), for a broker (a command), for a client (an answer), and every second (the gauges).

    Units:
        Seconds of wall clock for `longest_s` and `total_s`, else of processor time; MiB.
    """

    name: str
    turns: int = 0
    longest_s: float = 0.0
    longest_cpu_s: float = 0.0
    total_s: float = 0.0
    writing_longest_s: float = 0.0
    journal_longest_s: float = 0.0
    figures_longest_s: float = 0.0
    answer_longest_s: float = 0.0
    encoding_longest_s: float = 0.0
    encoding_total_s: float = 0.0
    commands: int = 0
    transactions: int = 0
    resident_mib: float = 0.0


class Rig:
    """One term under storms, with the pump's input."""

    def __init__(
        self,
        shape: Shape,
        *,
        is_encoding: bool = True,
        budget: TurnBudget = TurnBudget(),  # noqa: B008
        is_allowed: Authorizer | None = None,
    ) -> None:
        self.shape, self.brokers = shape, tuple(BrokerId(n) for n in range(1, shape.brokers + 1))
        settings = MachineSettings(own_id=OWN, rebalance_every_s=None, budget=budget)
        self.machine = Machine(settings, EPOCH, SeededRandom(b"storm"), is_allowed)
        self.now = 1_000.0
        self.zxid = 1_000_000
        self.replies: dict[CallId, Reply] = {}
        self.storm = Storm("")
        self._queue: deque[Event] = deque()
        self._alarms: dict[Alarm, float] = {}
        self._times: list[tuple[float, int, Alarm]] = []
        self._numbers = itertools.count(1)
        self._recorder = Recorder()
        self._turns = Turns(self._recorder)
        self._writer = Writer(_Unsent(), lambda _: None, fence_version=ZnodeVersion(0))  # type: ignore[arg-type]
        self._protocol = parse_protocol("3.4")
        self._requests: dict[CallId, Request] = {}
        self.journal: Journal | None = None
        self._encoder = CommandEncoder(OWN, self._protocol, "PLAINTEXT") if is_encoding else None
        self._versions: dict[str, int] = {}
        self._created: dict[str, Fact] = {}
        self._epochs: dict[BrokerId, BrokerEpoch] = {}
        self._heard: Counter[BrokerId] = Counter()
        self.on_told: Callable[[Tell], None] = lambda _: None
        self.failing: Callable[[Tell], Iterable[TopicPartition]] = lambda _: ()

    # ---- what there is --------------------------------------------------------------------------------------

    def replicas_of(self, index: int) -> Replicas:
        """The brokers of one of all partitions, the preferred leader first."""
        count = len(self.brokers)
        return tuple(self.brokers[(index + offset) % count] for offset in range(min(self.shape.replication, count)))

    def topic_name(self, topic: int) -> TopicName:
        """The name of the topic with this number."""
        return TopicName(f"topic-{topic:06d}")

    def topic_facts(self, name: TopicName, first: int, partitions: int, zxid: int) -> Iterator[Fact]:
        """A topic and the states of its partitions."""
        listed = {PartitionId(n): Assignment(self.replicas_of(first + n)) for n in range(partitions)}
        stat = Stat(Zxid(zxid), Zxid(zxid), ZnodeVersion(0))
        yield present(TopicAddress(name), Topic(listed, TopicId(f"{name:0<22}"[:22])), stat)
        for number, assignment in listed.items():
            leader = assignment.replicas[0]
            state = PartitionState(leader, LeaderEpoch(3), ControllerEpoch(6), assignment.replicas)
            yield present(StateAddress(name, number), state, stat)

    def registration(self, broker: BrokerId, zxid: int) -> Fact:
        """The registration of a broker."""
        self._epochs[broker] = BrokerEpoch(zxid)
        value = Registration((Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker),), None)
        return present(BrokerAddress(broker), value, Stat(Zxid(zxid), Zxid(zxid), ZnodeVersion(1)))

    def everything(self) -> Iterator[Event]:
        """All facts read at the start of a term."""
        yield Observed(tuple(self.registration(b, 1000 + b) for b in (*self.brokers, OWN)))
        facts: list[Fact] = []
        for topic in range(self.shape.topics):
            first = topic * self.shape.partitions_per_topic
            facts += self.topic_facts(self.topic_name(topic), first, self.shape.partitions_per_topic, 2_000 + topic)
            if len(facts) >= FACTS_AN_EVENT:
                yield Observed(tuple(facts))
                facts = []
        yield Observed(tuple(facts))
        yield Loaded()

    def epoch_of(self, broker: BrokerId) -> BrokerEpoch:
        """The epoch of a broker's current life."""
        return self._epochs[broker]

    def heard_by_broker(self) -> dict[BrokerId, int]:
        """How many partitions each broker got by UpdateMetadata."""
        return dict(self._heard)

    def forget_what_was_heard(self) -> None:
        """Reset the counts."""
        self._heard.clear()

    # ---- what happens ---------------------------------------------------------------------------------------

    def emit(self, event: Event) -> None:
        """Add an event."""
        self._queue.append(event)

    def observe(self, facts: Iterable[Fact]) -> None:
        """Znodes were read."""
        self.emit(Observed(tuple(facts)))

    def next_zxid(self) -> int:
        """The zxid of the next write."""
        self.zxid += 1
        return self.zxid

    def ask(self, request: Request) -> CallId:
        """A client sends a request."""
        call = CallId(next(self._numbers))
        self._requests[call] = request
        self.emit(Asked(call, request, CLIENT))
        return call

    def lose(self, broker: BrokerId) -> None:
        """A broker dies."""
        self.observe([absent(BrokerAddress(broker), Zxid(self.next_zxid()))])

    def run(self, for_s: float = 0.0) -> None:
        """Run turns until nothing is left to do, letting time pass up to a limit."""
        until = self.now + for_s
        while True:
            while self._queue:
                self._turn()
            if not self._times or self._times[0][0] > until:
                self.now = until
                return
            at, _, alarm = heapq.heappop(self._times)
            if self._alarms.get(alarm) == at:
                del self._alarms[alarm]
                self.now = max(self.now, at)
                self.emit(Woke(alarm))

    def measure(self, name: str, happens: Callable[[], None], for_s: float = 0.0) -> Storm:
        """Run one storm until all is quiet."""
        self.storm = Storm(name)
        happens()
        self.run(for_s)
        self.storm.resident_mib = resident_mib()
        return self.storm

    def turned(self, effects: Iterable[Effect]) -> None:
        """A turn had these effects; a hook for subclasses."""

    def _turn(self) -> None:
        storm = self.storm
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), MOST_EVENTS_A_TURN))]
        wall, cpu = time.perf_counter(), time.thread_time()
        effects = self.machine.turn(batch, self.now)
        self._turns.turned(self.now, batch, effects, NO_TIME, 0)
        cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
        storm.turns += 1
        storm.total_s += wall
        storm.longest_s = max(storm.longest_s, wall)
        storm.longest_cpu_s = max(storm.longest_cpu_s, cpu)
        if self._encoder is not None:
            self._look_beside(batch, effects)
        del batch
        self.turned(effects)
        for effect in effects:
            self._carry_out(effect)

    def _look_beside(self, batch: Sequence[Event], effects: Sequence[Effect]) -> None:
        """Time the event loop's other steps for a turn, and now and then those of every second."""
        storm = self.storm
        with _longest(storm, "writing_longest_s"):
            for effect in effects:
                if isinstance(effect, Commit):
                    self._writer.submit(effect)
        if self.journal is not None:
            with _longest(storm, "journal_longest_s"):
                self.journal.turned(self.now, batch, effects, NO_TIME, 0)
        if storm.turns % FIGURES_EVERY_TURNS == 0:
            with _longest(storm, "figures_longest_s"):
                for name, value in self.machine.figures().items():
                    self._recorder.record(name, value)
                self.machine.quarantined()
                self.machine.snapshot()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Commit():
                self._commit(effect)
            case Tell():
                self._tell(effect)
            case Wake(alarm, at):
                if at <= self.now:
                    self.emit(Woke(alarm))
                else:
                    self._alarms[alarm] = at
                    heapq.heappush(self._times, (at, next(self._numbers), alarm))
            case Read(addresses):
                self.observe([self._created.get(a.path) or absent(a, Zxid(self.zxid)) for a in addresses])
            case Survey(topic):
                self.emit(Surveyed(topic, ()))
            case Answer(call, reply):
                self._answer(call, reply)
            case DescribeLogDirs(broker, epoch, _, partitions, is_of_waiting):
                sizes = {at: ReplicaSize(1 << 20) for at in partitions}
                self.emit(LogDirsDescribed(broker, epoch, sizes, None, is_of_waiting))
            case StepDown(reason):
                raise AssertionError(reason)
            case _:
                pass  # nothing here connects, lists or drains

    def _commit(self, commit: Commit) -> None:
        self.storm.transactions += 1
        zxid = Zxid(self.next_zxid())
        for made in commit.operations:
            write = made.write
            path = write.address.path
            held = self._versions.get(path)
            if isinstance(write, Create):
                self._versions[path] = 0
                self._created[path] = present(write.address, write.value, Stat(zxid, zxid, ZnodeVersion(0)))
            elif isinstance(write, Delete):
                self._versions.pop(path, None)
                self._created.pop(path, None)
            else:
                self._created.pop(path, None)
                assert held in (None, write.expected), (path, held, write.expected)
                self._versions[path] = write.expected + 1
        self.emit(Committed(commit.commit, zxid))

    def _answer(self, call: CallId, reply: Reply) -> None:
        self.replies[call] = reply
        request = self._requests.pop(call, None)
        if request is not None and self._encoder is not None and type(request) in KEYS:
            with _longest(self.storm, "answer_longest_s"):
                encode_reply(RequestHeader(*KEYS[type(request)], 0, None), reply)

    def _tell(self, tell: Tell) -> None:
        self.storm.commands += 1
        if self._encoder is not None:
            with _longest(self.storm, "encoding_longest_s", "encoding_total_s"):
                self._encoder.encode(tell, 1)
        if isinstance(tell.command, UpdateMetadata):
            self._heard[tell.broker] += len(tell.command.partitions)
        self.on_told(tell)
        errors = dict.fromkeys(self.failing(tell), ErrorCode.KAFKA_STORAGE_ERROR)
        self.emit(Acknowledged(tell.broker, tell.broker_epoch, tell.command, ErrorCode.NONE, errors))


class _Unsent:
    """A bridge that sends nothing."""

    knows_multi_read = True
    settings = ZooKeeperSettings("")

    def full(self, path: str) -> str:
        return path

    def acl(self, path: str) -> bytes:
        return acl_of(path, is_protected=False)

    def submit(self, request: object, answered: object) -> None:
        pass


@contextmanager
def _longest(storm: Storm, longest: str, total: str = "") -> Iterator[None]:
    began = time.thread_time()
    yield
    took = time.thread_time() - began
    setattr(storm, longest, max(getattr(storm, longest), took))
    if total:
        setattr(storm, total, getattr(storm, total) + took)


def resident_mib() -> float:
    """The resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_MIB

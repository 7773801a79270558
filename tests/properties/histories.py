"""What can be seen of a small ZooKeeper over time, of every family of znodes; and what does a state look like?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import asdict, replace

from controller.core.memory import Memory
from controller.core.state.cluster import ClusterState
from controller.core.state.topics import BLANK, TopicView
from tests.properties.clusters import BROKERS, registration
from zk_layout.catalog import Address, Value
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionId,
    RequestId,
    TopicId,
    TopicName,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.admin import (
    LegacyMove,
    LegacyReassignment,
    LegacyReassignmentAddress,
    PreferredElection,
    PreferredElectionAddress,
    TopicDeletionAddress,
)
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.configs import Config, DefaultBrokerConfigAddress, TopicConfigAddress
from zk_layout.znodes.controller_ids import ControllerIds, ControllerIdsAddress
from zk_layout.znodes.delegation_tokens import DelegationTokenAddress, TokenTimes
from zk_layout.znodes.features import FeatureAddress, Features
from zk_layout.znodes.move_records import MoveRecords, MoveRecordsAddress, RecordsNumber, TopicRecord
from zk_layout.znodes.notifications import (
    ConfigChange,
    ConfigChangeAddress,
    IsrChange,
    IsrChangeAddress,
    LogDirEvent,
    LogDirEventAddress,
)
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, PartitionState, StateAddress
from zk_layout.znodes.pause import Pause, PauseAddress
from zk_layout.znodes.producer_ids import ProducerIdBlock, ProducerIdBlockAddress
from zk_layout.znodes.reassignment_status import ReassignmentStatusAddress, RequestStatus, StatusRoot, StatusRootAddress
from zk_layout.znodes.reassignments import FolderKeeper, Reassignment, ReassignmentAddress, ReassignmentsAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletions, ReplicaDeletionsAddress
from zk_layout.znodes.throttles import ThrottledBroker, ThrottledBrokerAddress, ThrottledTopic, ThrottledTopicAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress
from zk_layout.znodes.waiting_moves import PartNumber, WaitingMove, WaitingMoves, WaitingMovesAddress

NAMES = (TopicName("a.b"), TopicName("a_b"))
IDS = tuple(TopicId(f"{NAMES[0]}-{n}") for n in range(4))
NUMBERS = tuple(PartitionId(n) for n in range(2))
AT = TopicPartition(NAMES[0], NUMBERS[0])
MALFORMED = 5  # a number that stands for what no one can read


def _replicas(n: int) -> tuple[BrokerId, ...]:
    return tuple(BROKERS[(n + i) % len(BROKERS)] for i in range(1 + n % 3))


def _assignment(n: int) -> Assignment:
    original, target = _replicas(n), _replicas(n + 2)
    if n % 2:
        return Assignment(original)
    leaving = tuple(r for r in original if r not in target)
    return Assignment(target + leaving, tuple(r for r in target if r not in original), leaving)


def _topic(n: int) -> Topic:
    """With an id or without one, as tools write it that know of none; with one partition or two."""
    numbers = NUMBERS if n % 3 else NUMBERS[:1]
    return Topic({number: _assignment(n + number) for number in numbers}, IDS[0] if n % 2 else None)


def _status(n: int) -> RequestStatus:
    return RequestStatus(RequestId(1), "somebody", n, n, None, {}, ())


def _owed(n: int) -> ReplicaDeletions:
    return ReplicaDeletions({NUMBERS[0]: _replicas(n)}, (*IDS, None)[n % 5])


def _waiting(n: int) -> WaitingMoves:
    return WaitingMoves(Zxid(n), {NUMBERS[0]: WaitingMove(_replicas(n), _replicas(n + 1), n)}, (*IDS, None)[n % 5])


def _recorded(n: int) -> MoveRecords:
    moves = {number: (_replicas(n), _replicas(n + 1)) for number in NUMBERS[: 1 + n % 2]}
    return MoveRecords("a client", n, 1, {NAMES[0]: TopicRecord(Zxid(n), moves)})


Make = Callable[[int], Value | None]
# Which znodes there are beside topics and what is below them, and what they may say.
LONE: Mapping[Address, Make] = {
    **{ReplicaDeletionsAddress(t): _owed for t in NAMES},
    **{TopicDeletionAddress(t): lambda _: None for t in NAMES},
    **{TopicConfigAddress(t): lambda n: Config({"retention.ms": str(n)}) for t in NAMES},
    **{BrokerAddress(b): lambda n, b=b: registration(b, n + 1).value for b in BROKERS[:3]},  # type: ignore[misc]  # mypy cannot tell a lambda's defaults
    **{ReassignmentAddress(t, NUMBERS[0]): lambda n: Reassignment(_replicas(n)) for t in NAMES},
    **{ReassignmentStatusAddress(RequestId(r)): _status for r in (1, 5)},
    **{MoveRecordsAddress(RequestId(r), RecordsNumber(p)): _recorded for r, p in ((1, 0), (1, 1), (6, 0))},
    **{DelegationTokenAddress(t): lambda n: TokenTimes(n, n + 1) for t in ("t1", "t2")},
    **{WaitingMovesAddress(t, PartNumber(0)): _waiting for t in NAMES},
    **{ThrottledTopicAddress(t): lambda n: ThrottledTopic(None, {"0:1": n + 1}) for t in NAMES},
    **{ThrottledBrokerAddress(b): lambda n: ThrottledBroker(None, str(n)) for b in BROKERS[:3]},
    ReassignmentsAddress(): lambda n: FolderKeeper(ControllerEpoch(n)),
    StatusRootAddress(): StatusRoot,
    LegacyReassignmentAddress(): lambda n: LegacyReassignment((LegacyMove(*AT, _replicas(n)),)),
    PreferredElectionAddress(): lambda _: PreferredElection((AT,)),
    DefaultBrokerConfigAddress(): lambda n: Config({"unclean.leader.election.enable": str(bool(n % 2)).lower()}),
    ProducerIdBlockAddress(): lambda n: ProducerIdBlock(BROKERS[0], n * 1000, n * 1000 + 999),
    FeatureAddress(): lambda n: Features(bool(n % 2)),
    ControllerIdsAddress(): lambda n: ControllerIds(_replicas(n)),
    PauseAddress(): lambda n: Pause("an operator", n),
    IsrChangeAddress("isr_change_0000000001"): lambda _: IsrChange((AT,)),
    LogDirEventAddress("log_dir_event_0000000001"): lambda _: LogDirEvent(BROKERS[0]),
    ConfigChangeAddress("config_change_0000000001"): lambda n: ConfigChange(f"topics/{NAMES[n % 2]}"),
}  # fmt: skip
ADDRESSES: tuple[Address, ...] = (
    *(TopicAddress(t) for t in NAMES for _ in range(6)),  # the most is to be said of topics
    *(StateAddress(t, n) for t in NAMES for n in NUMBERS for _ in range(3)),
    *(PartitionAddress(t, n) for t in NAMES for n in NUMBERS),
    *(PartitionsAddress(t) for t in NAMES),
    *LONE,
)


class ZooKeeper:
    """A tree that remembers everything that anybody could have seen of it."""

    def __init__(self) -> None:
        self.zxid = 0
        self.nodes: dict[Address, tuple[Value | Malformed | None, Stat]] = {}
        self.lives: Counter[TopicName] = Counter()
        self.seen: list[Fact] = []

    def live_through(self, moments: Iterable[tuple[int, int]]) -> list[Fact]:
        """Change or look at one znode after the other."""
        for which, n in moments:
            self.zxid += 1
            self._change(ADDRESSES[which], n)
        return self.seen

    def _change(self, address: Address, n: int) -> None:  # noqa: C901 (one flat match)
        match address:
            case _ if n == 0:
                self._look(address)
            case TopicAddress(name) if address in self.nodes and n == 1:
                for below in [a for a in self.nodes if _topic_of(a) == name]:
                    self._delete(below)
                self._delete(address)
            case TopicAddress(name):
                self.lives[name] += address not in self.nodes
                made = _topic(n)
                mine = TopicId(f"{name}-{self.lives[name] % 4}")
                is_new = address not in self.nodes
                if n == MALFORMED and not is_new:
                    self._write(address, Malformed("?", n))
                    return
                self._write(address, made if made.topic_id is None else Topic(made.partitions, mine))
                if is_new:  # its creator knows that nothing is below it
                    self.seen.extend(absent(StateAddress(name, number), Zxid(self.zxid)) for number in made.partitions)
            case StateAddress(name, number) | PartitionAddress(name, number):
                if TopicAddress(name) in self.nodes:
                    self._change_below(address, PartitionAddress(name, number), n)
            case PartitionsAddress(name):
                if TopicAddress(name) in self.nodes and address not in self.nodes:
                    self._write(address, None)
            case _ if address in self.nodes and n in (1, 2):
                self._delete(address)
            case _:
                self._write(
                    address, LONE[address](n) if n != MALFORMED or LONE[address](n) is None else Malformed("?", n)
                )

    def _change_below(self, address: Address, parent: PartitionAddress, n: int) -> None:
        if address in self.nodes and n == 1:
            if address == parent:
                self._delete(StateAddress(parent.topic, parent.partition))
            self._delete(address)
            return
        for above in (PartitionsAddress(parent.topic), parent):
            if above not in self.nodes:
                self._write(above, None)
        if address != parent:
            state = PartitionState(BROKERS[n % 6], LeaderEpoch(n), ControllerEpoch(1), (BROKERS[n % 6],))
            self._write(address, Malformed("?", n) if n == MALFORMED else state)

    def _write(self, address: Address, value: Value | Malformed | None) -> None:
        zxid, held = Zxid(self.zxid), self.nodes.get(address)
        if held is None:
            stat = Stat(zxid, zxid, ZnodeVersion(0))
            self.seen.append(absent(address, zxid))  # a read that has just missed it
        else:
            stat = Stat(held[1].czxid, zxid, ZnodeVersion(held[1].version + 1))
        self.nodes[address] = value, stat
        self.seen.append(present(address, value, stat))

    def _delete(self, address: Address) -> None:
        if self.nodes.pop(address, None) is not None:
            self.seen.append(absent(address, Zxid(self.zxid)))

    def _look(self, address: Address) -> None:
        held = self.nodes.get(address)
        self.seen.append(absent(address, Zxid(self.zxid)) if held is None else present(address, *held))


def _topic_of(address: Address) -> TopicName | None:
    return address.topic if isinstance(address, StateAddress | PartitionAddress | PartitionsAddress) else None


def histories() -> st.SearchStrategy[list[Fact]]:
    """All that can be seen of a few dozen changes."""
    moments = st.tuples(st.integers(0, len(ADDRESSES) - 1), st.integers(0, 7))
    return st.lists(moments, max_size=40).map(lambda moments: ZooKeeper().live_through(moments))


def picture(state: ClusterState) -> object:
    """Everything public, as plain values; an index without an entry is as good as none."""
    topics, placement, statuses = state.topics, state.placement, state.statuses
    return _plain(
        {
            "topics": {name: _without_blanks(view) for name, view in topics.views.items()},
            "names": topics.names,
            "marks": topics.marks,
            "alike": topics.alike,
            "configs": {name: topics.config(name) for name in NAMES},
            "missing": {name: [topics.is_known_missing(name, Zxid(z)) for z in range(50)] for name in NAMES},
            "hosted": placement.hosted,
            "owing": placement.owing,
            "moving": placement.moving,
            "adding": placement.adding,
            "removing": placement.removing,
            "counts": {b: c for b, c in placement.replica_counts.items() if c},
            "preferred": {b: c for b, c in placement.preferred_counts.items() if c},
            "partitions": placement.partition_count,
            "brokers": state.brokers,
            "folder": (state.reassignments.kept_by, state.reassignments.version, state.reassignments.children),
            "statuses": (statuses.kept, statuses.root_version, statuses.next_id),
            "records": (statuses.records, statuses.recorded_moves),
            "legacy": state.legacy,
            "preferred election": state.preferred_election,
            "producer ids": state.producer_ids,
            "features": state.features,
            "broker defaults": state.broker_defaults,
            "notifications": {address.path: version for address, version in state.notifications.items()},
            "tokens": state.tokens,
        }
    )


def _without_blanks(view: TopicView) -> TopicView:
    """A partition of which nothing is known any more is as good as none."""
    return replace(view, partitions={n: p for n, p in view.partitions.items() if p != BLANK})


def _plain(value: object) -> object:
    if isinstance(value, Struct):
        return type(value).__name__, _plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: plain for key, held in value.items() if (plain := _plain(held)) != {}}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def memory_of(memory: Memory) -> object:
    """Everything that brokers and clients have said, as plain values."""
    return _plain(vars(memory))

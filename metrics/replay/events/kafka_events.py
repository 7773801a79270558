"""What does a run of transactions mean to Kafka? Rows of a log as events: states, assignments, brokers and more.

A log is cut into splits that are decoded independently, each knowing what every topic was before. If that is not
known, because the history begins there, the first write of a topic gives all its partitions, marked `is_first`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from metrics.replay.events.intervals import AS_BEFORE, Intervals
from metrics.replay.events.ledger_writes import OF_THE_LEDGER, LedgerEvent, LedgerWrites
from metrics.replay.events.set_data import Ints
from metrics.replay.events.topic_changes import Changed, TopicContent
from zk_layout.bounds import INT32_MAX
from zk_layout.codec import Undecodable
from zk_layout.ids import PartitionId, Replicas
from zk_layout.storage import operations
from zk_layout.storage.snapshot import SnapshotRow
from zk_layout.znodes import (
    admin,
    brokers,
    configs,
    controller,
    move_records,
    partition_state,
    reassignments,
    replica_deletions,
    throttles,
    waiting_moves,
)
from zk_layout.znodes.topics import Assignment

# As STATE_COLUMNS; times in milliseconds.
StateEvent = tuple[
    int, int, int, int, str, str, int, int, int, int, Replicas, int, int | None, int
]  # fmt: skip
STATE_COLUMNS = (
    "zxid", "time", "session", "part", "op", "topic", "partition", "leader", "leader_epoch",
    "controller_epoch", "isr", "version", "fence", "size_bytes",
)  # fmt: skip

# As OTHER_COLUMNS.
OtherEvent = tuple[Any, ...]
OTHER_COLUMNS = (
    "zxid", "time", "session", "part", "op", "kind", "topic", "partition", "broker", "controller_epoch",
    "replicas", "adding", "removing", "version", "fence", "size_bytes", "path", "is_first", "min_isr", "host",
)  # fmt: skip

# What a snapshot shows of the time before the first log
KNOWN = 0

_OP_NAMES = {op: "create" for op in operations.CREATIONS} | {
    operations.SET_DATA: "set", operations.RECONFIG: "set", operations.SET_ACL: "acl", KNOWN: "known",
    operations.DELETE: "delete", operations.DELETE_CONTAINER: "delete",
    operations.CREATE_SESSION: "open", operations.CLOSE_SESSION: "expire",
}  # fmt: skip
# A znode is deleted by itself, or with its session, which expired or was closed by its client.
GONE = frozenset({"delete", "expire", "close"})

_OURS = replica_deletions.ROOT.rpartition("/")[0]
_KINDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"/brokers/topics/(?P<topic>[^/]+)/partitions/(?P<partition>\d{1,10})/state", "state"),
        (r"/.+/:life:\d*", "ours"),  # made and deleted in one transaction, by `controller.zk.lives`
        (r"/brokers/topics/(?P<topic>[^/]+)", "topic"),
        (r"/brokers/topics/(?P<topic>[^/]+)/partitions/(?P<partition>\d{1,10})", "parent"),
        (r"/brokers/topics/(?P<topic>[^/]+)/partitions", "parent"),
        (r"/brokers/ids/(?P<broker>\d{1,10})", "broker"),
        (r"/controller", "controller"),
        (r"/controller_epoch", "controller_epoch"),
        (r"/admin/reassign_partitions", "legacy"),
        (r"/admin/reassignments/(?P<topic>.+)-(?P<partition>\d{1,10})", "znode_move"),
        (r"/admin/reassign_partitions_status/.+", "request_status"),
        (r"/admin/preferred_replica_election", "preferred"),
        (r"/admin/delete_topics/(?P<topic>[^/]+)", "deletion"),
        (r"/isr_change_notification/.+", "isr_change"),
        (r"/log_dir_event_notification/.+", "log_dir"),
        (r"/config/topics/(?P<topic>[^/]+)", "config"),
        (r"/config/.+/.+", "config"),
        (r"/cluster/id|/feature|/latest_producer_id_block|/brokers/seqid", "cluster"),
        (r"/kafka-acl.*|/delegation_token.*", "security"),
        (rf"{replica_deletions.ROOT}/(?P<topic>[^/]+)", "owed_deletions"),
        (r"/(brokers|config|admin|cluster|consumers|isr_change_notification|log_dir_event_notification)", "root"),
        (r"/brokers/(ids|topics)|/config/\w+|/admin/\w+", "root"),
        (rf"{replica_deletions.ROOT}|{waiting_moves.ROOT}|{_OURS}|{_OURS}/replicas", "root"),
        (rf"{throttles.TOPICS}|{throttles.BROKERS}", "root"),
        (rf"{move_records.ROOT}/.+", "move_records"),
        (rf"{waiting_moves.ROOT}/(?P<topic>.+)-\d{{1,10}}", "waiting_moves"),
        (rf"{_OURS}/.+", "ours"),
    )
)
_MIN_ISR = "min.insync.replicas"
_DEFAULTS = "/config/brokers/<default>"
T = TypeVar("T")
Version = TypeVar("Version", int, Ints)
_CACHED_PATHS = 500_000
_Meaning = tuple[str, str | None, int | None, int | None]
_Moves = dict[tuple[str, int], Replicas]
# The data at a path.
LookUp = Callable[[str], bytes | None]


class Meaning:
    """Decode the rows of one split, in order.

    Shape:
        `states`, `others` and `ledger` grow; take and clear them after each call.
    """

    def __init__(self, chroot: str = "", intervals: Intervals | None = None, before: LookUp | None = None) -> None:
        """With `intervals`, assignments go there too, and states only there; and there is a ledger.

        `before` looks up what an always-whole znode, such as a topic, held at the start, by its path.
        """
        self._intervals = intervals
        self._before = before or _nothing
        self._asked: set[str] = set()
        self.states: list[StateEvent] = []
        self.others: list[OtherEvent] = []
        self.ledger: list[LedgerEvent] = []
        self._ledger = LedgerWrites(self.ledger, self._before)
        self._chroot = chroot
        self._meanings: dict[str, _Meaning] = {}
        self._topics: dict[str, TopicContent] = {}
        self._legacy_moves: _Moves | None = None  # not looked up yet
        self._fence: tuple[int, int] = (-1, 0)  # the zxid of the multi, and the expected version
        self.epoch_path = f"{chroot}/controller_epoch"

    def add(self, rows: Iterable[operations.Row]) -> None:
        """Take the next rows. Reads, checks and failures give no event."""
        intervals = self._intervals
        meanings, add_state, decode = self._meanings, self.states.append, partition_state.decode
        for row in rows:
            zxid, time_ms, session, _, _, part, op, path, data, version, _, _, failed = row
            if failed is not None:
                continue
            if op == operations.CHECK:
                if path == self.epoch_path:
                    self._fence = (zxid, expected_by(version))
                continue
            meaning = meanings.get(path) or self._learn(path)
            fence = self._fence[1] if self._fence[0] == zxid else None
            name = _OP_NAMES[op]
            if meaning[0] == "state" and data:
                if op in operations.CREATIONS:
                    version = 0
                topic, partition = meaning[1] or "", meaning[2] or 0
                at, by = (zxid, part, time_ms), (name, session, fence)
                try:
                    if intervals is not None:
                        number = intervals.number_of_state(data)
                        key, placed = intervals.key_of((topic, partition)), AS_BEFORE
                        if not intervals.is_open(key):
                            placed = intervals.begin(key, at, self.assignment(topic, partition))
                        intervals.state(key, at, by, number, version, placed, len(data))
                        continue
                    state = decode(data)
                except Undecodable:
                    self._other(row, name, ("malformed", *meaning[1:]), fence)
                    continue
                add_state(
                    (
                        zxid, time_ms, session, part, name, topic, partition, state.leader, state.leader_epoch,
                        state.controller_epoch, state.isr, version, fence, len(data),
                    )
                )  # fmt: skip
            else:
                self._other(row, name, meaning, fence)

    def partition_of(self, path: str) -> tuple[str, int] | None:
        """The partition whose state is at a path, if any."""
        kind, topic, partition, _ = self._meanings.get(path) or self._learn(path)
        return (topic or "", partition or 0) if kind == "state" else None

    def assignment(self, topic: str, partition: int) -> Assignment | None:
        """The current replicas of a partition; None if unknown."""
        content = self._content(topic)
        return None if content is None else content.assignment(PartitionId(partition))

    def _content(self, topic: str) -> TopicContent | None:
        """The current content of a topic; its start is looked up once, at first use."""
        content = self._topics.get(topic)
        if content is None and topic not in self._asked:
            self._asked.add(topic)
            data = self._before(f"{self._chroot}/brokers/topics/{topic}")
            if data is not None:
                self._learn_topic(TopicContent(), topic, data)
                content = self._topics.get(topic)
        return content

    def _learn_topic(self, content: TopicContent, topic: str, data: bytes) -> Changed:
        """The changes by this data; a topic that cannot be decoded becomes unknown."""
        try:
            changed = content.change_to(data)
        except Undecodable:
            self._topics.pop(topic, None)
            return {}
        self._topics[topic] = content
        return changed

    def _learn(self, path: str) -> _Meaning:
        if len(self._meanings) >= _CACHED_PATHS:
            self._meanings.clear()
        meaning = self._meanings[path] = self._meaning_of(path)
        return meaning

    def _meaning_of(self, path: str) -> _Meaning:
        if not path:
            return "session", None, None, None
        if self._chroot:
            if f"{self._chroot}/".startswith(f"{path}/"):
                return "root", None, None, None
            if not path.startswith(self._chroot + "/"):
                return "other", None, None, None
            path = path[len(self._chroot) :]
        for pattern, kind in _KINDS:
            match = pattern.fullmatch(path)
            if match is not None:
                named = match.groupdict()
                partition, broker = (_number(named.get(name)) for name in ("partition", "broker"))
                if max(partition or 0, broker or 0) > INT32_MAX:
                    break  # it only looks like Kafka's znode
                return kind, named.get("topic"), partition, broker
        return "other", None, None, None

    def _other(self, row: operations.Row, op: str, meaning: _Meaning, fence: int | None) -> None:
        zxid, time_ms, session, cxid, _, part, _, path, data, version, owner, _, _ = row
        kind, topic, partition, broker = meaning
        op = _closed_by(cxid) if op == "expire" else op
        replicas = None
        if kind == "topic":
            self._topic(row, op, topic or "", fence)
        elif kind == "legacy":
            self._legacy(row, op, data, fence)
        elif kind == "znode_move":
            replicas = _requested(data, op)
        elif kind in OF_THE_LEDGER and self._intervals is not None:
            self._ledger.take(row, kind)
        elif kind == "controller" and data:
            broker = _tried(lambda: int(controller.decode_claim(data).broker))
        epoch, min_isr, host = _said(kind, path if topic is None else _DEFAULTS, data)
        if kind == "state" and op in GONE and self._intervals is not None:
            self._intervals.gone((topic or "", partition or 0), (zxid, part, time_ms), op)
        if op == "create":
            version = 0
        if owner and kind in ("broker", "controller"):
            session = owner
        size = len(data) if data else 0
        self.others.append(
            (
                zxid, time_ms, session, part, op, kind, topic, partition, broker, epoch, replicas, None, None,
                version, fence, size, path, None, min_isr, host,
            )
        )  # fmt: skip

    def _topic(self, row: operations.Row, op: str, topic: str, fence: int | None) -> None:
        if op in GONE:
            self._asked.add(topic)
            self._topics.pop(topic, None)
            return
        content = self._content(topic)
        is_first = content is None and op != "create"
        if content is None or op == "create":
            content = TopicContent()
        zxid, time_ms, session, part, version = row[0], row[1], row[2], row[5], row[9]
        if op == "create":
            version = 0
        for partition, assignment in self._learn_topic(content, topic, row[8] or b"").items():
            if self._intervals is not None:
                at, by = (zxid, part, time_ms), (op, session, fence)
                self._intervals.assigned((topic, partition), at, by, assignment)
            replicas, adding, removing = (
                ((), (), ()) if assignment is None
                else (assignment.replicas, assignment.adding, assignment.removing)
            )  # fmt: skip
            self.others.append(
                (
                    zxid, time_ms, session, part, op, "assignment", topic, partition, None, None,
                    replicas, adding, removing, version, fence, None, None, is_first, None, None,
                )
            )  # fmt: skip

    def _legacy(self, row: operations.Row, op: str, data: bytes | None, fence: int | None) -> None:
        """Emit entries added or changed; an entry without replicas was removed."""
        now = _legacy_moves(data if op not in GONE else None)
        if self._legacy_moves is None:
            self._legacy_moves = _legacy_moves(self._before(f"{self._chroot}/admin/reassign_partitions"))
        before, self._legacy_moves = self._legacy_moves, now
        changed = {at: replicas for at, replicas in now.items() if before.get(at) != replicas}
        zxid, time_ms, session, part = row[0], row[1], row[2], row[5]
        for (topic, partition), replicas in (changed | dict.fromkeys(before.keys() - now.keys(), ())).items():
            self.others.append(
                (
                    zxid, time_ms, session, part, op, "legacy_move", topic, partition, None, None,
                    replicas, (), (), None, fence, None, None, None, None, None,
                )
            )  # fmt: skip


# Each server writes the ensemble's members there at its start, outside any transaction, and may differ from others.
_WRITTEN_BY_EACH = ("/zookeeper/config", -1)


def known_rows(rows: Iterable[SnapshotRow], before: int) -> list[operations.Row]:
    """The znodes of a snapshot as they were before a log began, leaving out what changed since."""
    return [
        (mzxid, mtime_ms, 0, 0, KNOWN, 0, KNOWN, path, data, version, owner, b"", None)
        for path, data, _, _, mzxid, _, mtime_ms, version, _, _, owner, _ in rows
        if mzxid < before and (path, version) != _WRITTEN_BY_EACH
    ]


def expected_by(logged: Version) -> Version:
    """The version that a check expects. A server logs the one that the znode would have next, in 32 bits.

    >>> expected_by(8), expected_by(-(2**31))
    (7, 2147483647)
    """
    return (logged + INT32_MAX) % (1 << 32) - (1 << 31)


def _closed_by(cxid: int) -> str:
    """How a session ended. If it expired, the server closes it, without a request number."""
    return "close" if cxid else "expire"


def _nothing(_path: str) -> bytes | None:
    return None


def _legacy_moves(data: bytes | None) -> _Moves:
    """The entries of `/admin/reassign_partitions`."""
    reassignment = _tried(lambda: admin.decode_reassignment(data)) if data else None
    return {(str(m.topic), int(m.partition)): m.replicas for m in (reassignment.moves if reassignment else ())}


def _requested(data: bytes | None, op: str) -> Replicas:
    """The replicas in a partition's own znode; none if it is gone."""
    request = None if op in GONE or not data else _tried(lambda: reassignments.decode(data))
    return request.assignment if request else ()


def _min_isr(data: bytes) -> int | None:
    """The value of `min.insync.replicas` in a configuration, if any."""
    config = _tried(lambda: configs.decode(data).config)
    number = _tried(lambda: int((config or {})[_MIN_ISR]))
    return number if number is None or abs(number) <= INT32_MAX else None


def _said(kind: str, path: str, data: bytes | None) -> tuple[int | None, int | None, str | None]:
    """The controller epoch, the minimum ISR, or the host that a znode names."""
    if not data:
        return None, None, None
    if kind == "controller_epoch":
        return _tried(lambda: int(controller.decode_epoch(data))), None, None
    if kind == "config" and path.endswith(_DEFAULTS):
        return None, _min_isr(data), None
    if kind == "broker":
        return None, None, _tried(lambda: _host(brokers.decode(data)))
    return None, None, None


def _host(registered: brokers.Registration) -> str | None:
    """Where a broker can be reached: the first of its listeners."""
    return str(registered.endpoints[0]) if registered.endpoints else None


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _tried(decode: Callable[[], T]) -> T | None:
    try:
        return decode()
    except (KeyError, ValueError):
        return None

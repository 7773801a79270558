"""Decoding in columns gives the same as row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from sys import getrefcount
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from metrics.replay.events import intervals
from metrics.replay.events.intervals import AS_BEFORE, NONE, Intervals
from metrics.replay.events.kafka_events import Meaning
from metrics.replay.events.schemas import intervals_table
from metrics.replay.events.set_data import LARGEST
from metrics.replay.events.state_writes import StateWrites
from tests.unit.storage import zk_files as zk
from zk_layout.ids import BrokerId
from zk_layout.storage import operations as ops
from zk_layout.storage.damage import Damage
from zk_layout.storage.jute import encode_bytes
from zk_layout.storage.txnlog import Bodies, rows_of
from zk_layout.znodes.topics import Assignment

FILE = "log.1"
SEEDS = range(60)
STATE = b'{"controller_epoch":%d,"leader":%d,"version":1,"leader_epoch":%d,"isr":[1,2]}'
NO_TEXT = encode_bytes(b"/\xff")

NEVER = 1 << 60
Fed = tuple[list[dict[str, Any]], list[Any], list[Any], list[Damage]]


class Writes:
    """Records of a small cluster, of all kinds that could be confused, in random order."""

    def __init__(self, seed: int, chroot: str) -> None:
        self._random = Random(seed)
        self._chroot = chroot
        self._zxid = 0x100

    def some(self, count: int) -> list[bytes]:
        """That many records."""
        return [self._one() for _ in range(count)]

    def _one(self) -> bytes:
        self._zxid += self._random.choice((1, 1, 1, 7))
        kinds = self._kinds()
        (made,) = self._random.choices([made for made, _ in kinds], [weight for _, weight in kinds])
        kind, body = made()
        header = zk.header(self._zxid, kind, session=self._random.choice((7, -9)), time_ms=self._zxid * 10)
        return header + body

    def _kinds(self) -> Sequence[tuple[Callable[[], tuple[int, bytes]], int]]:
        return (
            (lambda: (ops.SET_DATA, self._set()), 40),
            (lambda: (ops.SET_DATA, self._set() + zk.digest(3)), 5),
            (lambda: (ops.MULTI, self._fenced()), 40),
            (lambda: (ops.MULTI, self._several()), 9),
            (lambda: (ops.MULTI, self._torn(self._several())), 3),
            (lambda: (ops.MULTI, zk.number(self._random.choice((-1, 0, 4))) + self._several()[4:]), 3),
            (lambda: (ops.MULTI, zk.multi((ops.SET_DATA, self._set()), (ops.CHECK, self._check()))), 2),
            (lambda: (ops.MULTI, zk.multi((ops.ERROR, zk.number(0)), (ops.ERROR, zk.number(-2)))), 1),
            (lambda: (ops.SET_DATA, self._torn(self._set())), 1),
            (lambda: (ops.MULTI, self._torn(self._fenced())), 3),
            (lambda: (ops.MULTI, zk.multi((ops.CHECK, self._torn(self._check())), (ops.SET_DATA, self._set()))), 2),
            (lambda: (ops.MULTI, zk.multi((ops.CHECK, self._check()), (ops.SET_DATA, self._torn(self._set())))), 2),
            (lambda: (ops.SET_DATA, NO_TEXT + encode_bytes(b"x") + zk.number(1)), 1),
            (lambda: (ops.MULTI, zk.multi((ops.CHECK, NO_TEXT + zk.number(1)), (ops.SET_DATA, self._set()))), 1),
            (lambda: (77, b""), 1),
            (lambda: (ops.CREATE_SESSION, zk.number(6000)), 1),
            (lambda: (ops.CLOSE_SESSION, zk.closed(self._path())), 1),
            (lambda: (ops.CREATE, zk.create(self._path(), self._state())), 3),
            (lambda: (ops.DELETE, zk.delete(self._path())), 3),
            (lambda: (ops.CREATE, zk.create(self._topic(), self._assigned())), 2),
            (lambda: (ops.SET_DATA, zk.set_data(self._topic(), self._assigned(), 3)), 4),
            (lambda: (ops.SET_DATA, zk.set_data(self._topic(), b"torn", 3)), 1),
            (lambda: (ops.DELETE, zk.delete(self._topic())), 2),
        )  # fmt: skip

    def _topic(self) -> str:
        return f"{self._chroot}/brokers/topics/{self._random.choice('abc')}"

    def _path(self) -> str:
        below = self._random.choice(("0", "1", "2", "00"))
        return f"{self._topic()}/partitions/{below}/state"

    def _set(self) -> bytes:
        path = self._path() if self._random.random() < 0.95 else f"{self._chroot}/config/topics/a"
        return zk.set_data(path, self._state(), self._random.randrange(9))

    def _fenced(self) -> bytes:
        return zk.multi((ops.CHECK, self._check()), (ops.SET_DATA, self._set()))

    def _several(self) -> bytes:
        """Writes of this project's controller."""
        sets = [(ops.SET_DATA, self._set()) for _ in range(self._random.randrange(2, 9))]
        other = (ops.CREATE, zk.create(self._topic(), self._assigned()))
        return zk.multi((ops.CHECK, self._check()), *sets, *([other] if self._random.random() < 0.1 else []))

    def _torn(self, body: bytes) -> bytes:
        return body[: len(body) - self._random.randrange(1, len(body))]

    def _state(self) -> bytes | None:
        number = self._random.randrange
        odd = self._random.choice((None, b"", b"torn", STATE % (1, 2, 3) + b" " * LARGEST))
        return odd if self._random.random() < 0.08 else STATE % (number(2), number(3), number(4))

    def _check(self) -> bytes:
        path = self._random.choice((f"{self._chroot}/controller_epoch", "/controller_epoch", "/x"))
        return zk.check(path, self._random.randrange(-1, 3))

    def _assigned(self) -> bytes:
        replicas = b",".join(b'"%d":[%d,2]' % (p, self._random.randrange(3)) for p in range(self._random.randrange(4)))
        return b'{"version":2,"partitions":{%s},"adding_replicas":{},"removing_replicas":{}}' % replicas


def before(path: str) -> bytes | None:
    """The topics at the split's start; one of them is unknown."""
    return None if path.endswith("/c") else b'{"version":1,"partitions":{"0":[5,6],"1":[5],"2":[6]}}'


def assigned(*replicas: int) -> Assignment:
    return Assignment(tuple(map(BrokerId, replicas)))


def fed(batches: Sequence[Bodies], chroot: str, *, as_columns: bool, takes: int) -> Fed:
    """The resulting intervals and events, taken now and then."""
    gathered, damage, rows = Intervals(), list[Damage](), list[dict[str, Any]]()
    meaning = Meaning(chroot, gathered, before)
    states = StateWrites(meaning, gathered)
    for number, batch in enumerate(batches):
        if as_columns:
            states.add(batch, FILE, damage)
        else:
            meaning.add(rows_of(batch, FILE, damage))
        if gathered.starts and number % takes == takes - 1:
            rows += intervals_table(gathered.take()).to_pylist()
    rows += intervals_table(gathered.take(is_last=True)).to_pylist()
    starts = [(*gathered.keys[key], *at) for key, *at in gathered.starts]
    return sorted(rows, key=repr), starts, meaning.others, damage


def by_row(bodies: Sequence[bytes], gathered: Intervals | None = None) -> list[Any]:
    """The records that are not decoded in columns, but row by row."""
    gathered, rows = gathered or Intervals(), list[Any]()
    meaning = Meaning("", gathered, before)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(meaning, "add", rows.extend)
        StateWrites(meaning, gathered).add(Bodies([*bodies], [*range(len(bodies))]), FILE, [])
    return rows


@pytest.mark.parametrize("seed", SEEDS)
def test_records_mean_the_same_however_they_are_taken(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    chroot = random.choice(("", "/kafka"))
    bodies = Writes(seed, chroot).some(400)
    cuts = sorted({0, len(bodies), *random.sample(range(len(bodies)), random.choice((0, 5, 100)))})
    batches = [Bodies(bodies[a:b], [*range(a, b)]) for a, b in pairwise(cuts)]
    monkeypatch.setattr(intervals, "_MOST_DISTINCT", random.choice((1, 100_000)))

    found = fed(batches, chroot, as_columns=True, takes=random.choice((1, 3, NEVER)))

    assert found == fed(batches, chroot, as_columns=False, takes=NEVER)


def test_a_partition_that_goes_and_comes() -> None:
    found = Intervals()
    by = ("set", 7, None)
    first, second = (found.number_of_state(STATE % (9, leader, 3)) for leader in (1, 2))
    key = found.key_of(("a", 0))
    found.assigned(("a", 0), (1, 0, 10), by, assigned(1, 2))
    found.state(key, (2, 0, 20), by, first, 0, AS_BEFORE, 60)
    found.assigned(("a", 0), (3, 0, 30), by, assigned(1, 3))
    found.gone(("a", 0), (4, 0, 40), "delete")
    placed = found.begin(key, (9, 0, 90), None)
    found.state(key, (9, 0, 90), by, second, 0, placed, 60)

    rows = intervals_table(found.take(is_last=True)).to_pylist()

    columns = ("zxid", "what", "duration_ms", "leader", "version", "replicas")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        (1, "assignment", 10, None, None, [1, 2]),
        (2, "state", 10, 1, 0, [1, 2]),
        (3, "assignment", 10, 1, 0, [1, 3]),
        (4, "gone", 0, None, None, None),
        (9, "state", None, 2, 0, None),
    ]
    assert [(start[1], start[4]) for start in found.starts] == [(1, None), (4, "gone"), (9, None)]


def test_the_lowest_session_is_one() -> None:
    found, key = Intervals(), 0
    placed = found.begin(found.key_of(("a", 0)), (2, 0, 20), None)
    found.state(key, (2, 0, 20), ("set", NONE, None), found.number_of_state(STATE % (9, 1, 3)), 0, placed, 60)

    assert intervals_table(found.take(is_last=True))["session"].to_pylist() == [NONE]


def test_what_is_large_is_not_held() -> None:
    found, data = Intervals(), STATE % (1, 2, 3) + b" " * LARGEST
    held = getrefcount(data)

    found.number_of_state(data)

    assert getrefcount(data) == held


def test_a_long_check_is_not_held_once_for_each_of_many_states() -> None:
    check = (ops.CHECK, zk.check("/" + "x" * 3000, 8))
    state = (ops.SET_DATA, zk.set_data("/brokers/topics/a/partitions/0/state", STATE % (1, 2, 3), 5))
    several = zk.header(11, ops.MULTI) + zk.multi(check, *[state] * 300)

    assert by_row([several])


def test_no_state_that_a_broker_or_a_controller_writes_becomes_a_row() -> None:
    """One write by a broker, one by Kafka's controller, and several by ours."""
    check = (ops.CHECK, zk.check("/controller_epoch", 8))
    sets = [zk.set_data(f"/brokers/topics/a/partitions/{p}/state", STATE % (1, 2, 3), 5) for p in range(3)]
    alone = zk.header(9, ops.SET_DATA) + sets[0]
    fenced = zk.header(10, ops.MULTI) + zk.multi(check, (ops.SET_DATA, sets[1])) + zk.digest(1)
    several = zk.header(11, ops.MULTI) + zk.multi(check, *((ops.SET_DATA, one) for one in sets))
    gathered = Intervals()

    assert not by_row([alone, fenced, several], gathered)
    names = ("zxid", "part", "partition", "fence", "version", "size_bytes")
    written = [tuple(row[name] for name in names) for row in intervals_table(gathered.take(is_last=True)).to_pylist()]
    size = len(STATE % (1, 2, 3))
    assert written == [
        (9, 0, 0, None, 5, size),
        (10, 1, 1, 7, 5, size),
        *((11, p + 1, p, 7, 5, size) for p in range(3)),
    ]

"""Judging writes by situation gives the same as judging each by itself."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]  # has no types
import pytest

from metrics.replay.audit import audit_table
from metrics.replay.audit.audit import findings
from metrics.replay.audit.situations import situations
from metrics.replay.partitions.moves import Happened
from metrics.replay.partitions.partition_fold import HAPPENED, in_order
from metrics.replay.partitions.terms import Sighting, Terms
from tests.replay.histories import History, moved_as_kafka_does

BROKERS = (1, 2, 3, 4)
TOPICS = ("kept", "deleted")

Histories = dict[tuple[str, int], list[Happened]]


def as_table(histories: Histories) -> pa.Table:
    """Rows in the form of the tables `events` and `partitions`."""
    rows = [
        {"topic": topic, "partition": partition, "part": part, **happened._asdict()}
        for (topic, partition), events in histories.items()
        for part, happened in enumerate(events)
    ]
    return in_order([pa.Table.from_pylist(rows, schema=HAPPENED)])


def one_by_one(histories: Histories, terms: Terms, since_ms: int) -> list[tuple[Any, ...]]:
    return [
        audit_table.row_of(found, topic, partition, terms)
        for (topic, partition), events in histories.items()
        for found in findings(topic, partition, events, terms)
        if found.time_ms >= since_ms
    ]


def assert_same(histories: Histories, terms: Terms, since_ms: int = 0) -> None:
    expected = audit_table.table_of(one_by_one(histories, terms, since_ms)).to_pylist()
    found = [row for some in audit_table.judged(as_table(histories), terms, since_ms) for row in some.to_pylist()]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def random_terms(chosen: Random, end: int) -> Terms:
    """Brokers start, die and stop cleanly; controllers claim; one topic is deleted, and legacy moves end."""
    seen = [Sighting(chosen.randrange(5), "broker", broker=b, session=70 + b, op="create") for b in BROKERS]
    for _ in range(chosen.randrange(8)):
        at, broker = chosen.randrange(end), chosen.choice(BROKERS)
        when = chosen.choice((at, at * 1000, 2**40))
        match chosen.randrange(5):
            case 0:
                op = chosen.choice(("close", "expire", "delete"))
                seen.append(Sighting(at, "broker", is_there=False, broker=broker, op=op, time_ms=when))
            case 1:
                seen.append(Sighting(at, "broker", broker=broker, session=80 + broker, op="create", time_ms=when))
            case 2:
                epoch = chosen.randrange(1, 4)
                seen.append(Sighting(at, "controller", broker=broker, session=chosen.choice((7, 70 + broker))))
                seen.append(Sighting(at, "controller_epoch", epoch=epoch, version=epoch, op="set"))
            case 3:
                is_asked = chosen.random() < 0.7
                op = "create" if is_asked else "delete"
                seen.append(Sighting(at, "deletion", is_there=is_asked, topic="deleted", op=op))
            case _:
                seen.append(Sighting(at, "legacy", is_there=False, op="delete"))
    return Terms(seen)


def some_of(chosen: Random, least: int = 0) -> tuple[int, ...]:
    return tuple(chosen.sample(BROKERS, chosen.randrange(least, len(BROKERS) + 1)))


class RandomHistory:
    """Mostly plausible writes of a cluster, now and then impossible ones."""

    def __init__(self, chosen: Random, end: int) -> None:
        self.events: list[Happened] = []
        self._chosen = chosen
        self._replicas = chosen.choice(((1, 2), (1, 2, 3), some_of(chosen, 1)))
        self._leader, self._isr = self._replicas[0], self._replicas
        self._epoch, self._controller, self._version = chosen.choice((0, 0, 0, 5)), 1, -1
        self._is_there = chosen.random() < 0.3  # the log begins later
        for zxid in sorted(chosen.sample(range(1, end), chosen.randrange(1, 40))):
            write = chosen.choices((self._state, self._assignment, self._deletion, self._request), (12, 2, 1, 1))[0]
            write(zxid)

    def _add(self, zxid: int, kind: str, op: str | None = None, **fields: Any) -> None:
        chosen = self._chosen
        usual = "set" if self._is_there else "create"
        known = {
            "zxid": zxid, "time_ms": zxid * 1000, "session": chosen.choice((7, 7, 7, 71, 72, 99, 0)), "kind": kind,
            "op": op or (chosen.choice(("set", "create", "known")) if chosen.random() < 0.1 else usual),
            "fence": chosen.choice((None, None, 1, 1, 2)),
        }  # fmt: skip
        empty: dict[str, Any] = dict.fromkeys(Happened._fields)
        self.events.append(Happened(**{**empty, **known, **fields}))

    def _state(self, zxid: int) -> None:
        chosen = self._chosen
        self._version += 1 if chosen.random() < 0.95 else chosen.choice((0, 2))
        if self._is_there and chosen.random() < 0.4:
            self._epoch += chosen.choice((1, 1, 1, 1, 2, -1))
            self._leader = chosen.choice((self._leader, self._leader, *self._replicas, -1))
        if chosen.random() < 0.7:
            self._isr = tuple(r for r in self._replicas if r == self._leader or chosen.random() < 0.6)
        elif chosen.random() < 0.1:
            self._isr = some_of(chosen)
        self._controller = max(self._controller + chosen.choice((*(0,) * 12, 1, -1)), 0)
        self._add(
            zxid, "state", leader=self._leader, leader_epoch=self._epoch, isr=self._isr,
            controller_epoch=self._controller, version=chosen.choice((*(self._version,) * 9, None)),
        )  # fmt: skip
        self._is_there = True

    def _assignment(self, zxid: int) -> None:
        chosen, kind = self._chosen, self._chosen.randrange(6)
        target = some_of(chosen, 1)
        moving = tuple(r for r in some_of(chosen) if r not in target)
        replicas = target + moving if kind < 3 else target if kind < 5 else ()
        if kind == 0:
            replicas = self._replicas  # another move over the same
            target, moving = replicas[:1], replicas[1:]
        self._add(
            zxid, "assignment", replicas=replicas or chosen.choice((None, ())), adding=target[:1] if kind < 2 else (),
            removing=moving if kind < 3 else (), version=chosen.choice((None, zxid, 3)),
            is_first=chosen.choice((None, True, False)),
        )  # fmt: skip
        self._replicas = replicas or self._replicas

    def _deletion(self, zxid: int) -> None:
        self._add(zxid, "state", "delete")
        self._is_there, self._epoch, self._version = False, self._chosen.choice((0, 0, 1)), -1

    def _request(self, zxid: int) -> None:
        self._add(zxid, self._chosen.choice(("legacy_move", "znode_move")), replicas=some_of(self._chosen))


def random_cluster(seed: int) -> tuple[Histories, Terms]:
    chosen = Random(seed)
    end = chosen.choice((60, 120))
    histories: Histories = {}
    for topic in TOPICS:
        for number in range(2):
            events = RandomHistory(chosen, end).events
            # Similar, but not the same: writes are missing, or made by other clients.
            histories[topic, number] = events
            histories[topic, number + 2] = [event for event in events if chosen.random() < 0.9]
            histories[topic, number + 4] = [
                event if chosen.random() < 0.9 else event._replace(session=99, fence=1) for event in events
            ]
    return {at: events for at, events in sorted(histories.items()) if events}, random_terms(chosen, end)


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_random_histories_are_judged_as_if_each_write_were_judged_by_itself(first: int) -> None:
    for seed in range(first, first + 100):
        histories, terms = random_cluster(seed)
        assert_same(histories, terms)
        assert_same(histories, terms, since_ms=30_000)


def test_random_histories_have_every_verdict_both_ways() -> None:
    by_situation: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    alone = kept = count = 0
    for seed in range(100):
        histories, terms = random_cluster(seed)
        rows = as_table(histories)
        alike = situations(rows, terms)
        by_situation.update(alike.findings[n].verdict for n in alike.of_row.to_pylist() if n is not None)
        verdicts.update(row[5] for row in one_by_one(histories, terms, 0))
        alone, kept, count = (
            alone + sum(alike.is_alone.to_pylist()), kept + sum(alike.is_kept.to_pylist()), count + rows.num_rows,
        )  # fmt: skip

    assert {*by_situation} == {*verdicts}
    assert sum(by_situation.values()) > count // 5
    assert 0 < alone < kept < count


def test_writes_of_many_partitions_are_one_situation() -> None:
    """Each partition has the same history: each sentence names its own, and the rules run once."""
    terms = Terms([Sighting(1, "broker", broker=b, session=7, op="create") for b in BROKERS])
    flapping = History().created("1,2,3").state(1, "1,2,3")
    for _ in range(10):
        flapping.isr(1, "1,2").isr(1, "1,2,3")
    histories = {("orders", number): flapping.events for number in range(50)}

    alike = situations(as_table(histories), terms)

    assert not any(alike.is_alone.to_pylist())
    assert len(alike.findings) == 4
    assert_same(histories, terms)


def test_a_move_is_judged_as_before() -> None:
    terms = Terms([Sighting(1, "broker", broker=b, session=7, op="create") for b in BROKERS])

    assert_same({("orders", number): moved_as_kafka_does().events for number in range(3)}, terms)


@pytest.mark.parametrize(("adding", "removing"), [("1", "2,3"), ("1", ""), ("", "3")])
def test_what_moves_is_another_situation_than_what_stays(adding: str, removing: str) -> None:
    terms = Terms([Sighting(1, "broker", broker=b, session=7, op="create") for b in BROKERS])
    stays, moves = (
        History().created("1,2,3").state(1, "1,2,3").assigned("1,2,3", *move).state(1, "1,2,3").state(1, "1,2,3").events
        for move in ((), (adding, removing))
    )

    assert_same({("orders", 0): stays, ("orders", 1): moves}, terms)

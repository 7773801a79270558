"""Hundreds of moves through `/admin/reassignments` (KIP-236), changed and cancelled across a crash of the leader.

One broker is paused meanwhile, within its session time-out: moves to it stay in progress until it resumes.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import ReassignmentsAltered
from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from controller.lab.cluster import ClusterSettings, LocalCluster
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from tests.cluster.replica import Replica, wait_until
from zk_layout.ids import BrokerId, PartitionId, TopicName, TopicPartition

FOLDER = "/admin/reassignments"
LEGACY = "/admin/reassign_partitions"
# Names with dashes and digits, one of them another's plus a number.
TOPICS = {"2024-11-07": 80, "a-1": 50, "a-1-2": 50, "7": 20, "by-others-0": 40}
BEFORE: tuple[int, ...] = (1, 2)
FIRST: tuple[int, ...] = (3, 2)
SECOND: tuple[int, ...] = (3, 1)
SLOW_S = 240.0

At = tuple[str, int]
Plan = dict[At, tuple[int, ...]]


@pytest.fixture(scope="module")
def patient_cluster() -> Iterator[LocalCluster]:
    """Brokers 3.9.1 whose sessions survive a long pause."""
    try:
        cluster = LocalCluster(ClusterSettings(overrides={"zookeeper.session.timeout.ms": 110_000}))
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))
    with cluster:
        yield cluster


class Person:
    """A person with a ZooKeeper client, who writes refused children again."""

    def __init__(self, zookeeper: KazooClient) -> None:
        self.zookeeper = zookeeper
        self.repeated = 0

    def create_topics(self) -> None:
        """All partitions on brokers 1 and 2, led by the former."""
        for name, count in TOPICS.items():
            partitions = {str(n): list(BEFORE) for n in range(count)}
            data = json.dumps({"version": 1, "partitions": partitions}).encode()
            self.zookeeper.create(f"/brokers/topics/{name}", data)

    def all_led(self) -> bool:
        """Whether each partition has a state."""
        paths = [f"/brokers/topics/{t}/partitions/{n}/state" for t, count in TOPICS.items() for n in range(count)]
        return all([answer.get() is not None for answer in [self.zookeeper.exists_async(path) for path in paths]])

    def epoch(self) -> int:
        """The controller epoch."""
        return int(self.zookeeper.get("/controller_epoch")[0])

    def write(self, plan: Plan) -> None:
        """Create or change each partition's child to this target."""
        for at, replicas in plan.items():
            data = json.dumps({"version": 1, "assignment": list(replicas)}).encode()
            try:
                self.zookeeper.set(_path(at), data)
            except NoNodeError:
                try:
                    self.zookeeper.create(_path(at), data)
                except NodeExistsError:
                    self.zookeeper.set(_path(at), data)

    def shown(self) -> Plan:
        """The children."""
        names = self.zookeeper.get_children(FOLDER)
        answers = [(name, self.zookeeper.get_async(f"{FOLDER}/{name}")) for name in names]
        found: Plan = {}
        for name, answer in answers:
            try:
                topic, _, number = name.rpartition("-")
                found[topic, int(number)] = tuple(json.loads(answer.get()[0])["assignment"])
            except NoNodeError:
                pass
        return found

    def assignments(self, key: str = "replicas") -> Plan:
        """Each partition's replicas; with another key, those being added or removed."""
        found: Plan = {}
        for name in TOPICS:
            topic = json.loads(self.zookeeper.get(f"/brokers/topics/{name}")[0])
            listed = topic["partitions"] if key == "replicas" else topic.get(key, {})
            found |= {(name, int(n)): tuple(replicas) for n, replicas in listed.items()}
        return found

    def targets(self) -> Plan:
        """The targets of the moves in progress."""
        replicas, adding = self.assignments(), self.assignments("adding_replicas")
        removing = self.assignments("removing_replicas")
        moving = {at for at in replicas if adding.get(at) or removing.get(at)}
        return {at: tuple(r for r in replicas[at] if r not in removing.get(at, ())) for at in moving}

    def insists(self, wanted: Plan) -> bool:
        """Whether all moves have the requested targets; children that a native controller ignored are written again."""
        shown, targets, replicas = self.shown(), self.targets(), self.assignments()
        missed = {
            at: target
            for at, target in wanted.items()
            if shown.get(at) != target and targets.get(at, replicas[at]) != target
        }
        self.repeated += len(missed)
        self.write(missed)
        return not missed and all(targets.get(at, replicas[at]) == target for at, target in wanted.items())


def _path(at: At) -> str:
    return f"{FOLDER}/{at[0]}-{at[1]}"


def _request(leader: Replica, plan: dict[At, tuple[int, ...] | None]) -> None:
    reassignments = tuple(
        PartitionReassignment(
            TopicPartition(TopicName(t), PartitionId(n)), None if r is None else tuple(map(BrokerId, r))
        )
        for (t, n), r in plan.items()
    )
    answer = leader.ask(AlterReassignments(reassignments))
    assert isinstance(answer, ReassignmentsAltered)
    assert {result.error for result in answer.results} == {ErrorCode.NONE}, answer


# 200 partitions move through children, the others by a request and by the legacy znode.
BY_CHILD: list[At] = [(t, n) for t, count in TOPICS.items() if t != "by-others-0" for n in range(count)]
CHANGED, PUT_BACK, DELETED, OVERRULED = BY_CHILD[:50], BY_CHILD[50:75], BY_CHILD[75:100], BY_CHILD[100:110]
BY_LEGACY: list[At] = [("by-others-0", n) for n in range(20)]
BY_REQUEST: list[At] = [("by-others-0", n) for n in range(20, 40)]


def _start_while_the_leader_dies(person: Person, victim: Replica, successor: Replica) -> Plan:
    """Half before the leader dies, the others' moves in between; half, and the first changes, without a leader."""
    person.write(dict.fromkeys(BY_CHILD[:60], FIRST))
    entries = [{"topic": t, "partition": n, "replicas": list(FIRST)} for t, n in BY_LEGACY]
    person.zookeeper.create(LEGACY, json.dumps({"version": 1, "partitions": entries}).encode())
    _request(victim, dict.fromkeys(BY_REQUEST, FIRST))
    person.write(dict.fromkeys(BY_CHILD[60:120], FIRST))
    epoch = person.epoch()
    victim.process.kill()
    person.write(dict.fromkeys(BY_CHILD[120:], FIRST))
    person.write(dict.fromkeys(CHANGED[:25], SECOND) | dict.fromkeys(PUT_BACK, BEFORE))
    successor.await_phase("active", SLOW_S)

    wanted: Plan = dict.fromkeys(BY_CHILD, FIRST) | dict.fromkeys(CHANGED[:25], SECOND)
    wanted |= dict.fromkeys(PUT_BACK, BEFORE)
    wait_until(lambda: person.insists(wanted), "everything moved where it was asked for", SLOW_S)
    wait_until(lambda: person.shown() == person.targets(), "the children were the moves in progress", SLOW_S)
    moving = {at: target for at, target in wanted.items() if target != BEFORE}
    moving |= dict.fromkeys([*BY_LEGACY, *BY_REQUEST], FIRST)
    assert person.shown() == moving
    # Only a native controller that led for a moment can ignore a request.
    assert person.repeated == 0 or person.epoch() > epoch + 1
    return moving


def _change_while_the_successor_leads(person: Person, successor: Replica, moving: Plan) -> Plan:
    """The czxid identifies the move, the mzxid its last change."""
    watched = {at: person.zookeeper.exists(_path(at)) for at in (CHANGED[25], OVERRULED[0], BY_CHILD[199])}
    person.write(dict.fromkeys(CHANGED[25:], SECOND))
    _request(successor, dict.fromkeys(OVERRULED, SECOND))
    _request(successor, dict.fromkeys(BY_REQUEST[:5], None))
    back = {*DELETED, BY_LEGACY[0], *BY_REQUEST[:5]}
    for at in (*DELETED, BY_LEGACY[0]):
        person.zookeeper.delete(_path(at))
    moving = {at: target for at, target in moving.items() if at not in back}
    moving |= dict.fromkeys([*CHANGED[25:], *OVERRULED], SECOND)
    wait_until(lambda: person.shown() == person.targets() == moving, "the later requests were followed", SLOW_S)
    for at, stat in watched.items():
        now = person.zookeeper.exists(_path(at))
        assert now.czxid == stat.czxid
        assert (now.mzxid > stat.mzxid) == (at != BY_CHILD[199])
    assert {frozenset(replicas) for at, replicas in person.assignments().items() if at in back} == {frozenset(BEFORE)}
    return moving


@pytest.mark.timeout(600)
def test_two_hundred_moves_start_change_and_are_cancelled_across_the_death_of_the_leader(
    patient_cluster: LocalCluster, tmp_path: Path
) -> None:
    connect, mute = patient_cluster.zookeeper_connect, patient_cluster.brokers[3].process
    zookeeper = KazooClient(connect)
    zookeeper.start(timeout=60)
    settings: dict[str, object] = {"controller_reassignments_znodes": "true"}
    with Replica(connect, tmp_path, 901, **settings) as first, Replica(connect, tmp_path, 902, **settings) as second:
        wait_until(lambda: "active" in (first.phase, second.phase), "one of them led", SLOW_S)
        victim, successor = (first, second) if first.phase == "active" else (second, first)
        successor.await_phase("standby", SLOW_S)
        person = Person(zookeeper)
        person.create_topics()
        wait_until(person.all_led, "every partition had a leader", SLOW_S)

        mute.signal(signal.SIGSTOP)
        try:
            moving = _start_while_the_leader_dies(person, victim, successor)
            moving = _change_while_the_successor_leads(person, successor, moving)
        finally:
            mute.signal(signal.SIGCONT)

        wait_until(lambda: not person.shown(), "the folder was empty", SLOW_S)
        wait_until(lambda: zookeeper.exists(LEGACY) is None, "the legacy znode was gone", SLOW_S)
        time.sleep(1)  # everything that might return had the time to
        assert person.shown() == person.targets() == {}
        replicas = person.assignments()
        assert {at: replicas[at] for at in moving} == moving
        assert {at: replicas[at] for at in PUT_BACK} == dict.fromkeys(PUT_BACK, BEFORE)
        assert {frozenset(replicas[at]) for at in replicas.keys() - moving.keys()} == {frozenset(BEFORE)}
    zookeeper.stop()
    zookeeper.close()

"""`kafka-zk-controller reassign` beside Kafka's own tools 2.8 and 3.9: the same inputs, the same answers.

The controller is Kafka's own first, then ours; brokers are 3.9.1.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from controller.demo.traffic import Traffic
from controller.demo.waiting import wait_for
from controller.demo.znodes import Plan, Znodes
from controller.lab.cluster import LocalCluster
from controller.lab.errors import JarsUnavailable
from controller.lab.jars import kafka_class_path
from controller.lab.tools import KafkaTools
from controller.lab.zookeeper import zookeeper_client
from controller.reassign.executing import RUN_VERIFY
from tests.cluster.moves import LedCluster, led, slow_cluster

BEFORE: Plan = {0: (1, 2), 1: (2, 3)}
TARGET: Plan = {0: (3, 2), 1: (1, 3)}
BYTES = 3_000_000
TOOLS = ("2.8.2", "3.9.1")
OURS = "ours"
_JAVAS = r"\tat |(org|kafka|java)\.[\w.]+(Exception|Error)|Caused by|\t\.\.\. "
_TOLD_BY_US_ONLY = (
    r" {4}catching up: |This is request \d+|Warning: Kafka's controller leads|It holds for receiving replicas only"
)
_NOT_COMPARED = re.compile(f"{_JAVAS}|{_TOLD_BY_US_ONLY}")
# Kafka's tool clears throttles on the controller too, which replicates nothing and stores no configuration.
_CLEARED_ON_OURS = re.compile(r"(Clearing broker-level throttles on brokers [\d,]+),90[12]\b")
_names = count(1)


class Said(NamedTuple):
    """A call's output, both streams together, and its exit code."""

    exit_code: int
    text: str


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Brokers that copy in small steps, led by a native controller."""
    try:
        for version in TOOLS:
            kafka_class_path(version)
    except JarsUnavailable as error:
        pytest.skip(str(error))
    yield from slow_cluster(is_smooth=True)


@pytest.fixture(params=["theirs", "ours"])
def ruler(request: pytest.FixtureRequest, cluster: LocalCluster, tmp_path: Path) -> Iterator[str]:
    """The controller that leads."""
    with ExitStack() as stack:
        if request.param == OURS:
            stack.enter_context(led(cluster, tmp_path))
        yield request.param


def our_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "controller", "reassign", *arguments]


def call(who: str, *arguments: str) -> Said:
    """Run one of the tools, by its version, or ours."""
    command = our_command(*arguments) if who == OURS else KafkaTools(who).argv("kafka-reassign-partitions", *arguments)
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    return Said(run.returncode, run.stdout)


def ours_json(*arguments: str) -> list[dict[str, Any]]:
    """Every document of a call of ours that must succeed."""
    run = subprocess.run(
        our_command(*arguments, "--output", "json"), capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    decoder, documents, text = json.JSONDecoder(), [], run.stdout.strip()
    while text:
        document, end = decoder.raw_decode(text)
        documents.append(document)
        text = text[end:].lstrip()
    return documents


class Subject:
    """A topic for one tool; all have the same assignment, so that the answers can be compared."""

    def __init__(self, cluster: LocalCluster, who: str, directory: Path) -> None:
        self.who, self.cluster = who, cluster
        self.name = f"tool.{next(_names):03}"
        with Znodes(cluster.zookeeper_connect) as znodes:
            znodes.create_topic(self.name, BEFORE)
            wait_for(lambda: all(p.state for p in znodes.partitions(self.name)), f"leaders of {self.name}")
        self.file = directory / f"{self.name}.json"
        self.plan(TARGET)

    def plan(self, plan: Plan) -> None:
        partitions = [{"topic": self.name, "partition": p, "replicas": list(replicas)} for p, replicas in plan.items()]
        self.file.write_text(json.dumps({"version": 1, "partitions": partitions}))

    def fill(self, size_bytes: int = BYTES) -> None:
        Traffic(self.cluster.bootstrap_servers, self.name, len(BEFORE)).fill(dict.fromkeys(BEFORE, size_bytes))

    def run(self, action: str, *more: str) -> tuple[int, list[str]]:
        """Run an action with the file; return the output that all tools share."""
        said = call(self.who, "--bootstrap-server", self.cluster.bootstrap_servers, action, *self.given(action), *more)
        return said.exit_code, self.normal(said.text)

    def given(self, action: str) -> tuple[str, ...]:
        return () if action == "--list" else ("--reassignment-json-file", str(self.file))

    def normal(self, text: str) -> list[str]:
        """Remove the topic's name, Java's traces, our own additions, and slips that later versions corrected."""
        text = text.replace(self.name, "T").replace(" is complete.", " is completed.")
        text = text.replace("moves are active.Clearing", "moves are active.\nClearing")  # 3.9 forgets the line's end
        text = _CLEARED_ON_OURS.sub(r"\1", text)
        lines = [
            re.sub(r"^Error: (java|org)[\w.]+(Exception|Error): ", "Error: ", line.rstrip())
            for line in text.splitlines()
        ]
        return [line for line in lines if not _NOT_COMPARED.match(line)]

    def settings(self) -> dict[str, Mapping[str, str]]:
        """The tool's settings in ZooKeeper for this topic and the brokers."""
        with zookeeper_client(self.cluster.zookeeper_connect) as client:
            return {
                entity.replace(self.name, "T"): config
                for entity in (f"topics/{self.name}", *(f"brokers/{b}" for b in self.cluster.brokers))
                if (config := config_of(client, entity))
            }

    def settings_at(self, rate: str) -> dict[str, Mapping[str, str]]:
        """The same, once every rate is this one: our controller raises rates for ten seconds."""

        def reached() -> dict[str, Mapping[str, str]] | None:
            found = self.settings()
            rates = {value for config in found.values() for key, value in config.items() if key.endswith("rate")}
            return found if rates == {rate} else None

        return wait_for(reached, f"rates of {rate}", timeout_s=60.0, every_s=0.5)


def config_of(client: KazooClient, entity: str) -> dict[str, str]:
    try:
        found = json.loads(client.get(f"/config/{entity}")[0])["config"]
    except NoNodeError:
        return {}
    return dict(found)


Journey = Callable[[Subject], Iterator[tuple[str, object]]]


def throttled_and_cancelled(subject: Subject) -> Iterator[tuple[str, object]]:
    """A move that is throttled, throttled differently, verified, and cancelled."""
    subject.fill()
    yield "execute", subject.run("--execute", "--throttle", "1000")
    yield "its throttles", subject.settings()
    yield "list", subject.run("--list")
    yield "again", subject.run("--execute")
    yield "another throttle", subject.run("--execute", "--additional", "--throttle", "2000")
    yield "its throttles too", subject.settings_at("2000")
    yield "unfinished", subject.run("--verify")
    yield "cancel", subject.run("--cancel")
    yield "no throttles", subject.settings()
    yield "given up", subject.run("--verify", "--preserve-throttles")


def walked(journey: Journey, cluster: LocalCluster, who: Sequence[str], directory: Path) -> list[dict[str, object]]:
    """Run the tools one after the other, because each sees all moves."""
    return [dict(journey(Subject(cluster, one, directory))) for one in who]


def test_a_controllers_own_configuration_names_the_cluster(cluster: LocalCluster, tmp_path: Path) -> None:
    config, ssl = tmp_path / "controller.properties", tmp_path / "ssl.properties"
    config.write_text(
        f"zookeeper.connect={cluster.zookeeper_connect}\nbroker.id=901\nlisteners=PLAINTEXT://127.0.0.1:9092\n"
    )
    ssl.write_text("security.protocol=SSL\n")

    named = call(OURS, "--config", str(config), "--list")
    elsewhere = call(OURS, "--config", str(config), "--command-config", str(ssl), "--list")

    assert named == call(OURS, "--bootstrap-server", cluster.bootstrap_servers, "--list")
    assert named.exit_code == 0
    assert elsewhere.exit_code == 3
    assert "no broker has a listener with security.protocol SSL, only with PLAINTEXT" in elsewhere.text


def without_order(said: object, ruler: str) -> object:
    """What a tool said, without the order to run --verify where our controller leads."""
    if ruler != OURS or not isinstance(said, tuple):
        return said
    exit_code, lines = said
    return exit_code, [line for line in lines if line != RUN_VERIFY]


@pytest.mark.timeout(400)
def test_a_throttled_move_is_begun_told_and_cancelled_in_the_same_words(
    ruler: str, cluster: LocalCluster, tmp_path: Path
) -> None:
    who = (*TOOLS, OURS) if ruler == "theirs" else ("3.9.1", OURS)

    *kafkas, ours = walked(throttled_and_cancelled, cluster, who, tmp_path)

    receivers = {"follower.replication.throttled.replicas": "0:3,1:1"}
    if ruler == OURS:  # it throttles receivers only, and needs no --verify to end that
        assert ours.pop("its throttles") == {
            "topics/T": receivers,
            **{f"brokers/{b}": {"follower.replication.throttled.rate": "1000"} for b in (1, 3)},
        }
        assert ours.pop("its throttles too") == {
            "topics/T": receivers,
            **{f"brokers/{b}": {"follower.replication.throttled.rate": "2000"} for b in (1, 3)},
        }
    else:
        assert ours["its throttles"] == {
            "topics/T": {"leader.replication.throttled.replicas": "0:1,0:2,1:2,1:3", **receivers},
            **{
                f"brokers/{b}": {
                    "leader.replication.throttled.rate": "1000",
                    "follower.replication.throttled.rate": "1000",
                }
                for b in (1, 2, 3)
            },
        }
    assert ours["no throttles"] == {}
    for version, theirs in zip(who, kafkas, strict=False):
        for step, said in ours.items():
            assert said == without_order(theirs[step], ruler), f"{step}: {version}"


@pytest.mark.timeout(300)
def test_mistakes_are_named_in_the_same_words(cluster: LocalCluster, tmp_path: Path) -> None:
    mistakes: dict[str, Plan] = {
        "Partition replica lists may not contain duplicate entries: T-0 contains multiple entries for 1": {0: (1, 1)},
        "Unknown broker id 77": {0: (1, 77)},
        "Unable to find partition: T-9": {9: (1, 2)},
    }
    subject, theirs = Subject(cluster, OURS, tmp_path), {}
    for sentence, plan in mistakes.items():
        subject.plan(plan)
        theirs = {
            who: call(who, "--bootstrap-server", cluster.bootstrap_servers, "--execute", *subject.given("--execute"))
            for who in ("3.9.1", OURS)
        }

        assert all(said.exit_code != 0 for said in theirs.values())
        for who, said in theirs.items():
            assert any(sentence in line for line in subject.normal(said.text)), f"{who}: {said.text}"


@pytest.mark.timeout(300)
def test_options_and_files_as_people_write_them_are_taken_and_refused_alike(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    subject = Subject(cluster, OURS, tmp_path)
    subject.plan(BEFORE)
    access = ("-bootstrap-server", cluster.bootstrap_servers)
    plan = subject.file
    topics, trailing, whole = (tmp_path / f"{name}.json" for name in ("topics", "trailing", "whole"))
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": subject.name}]}))
    trailing.write_text(f"{plan.read_text()}\n}}\nthank you")
    whole.write_text(f"Current partition replica assignment\n{plan.read_text()}")
    cases = (
        (*access, "-generate", f"--topics-to-move-json-file={topics}", "--broker-list", "1,2,3,"),
        (*access, "-execute", "-reassignment-json-file", str(trailing), "--throttle", "-1"),
        (*access, "--execute", "--reassignment-json-file", str(whole)),
        (*access, "--execute", "--reassignment-json-file", str(plan), "--throttle"),
        (*access, "--exec", "--reassignment-json-file", str(plan)),
        ("--version",),
    )

    codes = {who: [call(who, *case).exit_code == 0 for case in cases] for who in ("3.9.1", OURS)}

    assert codes == {"3.9.1": [True, True, False, False, False, True], OURS: codes["3.9.1"]}


@pytest.mark.timeout(300)
def test_a_move_is_followed_to_its_end(ruler: str, cluster: LocalCluster, tmp_path: Path) -> None:
    subject = Subject(cluster, OURS, tmp_path)
    # A follower gets a mebibyte of each partition at once, however low its throttle is: it takes several of them.
    subject.fill(6_000_000)
    access = ("--bootstrap-server", cluster.bootstrap_servers)

    begun, *snapshots = ours_json(
        *(*access, "--execute", *subject.given("--execute"), "--throttle", "300000"), "--progress", "--interval", "0.3"
    )

    assert [s["partition"] for s in begun["started"]] == [0, 1]
    assert all(0 <= s["copied_bytes"] <= s["total_bytes"] for s in snapshots)
    assert any(0 < s["copied_bytes"] < s["total_bytes"] for s in snapshots)
    assert any(s["bytes_per_second"] and s["remaining_seconds"] for s in snapshots)
    last = snapshots[-1]
    assert (last["is_done"], [e["is_complete"] for e in last["ended"]]) == (True, [True, True])
    (verified,) = ours_json(*access, "--verify", *subject.given("--verify"))
    assert verified["is_complete"]
    assert subject.settings() == {}


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("heard_signals")
def test_who_stops_watching_stops_no_move(cluster: LocalCluster, tmp_path: Path) -> None:
    subject = Subject(cluster, OURS, tmp_path)
    subject.fill()
    access = ("--bootstrap-server", cluster.bootstrap_servers)
    subject.run("--execute", "--throttle", "1000")

    watching = subprocess.Popen(
        our_command(*access, "--progress", "--topic", subject.name, "--interval", "0.2"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    assert "0 of 2 done" in watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=60)

    assert watching.returncode == 130
    assert "stopped watching; the moves continue" in said
    (listed,) = ours_json(*access, "--list", "--topic", subject.name)
    assert len(listed["reassignments"]) == 2
    (cancelled,) = ours_json(*access, "--cancel", "--topic", subject.name, "--partition", "1")
    assert cancelled["cancelled"] == [{"topic": subject.name, "partition": 1}]
    assert subject.settings()["brokers/1"], "the other move goes on as it was"
    (everything,) = ours_json(*access, "--cancel-all")
    assert everything["cancelled"] == [{"topic": subject.name, "partition": 0}]
    assert subject.settings() == {}


@pytest.mark.timeout(300)
def test_through_zookeeper_the_tool_does_what_that_of_2_8_did(cluster: LocalCluster, tmp_path: Path) -> None:
    def journey(subject: Subject) -> Iterator[tuple[str, object]]:
        access = ("--zookeeper", cluster.zookeeper_connect)
        for action, more in (("--execute", ("--throttle", "1000000")), ("--verify", ())):
            said = call(subject.who, *access, action, *subject.given(action), *more)
            yield action, (said.exit_code, sorted(subject.normal(said.text)))
            if action == "--execute":
                yield "its throttles", subject.settings()
                with Znodes(cluster.zookeeper_connect) as znodes:
                    wait_for(lambda: not znodes.has_legacy_move(), "the end of the moves", timeout_s=60)
        yield "no throttles", subject.settings()

    theirs, ours = walked(journey, cluster, ("2.8.2", OURS), tmp_path)

    assert ours == theirs
    assert ours["no throttles"] == {}


@pytest.mark.timeout(300)
def test_a_controller_that_dies_meanwhile_is_waited_for(cluster: LocalCluster, tmp_path: Path) -> None:
    with led(cluster, tmp_path) as rule:
        subject = Subject(cluster, OURS, tmp_path)
        killed_at = kill_leader(rule)

        exit_code, said = subject.run("--execute")

        assert exit_code == 0, said
        assert "Successfully started partition reassignments for T-0,T-1" in said
        assert time.monotonic() > killed_at
        (verified,) = until_complete(subject)
        assert verified["is_complete"]


def kill_leader(rule: LedCluster) -> float:
    return rule.pair.kill(rule.leader)


def until_complete(subject: Subject, timeout_s: float = 60.0) -> list[dict[str, Any]]:
    deadline = time.monotonic() + timeout_s
    while True:
        found = ours_json(
            "--bootstrap-server", subject.cluster.bootstrap_servers, "--verify", *subject.given("--verify")
        )
        if found[0]["is_complete"] or time.monotonic() > deadline:
            return found

"""What do Kafka's own tools print about one more node among the brokers?

Each is run under the native controller and under ours, and the lines that it prints are compared. Here a difference is
expected where a tool goes through all nodes, and the question is whether it hurts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from controller.lab.errors import LabError
from controller.lab.tools import KafkaTools, ToolResult
from tests.clients.stage import OURS, OWN_ID, Stage

OLD = "2.8.2"
_TOOL_S = 60.0
_NOISE = re.compile(r"^\s*$|WARN|DEPRECATED|deprecated|^Picked up |log4j|SLF4J", re.IGNORECASE)


class Probe(Struct, frozen=True):
    """One call of a tool.

    Shape:
        In `args`, {bootstrap}, {controller}, {zookeeper}, {topic}, {brokers} (1,2,3), {nodes} (with our id), {plan} (a
        file that names the topic) and {move} (one that moves it to our id) are replaced. Of its output only lines
        with `lines` count, all by default. `version` is the tool's, that of the brokers by default.
    """

    tool: str
    args: tuple[str, ...]
    version: str | None = None
    lines: str = ""

    @property
    def title(self) -> str:
        """For people: the command, with the tool's version unless it is the brokers'."""
        name = self.tool.rpartition(".")[2]
        asked = " ".join(arg for arg in self.args if arg not in ("--bootstrap-server", "{bootstrap}"))
        return f"{name} {asked}".strip() + (f" ({self.version})" if self.version else "")


def _of(tool: str, *args: str, lines: str = "") -> Probe:
    return Probe(tool, ("--bootstrap-server", "{bootstrap}", *args), lines=lines)


def _old(tool: str, *args: str, lines: str = "") -> Probe:
    return Probe(tool, ("--zookeeper", "{zookeeper}", *args), OLD, lines)


_PLACED = rf"PartitionCount|Current|Proposed|\b{OWN_ID}\b|rror"  # if replicas are placed at random
_TROUBLE = r"^Error|xception"
_GENERATE = ("--generate", "--topics-to-move-json-file", "{plan}", "--broker-list")
_BROKERS = ("--describe", "--entity-type", "brokers")
_LOGGERS = ("--describe", "--entity-type", "broker-loggers", "--entity-name", "{controller}")

PROBES: tuple[Probe, ...] = (
    _of("kafka-broker-api-versions", lines=r"\(id: |rror|xception"),
    _of("kafka-log-dirs", "--describe", "--topic-list", "{topic}"),
    _of("kafka-topics", "--describe", "--topic", "{topic}"),
    _of("kafka-topics", "--describe", "--unavailable-partitions"),
    _of("kafka-topics", "--describe", "--at-min-isr-partitions", "--topic", "{topic}"),
    _of("kafka-reassign-partitions", *_GENERATE, "{brokers}", lines=_PLACED),
    _of("kafka-reassign-partitions", *_GENERATE, "{nodes}", lines=_PLACED),
    _of(
        "kafka-reassign-partitions",
        "--execute",
        "--reassignment-json-file",
        "{move}",
        lines="rror|xception|started|-0: ",
    ),
    _of("kafka-reassign-partitions", "--list"),
    _of("kafka-leader-election", "--election-type", "preferred", "--topic", "{topic}", "--partition", "0"),
    _of("kafka-consumer-groups", "--list", lines="tools-|rror|xception"),
    _of("kafka-consumer-groups", "--describe", "--all-groups", lines=_TROUBLE),
    _of("kafka-get-offsets", "--topic", "{topic}"),
    _of("org.apache.kafka.tools.TransactionsCommand", "list"),
    Probe("org.apache.kafka.tools.ClusterTool", ("cluster-id", "--bootstrap-server", "{bootstrap}"), lines=_TROUBLE),
    _of("kafka-configs", *_BROKERS),
    _of("kafka-configs", *_LOGGERS, lines=_TROUBLE),
    _old("kafka-configs", *_BROKERS, "--entity-name", "1"),
    _old("kafka-topics", "--create", "--topic", "{topic}-old", "--partitions", "6", "--replication-factor", "3"),
    _of("kafka-topics", "--describe", "--topic", "{topic}-old", lines=_PLACED),
    _old("kafka-topics", "--create", "--topic", "{topic}-wide", "--partitions", "1", "--replication-factor", "4"),
    _of(
        "kafka-topics",
        "--describe",
        "--under-replicated-partitions",
        "--topic",
        "{topic}-wide",
        lines="Partition: |rror",
    ),
    _old("kafka-reassign-partitions", *_GENERATE, "{brokers}", lines=_PLACED),
)


class Said(Struct, frozen=True):
    """The result of one call, without parts that differ between runs."""

    exit_code: int
    lines: tuple[str, ...]


class Beside(Struct, frozen=True):
    """One call under both controllers."""

    title: str
    ours: Said
    native: Said

    @property
    def is_equal(self) -> bool:
        """Whether the tool printed the same."""
        return self.ours == self.native

    @property
    def only_ours(self) -> tuple[str, ...]:
        """The lines only under our controller."""
        return _without(self.ours.lines, self.native.lines)

    @property
    def only_native(self) -> tuple[str, ...]:
        """The lines only under the native one."""
        return _without(self.native.lines, self.ours.lines)


def _without(lines: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(line for line in lines if line not in others)


def ask(stage: Stage, leader: str) -> dict[str, Said]:
    """Each tool's output while this controller leads."""
    topic = f"tools-{leader}"
    stage.prepare(topic)
    plan = stage.cluster.directory / f"{topic}.json"
    plan.write_text(json.dumps({"version": 1, "topics": [{"topic": f"{topic}-electing"}]}))
    move = stage.cluster.directory / f"{topic}-move.json"
    wanted = {"topic": f"{topic}-electing", "partition": 0, "replicas": [OWN_ID, 2]}
    move.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    brokers = ",".join(map(str, stage.cluster.brokers))
    replaced = {
        "bootstrap": stage.bootstrap("brokers"),
        "controller": str(stage.leader()),
        "zookeeper": stage.cluster.zookeeper_connect,
        "topic": f"{topic}-electing",
        "brokers": brokers,
        "nodes": f"{brokers},{OWN_ID}",
        "plan": str(plan),
        "move": str(move),
    }
    own_id = OWN_ID if leader == OURS else None
    return {probe.title: _run(stage, probe, replaced, own_id) for probe in PROBES}


def _run(stage: Stage, probe: Probe, replaced: Mapping[str, str], own_id: int | None) -> Said:
    tools = KafkaTools(probe.version or stage.cluster.version)
    try:
        result = tools.run(probe.tool, *(arg.format(**replaced) for arg in probe.args), timeout_s=_TOOL_S)
    except LabError as error:
        return Said(-1, (str(error).partition(" --")[0],))
    return said(result, probe, topic=replaced["topic"].removesuffix("-electing"), own_id=own_id)


def said(result: ToolResult, probe: Probe, *, topic: str, own_id: int | None) -> Said:
    """The lines that count, sorted."""
    lines = [line.strip() for line in result.output.splitlines() if not _NOISE.search(line)]
    kept = {readable(line, topic, own_id) for line in lines if re.search(probe.lines, line)}
    return Said(result.exit_code, tuple(sorted(kept)))


def readable(line: str, topic: str, own_id: int | None) -> str:
    """A line without the run's own names, addresses and times.

    >>> readable("127.0.0.1:15003 (id: 901 rack: null isFenced: false) -> (", "tools-ours", 901)
    '<address> (id: <our node> rack: null isFenced: false) -> ('
    """
    if line.startswith('{"'):
        line = _log_dirs(line)
    line = line.replace(topic, "tools")
    line = re.sub(r"127\.0\.0\.1(:\d+)?", "<address>", line)
    line = re.sub(r"TopicId: \S+", "TopicId: <id>", line)
    if own_id is not None:
        line = re.sub(rf"\b{own_id}\b", "<our node>", line)
    return re.sub(r"\[?\d{4}-\d\d-\d\d[ T][\d:,.]+\]?", "<time>", line)


def _log_dirs(line: str) -> str:
    """From the JSON of kafka-log-dirs: each broker's number of directories and replicas, and its errors."""
    try:
        described: dict[str, Any] = json.loads(line)
    except ValueError:
        return line
    if "brokers" not in described:
        return line
    shown = (
        f"broker {broker['broker']}: {len(broker['logDirs'])} directory, "
        f"{sum(len(found['partitions']) for found in broker['logDirs'])} replicas, "
        f"errors {sorted({str(found['error']) for found in broker['logDirs']})}"
        for broker in sorted(described["brokers"], key=lambda broker: int(broker["broker"]))
    )
    return "; ".join(shown)

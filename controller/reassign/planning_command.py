"""What does each goal of `kafka-zk-controller plan` ask of a plan, and where is the plan written?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from controller.reassign import plans
from controller.reassign.answer import Answer
from controller.reassign.client_properties import read_client_properties
from controller.reassign.cluster import Cluster
from controller.reassign.connecting import Connection, connect
from controller.reassign.controller_config import ControllerConfig
from controller.reassign.input_file import InputFile
from controller.reassign.option_values import server_mistakes
from controller.reassign.planning.certified import Before, Certificate, rounded, sealed
from controller.reassign.planning.layout import Aims, By, Unplannable
from controller.reassign.planning.planner import Planned
from controller.reassign.planning.planner import plan as planned_for
from controller.reassign.planning.report import Pace, document, lines, outside_sentence
from controller.reassign.plans import as_lines, read_brokers
from controller.reassign.refusals import INTERRUPTED, Refused, Stopped, Unusable
from controller.reassign.surveying import Survey, survey
from zk_layout.ids import BrokerId, Replicas, TopicName, TopicPartition


class Asked(Struct, frozen=True):
    """One plan as it was asked for: its goal in words, and the options that count for its hash."""

    goal: str
    aims: Aims
    options: dict[str, object]


class Common(Struct, frozen=True):
    """The options that every goal has."""

    connection: Connection
    topics: tuple[TopicName, ...]
    is_rack_aware: bool
    pace: Pace
    plan_file: Path | None


def _common(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of every goal."""
    for decorate in reversed(_COMMON):
        command = decorate(command)
    return command


_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)
_COMMON: tuple[Callable[[Callable[..., None]], Callable[..., None]], ...] = (
    click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Any brokers of the cluster."),
    click.option("--config", type=_PATH, help="A controller's properties file, instead of --bootstrap-server."),
    click.option("--command-config", type=_PATH, help="Properties file of a Kafka Java client: security, timeouts."),
    click.option("--timeout", type=click.IntRange(min=1), metavar="MS", help="How long to look for the controller."),
    click.option("--topic", multiple=True, metavar="TOPIC", help="Move only these; may be repeated."),
    click.option("--disable-rack-aware", is_flag=True, help="Ignore the brokers' racks."),
    click.option("--plan-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan there."),
    click.option(
        "--throttle", type=click.IntRange(min=1), metavar="BYTES/S", help="How long does it take at this rate?"
    ),
    click.option("--concurrent-moves", type=click.IntRange(min=1), metavar="N", help="... with so many at a time?"),
    click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True),
)
_slack = click.option(
    "--slack",
    type=click.FloatRange(min=0, max=1),
    default=0.05,
    show_default=True,
    help="How far a broker may be from its fair share.",
)
_by = click.option(
    "--by",
    type=click.Choice([by.value for by in By]),
    multiple=True,
    default=[by.value for by in By],
    show_default=True,
    help="What is balanced; may be repeated.",
)


@click.group("plan")
def plan() -> None:
    """Plan moves of many partitions: who gets what, and how little must be copied.

    Shows the plan and changes nothing. --plan-file writes it in the format of kafka-reassign-partitions;
    `kafka-zk-controller reassign --execute` runs exactly that plan, or names what has changed since.

    drain, replace, replication-factor and racks move only what must move. add and balance move as little as brings
    brokers within --slack of their fair share. leaders changes the order of replicas only.

    \b
      kafka-zk-controller plan drain 3 --bootstrap-server kafka1:9092 --plan-file drain.json --throttle 50000000
      kafka-zk-controller reassign --bootstrap-server kafka1:9092 \\
          --execute --reassignment-json-file drain.json --throttle 50000000 --progress

    Exit codes: 0 planned, even if nothing has to change; 1 no plan can reach this; 2 invalid options; 3 the cluster
    cannot be reached.
    """


@plan.command()
@click.argument("brokers")
@_common
def drain(brokers: str, **common: Any) -> None:
    """Move everything off BROKERS (3 or 3,4), which may be down. Nothing else moves."""
    _run(common, lambda: _drained(brokers))


@plan.command()
@click.argument("broker", type=int)
@click.option("--with", "successor", type=int, required=True, metavar="BROKER", help="The broker that takes its place.")
@_common
def replace(broker: int, successor: int, **common: Any) -> None:
    """Move everything from BROKER, which may be down, to another one. Nothing else moves."""
    _run(common, lambda: _replaced(broker, successor))


@plan.command("replication-factor")
@click.option("--replication-factor", type=click.IntRange(min=1), required=True, metavar="N", help="Replicas to have.")
@_common
def replication_factor(replication_factor: int, **common: Any) -> None:
    """Give the topics of --topic another number of replicas. Nothing else moves."""
    _run(common, lambda: _with_factor(replication_factor, common["topic"]))


@plan.command()
@_common
def racks(**common: Any) -> None:
    """Move replicas out of racks that have more than their part of a partition. Nothing else moves."""
    _run(common, lambda: Asked("repair racks", Aims(repairs_racks=True), {}))


@plan.command()
@click.argument("brokers")
@_by
@_slack
@_common
def add(brokers: str, by: tuple[str, ...], slack: float, **common: Any) -> None:
    """Give the new BROKERS (5 or 5,6) their fair share, from the fullest. Nothing moves between the others."""
    _run(common, lambda: _added(brokers, by, slack))


@plan.command()
@_by
@_slack
@_common
def balance(by: tuple[str, ...], slack: float, **common: Any) -> None:
    """Bring all brokers within --slack of their fair share."""
    aims = Aims(balances=_chosen(by), slack=slack)
    _run(common, lambda: Asked(f"balance {' and '.join(sorted(set(by)))}", aims, _balancing(by, slack)))


@plan.command()
@_common
def leaders(**common: Any) -> None:
    """Let brokers be the preferred leaders of equally many partitions. Copies nothing.

    The order of replicas decides; leaders change with the next election of preferred leaders.
    """
    _run(common, lambda: Asked("balance leaders", Aims(balances_leaders=True), {}))


# ---- goals --------------------------------------------------------------------------------------------------


def _drained(brokers: str) -> Asked:
    leaving = read_brokers(brokers)
    return Asked(f"drain {_named(leaving)}", Aims(leaving=frozenset(leaving)), {"brokers": list(leaving)})


def _replaced(broker: int, successor: int) -> Asked:
    if broker == successor:
        raise Unusable(f"--with {successor}: a broker cannot take its own place")
    old, new = BrokerId(broker), BrokerId(successor)
    aims = Aims(leaving=frozenset({old}), replacements={old: new})
    return Asked(f"replace broker {old} with {new}", aims, {"broker": old, "with": new})


def _with_factor(factor: int, topics: tuple[str, ...]) -> Asked:
    if not topics:
        raise Unusable("plan replication-factor needs --topic: which topics are to have so many replicas?")
    aims = Aims(replication_factors={TopicName(topic): factor for topic in topics})
    return Asked(f"replication factor {factor}", aims, {"replication_factor": factor})


def _added(brokers: str, by: tuple[str, ...], slack: float) -> Asked:
    receivers = read_brokers(brokers)
    aims = Aims(receivers=frozenset(receivers), balances=_chosen(by), slack=slack)
    return Asked(f"add {_named(receivers)}", aims, {"brokers": list(receivers)} | _balancing(by, slack))


def _chosen(by: tuple[str, ...]) -> frozenset[By]:
    return frozenset(By(name) for name in by)


def _balancing(by: tuple[str, ...], slack: float) -> dict[str, object]:
    return {"by": sorted(set(by)), "slack": slack}


def _named(brokers: Replicas) -> str:
    return f"broker{plans.plural(brokers)} {plans.listed(brokers)}"


# ---- running ------------------------------------------------------------------------------------------------


def _run(given: dict[str, Any], ask: Callable[[], Asked]) -> None:
    answer = Answer(is_json=given["output"] == "json")
    try:
        common, asked = _read(given), ask()
        cluster = connect(common.connection, answer)
        try:
            _make(cluster, asked, common, answer)
        finally:
            cluster.close()
    except Stopped as reason:
        answer.stop(reason)
    except KeyboardInterrupt:
        answer.exit_code = INTERRUPTED
    sys.exit(answer.end())


def _read(given: dict[str, Any]) -> Common:
    mistakes: list[str] = []
    server, config = given["bootstrap_server"], given["config"]
    if (server is None) == (config is None):
        mistakes.append("give --bootstrap-server or --config: one of them names the cluster")
    if server is not None:
        mistakes += server_mistakes(server)
    if mistakes:
        raise Unusable(as_lines(mistakes))
    named = ControllerConfig(config) if config is not None else None
    properties = InputFile(given["command_config"]) if given["command_config"] is not None else None
    if named is not None:
        _ = named.zookeeper
    if properties is not None:
        read_client_properties(properties)
    return Common(
        Connection(server, named, properties, timeout_ms=given["timeout"]),
        tuple(map(TopicName, given["topic"])),
        not given["disable_rack_aware"],
        Pace(given["throttle"], given["concurrent_moves"]),
        given["plan_file"],
    )


def _make(cluster: Cluster, asked: Asked, common: Common, answer: Answer) -> None:
    """Plan, show the plan, and write it.

    Raises:
        Stopped: no plan can reach this, or the file cannot be written.
    """
    seen = survey(cluster, common.topics, is_rack_aware=common.is_rack_aware)
    layout = seen.layout
    known = {placed.at.topic for placed in layout.partitions}
    if lost := [topic for topic in common.topics if topic not in known]:
        raise Refused("\n".join(f"Topic {topic} not found." for topic in lost))
    try:
        planned = planned_for(layout, asked.aims)
    except Unplannable as reason:
        raise Refused(f"{asked.goal}: {reason}") from None
    _warn(seen, planned, asked, answer)
    for line in lines(planned, layout, asked.goal, common.pace):
        answer.say(line)
    answer.document |= {"goal": asked.goal} | document(planned, layout, common.pace)
    if planned.changes:
        _write(cluster, planned, asked, common, answer)


def _warn(seen: Survey, planned: Planned, asked: Asked, answer: Answer) -> None:
    if seen.moving:
        answer.warn(f"left out, because they move: {_some(seen.moving)}")
    if seen.unmeasured:
        answer.warn(f"their sizes are unknown, and taken for the median: {_some(seen.unmeasured)}")
    if planned.outside:
        answer.warn(outside_sentence(planned.outside, asked.aims.slack))
    if planned.unspread:
        answer.warn(f"a rack keeps more than its part of the replicas, for want of brokers: {_some(planned.unspread)}")


def _some(partitions: tuple[TopicPartition, ...], most: int = 5) -> str:
    more = f" and {len(partitions) - most} more" if len(partitions) > most else ""
    return f"{', '.join(map(str, partitions[:most]))}{more}"


def _write(cluster: Cluster, planned: Planned, asked: Asked, common: Common, answer: Answer) -> None:
    targets = {change.at: change.after for change in planned.changes}
    certificate = sealed(
        Certificate(
            asked.goal,
            asked.options | {"topics": list(common.topics), "is_rack_aware": common.is_rack_aware},
            cluster.topic_ids({at.topic for at in targets}),
            tuple(Before(*c.at, c.before, rounded(c.size_bytes)) for c in planned.changes),
            planned.moved_bytes,
            planned.least_bytes,
        ),
        targets,
    )
    written = plans.as_plan(targets) | {"plan": msgspec.to_builtins(certificate)}
    answer.document |= {"hash": certificate.hash, "plan": written}
    if common.plan_file is None:
        answer.say("\n--plan-file writes this plan to a file, which `reassign --execute` runs")
        return
    try:
        common.plan_file.write_bytes(msgspec.json.encode(written) + b"\n")
    except OSError as error:
        raise Unusable(f"--plan-file {common.plan_file}: {error.strerror}") from None
    answer.say(
        f"\nPlan {certificate.hash} is in {common.plan_file}. Run it with:\n"
        f"  kafka-zk-controller reassign --execute --reassignment-json-file {common.plan_file} "
        f"--bootstrap-server {common.connection.bootstrap_server or 'HOST:PORT'}"
    )

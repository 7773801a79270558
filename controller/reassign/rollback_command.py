"""What does `kafka-zk-controller rollback` show and do?"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from msgspec import Struct

from controller.reassign.answer import Answer
from controller.reassign.client_properties import read_client_properties
from controller.reassign.cluster import Added, Cluster, Listing
from controller.reassign.connecting import Connection, connect, connect_zookeeper
from controller.reassign.controller_config import ControllerConfig
from controller.reassign.executing import NO_REASON_KEPT, by_partition
from controller.reassign.input_file import InputFile
from controller.reassign.option_values import server_mistakes, zookeeper_mistakes
from controller.reassign.plans import as_lines
from controller.reassign.recorded import Recorded, recorded, topics_now
from controller.reassign.refusals import INTERRUPTED, Declined, Refused, Stopped, Unusable
from controller.reassign.undoing import Undo, undo
from controller.reassign.zookeeper_cluster import ZooKeeperCluster
from zk_layout.ids import RequestId
from zk_layout.znodes.move_records import mistake_in_reason

KAFKAS = (
    "nothing was done: Kafka's controller leads, which throttles no request; leave --throttle out, or throttle brokers "
    "and topics by their settings"
)
_PATH = click.Path(exists=True, dir_okay=False, path_type=Path)


class Asked(Struct, frozen=True):
    """What is to be taken back, how far, and how fast; without `plan_hash` the plan is only shown."""

    request: RequestId
    connection: Connection
    plan_hash: str | None
    is_partial: bool
    reason: str | None
    throttle: int | None


@click.command()
@click.argument("request", type=click.IntRange(min=1))
@click.option("--zookeeper", metavar="HOST:PORT,...", help="The cluster's ZooKeeper, where its moves are recorded.")
@click.option("--config", type=_PATH, help="A controller's properties file, instead of --zookeeper.")
@click.option("--bootstrap-server", metavar="HOST:PORT,...", help="Any brokers; by default those in ZooKeeper.")
@click.option("--command-config", type=_PATH, help="Properties file of a Kafka Java client: security, timeouts.")
@click.option("--timeout", type=click.IntRange(min=1), metavar="MS", help="How long to look for the controller.")
@click.option("--execute", metavar="HASH", help="Do it, if the plan is still the one that was shown with this hash.")
@click.option("--partial", is_flag=True, help="With --execute: although some moves cannot be taken back.")
@click.option("--reason", metavar="TEXT", help="With --execute: why; kept with the request, if this controller leads.")
@click.option(
    "--throttle",
    type=click.IntRange(min=1),
    metavar="BYTES/S",
    help="With --execute: for each receiving broker.",
)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def rollback(request: int, output: str, **given: object) -> None:
    """Take the moves of REQUEST back: each partition to the replicas that it had before.

    Shows a plan and changes nothing. --execute does exactly that plan, as a request of its own, which obeys limits and
    a pause, and can be rolled back as well.

    Left alone, and named, is what has changed since: a topic that was deleted or created again, a partition that has
    moved on, a broker that is not alive. A move that is still under way turns back; one that waits is taken out.

    \b
      kafka-zk-controller reassign --bootstrap-server kafka1:9092 --list --request 7
      kafka-zk-controller rollback 7 --zookeeper zk1:2181/kafka
      kafka-zk-controller rollback 7 --zookeeper zk1:2181/kafka --execute 1f0c5a6b7d8e9f00

    Exit codes: 0 everything can be taken back, or is accepted; 1 something is left alone or refused, and named; 2
    invalid options; 3 the cluster cannot be reached; 130 interrupted.
    """
    answer = Answer(is_json=output == "json")
    try:
        _run(_read(RequestId(request), given), answer)
    except Stopped as reason:
        answer.stop(reason)
    except KeyboardInterrupt:
        answer.exit_code = INTERRUPTED
    sys.exit(answer.end())


def _read(request: RequestId, given: dict[str, object]) -> Asked:
    zookeeper, servers, config = given["zookeeper"], given["bootstrap_server"], given["config"]
    mistakes: list[str] = []
    if (zookeeper is None) == (config is None):
        mistakes.append("give --zookeeper or --config: one of them names the cluster")
    if isinstance(zookeeper, str):
        mistakes += zookeeper_mistakes(zookeeper)
    if isinstance(servers, str):
        mistakes += server_mistakes(servers)
    if given["partial"] and given["execute"] is None:
        mistakes.append("--partial goes with --execute")
    reason = given["reason"] if isinstance(given["reason"], str) else None
    if reason is not None and given["execute"] is None:
        mistakes.append("--reason goes with --execute")
    if reason is not None and (mistake := mistake_in_reason(reason)) is not None:
        mistakes.append(f"--reason {mistake}")
    if given["throttle"] is not None and given["execute"] is None:
        mistakes.append("--throttle goes with --execute")
    if mistakes:
        raise Unusable(as_lines(mistakes))
    properties = InputFile(given["command_config"]) if isinstance(given["command_config"], Path) else None
    if properties is not None:
        read_client_properties(properties)
    connection = Connection(
        bootstrap_server=servers if isinstance(servers, str) else None,
        config=ControllerConfig(config) if isinstance(config, Path) else None,
        command_config=properties,
        zookeeper=zookeeper if isinstance(zookeeper, str) else None,
        timeout_ms=given["timeout"] if isinstance(given["timeout"], int) else None,
    )
    plan_hash = given["execute"] if isinstance(given["execute"], str) else None
    throttle = given["throttle"] if isinstance(given["throttle"], int) else None
    return Asked(request, connection, plan_hash, is_partial=bool(given["partial"]), throttle=throttle, reason=reason)


def _run(asked: Asked, answer: Answer) -> None:
    zookeeper, servers = connect_zookeeper(asked.connection, answer)
    try:
        found = recorded(zookeeper, asked.request)
        to = Connection(servers, command_config=asked.connection.command_config, timeout_ms=asked.connection.timeout_ms)
        cluster = connect(to, answer)
        try:
            listing = cluster.listing()
            plan = _plan(zookeeper, cluster, listing, found)
            _show(found, plan, asked, answer)
            if asked.plan_hash is not None:
                _execute(cluster, plan, asked, answer, is_ours=listing.controller is not None)
        finally:
            cluster.close()
    finally:
        zookeeper.close()


def _plan(zookeeper: ZooKeeperCluster, cluster: Cluster, listing: Listing, found: Recorded) -> Undo:
    nodes = cluster.nodes()
    topics = topics_now(zookeeper, sorted({name for part in found.parts for name in part.topics}))
    return undo(found.request, found.parts, topics, listing, nodes)


def _show(found: Recorded, plan: Undo, asked: Asked, answer: Answer) -> None:
    answer.document |= {
        "request": found.document,
        "hash": plan.hash,
        "back": [back.document for back in plan.backs],
        "there": [str(at) for at in plan.is_there],
        "left": {str(at): why for at, why in plan.left.items()},
        "lost": list(found.lost),
    }
    answer.say(found.sentence)
    for back in plan.backs:
        answer.say(f"  {back.sentence}")
    if plan.is_there:
        answer.say(f"  {len(plan.is_there)} more need nothing: their replicas are what they were")
    for at, why in plan.left.items():
        answer.fail(f"  left alone: {at}: {why}")
    for path in found.lost:
        answer.fail(f"  left alone: what {path} had, which is missing or cannot be read")
    answer.say(f"Plan {plan.hash}: {plan.summary}")
    if plan.backs and asked.plan_hash is None:
        partial = " --partial" if plan.left or found.lost else ""
        answer.say(f"Do exactly this with the same options and: --execute {plan.hash}{partial}")


def _execute(cluster: Cluster, plan: Undo, asked: Asked, answer: Answer, *, is_ours: bool) -> None:
    if asked.throttle is not None and not is_ours:
        raise Refused(KAFKAS)
    if asked.plan_hash != plan.hash:
        raise Refused(f"nothing was done: the plan is {plan.hash} now, not {asked.plan_hash}; see what has changed")
    if answer.exit_code and not asked.is_partial:
        raise Refused("nothing was done: some moves cannot be taken back; --partial takes back the others")
    if not plan.backs:
        answer.say("Nothing is left to take back.")
        return
    if asked.reason is not None and not is_ours:
        answer.warn(NO_REASON_KEPT)
    reason = asked.reason if is_ours else None
    answered = cluster.alter(plan.targets, added=Added(asked.throttle, reason))
    answer.document |= {"request_id": answered.request_id, "refused": {}, "throttle": asked.throttle}
    number = f" {answered.request_id}" if answered.request_id is not None else ""
    if len(answered.refused) < len(plan.backs):
        answer.say(f"Request{number} takes them back. Follow it with: kafka-zk-controller reassign --progress")
    if answered.refused:
        answer.document["refused"] = {str(at): why for at, why in sorted(answered.refused.items())}
        raise Declined("\n".join(["The controller refused:", *by_partition(answered.refused)]))

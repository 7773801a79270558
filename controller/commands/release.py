"""`kafka-zk-controller release`: give the cluster to Kafka's own controllers, or take it back."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import click
import msgspec

from controller.commands import handover
from controller.commands.common import CONFIG, FAILED, OK, as_text_or_json, at_zookeeper, fail
from controller.commands.handover import NoBrokerToTakeOver, Outcome


@click.command()
@click.option("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="The brokers' zookeeper.connect.")
@click.option("--config", type=CONFIG, help="A replica's properties file, instead of --zookeeper.")
@click.option("--undo", is_flag=True, help="Take the cluster back: let the replicas stand for election again.")
@click.option("--reason", default="", help="The reason, stored in ZooKeeper with your user name.")
@click.option("--force", is_flag=True, help="Release even if no broker runs that could take over.")
@click.option("--timeout", "timeout_s", default=60.0, show_default=True, help="Seconds to wait for the new controller.")
@as_text_or_json
def release(  # noqa: PLR0913 (one parameter an option)
    zookeeper: str | None,
    config: Path | None,
    undo: bool,
    reason: str,
    force: bool,
    timeout_s: float,
    output: str,
) -> None:
    """Give the cluster to Kafka's own controllers, until it is taken back.

    The replicas may keep running, and may be restarted: the leader finishes what is in flight and hands over, and no
    replica claims the cluster until --undo. Moves in progress continue under the native controller.

    \b
      kafka-zk-controller release --zookeeper zk1:2181/kafka --reason "the hosts are upgraded"
      kafka-zk-controller release --zookeeper zk1:2181/kafka --undo

    Exit codes: 0 done, 1 refused or timed out, 2 usage error, 3 ZooKeeper cannot be reached.
    """
    if undo:
        do = partial(handover.undo, timeout_s=timeout_s)
    else:
        do = partial(handover.give, reason=reason, timeout_s=timeout_s, is_forced=force)
    try:
        outcome = at_zookeeper(zookeeper, config, do)
    except NoBrokerToTakeOver:
        fail("no broker is registered that could take over the cluster: start one, or use --force", FAILED)
    if output == "json":
        click.echo(json.dumps(msgspec.to_builtins(outcome), indent=2))
    else:
        for line in _lines(outcome, is_undone=undo, timeout_s=timeout_s):
            click.echo(line)
    sys.exit(OK if outcome.is_done else FAILED)


def _lines(outcome: Outcome, *, is_undone: bool, timeout_s: float) -> list[str]:
    holder = f"broker {outcome.controller}" if outcome.controller is not None else "no process"
    if outcome.is_done and is_undone:
        return [f"Taken back: replica {outcome.controller} of this controller holds /controller."]
    if is_undone:
        return [
            f"The release is undone, but after {timeout_s:g} s {holder} holds /controller. Check that a replica runs "
            "and may replace a native controller (controller.takeover=always)."
        ]
    lines = []
    if outcome.is_done:
        lines.append(f"Released: Kafka's own controller on {holder} leads; undo with --undo.")
    else:
        lines.append(
            f"The release is recorded, but after {timeout_s:g} s {holder} holds /controller. It stays in force; "
            "run this again to wait longer, or undo it with --undo."
        )
    if outcome.released is not None:
        lines.append(f"Requested {handover.who_asked(outcome.released)}.")
    if outcome.unconfirmed:
        named = ", ".join(outcome.unconfirmed[:5]) + (" …" if len(outcome.unconfirmed) > 5 else "")
        lines.append(
            f"Replicas of {len(outcome.unconfirmed)} topics ({named}) remain on brokers that were down when they were "
            "moved away. A native controller does not delete them; this controller does when it leads again."
        )
    return lines

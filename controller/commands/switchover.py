"""`kafka-zk-controller switchover`: let a given replica lead instead of another."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import click
import msgspec

from controller.commands import handover
from controller.commands.common import CONFIG, FAILED, OK, as_text_or_json, at_zookeeper, fail
from controller.commands.handover import CannotSwitch
from zk_layout.ids import BrokerId


@click.command()
@click.option("--to", type=click.IntRange(min=0), required=True, help="broker.id of the replica that is to lead.")
@click.option("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="The brokers' zookeeper.connect.")
@click.option("--config", type=CONFIG, help="A replica's properties file, instead of --zookeeper.")
@click.option("--timeout", "timeout_s", default=60.0, show_default=True, help="Seconds to wait until it leads.")
@as_text_or_json
def switchover(to: int, zookeeper: str | None, config: Path | None, timeout_s: float, output: str) -> None:
    """Let a given replica lead instead of another, for example before the leader's host is rebooted.

    The replica claims /controller over the leader's claim in one transaction, so that no broker's native controller
    takes it in between. The former leader stands by. `kafka-zk-controller status --zookeeper` lists the replicas.

    \b
      kafka-zk-controller switchover --to 902 --zookeeper zk1:2181/kafka
      kafka-zk-controller switchover --to 902 --config controller.properties

    Exit codes: 0 it leads, 1 refused or timed out, 2 usage error, 3 ZooKeeper cannot be reached.
    """
    try:
        outcome = at_zookeeper(zookeeper, config, partial(handover.switch, to=BrokerId(to), timeout_s=timeout_s))
    except CannotSwitch as error:
        fail(str(error), FAILED)
    if output == "json":
        click.echo(json.dumps(msgspec.to_builtins(outcome), indent=2))
    elif outcome.is_done:
        click.echo(f"Replica {to} leads.")
    else:
        holder = f"broker {outcome.controller}" if outcome.controller is not None else "no process"
        click.echo(
            f"Replica {to} does not lead after {timeout_s:g} s; {holder} holds /controller. The replica's log says why."
        )
    sys.exit(OK if outcome.is_done else FAILED)

"""`kafka-zk-controller pause` and `resume`: let no move of partitions begin, for a while."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import click
import msgspec

from controller.commands import handover, pausing
from controller.commands.common import CONFIG, FAILED, OK, as_text_or_json, at_zookeeper
from controller.commands.pausing import Outcome

_ZOOKEEPER = click.option("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="The brokers' zookeeper.connect.")
_CONFIG = click.option("--config", type=CONFIG, help="A replica's properties file, instead of --zookeeper.")
_TIMEOUT = click.option(
    "--timeout", "timeout_s", default=30.0, show_default=True, help="Seconds to wait until the leader knows."
)


@click.command()
@_ZOOKEEPER
@_CONFIG
@click.option("--reason", default="", help="The reason, stored in ZooKeeper with your user name.")
@_TIMEOUT
@as_text_or_json
def pause(zookeeper: str | None, config: Path | None, reason: str, timeout_s: float, output: str) -> None:
    """Let no move of partitions begin, until `resume`. The leader goes on leading, also after a fail-over.

    Moves under way go on, and can be cancelled. A client that asks for a move is refused; moves asked for in ZooKeeper
    wait. No leader moves for balance, and no switchover is carried out. Partitions that lose their leader get another,
    and elections that a client asks for take place. Kafka's own controllers know nothing of a pause.

    \b
      kafka-zk-controller pause --zookeeper zk1:2181/kafka --reason "disks are replaced"
      kafka-zk-controller resume --zookeeper zk1:2181/kafka

    Exit codes: 0 in force, 1 recorded, but no replica that leads knows yet, 2 usage error, 3 ZooKeeper cannot be
    reached.
    """
    outcome = at_zookeeper(zookeeper, config, partial(pausing.pause, reason=reason, timeout_s=timeout_s))
    _show(outcome, _paused(outcome, timeout_s), output, is_done=outcome.is_known)


@click.command()
@_ZOOKEEPER
@_CONFIG
@_TIMEOUT
@as_text_or_json
def resume(zookeeper: str | None, config: Path | None, timeout_s: float, output: str) -> None:
    """Let moves of partitions begin again, after `pause`. Those that wait in ZooKeeper begin at once.

    \b
      kafka-zk-controller resume --zookeeper zk1:2181/kafka

    Exit codes: 0 in force, 1 recorded, but the leader does not know yet, 2 usage error, 3 ZooKeeper cannot be reached.
    """
    outcome = at_zookeeper(zookeeper, config, partial(pausing.resume, timeout_s=timeout_s))
    is_done = outcome.paused is None and (outcome.is_known or not outcome.is_ours)
    _show(outcome, _resumed(outcome, timeout_s), output, is_done=is_done)


def _show(outcome: Outcome, lines: list[str], output: str, *, is_done: bool) -> None:
    if output == "json":
        click.echo(json.dumps(msgspec.to_builtins(outcome), indent=2))
    else:
        for line in lines:
            click.echo(line)
    sys.exit(OK if is_done else FAILED)


def _paused(outcome: Outcome, timeout_s: float) -> list[str]:
    if outcome.paused is None:
        return ["The pause has already been ended by another operator."]
    by = handover.who_asked(outcome.paused)
    lines = [f"Moves were already paused {by}." if outcome.was_so else f"Moves are paused {by}."]
    if outcome.is_known:
        lines.append(f"Replica {outcome.controller} leads and begins none until `kafka-zk-controller resume`.")
    elif outcome.is_ours:
        lines.append(
            f"Replica {outcome.controller} leads, and has not said within {timeout_s:g} s that it knows. The pause "
            "stays; run this again to wait longer."
        )
    elif outcome.controller is None:
        lines.append("No process leads now; a replica of this controller that leads next begins none.")
    else:
        lines.append(
            f"Broker {outcome.controller} leads with Kafka's own controller, which knows nothing of a pause and "
            "begins moves. A replica of this controller that leads next begins none."
        )
    return lines


def _resumed(outcome: Outcome, timeout_s: float) -> list[str]:
    if outcome.paused is not None:
        return [f"Moves have been paused again {handover.who_asked(outcome.paused)}."]
    lines = ["Moves were not paused." if outcome.was_so else "The pause is over."]
    if outcome.is_known:
        lines.append(f"Replica {outcome.controller} leads and begins moves again.")
    elif outcome.is_ours:
        lines.append(f"Replica {outcome.controller} leads, and has not said within {timeout_s:g} s that it knows.")
    else:
        holder = "No process leads" if outcome.controller is None else f"Broker {outcome.controller} leads"
        lines.append(f"{holder}; no replica of this controller had to know.")
    return lines

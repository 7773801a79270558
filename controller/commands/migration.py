"""`kafka-zk-controller migration`: would a migration to KRaft go well, and could it be rolled back?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import click

from controller.brokers.dialing import ListenerDialer, PlaintextDialer
from controller.commands.common import CONFIG, FAILED, MISUSED, OK, as_text_or_json, at_zookeeper, fail, settings_of
from controller.migration.findings import Finding, Result
from controller.migration.judging import judge, worst
from controller.migration.looking import Look
from controller.migration.sightings import Seen
from controller.process.listener_security import dialer_of
from controller.settings.listening import Listening
from controller.zk.bridge import Bridge
from zk_layout.znodes.brokers import Endpoint, Registration

LOOK_AT_IT = 4
_MARKS = {Result.OK: "ok", Result.UNKNOWN: "unknown", Result.WARNING: "warning", Result.STOP: "WRONG"}
_EXITS = {Result.OK: OK, Result.UNKNOWN: LOOK_AT_IT, Result.WARNING: LOOK_AT_IT, Result.STOP: FAILED}


@click.command()
@click.option("--check", is_flag=True, help="Look for what would stop a migration to KRaft, or lose something in it.")
@click.option("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="The brokers' zookeeper.connect.")
@click.option(
    "--config", type=CONFIG, help="A replica's properties file, instead of --zookeeper: for secured clusters."
)
@click.option("--quorum-ids", default="", metavar="ID,ID …", help="The node.id of each KRaft controller, as planned.")
@as_text_or_json
def migration(check: bool, zookeeper: str | None, config: Path | None, quorum_ids: str, output: str) -> None:
    """Check a cluster before a migration to KRaft, in the course of one, and before it is finalized.

    Reads ZooKeeper and asks every broker; changes nothing. Each line says what was found, where, and what to do. What
    cannot be known from here is called unknown.

    \b
      kafka-zk-controller migration --check --zookeeper zk1:2181/kafka --quorum-ids 3000,3001,3002
      kafka-zk-controller migration --check --config controller.properties --output json

    Exit codes: 0 nothing to do, 1 a trap was found, 2 usage error, 3 ZooKeeper cannot be reached, 4 no trap, but
    something to do, or not known.
    """
    if not check:
        raise click.UsageError("give --check")
    try:
        quorum = frozenset(int(one) for one in quorum_ids.split(",") if one.strip())
    except ValueError:
        fail(f"--quorum-ids: {quorum_ids!r} is not a list of ids, such as 3000,3001,3002", MISUSED)
    settings = None if config is None else settings_of(config)
    listening = None if settings is None else settings.listening
    seen = at_zookeeper(zookeeper, settings, partial(_look, listening=listening, quorum=quorum))
    findings = judge(seen)
    if output == "json":
        click.echo(json.dumps(_as_json(seen, findings), indent=2))
    else:
        for line in _lines(findings):
            click.echo(line)
    sys.exit(_EXITS[worst(findings)])


async def _look(bridge: Bridge, *, listening: Listening | None, quorum: frozenset[int]) -> Seen:
    dialer: ListenerDialer | PlaintextDialer = PlaintextDialer() if listening is None else dialer_of(listening)

    def endpoint_of(registration: Registration) -> Endpoint | None:
        between = None if listening is None else registration.endpoint(listening.inter_broker)
        return between or next((e for e in registration.endpoints if dialer.reaches(e)), None)

    return await Look(bridge, dialer, endpoint_of).see(quorum)


def _as_json(seen: Seen, findings: Sequence[Finding]) -> dict[str, object]:
    found = [
        {"trap": f.trap.value, "result": f.result.value, "text": f.text, "where": f.where, "hint": f.hint}
        for f in findings
    ]
    return {"phase": seen.phase.value, "result": worst(findings).value, "findings": found}


def _lines(findings: Sequence[Finding]) -> Iterable[str]:
    for finding in findings:
        where = f" [{finding.where}]" if finding.where else ""
        yield f"{_MARKS[finding.result]:<8} {finding.trap:<18} {finding.text}{where}"
        if finding.hint:
            yield f"{'':<27} → {finding.hint}"
    traps, tasks = (sum(f.result is result for f in findings) for result in (Result.STOP, Result.WARNING))
    if traps:
        yield f"{traps} in the way of a migration; change that first, and check again"
    elif tasks:
        yield f"nothing is in the way; {tasks} to do in the course of a migration, see the warnings"
    else:
        yield "nothing is in the way; see what is unknown"

"""Do clients see a difference between our controller and the native one? `python -m tests.clients` compares."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from tests.clients import comparing, page, recovery, tools
from tests.clients.operations import OPERATIONS, Run, normalised
from tests.clients.programs import CLIENTS, Client, Program, Unavailable
from tests.clients.running import Plan, carry_out, hangs
from tests.clients.stage import BOOTSTRAPS, MOVE_TO, NATIVE, OURS, OWN_ID, Stage, answers, led_by_ours, stage

Outcomes = dict[tuple[str, str], dict[str, Any]]


@click.command()
@click.option("--clients", default="", help="Only those whose name contains one of these words, separated by commas.")
@click.option("--operations", default="", help="Only these, separated by commas.")
@click.option("--kafka", default="3.9.1", help="The brokers' version.")
@click.option("--output", type=click.Path(path_type=Path), help="Renew this page.")
@click.option("--tools", "with_tools", is_flag=True, help="Kafka's own tools too, on our node among the brokers.")
@click.option("--recovery", "with_recovery", is_flag=True, help="Only: how long after SIGKILL clients recover.")
@click.option("--rounds", default=5, help="Kills of each kind, with --recovery.")
@click.option("--json", "as_json", is_flag=True, help="Every result, for programs.")
def main(
    clients: str,
    operations: str,
    kafka: str,
    output: Path | None,
    with_tools: bool,
    with_recovery: bool,
    rounds: int,
    as_json: bool,
) -> None:
    """A table client by operation: the same as under the native controller, or what differs."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing stays behind
    wanted = _wanted(CLIENTS, clients)
    names = tuple(name for name in OPERATIONS if not operations or name in operations.split(","))
    ready, absent = _make_ready(wanted)
    if with_recovery:
        _recover(ready, kafka, rounds, output)
        return
    outcomes: dict[str, Outcomes] = {}
    repeated: list[str] = []
    with stage(kafka, _say) as made:
        outcomes[NATIVE] = _outcomes_under(made, NATIVE, ready, names, repeated)
        native = tools.ask(made, NATIVE) if with_tools else {}
        with led_by_ours(made, made.cluster.directory / "ours"):
            outcomes[OURS] = _outcomes_under(made, OURS, ready, names, repeated)
            ours = tools.ask(made, OURS) if with_tools else {}
    results = page.Results(
        day=datetime.now(UTC).date().isoformat(),
        kafka=kafka,
        clients=tuple(client.title for client in wanted),
        absent=absent,
        cells=tuple(comparing.cells(outcomes[OURS], outcomes[NATIVE])),
        repeated=tuple(repeated),
        tools=tuple(tools.Beside(call, ours[call], said) for call, said in native.items()),
    )
    known = comparing.read_known()
    verdict = comparing.judge(results.cells, known.difference)
    unexplained = [call for call in results.tools if not call.is_equal and known.remark_on(call.title) is None]
    if output:
        kept = page.section_of(output.read_text(encoding="utf-8")) if output.exists() else ""
        output.write_text(page.with_section(page.as_markdown(results, verdict, known), kept), encoding="utf-8")
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(results)).decode())
    else:
        click.echo(page.table(results, verdict))
    for cell in verdict.unexplained:
        _say(f"DIFFERS: {cell.client}, {cell.operation}, through {cell.bootstrap}: {cell.difference}")
    for reason in verdict.stale:
        _say(f"stale: no difference any more for {reason.clients} {reason.operations}: {reason.reason}")
    for call in unexplained:
        _say(f"DIFFERS: {call.title}: only ours: {call.only_ours}; only native: {call.only_native}")
    sys.exit(1 if verdict.unexplained or unexplained else 0)


def _recover(ready: dict[str, tuple[Client, Program]], kafka: str, rounds: int, output: Path | None) -> None:
    """Renew the page's section after each kill, so that an interrupted run keeps its results."""
    seen: list[recovery.Recovery] = []
    handovers: list[recovery.Handover] = []
    asking = {title: found for title, found in ready.items() if found[0].name != "kcat"}  # it has no such request

    def keep(found: list[recovery.Recovery], handover: recovery.Handover) -> None:
        seen.extend(found)
        handovers.append(handover)
        day = datetime.now(UTC).date().isoformat()
        section = page.recovery_section(recovery.Recoveries(day, kafka, tuple(seen), tuple(handovers)))
        if output:
            output.write_text(page.with_section(output.read_text(encoding="utf-8"), section), encoding="utf-8")
        if len(handovers) == 4 * rounds:
            click.echo(section)

    with stage(kafka, _say) as made:
        recovery.measure(made, asking, rounds, _say, keep)


def _wanted(clients: Sequence[Client], words: str) -> list[Client]:
    asked = [word.strip().lower() for word in words.split(",") if word.strip()]
    return [client for client in clients if not asked or any(word in client.title.lower() for word in asked)]


def _make_ready(clients: Sequence[Client]) -> tuple[dict[str, tuple[Client, Program]], dict[str, str]]:
    """The clients that can run here, and the reasons why others cannot."""
    ready, absent = {}, {}
    for client in clients:
        _say(f"making {client.title} ready")
        try:
            ready[client.title] = client, client.make_ready()
        except Unavailable as why:
            absent[client.title] = str(why)
            _say(f"  not run: {why}")
    return ready, absent


def _outcomes_under(
    made: Stage,
    leader: str,
    ready: dict[str, tuple[Client, Program]],
    operations: tuple[str, ...],
    repeated: list[str],
) -> Outcomes:
    """Each client's results while this controller leads.

    A native controller now and then leaves a client without an answer; then the client runs once more, with ours never.
    """
    outcomes: Outcomes = {}
    for title, (client, program) in ready.items():
        for bootstrap in BOOTSTRAPS:
            _say(f"{leader}: {title}, bootstrap: {bootstrap}")
            prefix = f"{client.slug}-{leader}-{bootstrap}"
            results = _outcomes_by(program, made, (leader, bootstrap), prefix, operations)
            if leader == NATIVE and (late := [name for name, result in results.items() if hangs(result)]):
                _say(f"  once more, as nothing came of {', '.join(late)}")
                again = _outcomes_by(program, made, (leader, bootstrap), f"{prefix}-again", operations)
                repeated.extend(f"{title}, `{name}`, through {bootstrap}" for name in late if not hangs(again[name]))
                results.update({name: again[name] for name in late})
            outcomes[title, bootstrap] = results
    return outcomes


def _outcomes_by(
    program: Program, made: Stage, where: tuple[str, str], prefix: str, operations: tuple[str, ...]
) -> dict[str, Any]:
    """One process' results."""
    leader, bootstrap = where
    made.prepare(prefix)
    run = Run(prefix, OWN_ID if leader == OURS else None, answers)
    began = time.monotonic()
    results = carry_out(program.argv, program.env, Plan(made.bootstrap(bootstrap), prefix, operations, MOVE_TO))
    _say(f"  {time.monotonic() - began:.1f} s")
    return {name: normalised(name, result, run) for name, result in results.items()}


def _say(what: str) -> None:
    sys.stderr.write(what + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()

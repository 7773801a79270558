"""Run Kafka's own tests under this controller: `python -m tests.kafka --version 3.9.1 --classes quick`."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

import click

from controller.lab.errors import LabError
from tests.kafka.choosing import read_classes
from tests.kafka.jars import VERSIONS
from tests.kafka.keeping import Ran, keep, read_kept, state_of_product, today
from tests.kafka.page import as_markdown
from tests.kafka.reports import Outcome
from tests.kafka.running import WHOLE_CLASS, Chosen, Controller, Runner
from tests.kafka.verdicts import Reasons, Verdict, read_reasons


@click.command()
@click.option("--version", type=click.Choice(VERSIONS), default=VERSIONS[0], help="Of the tests and the brokers.")
@click.option("--classes", default="all", help="all, quick, none, or Class,Class.method,… with or without package.")
@click.option(
    "--controller", type=click.Choice(["ours", "native", "both"]), default="both", help="Who rules the brokers."
)
@click.option("--class-minutes", default=20.0, help="A class that takes longer is ended.")
@click.option("--output", type=click.Path(path_type=Path), help="Make this page from the last run of each class.")
def main(version: str, classes: str, controller: str, class_minutes: float, output: Path | None) -> None:
    """Exit code 1 if a test fails without a known reason or passes in spite of one, 2 if none can be run."""
    reasons = read_reasons(version)
    try:
        chosen = read_classes(version).choose(classes)
        runner = Runner(version, class_minutes * 60, click.echo)
    except (LabError, ValueError) as error:
        click.echo(str(error), err=True)
        sys.exit(2)
    controllers = list(Controller) if controller == "both" else [Controller(controller)]
    bad = []
    for number, each in enumerate(chosen, 1):
        # A class requested by name runs even if a reason speaks against it.
        if classes in ("all", "quick") and (reason := reasons.for_class(each.class_name)):
            click.echo(f"{number}/{len(chosen)} {each.class_name}: not run, {reason.why}")
            continue
        for who in controllers:
            click.echo(f"{number}/{len(chosen)} {each.class_name} {each.method}, {who}")
            outcomes = _run(runner, each, who, version)
            if who is Controller.OURS:
                bad += _judge(each, outcomes, reasons)
    if output:
        output.write_text(
            as_markdown(
                {v: read_kept(v) for v in VERSIONS},
                {v: read_reasons(v) for v in VERSIONS},
                {v: read_classes(v) for v in VERSIONS},
            ),
            encoding="utf-8",
        )
    click.echo("\n".join(bad) or "nothing that is not known")
    sys.exit(1 if bad else 0)


def _run(runner: Runner, chosen: Chosen, controller: Controller, version: str) -> list[Outcome]:
    started = time.monotonic()
    state = state_of_product()
    outcomes = runner.run(chosen, controller)
    if not chosen.method:
        ran = Ran(chosen.class_name, controller, today(), runner.java.major, tuple(outcomes), state)
        keep(version, ran)
    counts = Counter(outcome.result for outcome in outcomes)
    summary = ", ".join(f"{count} {result}" for result, count in counts.items()) or "nothing to run"
    click.echo(f"    {summary} in {time.monotonic() - started:.0f} s")
    return outcomes


def _judge(chosen: Chosen, outcomes: list[Outcome], reasons: Reasons) -> list[str]:
    bad = []
    for outcome in outcomes:
        verdict = reasons.verdict(chosen.class_name, outcome)
        if verdict is not Verdict.PASSED:
            click.echo(f"    {outcome.name}: {verdict}: {outcome.problem}")
        if verdict.is_bad:
            bad.append(f"{chosen.class_name}.{outcome.name}: {verdict}: {outcome.problem}")
    if not chosen.method and WHOLE_CLASS not in (outcome.method for outcome in outcomes):
        bad += [f"{name}: has a reason and was not met" for name in reasons.never_met(chosen.class_name, outcomes)]
    return bad


if __name__ == "__main__":
    main()

"""Which controller is faster? `python -m tests.benchmarks fail-over`: this daemon and Kafka's own, side by side."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import click
import msgspec

from controller.process.lifetime import COLLECTION_THRESHOLDS
from tests.benchmarks import (
    comparing,
    crowds,
    fail_over,
    machine,
    observing,
    pages,
    planning,
    probing,
    reassigning,
    replaying,
    standing_by,
    suite,
    turns,
)
from tests.benchmarks import reigns as many_reigns
from tests.benchmarks.contenders import KAFKA, OURS, Contender, Kafkas, Ours
from tests.benchmarks.filling import Shape
from tests.benchmarks.measured import Record, unfit
from tests.benchmarks.stage import Stage
from tests.benchmarks.storms import Storm
from tests.benchmarks.tables import (
    crowds_table,
    fail_over_table,
    observers_table,
    plans_table,
    probes_table,
    reassignment_table,
    reigns_table,
    replay_table,
    standbys_table,
    turns_table,
)

_OURS, _KAFKA = "ours", "kafka"

_output = click.option(
    "--output", type=click.Choice(["table", "json"]), default="table", help="For people or programs."
)
_runs = click.option("--runs", default=2, help="How often each controller is measured; they take turns.")
_only = click.option("--only", type=click.Choice([_OURS, _KAFKA]), help="Measure one of the two.")
_patience = click.option("--patience", default=120.0, help="Seconds to wait for a quiet machine before each run.")
_heap = click.option("--kafka-heap", default="4g", help="The broker's -Xmx.")
_profile = click.option("--profile", type=click.Path(path_type=Path), help="Run the daemon under cProfile, dump there.")

T = TypeVar("T")


@click.group()
def main() -> None:
    """Measure this daemon and Kafka 3.9.1's own controller on the same machine in the same run."""


def _contenders(
    stage: Stage, runs: int, only: str | None, heap: str, profile: Path | None
) -> list[Callable[[], Contender]]:
    """The contenders in turn, starting with ours."""
    zookeeper = stage.server.connect

    def ours(number: int) -> Callable[[], Contender]:
        return lambda: Ours(zookeeper, stage.directory / f"ours-{number}", profile)

    def kafkas(number: int) -> Callable[[], Contender]:
        return lambda: Kafkas(zookeeper, stage.directory / f"kafka-{number}", heap)

    turns: list[Callable[[], Contender]] = []
    for number in range(runs):
        turns += [ours(number)] if only != _KAFKA else []
        turns += [kafkas(number)] if only != _OURS else []
    return turns


def _shown(results: Iterable[T]) -> list[T]:
    """All of them, each shown as soon as it is measured."""
    measured: list[T] = []
    for result in results:
        click.echo(result, err=True)
        measured.append(result)
    return measured


def _report(output: str, results: list[msgspec.Struct], table: Callable[[], str]) -> None:
    if output == "json":
        report = {"machine": machine.description(), "at": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "results": results}
        click.echo(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        click.echo(machine.description())
        click.echo(table())


@main.command("fail-over")
@click.option("--partitions", default=100_000, help="All partitions of the cluster.")
@click.option("--topic-size", default=50, help="Partitions of each topic.")
@click.option("--timeout", default=600.0, help="Seconds until a controller is given up.")
@_runs
@_only
@_patience
@_heap
@_profile
@_output
def fail_over_command(
    partitions: int,
    topic_size: int,
    timeout: float,
    runs: int,
    only: str | None,
    patience: float,
    kafka_heap: str,
    profile: Path | None,
    output: str,
) -> None:
    """From the claim of /controller until ten simulated brokers know everything."""
    shape = Shape(partitions // topic_size, topic_size)
    with Stage(shape, are_leading=False, heap="6g" if partitions > 200_000 else "2g") as stage:
        click.echo(f"{partitions} partitions written in {stage.fill_s:.1f} s", err=True)
        results = _shown(
            fail_over.measure(stage, make(), timeout_s=timeout, patience_s=patience)
            for make in _contenders(stage, runs, only, kafka_heap, profile)
        )
    _report(output, [*results], lambda: fail_over_table(results))


@main.command("observe")
@click.option("--partitions", default=100_000, help="All partitions of the cluster.")
@click.option("--topic-size", default=50, help="Partitions of each topic.")
@click.option("--changes", default=10_000, help="How many partitions change, three times.")
@click.option("--runs", default=2, help="How often it is measured, with a fresh process each time.")
@click.option("--timeout", default=300.0, help="Seconds until an observer is given up.")
@_patience
@_output
def observe_command(
    partitions: int, topic_size: int, changes: int, runs: int, timeout: float, patience: float, output: str
) -> None:
    """An observer: from its start until it follows the cluster, and what changes then cost it."""
    with Stage(Shape(partitions // topic_size, topic_size), are_leading=False, heap="2g") as stage:
        results = _shown(
            observing.measure(stage, number, changes=changes, timeout_s=timeout, patience_s=patience)
            for number in range(runs)
        )
    _report(output, [*results], lambda: observers_table(results))


@main.command("stand-by")
@click.option("--partitions", default=20_000, help="All partitions of the cluster.")
@click.option("--topic-size", default=50, help="Partitions of each topic.")
@click.option("--standbys", default="0,1,3", help="How many standbys follow, in turn.")
@click.option("--runs", default=3, help="How often each number is measured.")
@click.option("--recursive", is_flag=True, help="With one recursive watch each (controller.standby.recursive.watch).")
@_patience
@_output
def stand_by_command(
    partitions: int, topic_size: int, standbys: str, runs: int, recursive: bool, patience: float, output: str
) -> None:
    """Warm standbys: what they cost ZooKeeper, at once and for each state that is written."""
    with standing_by.server_with(Shape(partitions // topic_size, topic_size)) as measured:
        measured(
            standbys=1, is_recursive=recursive, epoch=1, patience_s=patience
        )  # not counted: ZooKeeper compiles its code meanwhile
        results = _shown(
            measured(standbys=count, is_recursive=recursive, epoch=epoch, patience_s=patience)
            for epoch, count in enumerate([int(count) for count in standbys.split(",")] * runs, start=2)
        )
    _report(output, [*results], lambda: standbys_table(results))


@main.command("reassignment")
@click.option("--topics", default=100, help="How many topics.")
@click.option("--topic-size", default=20, help="Partitions of each topic.")
@click.option("--timeout", default=600.0, help="Seconds until a controller is given up.")
@_runs
@_only
@_patience
@_heap
@_profile
@_output
def reassignment_command(
    topics: int,
    topic_size: int,
    timeout: float,
    runs: int,
    only: str | None,
    patience: float,
    kafka_heap: str,
    profile: Path | None,
    output: str,
) -> None:
    """Every replica of every partition moves; followers are in sync at once. One wide topic: --topics 1."""
    shape = Shape(topics, topic_size)
    results: list[reassigning.Reassigned] = []
    for number in range(runs):
        for which in (_OURS, _KAFKA):
            if only in (None, which):
                with Stage(shape, are_leading=True) as stage:  # the other contender must not find these moves done
                    (make,) = _contenders(stage, 1, which, kafka_heap, profile)
                    result = reassigning.measure(stage, make(), timeout_s=timeout, patience_s=patience)
                click.echo(f"run {number + 1}: {result}", err=True)
                results.append(result)
    _report(output, [*results], lambda: reassignment_table(results))


@main.command("replay")
@click.option("--small", default=0, help="Transactions of a log of small writes (5000000 make 1.0 GB); 0 for none.")
@click.option("--restarts", default=0, help="Transactions of a log of brokers that are restarted in turn; 0 for none.")
@click.option("--large", default=7880, help="Rewrites of a wide topic (7880 make 1.7 GB, 3940 0.4 GB); 0 for none.")
@click.option(
    "--master",
    "masters",
    multiple=True,
    default=["local[*]"],
    help="Spark's, or local for processes without it; may be repeated.",
)
@click.option("--all", "is_whole", is_flag=True, help="All tables and the report too, not only the timeline.")
@click.option("--directory", type=click.Path(path_type=Path), default=Path(".cache/big-logs"), help="For the logs.")
@_runs
@_patience
@_output
def replay_command(
    small: int,
    restarts: int,
    large: int,
    masters: tuple[str, ...],
    directory: Path,
    runs: int,
    patience: float,
    output: str,
    *,
    is_whole: bool,
) -> None:
    """ZooKeeper's TxnLogToolkit, and the whole timeline of the same log, taking turns."""
    results: list[replaying.Replayed] = []
    for kind, count in (("large", large), ("small", small), ("restarts", restarts)):
        if not count:
            continue
        log = replaying.make_log(directory, kind, count)
        for _ in range(runs):
            kinds = [(master, is_all) for is_all in ((False, True) if is_whole else (False,)) for master in masters]
            replays = (partial(replaying.replay, log, master, is_whole=is_all) for master, is_all in kinds)
            for turn in (partial(replaying.toolkit, log), *replays):
                machine.wait_until_quiet(patience)
                result = turn()
                click.echo(result, err=True)
                results.append(result)
    _report(output, [*results], lambda: replay_table(results))


@main.command("crowds")
@click.option("--partitions", default=100_000, help="All partitions of the cluster.")
@click.option("--topic-size", default=50, help="Partitions of each topic.")
@click.option("--crowd", "names", multiple=True, type=click.Choice(list(crowds.CROWDS)), help="This; may be repeated.")
@click.option("--timeout", default=600.0, help="Seconds until a controller is given up.")
@_only
@_patience
@_heap
@_output
def crowds_command(
    partitions: int,
    topic_size: int,
    names: tuple[str, ...],
    timeout: float,
    only: str | None,
    patience: float,
    kafka_heap: str,
    output: str,
) -> None:
    """Memory, and other clients' waiting time, while crowds of demanding or hostile clients load the controller."""
    with Stage(Shape(partitions // topic_size, topic_size), are_leading=False, heap="2g") as stage:
        results = _shown(
            result
            for make in _contenders(stage, 1, only, kafka_heap, None)
            for result in crowds.measure(stage, make(), names, timeout_s=timeout, patience_s=patience)
        )
    _report(output, [*results], lambda: crowds_table(results))


@main.command("probes")
@click.option("--partitions", default=100_000, help="All partitions of the cluster.")
@click.option("--topic-size", default=50, help="Partitions of each topic.")
@click.option("--timeout", default=600.0, help="Seconds until the controller is given up.")
@_patience
@_output
def probes_command(partitions: int, topic_size: int, timeout: float, patience: float, output: str) -> None:
    """Waiting time for /livez and /readyz while the daemon takes over, loses a broker, and is replaced."""
    with Stage(Shape(partitions // topic_size, topic_size), are_leading=False) as stage:
        results = _shown(probing.measure(stage, timeout_s=timeout, patience_s=patience))
    _report(output, [*results], lambda: probes_table(results))


@main.command("turns")
@click.option("--partitions", default=200_000, help="All partitions of the cluster.")
@click.option("--topic-size", default=50, help="Partitions of each topic.")
@click.option("--brokers", default=30, help="How many brokers.")
@click.option("--only", multiple=True, type=click.Choice(turns.Storms.names()), help="This storm; may be repeated.")
@click.option("--journal", is_flag=True, help="Write a journal, as with journal.dir.")
@_output
def turns_command(
    partitions: int, topic_size: int, brokers: int, only: tuple[str, ...], journal: bool, output: str
) -> None:
    """Computing time that blocks the event loop in storms, without ZooKeeper, brokers or a contender."""
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    results: list[Storm] = []
    with TemporaryDirectory() as directory:
        storms = turns.Storms(
            Shape(partitions // topic_size, topic_size, brokers), journal=Path(directory) if journal else None
        )
        for storm in storms.measured(only):
            click.echo(storm, err=True)
            results.append(storm)
    _report(output, [*results], lambda: turns_table(results))


@main.command("reigns")
@click.option("--partitions", default=200_000, help="All partitions of the cluster.")
@click.option("--topic-size", default=50, help="Partitions of each topic.")
@click.option("--brokers", default=30, help="How many brokers.")
@click.option("--reigns", default=100, help="How many terms, one after the other in one process.")
@_output
def reigns_command(partitions: int, topic_size: int, brokers: int, reigns: int, output: str) -> None:
    """Resident memory over many terms, each of which loads everything and ends."""
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    results: list[many_reigns.Reign] = []
    for reign in many_reigns.reigns(Shape(partitions // topic_size, topic_size, brokers), reigns):
        click.echo(reign, err=True)
        results.append(reign)
    _report(output, [*results], lambda: reigns_table(results))


@main.command("plans")
@click.option("--partitions", default=100_000, help="All partitions of the cluster, with two replicas each.")
@click.option("--brokers", default=200, help="How many brokers, in four racks.")
@_output
def plans_command(partitions: int, brokers: int, output: str) -> None:
    """Processor time and memory of `kafka-zk-controller plan`'s search, without a cluster or a contender."""
    results: list[planning.PlanMade] = []
    for made in planning.measured(brokers, partitions):
        click.echo(made, err=True)
        results.append(made)
    _report(output, [*results], lambda: plans_table(results))


@main.command("all")
@click.option("--file", "path", type=click.Path(path_type=Path), default=Path(".cache/bench/measured.json"))
@click.option("--case", "names", multiple=True, help="This case only; may be repeated.")
@click.option("--runs", default=5, help="How often each controller is measured in each case; they take turns.")
@click.option("--million", is_flag=True, help="Also a take-over of 1,000,000 partitions.")
@click.option("--fresh", is_flag=True, help="Begin these cases again, not where an earlier run ended.")
@_patience
@_only
def all_command(
    path: Path, names: tuple[str, ...], runs: int, patience: float, only: str | None, *, million: bool, fresh: bool
) -> None:
    """Every case; each run is kept at once, so that an interrupted command goes on where it ended."""
    cases = [case for case in (*suite.CASES, *(suite.MILLION if million else ())) if not names or case.name in names]
    if not cases or len(cases) < len(set(names)):
        raise click.BadParameter(f"the cases are {', '.join(case.name for case in suite.CASES)}", param_hint="--case")
    _fail_with(_measure_all(cases, path, runs, patience, only, fresh=fresh))


@main.command("quick")
@click.option("--file", "path", type=click.Path(path_type=Path), default=Path(".cache/bench/quick.json"))
def quick_command(path: Path) -> None:
    """Small cases, one run each; fails if ours needs more of what Kafka's needs than it may, twice in a row."""
    problems = _measure_all(suite.QUICK, path, 1, 0.0, None, fresh=True)
    slow = [case for case in suite.QUICK if comparing.too_slow(case, Record(path).cases.get(case.name))]
    if slow:
        click.echo("\n".join(problems), err=True)
        problems = _measure_all(slow, path, 1, 0.0, None, fresh=True)
    _fail_with([line for case in slow for line in comparing.too_slow(case, Record(path).cases.get(case.name))])
    _fail_with(problems)


@main.command("take")
@click.argument("path", type=click.Path(path_type=Path, exists=True), default=Path(".cache/bench/measured.json"))
@click.option("--runs", default=5, help="The fewest runs of each controller.")
@click.option("--disturbed", is_flag=True, help="Also cases in whose runs other processes used the machine.")
def take_command(path: Path, runs: int, *, disturbed: bool) -> None:
    """Put what `all` has measured in the place of the same cases in recorded.json, and renew the pages."""
    cases = {case.name: case for case in (*suite.CASES, *suite.MILLION)}
    measured = {name: known for name, known in Record(path).cases.items() if name in cases}
    reasons = {n: unfit(known, cases[n].names, runs, disturbed=disturbed) for n, known in measured.items()}
    left_out = {name: why for name, why in reasons.items() if why}
    for name, why in left_out.items():
        click.echo(f"{name} is left out: {why}", err=True)
    taken = {name: known for name, known in measured.items() if name not in left_out}
    Record(pages.RECORDED).take(taken.items())
    pages.renew()
    click.echo(f"taken: {', '.join(taken) or 'none'}")


def _measure_all(
    cases: Sequence[suite.Case], path: Path, runs: int, patience: float, only: str | None, *, fresh: bool
) -> list[str]:
    """Measure, show the table, and return what went wrong."""
    record = Record(path)
    if fresh:
        record.forget(case.name for case in cases)
    names = {_OURS: OURS, _KAFKA: KAFKA}
    problems = suite.measure(cases, record, runs, patience, [names[only]] if only else [])
    click.echo(machine.description())
    click.echo(comparing.ratios(cases, record.cases))
    click.echo(f"every run is in {path}")
    return problems


def _fail_with(problems: Sequence[str]) -> None:
    if problems:
        raise click.ClickException("\n".join(problems))


if __name__ == "__main__":
    main()

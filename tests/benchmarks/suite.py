"""Which cases does `make bench` measure, and how does it go on where an earlier run was interrupted?"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import click
from msgspec import Struct, structs

from tests.benchmarks import broker_failing, fail_over, kraft, machine, reassigning, removing, succession
from tests.benchmarks.contenders import KAFKA, KRAFT, OURS, Contender, Kafkas, Ours
from tests.benchmarks.filling import Shape
from tests.benchmarks.measured import Measured, Record, Run
from tests.benchmarks.stage import Stage

ROOT = Path(__file__).parents[2]
_MEASURED = ("controller", "zk_layout", "metrics")
_TIMEOUT_S = 1_200.0
_KAFKA_HEAP = "4g"
_WARM = {"controller.standby.warm": "true"}

Measure = Callable[[Stage, Sequence[Contender], float], Any]
"""Measures contenders on a stage, with so many seconds of patience for a quiet machine; returns a result's struct."""


class Case(Struct, frozen=True):
    """One thing to measure.

    Shape:
        `figure` decides who is faster, `besides` are shown beside it. `at_most`: of a quick case, for some figures, the
        largest share of Kafka's that is no failure. `names` are those that it measures, each with so many processes as
        `contenders` says. `settings` are those of this controller. With `spoils` a stage serves one run only.
    """

    name: str
    title: str
    shape: Shape
    measure: Measure
    figure: str
    besides: tuple[str, ...] = ()
    at_most: Mapping[str, float] = {}
    names: tuple[str, ...] = (OURS, KAFKA)
    settings: Mapping[str, object] = {}
    contenders: int = 1
    are_leading: bool = False
    spoils: bool = False


def _cold(stage: Stage, contenders: Sequence[Contender], patience_s: float) -> fail_over.FailOver:
    return fail_over.measure(stage, contenders[0], timeout_s=_TIMEOUT_S, patience_s=patience_s)


def _succeeded(
    how: signal.Signals, stage: Stage, contenders: Sequence[Contender], patience_s: float
) -> succession.Succession:
    return succession.measure(stage, contenders, how, timeout_s=_TIMEOUT_S, patience_s=patience_s)


def _moved(stage: Stage, contenders: Sequence[Contender], patience_s: float) -> reassigning.Reassigned:
    return reassigning.measure(stage, contenders[0], timeout_s=_TIMEOUT_S, patience_s=patience_s)


def _removed(moves: int, stage: Stage, contenders: Sequence[Contender], patience_s: float) -> removing.Removed:
    return removing.measure(stage, contenders[0], patience_s=patience_s, moves=moves)


def _broker_failed(stage: Stage, contenders: Sequence[Contender], patience_s: float) -> broker_failing.BrokerFailed:
    return broker_failing.measure(stage, contenders[0], timeout_s=_TIMEOUT_S, patience_s=patience_s)


def cold(shape: Shape, at_most: Mapping[str, float] = {}) -> Case:
    """A controller that knows nothing takes over."""
    return Case(
        f"cold-{shape.partitions}",
        f"fail-over with {shape.partitions:,} partitions on {shape.brokers} brokers, from claim until all know all",
        shape,
        _cold,
        "all_know_s",
        ("peak_mib", "processor_s"),
        at_most,
    )


def restart(shape: Shape, at_most: Mapping[str, float] = {}) -> Case:
    """The leading process is asked to end, and another stands by."""
    return Case(
        f"restart-{shape.partitions}",
        f"hand-over of {shape.partitions:,} partitions at a restart, from SIGTERM until every broker knows all",
        shape,
        partial(_succeeded, signal.SIGTERM),
        "all_know_s",
        ("claimed_s", "vacant_s"),
        at_most,
        settings=_WARM,
        contenders=2,
    )


def killed(shape: Shape, challenge_ms: int = 1000, names: tuple[str, ...] = (OURS, KAFKA)) -> Case:
    """The leading process is killed, and another stands by. Of KRaft, a quorum without brokers and partitions."""
    return Case(
        f"killed-{shape.partitions}-{challenge_ms}ms",
        f"SIGKILL of the leader of {shape.partitions:,} partitions, challenged for {challenge_ms:,} ms, until every "
        "broker knows all",
        shape,
        partial(_succeeded, signal.SIGKILL),
        "all_know_s",
        ("decides_s", "claimed_s"),
        names=names,
        settings={**_WARM, "controller.challenge.timeout.ms": challenge_ms},
        contenders=2,
    )


def moved(shape: Shape, at_most: Mapping[str, float] = {}) -> Case:
    """Every replica of every partition moves."""
    topics = "one topic" if shape.topics == 1 else f"{shape.topics} topics"
    return Case(
        f"moved-{shape.topics}x{shape.partitions_per_topic}",
        f"move of every replica of {shape.partitions:,} partitions of {topics}",
        shape,
        _moved,
        "settled_s",
        ("answered_s", "processor_s", "topic_writes", "log_bytes"),
        at_most,
        are_leading=True,
        spoils=True,
    )


def removed(shape: Shape, moves: int, at_most: Mapping[str, float] = {}) -> Case:
    """Single moves on an idle cluster."""
    return Case(
        f"removed-{moves}",
        f"{moves} single moves on an idle cluster, from the last replica in sync until all that leave must delete",
        shape,
        partial(_removed, moves),
        "p50_ms",
        ("p99_ms",),
        at_most,
        are_leading=True,
        spoils=True,
    )


def broker_failed(shape: Shape, at_most: Mapping[str, float] = {}) -> Case:
    """A broker fails that led a tenth of the partitions."""
    return Case(
        f"broker-failed-{shape.partitions}",
        f"failure of a broker that led {shape.partitions // shape.brokers:,} partitions, until all know their leaders",
        shape,
        _broker_failed,
        "all_know_s",
        ("last_update_metadata_s", "processor_s"),
        at_most,
        spoils=True,
    )


_SMALL, _LARGE = Shape(200, 50), Shape(2_000, 50)
CASES = (
    cold(_SMALL),
    restart(_SMALL),
    killed(_SMALL),
    broker_failed(_SMALL),
    cold(_LARGE),
    restart(_LARGE),
    killed(_LARGE, names=(OURS, KAFKA, KRAFT)),
    killed(_LARGE, 300, (OURS, KRAFT)),
    broker_failed(_LARGE),
    moved(Shape(100, 20)),
    moved(Shape(1, 2_000)),
    moved(Shape(1, 5_000)),
    removed(Shape(100, 20), 200),
)
_HUGE = Shape(10_000, 100)
MILLION = (cold(_HUGE), killed(_HUGE, 1_000, (OURS,)), killed(_HUGE, 300, (OURS,)))
# Shares that hold on a machine that is busy or several times slower: about twice what was seen, or more.
QUICK = (
    cold(Shape(60, 50), {"all_know_s": 0.6, "processor_s": 0.3}),
    restart(Shape(60, 50), {"all_know_s": 0.6}),
    moved(Shape(10, 15), {"settled_s": 0.3, "processor_s": 0.15, "topic_writes": 0.5, "log_bytes": 0.9}),
    removed(Shape(10, 15), 20, {"p50_ms": 1.5}),
    broker_failed(Shape(60, 50), {"all_know_s": 0.8}),
)


def commit() -> str:
    """The last commit that changed what is measured, with a mark if files of it differ from that."""
    last = _git("log", "-1", "--format=%h", "--", *_MEASURED)
    return f"{last}+changes" if _git("status", "--porcelain", "--", *_MEASURED) else last or "unknown"


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def measure(cases: Sequence[Case], record: Record, runs: int, patience_s: float, only: Collection[str]) -> list[str]:
    """Measure what the record lacks: so many runs of each contender in each case, taking turns.

    Returns:
        What went wrong, a line a run. Such a run is not kept; the next call tries it again.
    """
    problems: list[str] = []
    for case in cases:
        problems += _measure_case(case, record, runs, patience_s, only)
    return problems


def _measure_case(case: Case, record: Record, runs: int, patience_s: float, only: Collection[str]) -> Iterator[str]:
    known = record.begin(case.name, machine.description(), commit())
    turns = missing_turns(known, runs, [name for name in case.names if not only or name in only])
    with _Stages(case) as stages:
        for nth, name in turns:
            click.echo(f"{case.name}: run {nth + 1} of {runs}, {name}", err=True)
            try:
                result = kraft.measure(patience_s) if name == KRAFT else stages.measure(name, patience_s)
            except Exception as error:  # whatever went wrong, the next run is tried
                stages.close()
                yield f"{case.name}, {name}: {type(error).__name__}: {error}"
                continue
            run = _as_run(name, result)
            click.echo(f"  {run.figures}; busy before {run.quiet_before}, others {run.others:.2f} processors", err=True)
            record.add(case.name, run)


class _Stages(ExitStack):
    """The stage of a case; another after each run that spoils it."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self._case = case
        self._stage: Stage | None = None
        self._numbers = count()

    def measure(self, name: str, patience_s: float) -> Any:
        """One run of a contender."""
        case = self._case
        if self._stage is None:
            heap = "6g" if case.shape.partitions > 200_000 else "2g"
            self._stage = self.enter_context(Stage(case.shape, are_leading=case.are_leading, heap=heap))
        contenders = [_contender(name, self._stage, next(self._numbers), case) for _ in range(case.contenders)]
        result = case.measure(self._stage, contenders, patience_s)
        if case.spoils:
            self.close()
        return result

    def close(self) -> None:
        """End the stage; the next run gets another."""
        self._stage = None
        super().close()


def missing_turns(known: Measured, runs: int, names: Sequence[str]) -> list[tuple[int, str]]:
    """What is left to measure: which run of whom, in turns."""
    return [(nth, name) for nth in range(runs) for name in names if nth >= len(known.of(name))]


def _contender(name: str, stage: Stage, number: int, case: Case) -> Contender:
    directory, broker_id = stage.directory / f"contender-{number}", 901 + number
    if name == OURS:
        return Ours(stage.server.connect, directory, broker_id=broker_id, settings=case.settings)
    return Kafkas(stage.server.connect, directory, _KAFKA_HEAP, broker_id=broker_id)


def _as_run(contender: str, result: Any) -> Run:
    fields = structs.asdict(result)
    figures = {name: value for name, value in fields.items() if isinstance(value, int | float)}
    figures["processor_s"] = fields["used_s"]["contender"]
    figures |= {f"{name.lower()}_bytes": value for name, value in fields.get("received_bytes", {}).items()}
    machine_figures = [figures.pop(name) for name in ("others_s", "measured_s", "quiet_before")]
    return Run(contender, time.strftime("%Y-%m-%d %H:%M"), figures, *machine_figures)

"""How are measurements shown to people?"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from tests.benchmarks.crowds import Endured
from tests.benchmarks.fail_over import FailOver
from tests.benchmarks.observing import Observed
from tests.benchmarks.planning import PlanMade
from tests.benchmarks.probing import Probed
from tests.benchmarks.reassigning import Reassigned
from tests.benchmarks.reigns import Reign
from tests.benchmarks.replaying import Replayed
from tests.benchmarks.standing_by import StoodBy
from tests.benchmarks.storms import Storm

_MEGABYTE = 1_000_000


def _text(table: Table) -> str:
    console = Console(width=180)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f} s"


def fail_over_table(results: Sequence[FailOver]) -> str:
    """A line a run."""
    table = Table(title="Fail-over: seconds since the claim of /controller")
    for heading in ("controller", "first LeaderAndIsr", "last LeaderAndIsr", "all brokers know all", "peak memory"):
        table.add_column(heading, justify="left" if heading == "controller" else "right")
    for heading in ("LeaderAndIsr", "UpdateMetadata", "own processor time", "others' (of)"):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(
            result.contender,
            _seconds(result.first_leader_and_isr_s),
            _seconds(result.last_leader_and_isr_s),
            _seconds(result.all_know_s),
            f"{result.peak_mib:.0f} MiB",
            f"{result.received_bytes.get('LEADER_AND_ISR', 0) / _MEGABYTE:.1f} MB",
            f"{result.received_bytes.get('UPDATE_METADATA', 0) / _MEGABYTE:.1f} MB",
            _seconds(result.used_s["contender"]),
            f"{result.others_s:.1f} ({result.measured_s:.1f}) s",
        )
    return _text(table)


def observers_table(results: Sequence[Observed]) -> str:
    """A line a run and kind of change."""
    table = Table(title="Observing: until the cluster is followed, then changes of partitions")
    for heading in ("partitions", "followed after", "processor time", "peak memory", "change", "each", "written in"):
        table.add_column(heading, justify="left" if heading == "change" else "right")
    for heading in ("shown after", "peak memory then", "others' (of)"):
        table.add_column(heading, justify="right")
    for result in results:
        for followed in result.followed:
            table.add_row(
                f"{result.partitions}",
                _seconds(result.ready_s),
                _seconds(result.used_s),
                f"{result.peak_mib:.0f} MiB",
                f"{followed.changes} × {followed.kind}",
                f"{followed.per_change_ms:.3f} ms",
                _seconds(followed.written_s),
                _seconds(followed.shown_s),
                f"{result.peak_after_changes_mib:.0f} MiB",
                f"{result.others_s:.1f} ({result.measured_s:.1f}) s",
            )
    return _text(table)


def standbys_table(results: Sequence[StoodBy]) -> str:
    """A line a run."""
    table = Table(title="Warm standbys: what they cost ZooKeeper")
    for heading in ("partitions", "standbys", "watches", "heap", "until warm", "each write", "others' (of)"):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(
            f"{result.partitions}",
            f"{result.standbys}",
            f"{result.watches}",
            "-" if result.heap_mib is None else f"{result.heap_mib:.0f} MiB",
            _seconds(result.warm_s),
            f"{result.per_write_us:.0f} µs",
            f"{result.others_s:.1f} ({result.measured_s:.1f}) s",
        )
    return _text(table)


def reassignment_table(results: Sequence[Reassigned]) -> str:
    """A line a run."""
    table = Table(title="Reassignment of every replica: seconds since the request")
    for heading in ("controller", "partitions", "answered", "settled", "partitions/s", "topic writes", "transactions"):
        table.add_column(heading, justify="left" if heading == "controller" else "right")
    for heading in ("transaction log", "peak memory", "own processor time", "brokers'", "others' (of)"):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(
            result.contender,
            str(result.partitions),
            _seconds(result.answered_s),
            _seconds(result.settled_s),
            f"{result.partitions_a_second:.0f}",
            str(result.topic_writes),
            str(result.transactions),
            f"{result.log_bytes / _MEGABYTE:.1f} MB",
            f"{result.peak_mib:.0f} MiB",
            _seconds(result.used_s["contender"]),
            _seconds(result.used_s["brokers"]),
            f"{result.others_s:.1f} ({result.measured_s:.1f}) s",
        )
    return _text(table)


def probes_table(results: Sequence[Probed]) -> str:
    """A line a phase."""
    table = Table(title="Health endpoints: how long an answer takes")
    for heading in ("while", "took", "probes", "without answer", "median", "99 of 100", "longest"):
        table.add_column(heading, justify="left" if heading == "while" else "right")
    for result in results:
        waits = (f"{wait:.1f} ms" for wait in (result.median_ms, result.p99_ms, result.longest_ms))
        table.add_row(result.phase, f"{result.took_s} s", str(result.count), str(result.failed), *waits)
    return _text(table)


def crowds_table(results: Sequence[Endured]) -> str:
    """A line a crowd."""
    table = Table(title="Crowds: what others wait for the list of brokers meanwhile")
    for heading in ("controller", "clients that"):
        table.add_column(heading)
    for heading in (
        "clients",
        "answered",
        "held",
        "closed",
        "received",
        "took",
        "others' median",
        "longest",
        "before",
        "peak memory",
    ):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(
            result.contender,
            result.crowd,
            str(result.clients),
            str(result.answered),
            str(result.held),
            str(result.closed),
            f"{result.received_bytes / _MEGABYTE:.1f} MB",
            _seconds(result.took_s),
            f"{result.others_median_s * 1000:.1f} ms",
            _seconds(result.others_longest_s),
            f"{result.before_mib:.0f} MiB",
            f"{result.peak_mib:.0f} MiB",
        )
    return _text(table)


def replay_table(results: Sequence[Replayed]) -> str:
    """A line a run."""
    table = Table(title="Reading a transaction log")
    for heading in ("program", "log", "size", "wall", "processor time", "user", "system", "read", "largest Python"):
        table.add_column(heading, justify="left" if heading in ("program", "log") else "right")
    for heading in ("largest Java", "others'"):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(
            result.contender,
            result.log,
            f"{result.log_bytes / _MEGABYTE:.0f} MB",
            _seconds(result.wall_s),
            _seconds(result.user_s + result.system_s),
            _seconds(result.user_s),
            _seconds(result.system_s),
            _seconds(result.steps["read"]) if "read" in result.steps else "",
            f"{result.peak_mib['python']:.0f} MiB" if "python" in result.peak_mib else "",
            f"{result.peak_mib['java']:.0f} MiB" if "java" in result.peak_mib else "",
            f"{result.others_s:.1f} s",
        )
    return _text(table)


def turns_table(results: Sequence[Storm]) -> str:
    """A line a storm."""
    table = Table(title="Turns of the machine")
    table.add_column("storm")
    for heading in ("turns", "all", "longest", "its processor time", "writes", "journal", "gauges", "answer"):
        table.add_column(heading, justify="right")
    for heading in ("command", "commands", "transactions", "resident"):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(
            result.name,
            str(result.turns),
            _seconds(result.total_s),
            _milliseconds(result.longest_s),
            _milliseconds(result.longest_cpu_s),
            _milliseconds(result.writing_longest_s),
            _milliseconds(result.journal_longest_s),
            _milliseconds(result.figures_longest_s),
            _milliseconds(result.answer_longest_s),
            _milliseconds(result.encoding_longest_s),
            str(result.commands),
            str(result.transactions),
            f"{result.resident_mib:.0f} MiB",
        )
    return _text(table)


def reigns_table(results: Sequence[Reign]) -> str:
    """A line each for the first, the last and a few between."""
    table = Table(title="Memory over many terms")
    for heading in ("term", "loaded", "after its end", "longest part of dismantling", "collecting"):
        table.add_column(heading, justify="right")
    for result in [*results[:: max(1, len(results) // 10)], *results[-1:]]:
        table.add_row(
            str(result.number),
            f"{result.loaded_mib:.0f} MiB",
            f"{result.left_mib:.0f} MiB",
            _milliseconds(result.dismantling_longest_s),
            _milliseconds(result.collecting_s),
        )
    return _text(table)


def _milliseconds(value: float) -> str:
    return f"{value * 1000:.0f} ms"


def plans_table(results: Sequence[PlanMade]) -> str:
    """A line a goal."""
    table = Table(title="Plans")
    for heading in ("plan", "moves", "every plan moves at least", "partitions", "brokers outside", "time", "memory"):
        table.add_column(heading, justify="left" if heading == "plan" else "right")
    for result in results:
        table.add_row(
            result.goal,
            f"{result.moved_bytes / 1e9:,.1f} GB",
            f"{result.least_bytes / 1e9:,.1f} GB",
            f"{result.changes:,}",
            str(result.outside),
            _seconds(result.used_s),
            f"{result.peak_mib:.0f} MiB",
        )
    return _text(table)

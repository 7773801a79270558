"""How is a run shown to people?"""

from __future__ import annotations

from collections import Counter

from rich.console import Console, Group
from rich.table import Table

from tests.chaos.verdict import NOTICEABLE_S, Result, Row, failures


def show(result: Result, console: Console) -> None:
    """The table, the totals, and why the run has failed if it has."""
    console.print(Group(_faults(result), _totals(result)))
    for failure in failures(result):
        console.print(f"[bold red]failed:[/] {failure}", highlight=False)
    if result.is_sound:
        console.print("[bold green]nothing lost, and the cluster recovered each time[/]")


def _faults(result: Result) -> Table:
    minutes = result.seconds / 60
    table = Table(
        title=f"{result.contender}, Kafka {result.kafka}, seed {result.seed}: {minutes:.0f} minutes",
        caption="silence: seconds without an acknowledged record, over all partitions and strikes; "
        f"noticed: how many of them were longer than {NOTICEABLE_S:g} s",
    )
    table.add_column("fault")
    headings = ("times", "silence median", "max", "noticed", "recovery median", "max", "lost", "duplicates", "moves")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in result.rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: Row) -> tuple[str, ...]:
    recovery_max = f"{row.unrecovered} × never" if row.unrecovered else _seconds(row.recovery_max_s)
    return (
        row.name,
        str(row.times),
        f"{row.silence_median_s:.1f} s",
        f"{row.silence_max_s:.1f} s",
        f"{row.noticed:.0%}",
        _seconds(row.recovery_median_s),
        recovery_max,
        str(row.lost),
        str(row.duplicates),
        str(row.moves_finished),
    )


def _totals(result: Result) -> Table:
    judgement = result.judgement
    table = Table(show_header=False, box=None)
    skipped = sum(bool(strike.skipped) for strike in result.strikes)
    lines = {
        "acknowledged records": f"{judgement.acknowledged:,}",
        "lost": f"{len(judgement.lost):,}",
        "rewritten after a client had seen them": f"{judgement.rewritten:,}",
        "duplicates of idempotent producers": f"{len(judgement.duplicates):,}",
        "out of order, of idempotent producers": f"{judgement.disordered:,}",
        "repeated by the others (they promise nothing)": f"{judgement.repeated:,}",
        "given up by producers": f"{judgement.refused:,}",
        "not sent: their topic was listed without the partition": f"{judgement.unlisted:,}",
        "not seen by the running consumer, but there": f"{judgement.unseen:,}",
        "moves": ", ".join(f"{count:,} {what}" for what, count in sorted(result.moves.items())),
        "topics": ", ".join(f"{count:,} {what}" for what, count in sorted(result.topics.items())),
        "ended by themselves": _counted([who for strike in result.strikes for who in strike.restarted]),
        "strikes": f"{len(result.strikes) - skipped:,}, and {skipped:,} that cannot be had here",
    }
    for name, value in lines.items():
        table.add_row(name, value)
    return table


def _counted(names: list[str]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in sorted(Counter(names).items())) or "none"


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"

"""What does each fault cost one controller, beside another? `python -m tests.chaos.compare ours.json native.json`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from tests.chaos.verdict import Result, Row


def beside(results: Sequence[Result]) -> Table:
    """A line for each fault that struck all of them, then the totals."""
    table = Table(title="silence median / max, recovery median, lost records")
    table.add_column("fault")
    for result in results:
        table.add_column(f"{result.contender}, Kafka {result.kafka}, seed {result.seed}", justify="right")
    by_name = [{row.name: row for row in result.rows} for result in results]
    shared = [name for name in by_name[0] if all(name in rows for rows in by_name)]
    for name in shared:
        table.add_row(name, *(_cell(rows[name]) for rows in by_name))
    table.add_section()
    table.add_row("acknowledged", *(f"{result.judgement.acknowledged:,}" for result in results))
    table.add_row("lost", *(f"{len(result.judgement.lost):,}" for result in results))
    table.add_row("not sent: partition not listed", *(f"{result.judgement.unlisted:,}" for result in results))
    table.add_row("moves finished", *(f"{result.moves.get('finished', 0):,}" for result in results))
    table.add_row("minutes", *(f"{result.seconds / 60:.0f}" for result in results))
    return table


def _cell(row: Row) -> str:
    recovery = "never" if row.recovery_median_s is None else f"{row.recovery_median_s:.1f} s"
    times = f"{row.silence_median_s:.1f} / {row.silence_max_s:.1f} s, {recovery}, {row.lost} lost"
    return f"{times} ({row.times} ×)"


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
def main(files: tuple[Path, ...]) -> None:
    """Show results of `--json` side by side."""
    results = [msgspec.json.decode(file.read_bytes(), type=Result) for file in files]
    Console(width=160).print(beside(results))


if __name__ == "__main__":
    main()

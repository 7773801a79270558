"""Run many seeds: `python -m tests.simulation --seeds 5000 --start 0`."""

from __future__ import annotations

import sys
import time
import traceback

import click
from rich.progress import track

from tests.simulation.coverage import Coverage
from tests.simulation.world import World

TAIL = 200


@click.command()
@click.option("--seeds", default=200, help="How many worlds to live through.")
@click.option("--start", default=0, help="The first seed.")
@click.option("--trace", "is_traced", is_flag=True, help="Print the whole trace of each seed.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first seed that fails.")
@click.option(
    "--coverage", "is_covered", is_flag=True, help="Print which decisions were written soon after which faults."
)
def main(seeds: int, start: int, is_traced: bool, keep_going: bool, is_covered: bool) -> None:
    """Live through seeded worlds and print the story of one that breaks a promise."""
    failed = []
    began, simulated_s, coverage = time.perf_counter(), 0.0, Coverage()
    numbers = range(start, start + seeds)
    for seed in track(numbers, description="seeds", disable=not sys.stderr.isatty()):
        world = World(seed)
        try:
            world.run()
            simulated_s += world.clock.now
            coverage.add(world.coverage)
        except Exception as error:
            failed.append((seed, error))
            if keep_going:
                click.echo(f"seed {seed}: {type(error).__name__}: {error}")
                continue
            lines = world.trace.lines if is_traced else world.trace.lines[-TAIL:]
            click.echo("\n".join(lines))
            click.echo("".join(traceback.format_exception(error)[-3:]))
            click.echo(f"seed {seed} breaks a promise: {type(error).__name__}: {error}")
            sys.exit(1)
        if is_traced:
            click.echo("\n".join(world.trace.lines))
    took_s = time.perf_counter() - began
    for line in coverage.table() if is_covered else ():
        click.echo(line)
    click.echo(
        f"{seeds - len(failed)} of {seeds} seeds kept every promise; "
        f"{seeds / took_s:.1f} seeds and {simulated_s / 3600 / took_s:.2f} simulated hours per second",
        err=is_traced,
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

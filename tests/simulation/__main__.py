"""Run many seeds: `python -m tests.simulation --seeds 5000 --start 0`."""

from __future__ import annotations

import sys
import time
import traceback
from typing import TypedDict, Unpack

import click
from rich.progress import track

from tests.simulation import shrinking
from tests.simulation.coverage import Coverage
from tests.simulation.shrinking import Story
from tests.simulation.world import World

TAIL = 200
WHATEVER_FAILS = -1


class Wishes(TypedDict):
    """What is wanted besides running seeds."""

    is_traced: bool
    keep_going: bool
    is_covered: bool
    shrink: int | None


@click.command()
@click.option("--seeds", default=200, help="How many worlds to live through.")
@click.option("--start", default=0, help="The first seed.")
@click.option("--trace", "is_traced", is_flag=True, help="Print the whole trace of each seed.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first seed that fails.")
@click.option(
    "--coverage", "is_covered", is_flag=True, help="Print which decisions were written soon after which faults."
)
@click.option(
    "--shrink",
    type=int,
    is_flag=False,
    flag_value=WHATEVER_FAILS,
    help="Cut this seed, or without a number whatever seed fails, down to the few events that break the promise.",
)
def main(seeds: int, start: int, **wishes: Unpack[Wishes]) -> None:
    """Live through seeded worlds and print the story of one that breaks a promise."""
    shrink, is_traced = wishes["shrink"], wishes["is_traced"]
    if shrink is not None and shrink != WHATEVER_FAILS:
        sys.exit(_shrink(shrink, is_traced=is_traced))
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
            failed.append(seed)
            if wishes["keep_going"]:
                click.echo(f"seed {seed}: {type(error).__name__}: {error}")
                continue
            if shrink is None:
                _tell(world, error, is_traced=is_traced)
                sys.exit(1)
            sys.exit(_shrink(seed, is_traced=is_traced))
        if is_traced:
            click.echo("\n".join(world.trace.lines))
    took_s = time.perf_counter() - began
    for line in coverage.table() if wishes["is_covered"] else ():
        click.echo(line)
    click.echo(
        f"{seeds - len(failed)} of {seeds} seeds kept every promise; "
        f"{seeds / took_s:.1f} seeds and {simulated_s / 3600 / took_s:.2f} simulated hours per second",
        err=is_traced,
    )
    for seed in failed if shrink is not None else ():
        _shrink(seed, is_traced=is_traced)
    sys.exit(1 if failed else 0)


def _tell(world: World, error: Exception, *, is_traced: bool) -> None:
    lines = world.trace.lines if is_traced else world.trace.lines[-TAIL:]
    click.echo("\n".join(lines))
    click.echo("".join(traceback.format_exception(error)[-3:]))
    click.echo(f"seed {world.seed} breaks a promise: {type(error).__name__}: {error}")


def _shrink(seed: int, *, is_traced: bool) -> int:
    """The exit status."""
    story = shrinking.shrink(seed)
    if story is None:
        click.echo(f"seed {seed} keeps every promise")
        return 0
    _tell(story.world, story.error, is_traced=is_traced)
    click.echo(_summary(story))
    return 1


def _summary(story: Story) -> str:
    world = story.world
    count = f"{len(world.events)} event{'s' if len(world.events) != 1 else ''}"
    plan = f"{world.plan.brokers} brokers and {world.plan.controllers} controllers"
    head = f"the smallest of {story.tries} stories has {count}, {plan}:"
    return "\n".join([head, *(f"{event.line}  ({event.name})" for event in world.events)])


if __name__ == "__main__":
    main()

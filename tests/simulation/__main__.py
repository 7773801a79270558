"""Run many seeds: `python -m tests.simulation --seeds 5000 --start 0`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import count, islice
from typing import TypedDict, Unpack

import click
from rich.progress import track

from tests.simulation import limits, shrinking
from tests.simulation.coverage import Coverage
from tests.simulation.lives import Life, lives
from tests.simulation.shrinking import Story

TAIL = 200
WHATEVER_FAILS = -1


class Wishes(TypedDict):
    """Options besides running seeds."""

    hours: float | None
    jobs: int
    is_traced: bool
    keep_going: bool
    is_covered: bool
    shrink: int | None
    is_limited: bool


class Tally:
    """A summary of the worlds so far."""

    def __init__(self) -> None:
        self.failed: list[int] = []
        self.worlds = 0
        self.hours = 0.0
        self.coverage = Coverage()
        self._began = time.perf_counter()

    def add(self, life: Life) -> None:
        """Add a world; one that broke a promise counts until then."""
        self.worlds += 1
        self.hours += life.hours
        self.coverage.add(life.coverage)
        if life.error is not None:
            self.failed.append(life.seed)

    @property
    def line(self) -> str:
        """In one line."""
        took_s = time.perf_counter() - self._began
        return (
            f"{self.worlds - len(self.failed)} of {self.worlds} seeds kept every promise; "
            f"{self.hours:.2f} simulated cluster-hours in {took_s:.0f} s: "
            f"{self.worlds / took_s:.1f} seeds and {self.hours / took_s:.3f} simulated cluster-hours per second"
        )


@click.command()
@click.option("--seeds", default=200, help="How many worlds to live through.")
@click.option("--start", default=0, help="The first seed.")
@click.option("--hours", type=float, help="Live through so many simulated cluster-hours, instead of so many worlds.")
@click.option("--jobs", default=1, help="How many worlds to live through at once.")
@click.option("--trace", "is_traced", is_flag=True, help="Print the whole trace of each seed.")
@click.option("--keep-going", is_flag=True, help="Do not stop at the first seed that fails.")
@click.option(
    "--coverage",
    "is_covered",
    is_flag=True,
    help="Print which faults struck in which phases, and which decisions were written soon after which faults.",
)
@click.option("--limited", "is_limited", is_flag=True, help="Only worlds in which moves are limited.")
@click.option(
    "--shrink",
    type=int,
    is_flag=False,
    flag_value=WHATEVER_FAILS,
    help="Cut this seed, or without a number whatever seed fails, down to the few events that break the promise.",
)
def main(seeds: int, start: int, **wishes: Unpack[Wishes]) -> None:
    """Run seeded worlds and print the story of one that breaks a promise."""
    shrink, hours = wishes["shrink"], wishes["hours"]
    if shrink is not None and shrink != WHATEVER_FAILS:
        sys.exit(_shrink(shrink, is_traced=wishes["is_traced"]))
    tally = Tally()
    numbers: Iterator[int] = count(start)
    if wishes["is_limited"]:
        numbers = filter(limits.is_limited, numbers)
    if hours is None:
        numbers = islice(numbers, seeds)
    every = lives(
        numbers, wishes["jobs"], lambda: hours is not None and tally.hours >= hours, is_traced=wishes["is_traced"]
    )
    total = seeds if hours is None else None
    for life in track(every, description="seeds", total=total, disable=not sys.stderr.isatty()):
        tally.add(life)
        if life.error is not None and not wishes["keep_going"]:
            _tell(life, is_traced=wishes["is_traced"])
            click.echo(tally.line, err=wishes["is_traced"])
            sys.exit(1 if shrink is None else _shrink(life.seed, is_traced=wishes["is_traced"]))
        if life.error is not None:
            click.echo(f"seed {life.seed}: {life.error}")
        elif wishes["is_traced"]:
            click.echo("\n".join(life.lines))
    _sum_up(tally, wishes)


def _sum_up(tally: Tally, wishes: Wishes) -> None:
    for line in tally.coverage.table() if wishes["is_covered"] else ():
        click.echo(line)
    click.echo(tally.line, err=wishes["is_traced"])
    for seed in tally.failed if wishes["shrink"] is not None else ():
        _shrink(seed, is_traced=wishes["is_traced"])
    sys.exit(1 if tally.failed else 0)


def _tell(life: Life, *, is_traced: bool) -> None:
    click.echo("\n".join(life.lines if is_traced else life.lines[-TAIL:]))
    click.echo(life.raised_at)
    click.echo(f"seed {life.seed} breaks a promise: {life.error}")


def _shrink(seed: int, *, is_traced: bool) -> int:
    """Shrink a failing seed; return the exit status."""
    story = shrinking.shrink(seed)
    if story is None:
        click.echo(f"seed {seed} keeps every promise")
        return 0
    lines = story.world.trace.lines
    click.echo("\n".join(lines if is_traced else lines[-TAIL:]))
    click.echo(f"seed {seed} breaks a promise: {type(story.error).__name__}: {story.error}")
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

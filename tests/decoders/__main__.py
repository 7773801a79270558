"""Compare our decoders of znodes with Kafka's own: `make decoders`."""

from __future__ import annotations

import random
import sys
from collections import Counter

import click

from tests.decoders.comparing import VERSIONS, compare
from tests.decoders.judged import judged

SHOWN = 5


@click.command()
@click.option("--inputs", default=10_000, show_default=True, help="Mutated inputs for each version.")
@click.option("--seed", type=int, help="Repeats a run; a fresh one otherwise.")
@click.option("--only", multiple=True, type=click.Choice(VERSIONS), help="Of these versions alone; may be repeated.")
def main(inputs: int, seed: int | None, only: tuple[str, ...]) -> None:
    """Compare, count the differences by the reason for each; exit code 1 where one has none."""
    seed = random.randrange(2**31) if seed is None else seed
    is_unexplained = False
    for version in only or VERSIONS:
        found = compare(version, inputs, seed)
        counts = Counter(judged(difference) for difference in found.differences)
        alike = f"{found.read_alike} read alike, {len(found.differences)} differ"
        click.echo(f"Kafka {version}: {found.inputs} inputs, {alike}   seed {seed}")
        for reason, count in counts.most_common():
            click.echo(f"{count:>8}  {reason or 'WITHOUT A REASON'}")
        is_unexplained |= None in counts
        for each in [each for each in found.differences if judged(each) is None][:SHOWN]:
            click.echo(f"  {each.input.family} {each.input.data!r:.300}")
            click.echo(f"      Kafka {each.kafkas:.200}\n      ours  {each.ours:.200} {each.why:.200}")
    sys.exit(1 if is_unexplained else 0)


if __name__ == "__main__":
    main()

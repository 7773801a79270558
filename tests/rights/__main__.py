"""Compare users' answers from our node and from a broker: `python -m tests.rights --requests 2000`."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from tests.rights.comparing import LEADER, STANDBY, Judged, compare

SHOWN = 5


@click.command()
@click.option("--requests", "count", default=2_000, show_default=True, help="To each node.")
@click.option("--seed", type=int, help="Repeats a run; a fresh one otherwise.")
@click.option("--version", default="3.9.1", show_default=True, help="Of the brokers.")
def main(count: int, seed: int | None, version: str) -> None:
    """Send the same requests to a broker and to replicas of ours; exit code 1 where one of these allows more."""
    seed = random.randrange(2**31) if seed is None else seed
    click.echo(f"brokers {version}, {count} requests to each node, seed {seed}")
    began = time.monotonic()
    with TemporaryDirectory(prefix="rights-") as directory:
        found = compare(version, count, seed, Path(directory))
    click.echo(f"{time.monotonic() - began:.0f} s; brokers refused {found.refused} for a lack of rights")
    for node, counts in found.counts.items():
        click.echo(f"{node}:")
        for judged in Judged:
            click.echo(f"    {judged.value:<50}{counts[judged]:>7}")
    for judged in (Judged.OTHER, Judged.STRICTER, Judged.LAXER, Judged.CLOSED):
        kinds = Counter(
            (one.node, one.sent.name, str(one.brokers), str(one.ours))
            for one in found.of(judged)
            if judged is not Judged.CLOSED or one.node in (LEADER, STANDBY)
        )
        click.echo(f"{judged.value}: {len(kinds)} kinds")
        for (node, name, brokers, ours), times in kinds.most_common():
            click.echo(f"    {times:>5} × {node}: {name}: brokers {brokers}, ours {ours}")
    for one in found.of(Judged.LAXER)[:SHOWN]:
        click.echo(f"{one.sent}")
    sys.exit(1 if found.of(Judged.LAXER) else 0)


if __name__ == "__main__":
    main()

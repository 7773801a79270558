"""Compare our decisions with those of Kafka's own authorizers: `make acls`."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from controller.lab.zookeeper import ZooKeeperServer
from tests.acls.authorizers import IMPLEMENTATIONS
from tests.acls.comparing import Comparison, compare

NAMES = [implementation.name for implementation in IMPLEMENTATIONS]
SHOWN = 3


@click.command()
@click.option("--sets", default=20_000, show_default=True, help="Sets of rights for each authorizer.")
@click.option("--seed", type=int, help="Repeats a walk; a fresh one otherwise.")
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="Of these alone; may be repeated.")
def main(sets: int, seed: int | None, only: tuple[str, ...]) -> None:
    """Compare set after set with each of Kafka's authorizers; exit code 1 where any decision differs."""
    seed = random.randrange(2**31) if seed is None else seed
    click.echo(
        f"{'authorizer':<30}{'sets':>8}{'decisions':>11}{'allowed':>9}{'different':>11}{'seconds':>9}   seed {seed}"
    )
    is_different = False
    for implementation in IMPLEMENTATIONS:
        if only and implementation.name not in only:
            continue
        began = time.monotonic()
        with TemporaryDirectory(prefix="acls-") as directory, ZooKeeperServer(Path(directory)) as server:
            found = compare(implementation, server.connect, sets, seed, _tell)
        counts = f"{found.sets:>8}{found.decisions:>11}{found.allowed:>9}{len(found.differences):>11}"
        click.echo(f"{implementation.name:<30}{counts}{time.monotonic() - began:>9.0f}")
        is_different |= bool(found.differences)
        for difference in found.differences[:SHOWN]:
            click.echo(
                f"  set {difference.number}: Kafka {difference.kafkas}, ours {difference.ours}: {difference.wanted}"
            )
            for pattern, acls in difference.rights.items():
                click.echo(f"      {pattern}: {acls}")
    sys.exit(1 if is_different else 0)


def _tell(found: Comparison) -> None:
    if found.sets % 1000 == 0:
        click.echo(f"  … {found.sets} sets, {len(found.differences)} different", err=True)


if __name__ == "__main__":
    main()

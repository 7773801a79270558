"""Strike a real cluster and see what it costs: `python -m tests.chaos --minutes 60 --seed 1`."""

from __future__ import annotations

import logging
import secrets
import shutil
import sys
import time
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import click
import msgspec
from rich.console import Console

from controller.lab.errors import LabError
from tests.chaos.faults import ALL, BY_NAME, Fault
from tests.chaos.load import LoadSettings
from tests.chaos.playing import PlaySettings, play
from tests.chaos.schedule import Strike, schedule
from tests.chaos.scripts import NOTHING, SCRIPTS, script
from tests.chaos.stage import StageSettings
from tests.chaos.table import show
from tests.chaos.verdict import Result


@click.command()
@click.option("--minutes", default=60.0, help="No further fault is struck after this time.")
@click.option("--seed", type=int, help="The same seed strikes the same faults in the same order; drawn if not given.")
@click.option("--contender", type=click.Choice(["ours", "native"]), default="ours", help="Who rules the brokers.")
@click.option("--only", help="The faults to draw from, separated by commas.")
@click.option("--script", "script_name", type=click.Choice(sorted(SCRIPTS)), help="A fixed sequence instead.")
@click.option("--pairs/--no-pairs", default=True, help="Whether two faults strike at the same time now and then.")
@click.option("--rate", default=LoadSettings().rate, help="Records a second.")
@click.option("--kafka", default=StageSettings().kafka, help="The version of the brokers.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the whole result to this file.")
@click.option(
    "--directory", type=click.Path(path_type=Path), help="For logs and data; kept. Otherwise kept on failure."
)
@click.option("--list", "is_list", is_flag=True, help="List faults and scripts, and do nothing.")
def main(
    minutes: float,
    seed: int | None,
    contender: str,
    only: str | None,
    script_name: str | None,
    pairs: bool,
    rate: int,
    kafka: str,
    json_file: Path | None,
    directory: Path | None,
    is_list: bool,
) -> None:
    """Exit code 1 if an acknowledged record is lost or the cluster does not recover, 2 if it cannot be set up."""
    if is_list:
        _list()
        return
    for name in ("kazoo", "kafka", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # they log the lost connections, as intended
    drawn = secrets.randbelow(1_000_000) if seed is None else seed
    strikes = script(script_name, drawn) if script_name else schedule(drawn, _faults(only), with_pairs=pairs)
    place = directory or Path(".cache") / "chaos" / f"{contender}-{drawn}-{time.strftime('%Y%m%dT%H%M%S')}"
    if place.exists() and any(place.iterdir()):
        raise click.BadParameter(f"{place} is not empty", param_hint="--directory")
    settings = PlaySettings(StageSettings(contender, kafka), LoadSettings(rate), drawn)
    result = _play(settings, chain((NOTHING,), strikes), minutes, place.absolute())
    if json_file is not None:
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(result)))
    show(result, Console(width=160))
    if not result.is_sound:
        sys.exit(1)
    if directory is None:
        shutil.rmtree(place, ignore_errors=True)


def _play(settings: PlaySettings, strikes: Iterable[Strike], minutes: float, directory: Path) -> Result:
    click.echo(f"seed {settings.seed}, {settings.stage.contender}, in {directory}", err=True)
    try:
        return play(
            settings,
            strikes,
            until=lambda seconds: seconds > minutes * 60,
            directory=directory,
            tell=lambda line: click.echo(line, err=True),
        )
    except LabError as error:
        click.echo(str(error), err=True)
        sys.exit(2)


def _faults(only: str | None) -> tuple[Fault, ...]:
    if only is None:
        return ALL
    names = [name.strip() for name in only.split(",")]
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise click.BadParameter(f"there is no {', '.join(unknown)}; --list shows all", param_hint="--only")
    return tuple(BY_NAME[name] for name in names)


def _list() -> None:
    for fault in ALL:
        click.echo(f"{fault.name:32} {fault.kind} {fault.role}, {fault.shortest_s:g} to {fault.longest_s:g} s")
    for name, entries in SCRIPTS.items():
        steps = ", ".join(entry if isinstance(entry, str) else " + ".join(entry) for entry in entries)
        click.echo(f"\n--script {name}: {steps}")


if __name__ == "__main__":
    main()

"""How does a person start a replay? `kafka-zk-controller replay DIR`."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from metrics.replay.jobs import Job, Result
    from metrics.replay.state import History


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="DIR…")
@click.option("--out", default="replay", show_default=True, help="Where the tables and the report go.")
@click.option("--since", metavar="TIME", help="Show what happened from this time on (ISO form, UTC by default).")
@click.option("--until", metavar="TIME", help="Show what happened up to this time.")
@click.option("--as-of", "as_of", metavar="WHEN", help="Only the state after this time or zxid.")
@click.option("--diff", "diff", metavar="WHEN", help="With --as-of: what changed since this earlier time or zxid.")
@click.option("--master", default="local[*]", show_default=True, help="Spark's master.")
@click.option("--chroot", default="", help="Kafka's path within ZooKeeper.")
@click.option(
    "--min-isr", default=1, show_default=True, help="The brokers' min.insync.replicas, for topics that set none."
)
@click.option(
    "--jute-maxbuffer", default=0xFFFFF, show_default=True, metavar="BYTES", help="ZooKeeper's limit for one znode."
)
@click.option("--table", "tables", multiple=True, help="Only this table; may be repeated.")
@click.option("--damage-is-fatal", is_flag=True, help="End with 2 if any file is damaged or missing.")
def replay(  # noqa: PLR0913  # click gives each option as an argument
    paths: tuple[str, ...],
    out: str,
    since: str | None,
    until: str | None,
    as_of: str | None,
    diff: str | None,
    master: str,
    chroot: str,
    min_isr: int,
    jute_maxbuffer: int,
    tables: tuple[str, ...],
    damage_is_fatal: bool,
) -> None:
    """A cluster's history from ZooKeeper's own files.

    DIR is a data directory of a ZooKeeper server, live or copied, or single files of it; give both where logs
    and snapshots are apart. Files are only read. Writes Parquet tables and report.html below --out.
    """
    try:
        from metrics.replay.as_of import time_ms
        from metrics.replay.jobs import ALL, Job, named
        from metrics.replay.sources import NothingToRead
    except ImportError as error:
        raise click.ClickException(f"{error}: pip install 'kafka-zk-controller[replay]'") from error
    try:
        if as_of is not None:
            _show_state(paths, Path(out), as_of, diff, chroot)
            return
        job = Job(
            paths, out, chroot,
            None if since is None else time_ms(since),
            None if until is None else time_ms(until),
            named(tables) or ALL, min_isr, jute_maxbuffer,
        )  # fmt: skip
        damaged = _run(job, master)
    except (NothingToRead, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if damaged and damage_is_fatal:
        sys.exit(2)


def _run(job: Job, master: str) -> int:
    """The number of damaged places."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from metrics.replay import session
    from metrics.replay.jobs import is_brief, look, run
    from metrics.replay.report import write_report

    is_short = is_brief(job)
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        bar = bars.add_task("starting Spark", total=None)
        with ThreadPoolExecutor(max_workers=1) as pool:
            looking = pool.submit(look, job, os.cpu_count() or 1)
            spark = session.start(master, is_brief=is_short)

        def show(name: str, done: int, total: int) -> None:
            bars.update(bar, description=name, completed=done, total=total + 1)

        try:
            result = run(spark, job, show, looking.result())
            bars.update(bar, description="report")
            summary = write_report(spark, job, result)
        finally:
            spark.stop()
    click.echo(summary.sentence)
    for line in summary.damage:
        click.echo(f"damaged: {line}", err=True)
    _say_where(job, result)
    return len(summary.damage)


def _say_where(job: Job, result: Result) -> None:
    click.echo(f"{len(result.tables)} tables and report.html below {job.out}")


def _show_state(paths: tuple[str, ...], out: Path, as_of: str, diff: str | None, chroot: str) -> None:
    from metrics.replay.as_of import as_reassignment_json, changed_partitions, cluster_at, differences, moment
    from metrics.replay.sources import stored_files
    from metrics.replay.state import survey

    history: History = survey(stored_files(paths))
    damage = [*history.damage]
    zxid = moment(history, as_of)
    state = cluster_at(history, damage, zxid, chroot)
    click.echo(f"as of zxid {state.zxid:#x}: {state.sentence}")
    out.mkdir(parents=True, exist_ok=True)
    target = out / f"reassignment-{state.zxid:x}.json"
    only = None
    if diff is not None:
        before = cluster_at(history, damage, moment(history, diff), chroot)
        for line in differences(before, state):
            click.echo(line)
        # The way back leads to what was, and only where that differs.
        only = changed_partitions(before, state)
        state, target = before, out / f"reassignment-{before.zxid:x}.json"
    target.write_bytes(as_reassignment_json(state, only))
    click.echo(f"to go back to zxid {state.zxid:#x}: kafka-reassign-partitions --reassignment-json-file {target}")
    for found in damage:
        click.echo(f"damaged: {found}", err=True)

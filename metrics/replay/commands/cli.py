"""How does a person start a replay? `kafka-zk-controller replay DIR`."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
import msgspec

from metrics.replay import INSTALL_THE_EXTRA

if TYPE_CHECKING:
    from pyspark import SparkContext
    from rich.progress import Progress, TaskID

    from metrics.replay.commands.jobs import Job, Looked
    from metrics.replay.commands.report import Summary
    from metrics.replay.engine.tasks import Engine
    from metrics.replay.files.output import Output
    from metrics.replay.files.state import History

INTERRUPTED = 130  # as a shell counts what a signal ended
MOST_NAMED = 5
AUTO, LOCAL, SPARK = "auto", "local", "spark"
# Up to here one process is done before others have started; up to there processes, before Spark has gained anything.
BRIEF_BYTES, LOCAL_BYTES = 64 << 20, 4 << 30


class _OrAsk(click.Command):
    """The replay, or `ask` or `browse` where that is the first word."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the replay, or of `ask` or `browse`."""
        for command in (ask, browse):
            if args[:1] == [command.name]:
                return command.make_context(f"{info_name} {command.name}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that is meant."""
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="DIR…")
@click.argument("partition")
@click.argument("when")
@click.option("--chroot", default="", help="Kafka's path within ZooKeeper.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def ask(paths: tuple[str, ...], partition: str, when: str, chroot: str, *, as_json: bool) -> None:
    """Show what happened to PARTITION (as orders-0) up to a time or zxid: who moved it, and why it took so long."""
    try:
        from metrics.replay.commands.ask import story
    except ImportError as error:
        raise click.ClickException(f"{error}: {INSTALL_THE_EXTRA}") from error
    try:
        found = story(paths, partition, when, chroot)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    for lacking in found.damage:
        click.echo(f"damaged: {lacking}", err=True)
    click.echo(msgspec.json.encode(found) if as_json else "\n".join(found.lines))


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="DIR…")
@click.option("--as-of", "when", metavar="WHEN", help="The znodes after this time or zxid, by default the last.")
@click.option(
    "--run", "lines", multiple=True, metavar="COMMAND", help="Run this and exit ('cat /controller'); may be repeated."
)
@click.option("--chroot", default="", help="Kafka's path within ZooKeeper; start there.")
@click.option("--json", "as_json", is_flag=True, help="Print each answer as a line of JSON.")
def browse(paths: tuple[str, ...], when: str | None, lines: tuple[str, ...], chroot: str, *, as_json: bool) -> None:
    """Browse what ZooKeeper held at a time or zxid: ls, cat, stat, find, grep, tree. Secrets are hidden."""
    from metrics.replay.commands.as_of import moment
    from metrics.replay.commands.browse import Browser, Wrong
    from metrics.replay.files.sources import stored_files
    from metrics.replay.files.state import END_OF_TIME, state_since, survey

    try:
        history = survey(stored_files(paths))
        damage = [*history.damage]
        tree, since = state_since(history, damage, END_OF_TIME if when is None else moment(history, when))
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    for found in dict.fromkeys(damage):
        click.echo(f"damaged: {found}", err=True)
    click.echo(
        f"as of zxid {tree.last_zxid:#x}" + (f", only what was written from {since:#x} on" if since else ""), err=True
    )
    browser, is_asking = Browser(tree.nodes, chroot.rstrip("/")), not lines
    for line in lines or _asked_for(lambda: browser.at):
        try:
            for answer in browser.run(line):
                click.echo(msgspec.json.encode(answer.value) if as_json else answer.line)
        except Wrong as wrong:
            if not is_asking:
                raise click.ClickException(str(wrong)) from wrong
            click.echo(str(wrong), err=True)


def _asked_for(where: Callable[[], str]) -> Iterator[str]:
    """The commands that a person types, until the end."""
    is_person = sys.stdin.isatty()
    while True:
        if is_person:
            click.echo(f"{where()}> ", nl=False)
        line = sys.stdin.readline()
        if not line or line.strip() in ("exit", "quit"):
            return
        if line.strip():
            yield line


@click.command(cls=_OrAsk)
@click.argument("paths", nargs=-1, required=True, metavar="DIR…")
@click.option("--out", default="replay", show_default=True, help="Directory for the tables and the report.")
@click.option("--since", metavar="TIME", help="Show what happened from this time on (ISO form, UTC by default).")
@click.option("--until", metavar="TIME", help="Show what happened up to this time.")
@click.option("--as-of", "as_of", metavar="WHEN", help="Show only the state after this time or zxid.")
@click.option("--diff", "diff", metavar="WHEN", help="With --as-of: show what changed since this earlier time or zxid.")
@click.option(
    "--engine",
    type=click.Choice([AUTO, LOCAL, SPARK]),
    default=AUTO,
    show_default=True,
    help=f"This machine's processes, or Spark; auto: Spark above {LOCAL_BYTES >> 30} GiB, or with --master or --conf.",
)
@click.option("--master", metavar="URL", help="Spark's master, by default local[*].")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's; may be repeated.")
@click.option("--chroot", default="", help="Kafka's path within ZooKeeper.")
@click.option(
    "--min-isr", default=1, show_default=True, help="The brokers' min.insync.replicas, for topics that set none."
)
@click.option(
    "--jute-maxbuffer", default=0xFFFFF, show_default=True, metavar="BYTES", help="ZooKeeper's limit for one znode."
)
@click.option("--table", "tables", multiple=True, help="Only this table; may be repeated.")
@click.option(
    "--anew", is_flag=True, help="Read everything, even what the last replay into the same directory has read."
)
@click.option("--damage-is-fatal", is_flag=True, help="Exit with 2 if any file is damaged or missing.")
def replay(  # noqa: PLR0913  # click gives each option as an argument
    paths: tuple[str, ...],
    out: str,
    since: str | None,
    until: str | None,
    as_of: str | None,
    diff: str | None,
    engine: str,
    master: str | None,
    conf: tuple[str, ...],
    chroot: str,
    min_isr: int,
    jute_maxbuffer: int,
    tables: tuple[str, ...],
    anew: bool,
    damage_is_fatal: bool,
) -> None:
    """A cluster's history from ZooKeeper's own files.

    DIR is a data directory of a ZooKeeper server, live or copied, or single files of it; give both if logs
    and snapshots have separate directories. Files are only read. Writes Parquet tables and report.html below --out.

    `replay ask DIR… PARTITION WHEN` shows the story of one partition instead, `replay browse DIR…` shows znodes.

    \b
      kafka-zk-controller replay /var/lib/zookeeper --out incident-7
    """
    try:
        from metrics.replay.commands.as_of import time_ms
        from metrics.replay.commands.jobs import ALL, Job, named
        from metrics.replay.files.sources import in_a_line
    except ImportError as error:
        raise click.ClickException(f"{error}: {INSTALL_THE_EXTRA}") from error
    _check_options(as_of, diff, since, until, tables)
    settings = _settings(conf)
    if engine == LOCAL and (master is not None or settings):
        raise click.UsageError("--master and --conf are Spark's, and --engine local does without")
    if master is not None or settings:
        engine = SPARK
    try:
        if as_of is not None:
            _show_state(paths, out, as_of, diff, chroot)
            return
        job = Job(
            paths, out, chroot,
            None if since is None else time_ms(since),
            None if until is None else time_ms(until),
            named(tables) or ALL, min_isr, jute_maxbuffer, None, anew,
        )  # fmt: skip
        damaged = _run(job, engine, lambda: _start(master, settings))
    except OSError as error:
        raise click.ClickException(in_a_line(error)) from error
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if damaged and damage_is_fatal:
        sys.exit(2)


def _check_options(
    as_of: str | None, diff: str | None, since: str | None, until: str | None, tables: tuple[str, ...]
) -> None:
    if diff is not None and as_of is None:
        raise click.UsageError("--diff needs --as-of: the state that is compared with an earlier one")
    if as_of is not None and (since is not None or until is not None or tables):
        raise click.UsageError(
            "--as-of shows one state and writes no tables: --since, --until and --table do not apply"
        )


def _settings(conf: tuple[str, ...]) -> dict[str, str]:
    """Settings by key."""
    pairs = [pair.partition("=") for pair in conf]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise click.UsageError(f"--conf {key}: write key=value")
    return {key: value for key, _, value in pairs}


def _run(job: Job, engine: str, start: Callable[[], SparkContext]) -> int:
    """The number of damaged places."""
    from metrics.replay.commands.jobs import TO_GO_ON, bytes_of, result_names
    from metrics.replay.commands.report import REPORT
    from metrics.replay.engine.engines import cores
    from metrics.replay.files.output import Output

    output = Output(job.out)
    output.claim((*result_names(job), *TO_GO_ON, REPORT))
    size = bytes_of(job)
    is_local = engine == LOCAL or (engine == AUTO and size <= LOCAL_BYTES)
    try:
        if is_local:
            summary, count = _here(job, 1 if size <= BRIEF_BYTES else cores())
        else:
            summary, count = _with_spark(job, output, start)
    except KeyboardInterrupt:
        click.echo(f"interrupted: {output.standing}", err=True)
        sys.exit(INTERRUPTED)
    except BrokenExecutor as error:
        why = "a process of the replay was killed, perhaps for want of memory"
        raise click.ClickException(f"{why}; {output.standing}") from error
    click.echo(summary.sentence)
    for line in summary.damage:
        click.echo(f"damaged: {line}", err=True)
    click.echo(f"{count} tables and report.html below {job.out}")
    return len(summary.damage)


def _here(job: Job, cores: int) -> tuple[Summary, int]:
    """Compute the tables and the report on this machine, without Spark; return the number of tables."""
    from metrics.replay.commands.jobs import look
    from metrics.replay.engine.engines import Local

    _say_ignored(job.paths)
    with closing(Local(cores)) as engine, _progress() as bars:
        bar = bars.add_task("looking through the logs", total=None)
        return _computed(engine, job, look(job, cores, engine.work), bars, bar)


def _with_spark(job: Job, output: Output, start: Callable[[], SparkContext]) -> tuple[Summary, int]:
    """The same with Spark; its output and Java's is kept only if it fails."""
    from metrics.replay.spark import session

    try:
        session.check_java()
    except session.NoJava as error:
        raise click.ClickException(str(error)) from error
    _say_ignored(job.paths)
    said, log = tempfile.mkstemp(prefix="replay-spark-", suffix=".log")
    is_wanted = False
    try:
        with session.logged_to(log), _progress() as bars:
            return _on_spark(job, start, said, bars)
    except Exception as error:
        if _is_interruption(error):
            raise KeyboardInterrupt from error
        if isinstance(error, OSError | ValueError):
            raise
        is_wanted = True
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        raise click.ClickException(f"Spark failed: {first}\n{output.standing}; what Spark said is in {log}") from error
    finally:
        os.close(said)
        if not is_wanted:
            Path(log).unlink(missing_ok=True)


def _is_interruption(error: BaseException) -> bool:
    """Whether Ctrl-C caused this error: PySpark then still reports the call's end to Java, which may fail."""
    cause = error.__context__
    return isinstance(error, KeyboardInterrupt) or (cause is not None and _is_interruption(cause))


def _start(master: str | None, settings: dict[str, str]) -> SparkContext:
    from metrics.replay.spark import session

    return session.context(master or session.HERE, settings)


def _on_spark(job: Job, start: Callable[[], SparkContext], said: int, bars: Progress) -> tuple[Summary, int]:
    """Survey the files while Spark starts, compute the tables and write the report; return the number of tables."""
    from metrics.replay.commands.jobs import look
    from metrics.replay.engine.engines import OnSpark, UntilThere
    from metrics.replay.spark import session

    bar = bars.add_task("starting Spark", total=None)
    work, engine = UntilThere(), None
    with ThreadPoolExecutor(max_workers=1) as pool:
        looking = pool.submit(look, job, os.cpu_count() or 1, work)
        try:
            with warnings.catch_warnings(), session.aside(said):
                warnings.simplefilter("ignore")
                spark = start()
            engine = OnSpark(spark)
        finally:
            work.give(engine)
        session.end_at_interruption()
        try:
            bars.update(bar, description="looking through the logs")
            return _computed(engine, job, looking.result(), bars, bar)
        finally:
            with suppress(Exception):  # Java may be gone already
                spark.stop()


def _computed(engine: Engine, job: Job, looked: Looked, bars: Progress, bar: TaskID) -> tuple[Summary, int]:
    from metrics.replay.commands.jobs import run
    from metrics.replay.commands.report import write_report

    def show(name: str, done: int, total: int) -> None:
        bars.update(bar, description=name, completed=done, total=total + 1)

    looked.check(job)
    if looked.known is not None:
        bars.console.print(
            f"read before: all up to zxid {looked.known.last:#x}; only what is new is read (--anew: all)"
        )
    result = run(engine, job, show, looked)
    bars.update(bar, description="report")
    return write_report(engine, job, result), len(result.tables)


def _progress() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(file=_stderr()))


def _stderr() -> TextIO:
    """A standard error for the progress, while Spark's output goes elsewhere."""
    try:
        return os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors)
    except (OSError, ValueError):
        return sys.stderr


def _say_ignored(paths: tuple[str, ...]) -> None:
    from metrics.replay.files.sources import ignored_files

    ignored = ignored_files(paths)
    if ignored:
        more = f" and {len(ignored) - MOST_NAMED} more" if len(ignored) > MOST_NAMED else ""
        click.echo(f"ignored, not named log.* or snapshot.*: {', '.join(ignored[:MOST_NAMED])}{more}", err=True)


def _show_state(paths: tuple[str, ...], out: str, as_of: str, diff: str | None, chroot: str) -> None:
    from metrics.replay.commands.as_of import as_reassignment_json, changed_partitions, cluster_of, differences, moment
    from metrics.replay.commands.settings_changes import setting_changes
    from metrics.replay.files.chroots import check_chroot
    from metrics.replay.files.output import Output
    from metrics.replay.files.sources import stored_files
    from metrics.replay.files.state import state_since, survey

    _say_ignored(paths)
    history: History = survey(stored_files(paths))
    damage = [*history.damage]
    tree, since = state_since(history, damage, moment(history, as_of))
    check_chroot(tree.nodes, chroot)
    state = cluster_of(tree, since, chroot)
    click.echo(f"as of zxid {state.zxid:#x}: {state.sentence}")
    only = None
    if diff is not None:
        earlier, since = state_since(history, damage, moment(history, diff))
        before = cluster_of(earlier, since, chroot)
        for line in (*differences(before, state), *setting_changes(earlier.nodes, tree.nodes, chroot.rstrip("/"))):
            click.echo(line)
        # The way back restores what was, only where it differs.
        only = changed_partitions(before, state)
        state = before
    if not state.assignments:
        known = "known" if state.since else "there"
        click.echo(f"nothing to go back to at zxid {state.zxid:#x}: no partition is {known}")
    elif only is not None and not only:
        click.echo(f"nothing to go back to at zxid {state.zxid:#x}: no partition was to have other replicas")
    else:
        name = f"reassignment-{state.zxid:x}.json"
        Output(out).keep(name, as_reassignment_json(state, only))
        tool = f"kafka-reassign-partitions --reassignment-json-file {out}/{name}"
        click.echo(f"to go back to zxid {state.zxid:#x}: {tool}")
    for found in dict.fromkeys(damage):
        click.echo(f"damaged: {found}", err=True)

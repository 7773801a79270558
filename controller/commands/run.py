"""How is one replica of the controller started?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

import click
import structlog
from rich.table import Table
from rich.text import Text

from controller import logs
from controller.commands.common import CONFIG, MISUSED, console, read_settings
from controller.monitoring import authorizer_log, moves_log
from controller.preflight.tls_handshakes import handshakes
from controller.process import listener_security
from controller.settings import BadSettings, Settings, environment_name
from controller.settings.logs import LogSettings


@click.command()
@click.option("--config", "config", type=CONFIG, help="Properties file, with Kafka's own keys.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one key; may be repeated.")
@click.option("--check-config", is_flag=True, help="Print the settings in force, or every error in them, and exit.")
@click.option(
    "--check-cluster",
    is_flag=True,
    help="Print whether this replica may lead the cluster, without changing anything, and exit.",
)
@click.option("--new-cluster", is_flag=True, help="Start a new cluster if there is none at zookeeper.connect yet.")
@click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output of --check-config and --check-cluster; logs follow log.format.",
)
def run(
    config: Path | None,
    overrides: tuple[str, ...],
    check_config: bool,
    check_cluster: bool,
    new_cluster: bool,
    output: str,
) -> None:
    """Run one replica of the controller, in the foreground.

    Before its first claim it checks that it will not harm the cluster; --check-cluster shows the findings. Run several
    replicas, each with its own broker.id: one leads, the others stand by. On SIGTERM the leader resigns cleanly.

    The environment overrides the file, and --set overrides both. A broker's server.properties can serve as the file:
    override broker.id and listeners. On SIGHUP it reads the file again: what needs no restart counts at once, and
    `status` names the rest.

    \b
      kafka-zk-controller run --config controller.properties
      kafka-zk-controller run --config controller.properties --check-config
      kafka-zk-controller run --config controller.properties --check-cluster
      KAFKA_ZK_CONTROLLER_BROKER_ID=901 kafka-zk-controller run --config controller.properties
      kafka-zk-controller run --set zookeeper.connect=zk1:2181 --set broker.id=900

    Exit codes: 0 stopped on request, 1 failed, 2 invalid configuration. With --check-cluster: 0 it may lead, maybe with
    warnings, 1 it must not, 2 invalid configuration, 3 ZooKeeper cannot be reached.
    """
    settings = checked(config, overrides, as_json=(check_config or check_cluster) and output == "json")
    if check_config:
        _show_settings(settings, output)
        return
    if check_cluster:
        from controller.commands import check_cluster as cluster

        sys.exit(cluster.run(settings, is_new_cluster=new_cluster, as_json=output == "json"))
    begin_logs(settings)
    from controller.process import daemon

    sys.exit(daemon.run(settings, partial(_usable, config, overrides), is_new_cluster=new_cluster))


def checked(config: Path | None, overrides: tuple[str, ...], *, as_json: bool) -> Settings:
    """The settings of a process that is about to begin; prints all that is wrong with them, and ends this one."""
    try:
        return _usable(config, overrides)
    except BadSettings as error:
        _refuse(error, as_json=as_json)


def _usable(config: Path | None, overrides: tuple[str, ...]) -> Settings:
    settings = read_settings(config, overrides)
    listener_security.check(settings)
    return settings


def begin_logs(settings: Settings) -> None:
    """Log as the settings say, first the keys of the configuration that do not concern this program."""
    _configure_logs(settings.logs)
    _log_keys_not_acted_on(settings)


def _refuse(error: BadSettings, *, as_json: bool) -> NoReturn:
    if as_json:
        click.echo(json.dumps({"problems": error.problems}, indent=2))
    else:
        for problem in error.problems:
            click.echo(f"error: {problem}", err=True)
        click.echo("not started; `kafka-zk-controller settings` explains every key", err=True)
    sys.exit(MISUSED)


def _show_settings(found: Settings, output: str) -> None:
    tried = handshakes(found.listening)
    if output == "json":
        shown = {"settings": found.values.printable(), "ignored": found.ignored, "handshakes": tried}
        click.echo(json.dumps(shown, indent=2))
        return
    table = Table("key", "value", "environment variable", title="The configuration is valid")
    for key, value in found.values.printable().items():
        table.add_row(key, Text(value), environment_name(key))
    console().print(table)
    for listener, outcome in tried.items():
        click.echo(f"handshake of brokers on {listener}: {outcome}")
    if found.ignored:
        click.echo(f"ignored, because a controller has no such settings: {', '.join(found.ignored)}")


def _configure_logs(wanted: LogSettings) -> None:
    logs.configure(wanted.level, wanted.format)
    audited, moved = wanted.authorizer_file, wanted.moves_file
    with _refusing(f"log.authorizer.file: {audited}"):
        path = Path(audited) if audited else None
        logs.separate(authorizer_log.LOGGER, wanted.authorizer_level, path, wanted.format)
    if moved is not None:
        with _refusing(f"log.moves.file: {moved}"):
            logs.separate(moves_log.LOGGER, "info", Path(moved), "json", is_whole=True)


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _refuse(BadSettings([f"{what} cannot be written: {error.strerror}"]), as_json=False)


def _log_keys_not_acted_on(found: Settings) -> None:
    if found.ignored:
        log = structlog.get_logger(__name__)
        log.info("ignoring settings that a controller does not use", keys=list(found.ignored))

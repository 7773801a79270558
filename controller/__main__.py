"""What can one ask of this program on the command line?"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

import click
import structlog
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller import access_log, doors, logs
from controller.command_line import CONFIG, MISUSED
from controller.reassign.command import reassign
from controller.rehearsing import handshakes
from controller.release import release
from controller.settings import BadSettings, Settings, documentation, environment_name, load
from controller.settings.table import SETTINGS
from controller.status import status
from controller.switchover import switchover
from controller.wire.versions import parse_wanted
from metrics import measures
from metrics.replay.cli import replay

WIDE = 160

as_anything = click.option(
    "--output", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="kafka-zk-controller", prog_name="kafka-zk-controller")
def main() -> None:
    """A standalone controller for Apache Kafka clusters in ZooKeeper mode (brokers 2.4 to 3.9).

    It claims /controller in ZooKeeper and the brokers obey it; Kafka's own controllers remain as the fallback.

    \b
    Try it on this machine:        kafka-zk-controller demo
    Look before it leads:          kafka-zk-controller run --config controller.properties --check-cluster
    Run it beside a cluster:       kafka-zk-controller run --config controller.properties
    Check a running replica:       kafka-zk-controller status
    See all of them:               kafka-zk-controller status --config controller.properties
    Let another replica lead:      kafka-zk-controller switchover --to 902 --config controller.properties
    Give the cluster back:         kafka-zk-controller release --config controller.properties
    Move partitions:               kafka-zk-controller reassign --help
    """


@main.command()
@click.option("--config", "config", type=CONFIG, help="Properties file, with Kafka's own keys.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one key; may be repeated.")
@click.option("--check-config", is_flag=True, help="Print the settings in force, or all that is wrong, and exit.")
@click.option(
    "--check-cluster", is_flag=True, help="Print whether this replica may lead the cluster, change nothing, and exit."
)
@click.option("--new-cluster", is_flag=True, help="Begin a cluster where none is at zookeeper.connect yet.")
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

    Before its first claim it makes sure that it does the cluster good: --check-cluster shows how that turns out.
    Run several, each with its own broker.id: one leads, the others stand by. On SIGTERM the leader resigns cleanly.

    The environment overrides the file, and --set overrides both. A broker's server.properties can serve as the
    file: give it another broker.id and other listeners.

    \b
      kafka-zk-controller run --config controller.properties
      kafka-zk-controller run --config controller.properties --check-config
      kafka-zk-controller run --config controller.properties --check-cluster
      KAFKA_ZK_CONTROLLER_BROKER_ID=901 kafka-zk-controller run --config controller.properties
      kafka-zk-controller run --set zookeeper.connect=zk1:2181 --set broker.id=900

    Exit codes: 0 stopped on request, 1 failed, 2 invalid configuration. Of --check-cluster: 0 it may lead, maybe with
    warnings, 1 it must not, 2 invalid configuration, 3 ZooKeeper cannot be reached.
    """
    try:
        settings = load(config, overrides, os.environ, {"inter.broker.protocol.version": parse_wanted})
        doors.check(settings)
    except BadSettings as error:
        _refuse(error, as_json=(check_config or check_cluster) and output == "json")
    if check_config:
        _show_settings(settings, output)
        return
    if check_cluster:
        from controller import check_cluster as cluster

        sys.exit(cluster.run(settings, is_new_cluster=new_cluster, as_json=output == "json"))
    _configure_logs(settings)
    _log_keys_not_acted_on(settings)
    from controller import app

    sys.exit(app.run(settings, is_new_cluster=new_cluster))


@main.command()
@as_anything
def settings(output: str) -> None:
    """List every setting: key, type, default and meaning.

    \b
      kafka-zk-controller settings --output json | jq -r '.[] | select(.is_required) | .key'
    """
    if output == "markdown":
        click.echo(documentation.as_markdown(), nl=False)
    elif output == "json":
        rows = [
            {
                "key": s.key,
                "environment": environment_name(s.key),
                "takes": s.kind.name,
                "default": s.default,
                "is_required": s.is_required,
                "is_kafkas": s.is_kafkas,
                "doc": s.doc,
            }
            for s in SETTINGS
        ]
        click.echo(json.dumps(rows, indent=2))
    else:
        table = Table("key", "takes", "default", "meaning", title="Settings (Kafka's own names unless marked *)")
        for s in SETTINGS:
            table.add_row(s.key + ("" if s.is_kafkas else " *"), s.kind.name, documentation.default_of(s), s.doc)
        _console().print(table)


@main.command()
@as_anything
def metrics(output: str) -> None:
    """List every metric, with Kafka's own name where there is one.

    \b
      kafka-zk-controller metrics --output json | jq -r '.[].name'
    """
    if output == "markdown":
        click.echo(measures.as_markdown(), nl=False)
    elif output == "json":
        rows = [
            {"name": m.shown_name, "kind": m.kind, "labels": m.labels, "help": m.help, "alias": m.alias}
            for m in measures.MEASURES
        ]
        click.echo(json.dumps(rows, indent=2))
    else:
        table = Table("name", "kind", "labels", "meaning", title="Metrics")
        for m in measures.MEASURES:
            table.add_row(m.shown_name, m.kind, ", ".join(m.labels), m.help)
        _console().print(table)


@main.command()
@click.option("--kafka-version", default="3.9.1", show_default=True, help="Version of the brokers.")
@click.option("--partitions", default=12, show_default=True, help="Partitions of the topic to move.")
@click.option("--keep", is_flag=True, help="Leave the cluster running, and print how to use it.")
@click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Format of the report; progress goes to standard error.",
)
def demo(kafka_version: str, partitions: int, keep: bool, output: str) -> None:
    """Move every partition on a real cluster on this machine, and kill the leading controller half-way.

    Starts ZooKeeper, three Kafka brokers and two replicas of the controller; produces and consumes throughout; moves
    the topic with Kafka's own kafka-reassign-partitions; kills the leader with SIGKILL; checks that no record was lost.

    \b
      kafka-zk-controller demo
      kafka-zk-controller demo --kafka-version 2.4.1 --keep

    Exit codes: 0 every check passed, 1 a check failed, 130 interrupted.
    """
    from controller.demo import story

    sys.exit(story.main(kafka_version=kafka_version, partitions=partitions, keep=keep, output=output))


main.add_command(status)
main.add_command(switchover)
main.add_command(release)
main.add_command(replay)
main.add_command(reassign)


def _refuse(error: BadSettings, *, as_json: bool) -> NoReturn:
    if as_json:
        click.echo(json.dumps({"problems": error.problems}, indent=2))
    else:
        for problem in error.problems:
            click.echo(f"error: {problem}", err=True)
        click.echo("not started; `kafka-zk-controller settings` explains every key", err=True)
    sys.exit(MISUSED)


def _show_settings(found: Settings, output: str) -> None:
    tried = handshakes(found)
    if output == "json":
        shown = {"settings": found.shown(), "ignored": found.ignored, "handshakes": tried}
        click.echo(json.dumps(shown, indent=2))
        return
    table = Table("key", "value", "environment variable", title="The configuration is valid")
    for key, value in found.shown().items():
        table.add_row(key, Text(value), environment_name(key))
    _console().print(table)
    for listener, outcome in tried.items():
        click.echo(f"handshake of brokers on {listener}: {outcome}")
    if found.ignored:
        click.echo(f"ignored, not settings of a controller: {', '.join(found.ignored)}")


def _configure_logs(found: Settings) -> None:
    style, file = found.text("log.format"), found.values["log.authorizer.file"]
    logs.configure(found.text("log.level"), style)
    try:
        logs.separate(access_log.LOGGER, found.text("log.authorizer.level"), Path(str(file)) if file else None, style)
    except OSError as error:
        _refuse(BadSettings([f"log.authorizer.file: {file} cannot be written: {error.strerror}"]), as_json=False)


def _log_keys_not_acted_on(found: Settings) -> None:
    if found.ignored:
        log = structlog.get_logger(__name__)
        log.info("ignoring settings that a controller does not use", keys=list(found.ignored))


def _console() -> Console:
    """As wide as the terminal; into a pipe or a file a table may be wider than that."""
    return Console(width=None if sys.stdout.isatty() else WIDE)


if __name__ == "__main__":
    main(prog_name="kafka-zk-controller")

"""`kafka-zk-controller status`: what is the state of one replica, or of all?"""

from __future__ import annotations

import json
import sys
import urllib.error
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.commands import handover
from controller.commands.common import CONFIG, FAILED, MISUSED, OK, UNREACHABLE, as_text_or_json, at_zookeeper, fail
from controller.commands.handover import Leadership
from controller.core.candidacy.migrating import MigrationPhase
from controller.http import client
from controller.settings.table import HTTP_HOST, HTTP_PORT

WIDE = 1_000
HERE = f"{HTTP_HOST}:{HTTP_PORT}"


@click.command()
@click.option("--url", help=f"The replica's http.host and http.port; http://{HERE} without options.")
@click.option("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="Show all replicas: the brokers' zookeeper.connect.")
@click.option(
    "--config",
    type=CONFIG,
    help="Show all replicas: a replica's properties file, instead of --zookeeper.",
)
@click.option(
    "--http.config.file",
    "http_config",
    type=CONFIG,
    help="With --url: TLS and user, in Prometheus' format (basic_auth, tls_config).",
)
@as_text_or_json
def status(url: str | None, zookeeper: str | None, config: Path | None, http_config: Path | None, output: str) -> None:
    """Show the state of one replica, or the leader and the state of all replicas.

    \b
      kafka-zk-controller status                                  # the replica on this host
      kafka-zk-controller status --url controller-2:9640 --output json
      kafka-zk-controller status --url https://controller-2:9640 --http.config.file client.yml
      kafka-zk-controller status --config controller.properties   # all, as ZooKeeper knows them
      kafka-zk-controller status --zookeeper zk1:2181/kafka

    Exit codes: 0 ready (leading or standing by; with all replicas: one of them leads), 1 not ready, 2 usage error, 3
    unreachable.
    """
    if url is not None and (zookeeper is not None or config is not None):
        raise click.UsageError("give --url, or --zookeeper, or --config")
    if zookeeper is None and config is None:
        _show_one(_with_scheme(url), http_config, as_json=output == "json")
    else:
        _show_all(zookeeper, config, as_json=output == "json")


def _show_one(url: str, http_config: Path | None, *, as_json: bool) -> None:
    try:
        found = client.ask(f"{url}/leader", http_config)
    except client.UnusableFile as error:
        fail(str(error), MISUSED)
    except urllib.error.HTTPError as error:
        with error:
            hint = "give a user or certificate it accepts with --http.config.file" if error.code == 401 else ""
            fail(f"{url} answers {error.code} {error.reason}{hint and f'; {hint}'}", UNREACHABLE)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        hint = "check http.host and http.port, and whether it requires https:// and --http.config.file"
        fail(f"no controller answers at {url}: {reason}; {hint}", UNREACHABLE)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        rows = [(key.replace("_", " "), _worded(key, value)) for key, value in found.items()]
        _print_table(("", ""), rows, has_header=False)
    sys.exit(OK if found.get("is_ready") else FAILED)


def _show_all(zookeeper: str | None, config: Path | None, *, as_json: bool) -> None:
    found = at_zookeeper(zookeeper, config, handover.leadership)
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(found, str_keys=True), indent=2))
    else:
        _print_all(found)
    leader = found.replicas.get(found.controller) if found.controller is not None else None
    sys.exit(OK if found.is_ours and leader is not None and leader.is_ready else FAILED)


def _print_all(found: Leadership) -> None:
    holder = "vacant" if found.controller is None else str(found.controller)
    other = ", a KRaft controller" if found.migration.is_led_by_kraft else ", a broker"
    kind = "" if found.controller is None else ", a replica of this controller" if found.is_ours else other
    click.echo(f"/controller: {holder}{kind}; controller epoch {found.epoch if found.epoch is not None else 'unknown'}")
    if found.released is not None:
        click.echo(f"released to Kafka's own controllers {handover.who_released(found.released)}")
        click.echo("undo: kafka-zk-controller release --undo")
    if found.migration is not MigrationPhase.NONE:
        click.echo(f"migration to KRaft: {found.migration}; kafka-zk-controller migration --check says more")
    if not found.replicas:
        click.echo("no replica of this controller runs")
        return
    if found.is_ours and sum(word is not None and word.is_ready for word in found.replicas.values()) == 1:
        click.echo("only one replica is ready; if it fails, a native controller leads: run a second one")
    rows = []
    for replica, word in found.replicas.items():
        if word is None:
            rows.append((str(replica), "unreadable", *[""] * 6))
            continue
        since, ready = _worded("since", word.since_ms / 1000), _worded("ready", word.is_ready)
        rows.append((str(replica), word.phase, ready, since, word.release, word.host, word.http, word.reason))
    _print_table(("replica", "phase", "ready", "since", "version", "host", "http", "reason"), rows)


def _with_scheme(url: str | None) -> str:
    """The replica's HTTP address, with a scheme if the option has none."""
    given = (url or HERE).rstrip("/")
    return given if "://" in given else f"http://{given}"


def _worded(key: str, value: object) -> str:
    if key == "since" and isinstance(value, int | float):
        return datetime.fromtimestamp(value).astimezone().isoformat(sep=" ", timespec="seconds")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return "\n".join(map(str, value))
    return "unknown" if value is None else str(value)


def _print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, has_header: bool = True) -> None:
    """As wide as the terminal; in a pipe or file as wide as needed, so that no value is cut."""
    table = Table(show_header=has_header)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)

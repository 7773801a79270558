"""`kafka-zk-controller init`: which settings does a replica need beside a running broker?"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Final

import click

from controller.commands.common import CONFIG, FAILED, MISUSED, OK, UNREACHABLE, as_text_or_json, fail, read_settings
from controller.first_settings.choosing import Chosen, Own, choose
from controller.first_settings.found import (
    BrokerConfiguration,
    ClusterSeen,
    UnusableBroker,
    configuration_in,
    demand_zookeeper,
)
from controller.first_settings.listeners import FIRST_PORT, are_local
from controller.first_settings.looking import look
from controller.first_settings.own_id import FIRST, free_id
from controller.first_settings.page import as_properties
from controller.process.listener_security import check
from controller.reassign.client_properties import ClientSettings, read_client_properties
from controller.reassign.kafka_cluster import KafkaCluster
from controller.reassign.refusals import Refused, Stopped, Unreachable
from controller.settings import BadSettings
from controller.settings.values import HIDDEN, shown
from zk_layout.ids import BrokerId

_CLIENT_ID: Final = "kafka-zk-controller init"
_ONLY_FOR_THE_OWNER: Final = 0o600


@click.command()
@click.option("--server-properties", type=CONFIG, help="A broker's configuration file.")
@click.option("--bootstrap-server", metavar="HOST:PORT", help="Ask a broker instead; it keeps secrets to itself.")
@click.option("--command-config", type=CONFIG, help="With --bootstrap-server: a Kafka client's properties (security).")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="controller.properties",
    show_default=True,
    help="The file to write. It must not exist, and only its owner will be able to read it.",
)
@click.option("--host", help="Where brokers and clients reach the replica; by default the name of this host.")
@click.option("--port", default=FIRST_PORT, show_default=True, type=click.IntRange(1, 65535), help="Its first port.")
@click.option(
    "--id", "number", type=click.IntRange(min=0), help=f"Its broker.id; by default a free one from {FIRST} on."
)
@as_text_or_json
def init(  # noqa: PLR0913 (one parameter an option)
    server_properties: Path | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    out: Path,
    host: str | None,
    port: int,
    number: int | None,
    output: str,
) -> None:
    """Write the configuration of a new replica, from that of a running broker.

    Each line is explained by a comment. ZooKeeper is asked for a free id and the brokers' racks; nothing is written
    there, and no file is overwritten.

    \b
      kafka-zk-controller init --server-properties /etc/kafka/server.properties --host controller-1.example
      kafka-zk-controller init --bootstrap-server kafka-1:9092 --command-config client.properties
      kafka-zk-controller run --config controller.properties --check-cluster

    Exit codes: 0 the file can be used, 1 it has to be completed as the output says, or was not written, 2 usage error,
    3 the broker cannot be reached.
    """
    if (server_properties is None) == (bootstrap_server is None):
        raise click.UsageError("give either --server-properties or --bootstrap-server")
    if command_config is not None and bootstrap_server is None:
        raise click.UsageError("--command-config is for --bootstrap-server")
    if os.path.lexists(out):
        fail(f"{out} exists, and init overwrites nothing: remove it, or give another --out", FAILED)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    try:
        found = _of_file_or_broker(server_properties, bootstrap_server, command_config)
        seen = look(found.values)
        own = Own(_id(found, seen, number), host or _this_host(seen), port)
    except UnusableBroker as error:
        fail(str(error), FAILED)
    chosen = choose(found, seen, own)
    _write(out, as_properties(_introduction(found, out), chosen.sections))
    problems = [*(f"{key}: fill it in; {found.origin} does not disclose it" for key in chosen.undisclosed)]
    problems += _problems(out)
    (_show_json if output == "json" else _show_text)(out, own, chosen, problems)
    sys.exit(FAILED if problems else OK)


def _of_file_or_broker(
    server_properties: Path | None, bootstrap_server: str | None, command_config: Path | None
) -> BrokerConfiguration:
    if server_properties is not None:
        return configuration_in(server_properties)
    assert bootstrap_server is not None
    try:
        client = ClientSettings() if command_config is None else read_client_properties(command_config)
        return demand_zookeeper(_asked(bootstrap_server, client))
    except Refused as error:
        fail(f"{error}; allow this user to describe the cluster's configs, or use --server-properties", FAILED)
    except Unreachable as error:
        fail(str(error), UNREACHABLE)
    except Stopped as error:
        fail(str(error), MISUSED)


def _asked(bootstrap_server: str, client: ClientSettings) -> BrokerConfiguration:
    cluster = KafkaCluster(bootstrap_server, client, _CLIENT_ID)
    try:
        brokers = {number: node for number, node in cluster.nodes().items() if not node.is_controller}
        if not brokers:
            raise UnusableBroker(f"no broker runs in the cluster of {bootstrap_server}")
        broker = next(
            (b for b, node in brokers.items() if f"{node.host}:{node.port}" == bootstrap_server), min(brokers)
        )
        described = cluster.described(broker)
    finally:
        cluster.close()
    values = {key: text for key, text in described.items() if text is not None}
    return BrokerConfiguration(values, f"broker {broker}", frozenset(described.keys() - values.keys()))


def _id(found: BrokerConfiguration, seen: ClusterSeen, number: int | None) -> BrokerId:
    if number is not None:
        if number in seen.taken:
            raise UnusableBroker(f"id {number} is taken; these are: {', '.join(map(str, sorted(seen.taken)))}")
        return BrokerId(number)
    are_generated = found.values.get("broker.id.generation.enable", "true").lower() != "false"
    highest = found.values.get("reserved.broker.max.id", "1000")
    if not highest.isdecimal():
        raise UnusableBroker(f"{found.origin} has reserved.broker.max.id={highest}, which is no number")
    free = free_id(seen.taken, int(highest) if are_generated else None)
    if free is None:
        raise UnusableBroker(f"no id up to reserved.broker.max.id={highest} is free: raise it on the brokers and here")
    return free


def _this_host(seen: ClusterSeen) -> str:
    return "127.0.0.1" if are_local(seen) else socket.getfqdn()


def _introduction(found: BrokerConfiguration, out: Path) -> list[str]:
    return [
        f"One replica of the controller, made by `kafka-zk-controller init` from {found.origin}. A setting with "
        "Kafka's name has Kafka's meaning; `kafka-zk-controller settings` lists all.",
        f"Check the file:     kafka-zk-controller run --config {out} --check-config",
        f"Check the cluster:  kafka-zk-controller run --config {out} --check-cluster",
    ]


def _write(out: Path, text: str) -> None:
    """Create the file; at no moment can another user open it."""
    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _ONLY_FOR_THE_OWNER)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        fail(f"{out} cannot be written: {error.strerror}", FAILED)


def _problems(out: Path) -> list[str]:
    """What `run` would refuse."""
    try:
        check(read_settings(out))
    except BadSettings as error:
        return list(error.problems)
    return []


def _secrets(chosen: Chosen) -> list[str]:
    lines = (line for section in chosen.sections for line in section.lines)
    return [line.key for line in lines if line.is_set and shown(line.key, line.value) == HIDDEN]


def _show_json(out: Path, own: Own, chosen: Chosen, problems: list[str]) -> None:
    found = {
        "file": str(out),
        "broker_id": own.number,
        "is_usable": not problems,
        "problems": problems,
        "warnings": chosen.warnings,
        "secrets": _secrets(chosen),
    }
    click.echo(json.dumps(found, indent=2))


def _show_text(out: Path, own: Own, chosen: Chosen, problems: list[str]) -> None:
    click.echo(f"{out}: replica {own.number} at {own.host}; only the file's owner can read it")
    click.echo(f"until it has run, {own.number} counts as free: set up before that, another replica needs an --id")
    if secrets := _secrets(chosen):
        click.echo(f"it holds secrets: {', '.join(secrets)}")
    for warning in chosen.warnings:
        click.echo(f"warning: {warning}")
    for problem in problems:
        click.echo(f"to do: {problem}")
    then = "then" if problems else "next"
    click.echo(f"{then}: kafka-zk-controller run --config {out} --check-cluster")

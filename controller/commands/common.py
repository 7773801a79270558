"""What do the commands have in common: options, the way to ZooKeeper, and how they end?"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from rich.console import Console

from controller.settings import BadSettings, Settings, load
from controller.settings.kinds import SERVERS
from controller.settings.zookeeper import ZooKeeperSettings
from controller.wire.versions import parse_wanted
from controller.zk import inspection
from controller.zk.answers import Disconnected, Refused, SessionEnded
from controller.zk.bridge import Bridge

OK, FAILED, MISUSED, UNREACHABLE = 0, 1, 2, 3
CONFIG = click.Path(exists=True, dir_okay=False, path_type=Path)
CONNECT_WITHIN_MS = 10_000
WIDE = 160

as_text_or_json = click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
T = TypeVar("T")


def at_zookeeper(
    connect: str | None, config: Path | Settings | None, do: Callable[[Bridge], Coroutine[Any, Any, T]]
) -> T:
    """Connect to the ZooKeeper that one of two options names and return the result of `do`. Ends the process if no
    server answers. `config` is a replica's properties file, or its settings where the command has read them."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    where = _way_to_zookeeper(connect, config)
    try:
        return asyncio.run(_with_bridge(where, do))
    except Refused as error:
        fail(f"ZooKeeper refused: {error}", FAILED)
    except (Disconnected, SessionEnded) as error:
        fail(f"ZooKeeper cannot be reached: {error}", UNREACHABLE)


async def _with_bridge(where: ZooKeeperSettings, do: Callable[[Bridge], Coroutine[Any, Any, T]]) -> T:
    bridge = Bridge(where)
    await bridge.start(still_trying)
    try:
        if (found := await inspection.nothing_here(bridge)) is not None:
            fail(f"no Kafka cluster is at {where.connect}: {found}; use the same chroot as the brokers", FAILED)
        return await do(bridge)
    finally:
        await bridge.stop()


def _way_to_zookeeper(connect: str | None, config: Path | Settings | None) -> ZooKeeperSettings:
    if (connect is None) == (config is None):
        fail("give either --zookeeper or --config", MISUSED)
    if connect is not None:
        try:
            connect = str(SERVERS.read(connect))
        except ValueError as error:
            fail(f"--zookeeper: {error}", MISUSED)
        return ZooKeeperSettings(connect, connection_timeout_ms=CONNECT_WITHIN_MS)
    return (config if isinstance(config, Settings) else settings_of(config)).zookeeper


def read_settings(config: Path | None, overrides: Iterable[str] = ()) -> Settings:
    """A replica's settings.

    Raises:
        BadSettings: they are not valid.
    """
    return load(config, overrides, os.environ, {"inter.broker.protocol.version": parse_wanted})


def settings_of(config: Path | None) -> Settings:
    """The same. Ends the process if they are not valid."""
    try:
        return read_settings(config)
    except BadSettings as error:
        fail("\nerror: ".join(error.problems), MISUSED)


def still_trying(reason: str) -> None:
    """Print that a step takes long; the process continues."""
    click.echo(f"{reason}; still trying", err=True)


def fail(message: str, exit_code: int) -> NoReturn:
    """End the process with one clear error."""
    click.echo(f"error: {message}", err=True)
    sys.exit(exit_code)


def console() -> Console:
    """As wide as the terminal; a table in a pipe or file may be wider."""
    return Console(width=None if sys.stdout.isatty() else WIDE)

"""Which values of options are mistakes?

click stops at the first invalid value. Here it is collected, to be reported together with all other mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from controller.settings.kinds import SERVERS

_SERVER = re.compile(r"(?:[A-Za-z_]+://)?(?:\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]]+):(\d{1,5})")
_HIGHEST_PORT = 65535
_DURATION = re.compile(r"0|(?P<number>\d{1,6})(?P<unit>[smhd])", re.ASCII)
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Mistake(str):
    """What is wrong with a value, in place of it."""

    __slots__ = ()


class Judged(click.ParamType[Any]):
    """Parses a value as another type does, or turns it into a `Mistake`."""

    def __init__(self, kind: click.ParamType[Any]) -> None:
        """`kind` parses and names it."""
        self._kind = kind
        self.name = kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value, or what is wrong with it."""
        try:
            return self._kind.convert(value, param, ctx)
        except click.BadParameter as mistake:
            named = param.opts[0] if param is not None else self.name
            return Mistake(f"{named}: {mistake.message}")

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str | None:
        """As that type shows itself in the help."""
        return self._kind.get_metavar(param, ctx)


class _Duration(click.ParamType[int]):
    """A time with its unit, in milliseconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it.

        >>> [_Duration().convert(text, None, None) for text in ("0", "90s", "30m", "6h", "2d")]
        [0, 90000, 1800000, 21600000, 172800000]
        """
        match = _DURATION.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is no time; give one such as 90s, 30m, 6h or 2d, or 0", param, ctx)
        return int(match["number"] or 0) * _UNITS_MS.get(match["unit"], 0)


INTEGER = Judged(click.INT)
DURATION = Judged(_Duration())
FILE = Judged(click.Path(exists=True, dir_okay=False, path_type=Path))


def at_least(least: int) -> Judged:
    """A whole number."""
    return Judged(click.IntRange(min=least))


def mistakes_in(values: Iterable[object]) -> list[str]:
    """The mistakes among values and lists of values."""
    flat = (one for value in values for one in (value if isinstance(value, tuple) else (value,)))
    return [str(value) for value in flat if isinstance(value, Mistake)]


def server_mistakes(text: str) -> Iterator[str]:
    """The mistakes in the value of `--bootstrap-server`.

    >>> list(server_mistakes("kafka1:9092,[::1]:9092")), list(server_mistakes("kafka1"))
    ([], ["--bootstrap-server: 'kafka1' is not a server; expected host:port,host:port"])
    """
    for server in text.split(","):
        match = _SERVER.fullmatch(server.strip())
        if match is None or not 0 < int(match[1]) <= _HIGHEST_PORT:
            yield f"--bootstrap-server: {server!r} is not a server; expected host:port,host:port"


def zookeeper_mistakes(text: str) -> Iterator[str]:
    """The mistakes in the value of `--zookeeper`.

    >>> list(zookeeper_mistakes("zk1:2181/kafka")), list(zookeeper_mistakes("zk1:x"))
    ([], ["--zookeeper: 'zk1:x' is not a server; expected host:port,host:port and perhaps /chroot"])
    """
    try:
        SERVERS.read(text)
    except ValueError as mistake:
        yield f"--zookeeper: {mistake}"

"""What has been written, and where: file, environment, command line?"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import javaproperties
from msgspec import Struct

from controller.settings.securing_keys import SECURING
from controller.settings.table import SETTINGS

ENVIRONMENT_PREFIX = "KAFKA_ZK_CONTROLLER_"

# Kubernetes describes a service called kafka-zk-controller to every container, in variables with our prefix.
_OTHERS_VARIABLES = re.compile(
    f"{ENVIRONMENT_PREFIX}(IVY_SETTINGS|SERVICE_(HOST|PORT.*)|PORT|PORT_\\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_NEAR_ENOUGH = 0.6


class Given(Struct, frozen=True):
    """A value, and where the operator wrote it; `written` is what stands there, if the value came from a provider."""

    text: str
    where: str
    written: str = ""


def environment_name(key: str) -> str:
    """The environment variable that overrides a key.

    >>> environment_name("zookeeper.connect")
    'KAFKA_ZK_CONTROLLER_ZOOKEEPER_CONNECT'
    """
    return ENVIRONMENT_PREFIX + key.upper().replace(".", "_")


def nearest(written: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: what may have been meant.

    >>> nearest("broker.racks", ["broker.id", "broker.rack"])
    '; did you mean broker.rack?'
    """
    close = difflib.get_close_matches(written, list(known), n=1, cutoff=_NEAR_ENOUGH)
    return f"; did you mean {close[0]}?" if close else "; `kafka-zk-controller settings` lists all"


def from_file(path: Path, problems: list[str]) -> dict[str, Given]:
    """Parse a properties file as Java does: in Latin-1, the last of equal keys wins."""
    try:
        text = path.read_text(encoding="latin-1")
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}")
        return {}
    found: dict[str, Given] = {}
    line = 1
    try:
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                found[element.key] = Given(element.value.strip(), f"{path}:{line}")
            line += element.source.count("\n")
    except javaproperties.InvalidUEscapeError as error:
        problems.append(f"{path}:{line}: {error}")
    return found


def from_environment(environment: Mapping[str, str], problems: list[str]) -> dict[str, Given]:
    """The variables with our prefix."""
    keys = {environment_name(key): key for key in (*(setting.key for setting in SETTINGS), *SECURING)}
    found: dict[str, Given] = {}
    for name, text in sorted(environment.items()):
        if not name.startswith(ENVIRONMENT_PREFIX) or _OTHERS_VARIABLES.fullmatch(name):
            continue
        if name in keys:
            found[keys[name]] = Given(text.strip(), f"environment variable {name}")
        else:
            problems.append(f"environment variable {name}: there is no such setting{nearest(name, keys)}")
    return found


def from_overrides(overrides: Iterable[str], problems: list[str]) -> dict[str, Given]:
    """The `key=value` texts of `--set`."""
    found: dict[str, Given] = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        if equals:
            found[key.strip()] = Given(value.strip(), "--set")
        else:
            problems.append(f"--set {text}: expected key=value, like --set broker.id=901")
    return found

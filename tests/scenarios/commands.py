"""The language of scenarios: what does each command line do?"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_type_hints

from msgspec import convert

from controller.core.messages.requests import DescribeCluster, FeatureUpdate, UpdateFeatures
from controller.core.settings import MachineSettings
from tests.scenarios.access_commands import ACCESS_COMMANDS
from tests.scenarios.broker_commands import BROKER_COMMANDS, broker_does
from tests.scenarios.move_commands import MOVE_COMMANDS
from tests.scenarios.reading import options_of
from tests.scenarios.theatre import Theatre
from tests.scenarios.topic_commands import TOPIC_COMMANDS, reference
from tests.scenarios.znode_commands import ZNODE_COMMANDS
from zk_layout.ids import BrokerId


def obey(theatre: Theatre, line: str) -> None:
    """Carry out one command line."""
    for words in (3, 2, 1):
        name, arguments = " ".join(line.split(" ")[:words]), line.split(" ")[words:]
        if name in _COMMANDS:
            _COMMANDS[name](theatre, *arguments)
            return
        if line.startswith("broker ") and words == 3:
            broker_does(theatre, BrokerId(int(line.split(" ")[1])), line.split(" ")[2])
            return
    raise ValueError(f"unknown command: {line}")


# the controller


def _set(theatre: Theatre, *words: str) -> None:
    """`set unclean_election=true`: settings of the machines elected from now on."""
    theatre.settings.update(_settings(words))


def _adjust(theatre: Theatre, *words: str) -> None:
    """`adjust unclean_election=true`: the operator changes these settings while the term goes on."""
    theatre.adjust(_settings(words))


def _settings(words: tuple[str, ...]) -> dict[str, Any]:
    kinds = get_type_hints(MachineSettings)
    return {name: convert(json.loads(value), kinds[name]) for name, value in options_of(words).items()}


def _elect(theatre: Theatre, own_id: str = "100") -> None:
    """`elect [101]`: a controller begins its term, whatever its id; also what follows after a crash."""
    theatre.own_id = BrokerId(int(own_id))
    theatre.elect()


def _trouble(kind: str) -> Callable[..., None]:
    def arm(theatre: Theatre, *words: str) -> None:
        theatre.trouble.append(f"{kind} {' '.join(words)}".strip())

    return arm


def _crash_after(theatre: Theatre, number: str) -> None:
    """`crash after-commit 2`: the controller dies when ZooKeeper has accepted its second transaction from now."""
    theatre.trouble.extend([""] * (int(number) - 1) + ["crash"])


def _time(theatre: Theatre, seconds: str) -> None:
    """`time +10s`."""
    theatre.wait(float(seconds.strip("+s")))


def _servers_take(theatre: Theatre, size_bytes: str) -> None:
    """`servers take 500`: ZooKeeper hangs up on a larger request, whatever the controller's setting says."""
    theatre.zookeeper.frame_limit = int(size_bytes)


# requests


def _ask_metadata(theatre: Theatre, *topics: str) -> None:
    """`ask metadata [orders id:AAECAwQFBgcICQoLDA0ODw …] [operations]`: of all topics or of these."""
    named = tuple(reference(topic) for topic in topics if topic != "operations")
    told = "operations" in topics
    theatre.ask(DescribeCluster(named or None, with_cluster_operations=told, with_topic_operations=told))


def _ask_cluster(theatre: Theatre, *endpoint_type: str) -> None:
    """`ask cluster [2]`: who its brokers are (1) or its controllers (2)."""
    theatre.ask(DescribeCluster((), endpoint_type=int(*endpoint_type or "1")))


def _features(theatre: Theatre, *words: str) -> None:
    """`ask features transactions=0/2`: a level, and 1 to raise it, 2 or 3 to lower it."""
    updates = []
    for feature, wanted in options_of(words).items():
        level, _, kind = wanted.partition("/")
        updates.append(FeatureUpdate(feature, int(level), int(kind)))
    theatre.ask(UpdateFeatures(tuple(updates)))


_COMMANDS: dict[str, Callable[..., None]] = {
    "set": _set,
    "adjust": _adjust,
    "elect": _elect,
    "conflict": _trouble("conflict"),
    "remove at once": _trouble("remove-at-once"),
    "lose reply": _trouble("lose-reply"),
    "lose request": _trouble("lose-request"),
    "crash after-commit": _crash_after,
    "time": _time,
    "servers take": _servers_take,
    "refuse": lambda theatre, path: theatre.refused.add(path),
    "allow": lambda theatre, path: theatre.refused.discard(path),
    "hold request": _trouble("hold-request"),
    "hold reply": _trouble("hold-reply"),
    "reply": lambda theatre: theatre.reply(),
    "ask metadata": _ask_metadata,
    "ask cluster": _ask_cluster,
    "ask features": _features,
    **ACCESS_COMMANDS,
    **BROKER_COMMANDS,
    **MOVE_COMMANDS,
    **TOPIC_COMMANDS,
    **ZNODE_COMMANDS,
}

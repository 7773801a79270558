"""The language of scenarios, where clients ask for topics: create, delete, grow, elect."""

from __future__ import annotations

from collections.abc import Callable

from controller.core.messages.requests import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Growth,
    NewTopic,
    TopicReference,
)
from tests.scenarios.reading import options_of, partition_of, replicas_of
from tests.scenarios.theatre import Theatre
from zk_layout.ids import PartitionId, Replicas, TopicId, TopicName

_OWN = ("partitions", "replicas", "timeout_ms")


def _sorted_out(words: tuple[str, ...]) -> tuple[dict[str, int], dict[int, Replicas], tuple[tuple[str, str], ...]]:
    """Our own options, assignments by partition, settings of the topic."""
    options = options_of(words)
    own = {name: int(options.pop(name)) for name in _OWN if name in options}
    placed = {int(name): replicas_of(options.pop(name)) for name in tuple(options) if name.isdigit()}
    return own, placed, tuple(options.items())


def _ask_create(theatre: Theatre, names: str, *words: str) -> None:
    """`ask create orders,payments partitions=3 replicas=2 [0=1,2 retention.ms=1 timeout_ms=0 validate old]`; an old
    client does not know quotas."""
    own, placed, configs = _sorted_out(words)
    assignments = tuple((PartitionId(number), replicas) for number, replicas in placed.items())
    topics = tuple(
        NewTopic(TopicName(name), own.get("partitions", -1), own.get("replicas", -1), assignments, configs)
        for name in names.split(",")
    )
    theatre.ask(CreateTopics(topics, own.get("timeout_ms", 30_000), "validate" in words, "old" not in words))


def reference(word: str) -> TopicReference:
    """`orders`, `id:AAECAwQFBgcICQoLDA0ODw`, or both: `orders,id:AAECAwQFBgcICQoLDA0ODw`."""
    name, has_id, topic_id = word.partition("id:")
    name = name.rstrip(",")
    return TopicReference(TopicName(name) if name else None, TopicId(topic_id) if has_id else None)


def _ask_delete(theatre: Theatre, *words: str) -> None:
    """`ask delete orders id:AAECAwQFBgcICQoLDA0ODw [timeout_ms=0 old]`: by name, and by id."""
    own, _, _ = _sorted_out(words)
    topics = tuple(reference(word) for word in words if "=" not in word and word != "old")
    theatre.ask(DeleteTopics(topics, own.get("timeout_ms", 30_000), knows_quota_exceeded="old" not in words))


def _ask_grow(theatre: Theatre, topic: str, *words: str) -> None:
    """`ask grow orders partitions=5 [3=1,2 4=2,3 timeout_ms=0 validate old]`."""
    own, placed, _ = _sorted_out(words)
    growth = Growth(TopicName(topic), own["partitions"], tuple(placed.values()) or None)
    theatre.ask(CreatePartitions((growth,), own.get("timeout_ms", 30_000), "validate" in words, "old" not in words))


def _ask_elect(theatre: Theatre, kind: str, *partitions: str) -> None:
    """`ask elect preferred|unclean [orders-0 …]`: of these partitions, or of all that need it."""
    wanted = tuple(map(partition_of, partitions))
    theatre.ask(ElectLeaders(wanted or None, kind == "unclean", 30_000))


TOPIC_COMMANDS: dict[str, Callable[..., None]] = {
    "ask create": _ask_create,
    "ask delete": _ask_delete,
    "ask grow": _ask_grow,
    "ask elect": _ask_elect,
}

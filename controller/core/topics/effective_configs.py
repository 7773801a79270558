"""Which settings will a topic have, given its own settings and a broker's defaults?

Brokers know topic settings by other names, a few by several, in other units. The settings depend on the broker's
version: a setting exists if the broker describes its counterpart, or one introduced with it.

Source: Kafka's LogConfig, ServerTopicConfigSynonyms, KafkaConfig.extractLogConfigMap and ConfigHelper; KIP-525.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from controller.core.messages.replies import BrokerConfig, ConfigSource, TopicConfig
from controller.core.topics.configs import as_brokers_say

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_SAME, _LOG, _CLEANER = "", "log.", "log.cleaner."
_ALIKE = {
    "cleanup.policy": _LOG,
    "compression.gzip.level": _SAME,
    "compression.lz4.level": _SAME,
    "compression.type": _SAME,
    "compression.zstd.level": _SAME,
    "delete.retention.ms": _CLEANER,
    "index.interval.bytes": _LOG,
    "local.retention.bytes": _LOG,
    "local.retention.ms": _LOG,
    "max.compaction.lag.ms": _CLEANER,
    "message.downconversion.enable": _LOG,
    "message.format.version": _LOG,
    "message.timestamp.after.max.ms": _LOG,
    "message.timestamp.before.max.ms": _LOG,
    "message.timestamp.difference.max.ms": _LOG,
    "message.timestamp.type": _LOG,
    "min.compaction.lag.ms": _CLEANER,
    "min.insync.replicas": _SAME,
    "preallocate": _LOG,
    "retention.bytes": _LOG,
    "segment.bytes": _LOG,
    "unclean.leader.election.enable": _SAME,
}
_OTHERWISE: Mapping[str, Sequence[tuple[str, int]]] = {
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "max.message.bytes": (("message.max.bytes", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
}
SYNONYMS: Mapping[str, Sequence[tuple[str, int]]] = MappingProxyType(
    {**{name: ((prefix + name, 1),) for name, prefix in _ALIKE.items()}, **_OTHERWISE}
)
"""The broker's names of each topic setting, the decisive one first, each with the number of topic units in its unit."""

_EVERY, _FROM_3_6, _FROM_3_9 = "log.segment.bytes", "log.local.retention.ms", "controller.quorum.bootstrap.servers"
# Settings without a broker counterpart: the broker setting that shows that they exist, and their default.
_ONLY_OF_TOPICS = (
    ("follower.replication.throttled.replicas", _EVERY, ""),
    ("leader.replication.throttled.replicas", _EVERY, ""),
    ("remote.log.copy.disable", _FROM_3_9, "false"),
    ("remote.log.delete.on.disable", _FROM_3_9, "false"),
    ("remote.storage.enable", _FROM_3_6, "false"),
)
_BOUNDS = ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms")
_DIFFERENCE = "message.timestamp.difference.max.ms"

ASKED = tuple(sorted({_FROM_3_9, *(name for synonyms in SYNONYMS.values() for name, _ in synonyms)}))
"""The settings to ask a broker for."""


def effective(own: Mapping[str, str], broker: Mapping[str, BrokerConfig]) -> tuple[TopicConfig, ...]:
    """All settings of a topic, by name: its own, and the broker's defaults for the others.

    >>> broker = {
    ...     "log.retention.ms": BrokerConfig(None, ConfigSource.DEFAULT),
    ...     "log.retention.hours": BrokerConfig("2", ConfigSource.STATIC_BROKER),
    ...     "min.insync.replicas": BrokerConfig("2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
    ... }
    >>> for config in effective({"min.insync.replicas": "1"}, broker):
    ...     print(config.name, config.value, config.source.name)
    min.insync.replicas 1 TOPIC
    retention.ms 7200000 DEFAULT
    """
    found = {name: config for name in SYNONYMS if (config := _of_broker(name, broker)) is not None}
    for name in _BOUNDS:
        found.update(_bounded(found, name))
    for name, sign, value in _ONLY_OF_TOPICS:
        if sign in broker:
            found[name] = TopicConfig(name, value, ConfigSource.DEFAULT)
    for name, value in own.items():
        found[name] = TopicConfig(name, as_brokers_say(name, value), ConfigSource.TOPIC)
    return tuple(found[name] for name in sorted(found))


def _of_broker(name: str, broker: Mapping[str, BrokerConfig]) -> TopicConfig | None:
    synonyms = SYNONYMS[name]
    first = broker.get(synonyms[0][0])
    if first is None:
        return None
    for synonym, factor in synonyms:
        value = broker[synonym].value if synonym in broker else None
        if value is not None:
            # Kafka names the source of the first synonym, whichever one has the value.
            return TopicConfig(name, value if factor == 1 else _multiplied(value, factor), first.source)
    return TopicConfig(name, None, first.source)


def _multiplied(value: str, factor: int) -> str:
    return str(max(int(value) * factor, -1))


def _bounded(found: Mapping[str, TopicConfig], name: str) -> dict[str, TopicConfig]:
    """An unset bound takes the value of its predecessor, which applied in both directions."""
    config, difference = found.get(name), found.get(_DIFFERENCE)
    if config is None or difference is None or config.source is not ConfigSource.DEFAULT:
        return {}
    return {name: TopicConfig(name, difference.value, config.source)}

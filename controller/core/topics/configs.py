"""Can brokers use these settings of a topic?

Covers the settings of Kafka 2.4 to 3.9 with type and range; older brokers ignore those they do not know. Topics have no
settings of plug-ins, so an unknown name is a mistake.

Source: Kafka's LogConfig and TopicConfig.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

_WHOLE = re.compile(r"[+-]?[0-9]+\Z")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_THROTTLED = re.compile(r"([0-9]+:[0-9]+)?\Z")
_RELEASE = re.compile(r"(0\.(8|9|10|11)|[1-3])(\.[0-9]+)*(-IV[0-9]+)?\Z")
_INT, _LONG = 2**31 - 1, 2**63 - 1

Check = Callable[[str], str | None]


def _whole(least: int, most: int) -> Check:
    kind = "INT" if most <= _INT else "LONG"

    def check(text: str) -> str | None:
        if not _WHOLE.match(text):
            return f"Not a number of type {kind}"
        if int(text) < least:
            return f"Value must be at least {least}"
        return f"Value must be at most {most}" if int(text) > most else None

    return check


def _ratio(text: str) -> str | None:
    if not _DECIMAL.match(text):
        return "Not a number of type DOUBLE"
    return None if 0 <= float(text) <= 1 else "Value must be from 0 to 1"


def _truth(text: str) -> str | None:
    return None if text.lower() in ("true", "false") else "Expected value to be either true or false"


def _one_of(*words: str) -> Check:
    return lambda text: None if text in words else f"String must be one of: {', '.join(words)}"


def _policies(text: str) -> str | None:
    known = {"compact", "delete"}
    return None if set(_entries(text)) <= known else "String must be one of: compact, delete"


def _throttled(text: str) -> str | None:
    entries = _entries(text)
    if entries == ["*"] or all(_THROTTLED.match(entry) for entry in entries):
        return None
    return "Must be the literal '*' or a list of replicas in the form [partitionId]:[brokerId], separated by commas"


def _release(text: str) -> str | None:
    return None if _RELEASE.match(text) else "Not a version of Kafka"


def _entries(text: str) -> Sequence[str]:
    return [entry.strip() for entry in text.split(",")] if text else []


_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
KNOWN: Mapping[str, Check] = MappingProxyType(
    {
        "cleanup.policy": _policies,
        "compression.gzip.level": _whole(-1, 9),
        "compression.lz4.level": _whole(1, 17),
        "compression.type": _one_of(*_CODECS),
        "compression.zstd.level": _whole(-131072, 22),
        "delete.retention.ms": _whole(0, _LONG),
        "file.delete.delay.ms": _whole(0, _LONG),
        "flush.messages": _whole(1, _LONG),
        "flush.ms": _whole(0, _LONG),
        "follower.replication.throttled.replicas": _throttled,
        "index.interval.bytes": _whole(0, _INT),
        "leader.replication.throttled.replicas": _throttled,
        "local.retention.bytes": _whole(-2, _LONG),
        "local.retention.ms": _whole(-2, _LONG),
        "max.compaction.lag.ms": _whole(1, _LONG),
        "max.message.bytes": _whole(0, _INT),
        "message.downconversion.enable": _truth,
        "message.format.version": _release,
        "message.timestamp.after.max.ms": _whole(0, _LONG),
        "message.timestamp.before.max.ms": _whole(0, _LONG),
        "message.timestamp.difference.max.ms": _whole(0, _LONG),
        "message.timestamp.type": _one_of("CreateTime", "LogAppendTime"),
        "min.cleanable.dirty.ratio": _ratio,
        "min.compaction.lag.ms": _whole(0, _LONG),
        "min.insync.replicas": _whole(1, _INT),
        "preallocate": _truth,
        "remote.log.copy.disable": _truth,
        "remote.log.delete.on.disable": _truth,
        "remote.storage.enable": _truth,
        "retention.bytes": _whole(-(2**63), _LONG),
        "retention.ms": _whole(-1, _LONG),
        "segment.bytes": _whole(14, _INT),
        "segment.index.bytes": _whole(0, _INT),
        "segment.jitter.ms": _whole(0, _LONG),
        "segment.ms": _whole(1, _LONG),
        "unclean.leader.election.enable": _truth,
    }
)
"""Every setting of a topic, with a check that returns the problem of a value, or None."""


def problem_of(config: Mapping[str, str]) -> str | None:
    """The first mistake in the settings; None if brokers can use them.

    >>> problem_of({"retention.ms": "60000"}), problem_of({"retention": "1"})
    (None, 'Unknown topic config name: retention')
    >>> problem_of({"min.insync.replicas": "0"})
    'Invalid value 0 for configuration min.insync.replicas: Value must be at least 1'
    """
    for name, value in config.items():
        check = KNOWN.get(name)
        if check is None:
            return f"Unknown topic config name: {name}"
        problem = check(value.strip())
        if problem is not None:
            return f"Invalid value {value} for configuration {name}: {problem}"
    least, most = int(config.get("min.compaction.lag.ms", 0)), int(config.get("max.compaction.lag.ms", _LONG))
    if least > most:
        return f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
    return None


def as_brokers_say(name: str, value: str) -> str:
    """A valid value as brokers write it.

    >>> as_brokers_say("retention.ms", " +060000"), as_brokers_say("cleanup.policy", "compact, delete")
    ('60000', 'compact,delete')
    """
    check, text = KNOWN.get(name), value.strip()
    if check is _truth:
        return text.lower()
    if check in (_policies, _throttled):
        return ",".join(_entries(text))
    if check is _ratio:
        return str(float(text))
    return str(int(text)) if _WHOLE.match(text) else text

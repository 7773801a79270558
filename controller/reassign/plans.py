"""What do the tool's JSON files contain, and how is a plan written?

Source: Kafka's ReassignPartitionsCommand, `parsePartitionReassignmentData` and `formatAsReassignmentJson`.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from controller.reassign.planning.certified import Certificate
from controller.reassign.refusals import Unusable
from zk_layout.bounds import INT32_MAX
from zk_layout.ids import BrokerId, PartitionId, Replicas, TopicName, TopicPartition

ANY = "any"
"""The log directory of a replica that may be anywhere on its broker."""

T = TypeVar("T")
MOST_MISTAKES = 20
_HEADING = b"Proposed partition reassignment configuration"
_NOTHING = msgspec.Raw(b"null")
_BYTE = re.compile(r"\(byte (\d+)\)")


class Replica(NamedTuple):
    """One copy of a partition; in Kafka's order, and printed as Kafka prints it.

    >>> str(Replica(BrokerId(3), TopicName("orders"), PartitionId(0)))
    'orders-0-3'
    """

    broker: BrokerId
    topic: TopicName
    partition: PartitionId

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class PlannedPartition(Struct, frozen=True):
    """The target replicas of one partition, the log directory of each, and its weight: higher ones begin first."""

    at: TopicPartition
    replicas: Replicas
    log_dirs: tuple[str, ...]
    weight: int = 0


class Plan(Struct, frozen=True):
    """A whole file, in its order; only its shape is checked. `certificate` says how `plan` made it, if it did."""

    partitions: tuple[PlannedPartition, ...]
    certificate: Certificate | None = None

    @property
    def targets(self) -> dict[TopicPartition, Replicas]:
        """The target replicas of each partition."""
        return {planned.at: planned.replicas for planned in self.partitions}

    @property
    def weights(self) -> dict[TopicPartition, int]:
        """The weights of the partitions that have one."""
        return {planned.at: planned.weight for planned in self.partitions if planned.weight}

    @property
    def directories(self) -> dict[Replica, str]:
        """The replicas with a named log directory."""
        return {
            Replica(broker, planned.at.topic, planned.at.partition): directory
            for planned in self.partitions
            for broker, directory in zip(planned.replicas, planned.log_dirs, strict=True)
            if directory != ANY
        }


class _PartitionJson(Struct):
    topic: TopicName
    partition: PartitionId
    replicas: tuple[BrokerId, ...]
    log_dirs: tuple[str, ...] | None = None
    weight: Annotated[int, msgspec.Meta(ge=-INT32_MAX - 1, le=INT32_MAX)] = 0


class _PlanJson(Struct):
    version: int = 1
    partitions: tuple[msgspec.Raw, ...] = ()
    plan: msgspec.Raw = _NOTHING


class _TopicJson(Struct):
    topic: TopicName


class _TopicsJson(Struct):
    version: int = 1
    topics: tuple[msgspec.Raw, ...] = ()


def read_plan(data: bytes, name: str) -> Plan:
    """Parse the file of `--reassignment-json-file`; `name` is the file's, for messages.

    Raises:
        Unusable: not JSON, not of the shape of a plan, of a later version, or with log directories that do not match.
    """
    data = _content(data, name)
    whole = _decode(data, name, _PlanJson)
    _demand_version(whole.version, name)
    planned, mistakes = [], []
    for entry in _entries(data, name, "partitions", whole.partitions, _PartitionJson):
        at = TopicPartition(entry.topic, entry.partition)
        log_dirs = (ANY,) * len(entry.replicas) if entry.log_dirs is None else entry.log_dirs
        if len(log_dirs) != len(entry.replicas):
            mistakes.append(
                f"{name}: Size of replicas list {list(entry.replicas)} is different from size of log dirs list "
                f"[{', '.join(log_dirs)}] for partition {at}"
            )
        planned.append(PlannedPartition(at, entry.replicas, log_dirs, entry.weight))
    if mistakes:
        raise Unusable(as_lines(mistakes))
    return Plan(tuple(planned), _certificate(whole.plan, name))


def _certificate(data: msgspec.Raw, name: str) -> Certificate | None:
    if bytes(data) == bytes(_NOTHING):
        return None
    try:
        return msgspec.json.decode(data, type=Certificate)
    except msgspec.ValidationError as error:
        raise Unusable(
            f"{name}: {str(error).replace('`$', '`plan')}; remove `plan` to execute the file as it is"
        ) from None


def demand_executable(plan: Plan, name: str) -> None:
    """Refuse what no cluster can execute, before any request.

    Raises:
        Unusable: nothing to move, a partition without replicas, or a duplicate.
    """
    mistakes = []
    if not plan.partitions:
        mistakes.append("Partition reassignment list cannot be empty")
    if empty := [planned.at for planned in plan.partitions if not planned.replicas]:
        mistakes.append(f"Partition replica list cannot be empty: {listed(empty)}")
    if twice := repeated(planned.at for planned in plan.partitions):
        mistakes.append(f"Partition reassignment contains duplicate topic partitions: {listed(twice)}")
    doubled = [(planned.at, repeated(planned.replicas)) for planned in plan.partitions if repeated(planned.replicas)]
    if doubled:
        named = ". ".join(f"{at} contains multiple entries for {listed(brokers)}" for at, brokers in doubled)
        mistakes.append(f"Partition replica lists may not contain duplicate entries: {named}")
    if mistakes:
        raise Unusable(as_lines(f"{name}: {mistake}" for mistake in mistakes))


def read_topics(data: bytes, name: str) -> tuple[TopicName, ...]:
    """Parse the file of `--topics-to-move-json-file`.

    Raises:
        Unusable: not JSON, not of that shape, of a later version, without any topic or with one twice.
    """
    data = _content(data, name)
    whole = _decode(data, name, _TopicsJson)
    _demand_version(whole.version, name)
    topics = tuple(entry.topic for entry in _entries(data, name, "topics", whole.topics, _TopicJson))
    if not topics:
        raise Unusable(f'{name}: no topic to move is named; expected {{"version":1,"topics":[{{"topic":"orders"}}]}}')
    if twice := repeated(topics):
        raise Unusable(f"{name}: List of topics to reassign contains duplicate entries: {listed(twice)}")
    return topics


def read_brokers(text: str) -> Replicas:
    """Parse the value of `--broker-list`.

    >>> read_brokers("3, 1,2,")
    (3, 1, 2)

    Raises:
        Unusable: not a list of broker ids, or with one twice.
    """
    try:
        brokers = tuple(BrokerId(int(entry)) for entry in text.rstrip(", ").split(","))
    except ValueError:
        raise Unusable(f'--broker-list "{text}" is not a list of broker ids; expected something like 1,2,3') from None
    if twice := repeated(brokers):
        raise Unusable(f"Broker list contains duplicate entries: {listed(twice)}")
    return brokers


def as_plan(assignments: Mapping[TopicPartition, Replicas]) -> dict[str, object]:
    """A plan as the value of its JSON, sorted by partition; `--execute` accepts it."""
    return {
        "version": 1,
        "partitions": [
            {
                "topic": at.topic,
                "partition": at.partition,
                "replicas": list(replicas),
                "log_dirs": [ANY] * len(replicas),
            }
            for at, replicas in sorted(assignments.items())
        ],
    }


def as_plan_json(assignments: Mapping[TopicPartition, Replicas]) -> str:
    """The same as text.

    >>> as_plan_json({TopicPartition(TopicName("t"), PartitionId(0)): (BrokerId(2),)})
    '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2],"log_dirs":["any"]}]}'
    """
    return msgspec.json.encode(as_plan(assignments)).decode()


def listed(values: Iterable[object]) -> str:
    """Comma-separated, as Kafka's tool lists things."""
    return ",".join(map(str, values))


def repeated(values: Iterable[T]) -> list[T]:
    """The duplicates, in order of appearance."""
    return [value for value, times in Counter(values).items() if times > 1]


def as_lines(mistakes: Iterable[str]) -> str:
    """As many mistakes as an answer has room for, one a line."""
    every = list(mistakes)
    more = [f"... and {len(every) - MOST_MISTAKES} more"] if len(every) > MOST_MISTAKES else []
    return "\n".join(every[:MOST_MISTAKES] + more)


def plural(values: Sequence[object]) -> str:
    """The plural ending of "reassignment"."""
    return "" if len(values) == 1 else "s"


def _content(data: bytes, name: str) -> bytes:
    """The file without a byte order mark, which some editors write."""
    data = data.removeprefix(codecs.BOM_UTF8)
    if _HEADING in data:
        at = data.index(_HEADING)
        raise Unusable(
            f"{name}{_place_of(data, at)}: the whole output of --generate; keep only the JSON below this line"
        )
    return data


def _first_value(text: str) -> str:
    """What Kafka reads: the first JSON value, whatever follows it. All of a text that does not begin with one."""
    try:
        _, end = json.JSONDecoder().raw_decode(text, len(text) - len(text.lstrip()))
    except (ValueError, RecursionError):
        return text
    return text[:end]


def _decode(data: bytes, name: str, shape: type[T]) -> T:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Unusable(f"{name}{_place(data, f'(byte {error.start})')}: not UTF-8; save the file as UTF-8") from None
    try:
        return msgspec.json.decode(_first_value(text), type=shape)
    except msgspec.ValidationError as error:
        raise Unusable(f"{name}: {str(error).replace('`$.', '`').replace('`$`', 'the top')}") from None
    except msgspec.DecodeError as error:
        raise Unusable(f"{name}{_place(data, str(error))}: The input string is not a valid JSON: {error}") from None


def _entries(data: bytes, name: str, key: str, entries: Sequence[msgspec.Raw], shape: type[T]) -> list[T]:
    """All entries of a list; the error names every invalid one with its place in the file."""
    found, mistakes, at = [], [], data.index(b"[") if entries else 0
    for number, entry in enumerate(entries):
        at = data.index(bytes(entry), at)
        try:
            found.append(msgspec.json.decode(entry, type=shape))
        except msgspec.ValidationError as error:
            within = f"{key}[{number}]"
            reason = str(error)
            reason = reason.replace("`$", f"`{within}") if "`$" in reason else f"{reason} - at `{within}`"
            mistakes.append(f"{name}{_place_of(data, at)}: {reason}")
        at += len(bytes(entry))
    if mistakes:
        raise Unusable(as_lines(mistakes))
    return found


def _place(data: bytes, reason: str) -> str:
    """Line and column of the byte that a reason names; the end, for a text that is cut off."""
    found = _BYTE.search(reason)
    return _place_of(data, int(found[1]) if found else len(data))


def _place_of(data: bytes, at: int) -> str:
    before, line_end = data[:at], b"\n"
    return f", line {before.count(line_end) + 1}, column {len(before) - before.rfind(line_end)}"


def _demand_version(version: int, name: str) -> None:
    if version != 1:
        raise Unusable(f"{name}: Not supported version field value {version}")

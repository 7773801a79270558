"""Does our decoder read the same in the bytes of a znode as Kafka's own? Mutated inputs of every family in JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote_plus

from msgspec import Struct

from tests.equipment.java_program import compiled
from tests.fuzz.mutations import hostile, scrambled
from zk_layout.codec import Undecodable
from zk_layout.znodes import (
    acls,
    admin,
    brokers,
    configs,
    controller,
    delegation_tokens,
    features,
    notifications,
    partition_state,
    producer_ids,
    topics,
)

VERSIONS = ("2.4.1", "2.8.2", "3.9.1")
REFUSED = "X"
_UNORDERED = ("election", "isr", "acl")
_SOURCE = Path(__file__).with_name("Decoders.java")


class Input(Struct, frozen=True):
    """The bytes of a znode of one family."""

    family: str
    data: bytes


class Difference(Struct, frozen=True):
    """One input, and what Kafka and we read in it; `why` is the reason for which we read nothing."""

    input: Input
    kafkas: str
    ours: str
    why: str


# ---- inputs ---------------------------------------------------------------------------------------------------------

_ENTRY = '{"principal":"User:ann","permissionType":"Allow","operation":"Read","host":"*"}'
_OTHER = '{"principal":"User:bob:x","permissionType":"DENY","operation":"all","host":"10.0.0.1"}'
SOUND: dict[str, tuple[str, ...]] = {
    "topic": (
        '{"version":1,"partitions":{"0":[1,2],"1":[2]}}',
        '{"version":2,"partitions":{"0":[3,1,2]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}',
        '{"version":3,"topic_id":"AAECAwQFBgcICQoLDA0ODw","partitions":{"0":[1]},"adding_replicas":{},'
        '"removing_replicas":{}}',
    ),
    "state": (
        '{"controller_epoch":9,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}',
        '{"controller_epoch":9,"leader":-1,"version":1,"leader_epoch":4,"isr":[2],"leader_recovery_state":1}',
    ),
    "config": (
        '{"version":1,"config":{"retention.ms":"5","cleanup.policy":"compact"}}',
        '{"version":1,"config":{}}',
        '{"version":1}',
    ),
    "broker": (
        '{"version":4,"host":"k","port":9092,"jmx_port":-1,"timestamp":"1","endpoints":["IN://k:9092","OUT://l:9"],'
        '"listener_security_protocol_map":{"IN":"PLAINTEXT","OUT":"SSL"},"rack":"größe"}',
        '{"version":1,"host":"k","port":9092,"jmx_port":-1,"timestamp":"1"}',
    ),
    "controller": (
        '{"version":1,"brokerid":3,"timestamp":"17"}',
        '{"version":2,"brokerid":3,"kraftControllerEpoch":-1}',
    ),
    "legacy": (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]},'
        '{"topic":"u","partition":1,"replicas":[]}]}',
    ),
    "election": ('{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":1}]}',),
    "isr": ('{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":1}]}',),
    "logdir": ('{"version":1,"broker":1,"event":1}',),
    "producer": ('{"version":1,"broker":2,"block_start":"1000","block_end":"1999"}',),
    "acl": (f'{{"version":1,"acls":[{_ENTRY},{_OTHER}]}}', '{"version":1,"acls":[]}'),
    "aclchange": ('{"version":1,"resourceType":"TOPIC","name":"t","patternType":"PREFIXED"}',),
    "token": (
        '{"version":1,"owner":"User%3Aann","renewers":[],"issueTimestamp":1,"maxTimestamp":9,"expiryTimestamp":5,'
        '"tokenId":"a"}',
    ),
    "feature": (
        '{"version":1,"status":1,"features":{"a":{"min_version_level":1,"max_version_level":2}}}',
        '{"version":2,"status":0,"features":{"a":{"max_version_level":3}}}',
    ),
}
NEWER = {"feature": "2.8.2"}
"""The first of `VERSIONS` that has a family, where it is not the oldest."""

_BEHIND = (b"}", b"]", b" }", b"{}", b"\0", b"\n", b"# by hand", b"\xff", b'","isr":[3]}', b"," * 40, b"[" * 200, b"7")
_BEFORE = (b" ", b"\n\t", b"\xef\xbb\xbf", b"\0", b"\x0b", b"\xc2\xa0", b"//\n", b"}")
_ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")


def inputs(count: int, seed: int, version: str = VERSIONS[-1]) -> Iterator[Input]:
    """Random inputs; the families take turns."""
    random = Random(seed)
    families = [family for family in SOUND if VERSIONS.index(NEWER.get(family, VERSIONS[0])) <= VERSIONS.index(version)]
    for number in range(count):
        family = families[number % len(families)]
        sound = random.choice(SOUND[family]).encode()
        yield Input(family, _mutated(random, sound))


def _mutated(random: Random, sound: bytes) -> bytes:
    kind = random.random()
    if kind < 0.35:
        return _surrounded(random, sound)
    if kind < 0.75:
        return hostile(random, sound)
    if kind < 0.85:
        return _surrounded(random, hostile(random, sound))
    return scrambled(random, _surrounded(random, sound))


def _surrounded(random: Random, data: bytes) -> bytes:
    """Something before or behind it, in another encoding, or both."""
    if random.random() < 0.6:
        data += random.choice(_BEHIND)
    if random.random() < 0.2:
        data = random.choice(_BEFORE) + data
    if random.random() < 0.4:
        data = data.decode("utf-8", "replace").encode(random.choice(_ENCODINGS))
        if random.random() < 0.3:
            data += random.choice(_BEHIND)
    return data


# ---- outcomes -------------------------------------------------------------------------------------------------------


def kafkas(version: str, asked: Iterable[Input]) -> list[str]:
    """What Kafka's decoders of a version read.

    Raises:
        LabError: there is no Java, or there are no jars.
    """
    asked = list(asked)
    lines = "".join(f"{each.family}\t{each.data.hex()}\n" for each in asked)
    with compiled(_SOURCE, version) as (_, running):
        done = subprocess.run(running, input=lines, capture_output=True, text=True, check=True)
    answers = zip(asked, done.stdout.splitlines(), strict=True)
    return [line if line == REFUSED else _form(each.family, json.loads(line)) for each, line in answers]


def ours(asked: Input) -> tuple[str, str]:
    """What we read, in the same form, and the reason if that is nothing."""
    try:
        return _form(asked.family, _READING[asked.family](asked.data)), ""
    except Undecodable as error:
        return REFUSED, str(error)


def _form(family: str, read: Any) -> str:
    value = sorted(read) if family in _UNORDERED else read
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _topic(data: bytes) -> Any:
    maps = topics.decode_maps(data)
    adding, removing = maps.adding_replicas or {}, maps.removing_replicas or {}
    partitions = {str(p): [held, adding.get(p, ()), removing.get(p, ())] for p, held in maps.partitions.items()}
    return [partitions, maps.topic_id]


def _state(data: bytes) -> Any:
    state = partition_state.decode(data)
    return [state.leader, state.leader_epoch, state.isr, state.controller_epoch]


def _broker(data: bytes) -> Any:
    broker = brokers.decode(data)
    return [[[e.listener, e.host, e.port, e.security_protocol] for e in broker.endpoints], broker.rack]


def _legacy(data: bytes) -> Any:
    read = admin.decode_reassignment(data)
    if read.rejected:
        raise Undecodable(read.rejected[0])
    return {f"{move.topic}-{move.partition}": move.replicas for move in read.moves}


def _partitions(decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    return lambda data: {f"{topic}-{partition}" for topic, partition in decode(data).partitions}


def _producer(data: bytes) -> Any:
    block = producer_ids.decode(data)
    if block is None:
        raise Undecodable("empty")
    return [block.broker, block.first, block.last]


def _acls(data: bytes) -> Any:
    entries = acls.decode(data).entries
    return {"\t".join((e.principal, e.host, e.operation.name, e.permission.name)) for e in entries}


def _acl_change(data: bytes) -> Any:
    resource = acls.decode_extended_change(data).resource
    return [resource.resource_type.name, resource.name, resource.pattern_type.name]


def _token(data: bytes) -> Any:
    token = delegation_tokens.decode_token(data)
    return [token.token_id, unquote_plus(token.owner), token.expiry_timestamp, token.max_timestamp]


def _feature(data: bytes) -> Any:
    read = features.decode(data)
    return [int(read.is_enabled), {name: read.level(name) for name in read.features}]


_READING: dict[str, Callable[[bytes], Any]] = {
    "topic": _topic,
    "state": _state,
    "config": lambda data: configs.decode(data).config,
    "broker": _broker,
    "controller": lambda data: controller.decode_claim(data).broker,
    "legacy": _legacy,
    "election": _partitions(admin.decode_election),
    "isr": _partitions(notifications.decode_isr_change),
    "logdir": lambda data: notifications.decode_log_dir_event(data).broker,
    "producer": _producer,
    "acl": _acls,
    "aclchange": _acl_change,
    "token": _token,
    "feature": _feature,
}


class Comparison(Struct, frozen=True):
    """How many inputs were compared, in how many of them both read the same, and where they differ."""

    inputs: int
    read_alike: int
    differences: tuple[Difference, ...]


def compare(version: str, count: int, seed: int) -> Comparison:
    """Compare our decoders with those of a version of Kafka.

    Raises:
        LabError: there is no Java, or there are no jars.
    """
    asked = list(inputs(count, seed, version))
    found = list(zip(asked, kafkas(version, asked), map(ours, asked), strict=True))
    alike = sum(theirs == own != REFUSED for _, theirs, (own, _) in found)
    differing = (Difference(each, theirs, own, why) for each, theirs, (own, why) in found if theirs != own)
    return Comparison(count, alike, tuple(differing))

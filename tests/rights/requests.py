"""Which requests test a user's rights? Any that is relayed or answered, in any version.

None changes anything that another one depends on: requests that can only validate do so, deleted things never
existed, and new ACLs are for a user who does not exist.
"""

from __future__ import annotations

import datetime
import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from msgspec import Struct

from controller.wire.apis import ANSWERED, RELAYABLE, SERVED, VersionRange, api_name
from controller.wire.schema import encode_entity

LOGIN, VERSIONS = frozenset({17, 36}), frozenset({18})
KEYS = tuple(sorted((RELAYABLE | ANSWERED.keys() | SERVED.keys()) - LOGIN - VERSIONS))
TOPICS = ("a", "b", "a-new", "none", "x")
NOT_THERE = ("a-none", "b-none", "none")
Draw = Callable[[random.Random], Any]


class Sent(Struct, frozen=True):
    """One request of one user, with the size left out and correlation id 5."""

    user: str
    key: int
    version: int
    frame: bytes
    is_flexible: bool = False

    @property
    def name(self) -> str:
        """Such as CreateTopics."""
        return api_name(self.key).partition(" ")[0]

    @property
    def folder(self) -> str:
        """Where kio has it."""
        return _folder(self.name)


def one_of(*values: Any) -> Draw:
    return lambda chance: chance.choice(values)


_IN_ANY: dict[str, Draw] = {
    "name": one_of(*TOPICS),
    "topic": one_of(*TOPICS),
    "topics": one_of(*TOPICS),
    "group": one_of("g", "other"),
    "groups": one_of("g", "other"),
    "key": one_of("g", "t", "other"),
    "coordinator_keys": one_of("g", "t", "other"),
    "transactional_id": one_of(None, "t", "other"),
    "validate_only": one_of(True),
    "partition_index": one_of(0, 1, 7),
    "partitions": one_of(0, 1, 7),
    "partition_indexes": one_of(0, 1, 7),
    "resource_type": one_of(2, 4),
    "resource_type_filter": one_of(1, 2, 3, 4),
    "resource_name_filter": one_of(None, "a", "nothing"),
    "pattern_type_filter": one_of(1, 3),
    "operation": one_of(2, 3, 8),
    "permission_type": one_of(2, 3),
    "principal": one_of("User:zz"),
    "principal_filter": one_of("User:zz"),
    "host": one_of("*", "10.0.0.1"),
    "host_filter": one_of(None, "*"),
    "replicas": one_of(99),
    "broker_ids": one_of(99),
    "broker_id": one_of(99),
    "allow_auto_topic_creation": one_of(False),
    "key_type": one_of(0, 1),
    "election_type": one_of(0, 1),
    "match_type": one_of(0, 1, 2),
    "entity_type": one_of("user", "client-id"),
    "entity_name": one_of("zz", None),
    "endpoint_type": one_of(1),
    "mechanism": one_of(1, 2),
    "salt": one_of(b"salt"),
    "salted_password": one_of(b"password"),
    "iterations": one_of(4096),
    "principal_type": one_of("User"),
    "principal_name": one_of("zz"),
    "value": one_of(None, "1000"),
}
_IN: dict[str, dict[str, Draw]] = {
    "CreateTopicsRequest": {"num_partitions": one_of(-1, 1, 2), "replication_factor": one_of(-1, 1)},
    "DeleteTopicsRequest": {"name": one_of(*NOT_THERE), "topic_names": one_of(*NOT_THERE)},
    "CreatePartitionsRequest": {"count": one_of(0, 1, 3)},
    "AlterUserScramCredentialsRequest": {"name": one_of("zz")},
    "DescribeUserScramCredentialsRequest": {"name": one_of("zz")},
    "AlterClientQuotasRequest": {"key": one_of("producer_byte_rate"), "value": one_of(5.0)},
    "DescribeClientQuotasRequest": {"match": one_of("zz", None)},
    "UpdateFeaturesRequest": {"feature": one_of("zz"), "upgrade_type": one_of(1, 2)},
    "CreateAclsRequest": {"resource_type": one_of(2, 3), "resource_name": one_of("zz")},
    "AlterConfigsRequest": {"name": one_of("retention.ms")},
    "IncrementalAlterConfigsRequest": {"name": one_of("retention.ms")},
    "AlterReplicaLogDirsRequest": {"path": one_of("/nowhere")},
}
_NEVER_NONE = frozenset({("DescribeUserScramCredentialsRequest", "users")})
"""Without the right, a broker 3.9.1 sends no answer at all to a request for all users."""


def some(chance: random.Random, users: tuple[str, ...], ranges: Mapping[int, VersionRange]) -> Sent:
    """A random request, in a version that brokers answer, too."""
    while True:
        key = chance.choice(KEYS)
        ours = SERVED.get(key) or ANSWERED.get(key)
        theirs = ranges.get(key)
        if theirs is None:
            continue
        lowest, highest = theirs.lowest, theirs.highest
        if ours is not None:
            lowest, highest = max(lowest, ours.lowest), min(highest, ours.highest)
        if key == 19 and lowest == 0:
            lowest = 1  # which can be validated only
        if lowest > highest:
            continue
        sent = _drawn(chance, chance.choice(users), key, chance.randint(lowest, highest))
        if sent is not None:
            return sent


def _drawn(chance: random.Random, user: str, key: int, version: int) -> Sent | None:
    name = api_name(key).partition(" ")[0]
    try:
        module = import_module(f"kio.schema.{_folder(name)}.v{version}.request")
        import_module(f"kio.schema.{_folder(name)}.v{version}.response")
    except ImportError:
        return None
    kind = getattr(module, f"{name}Request")
    entity = _entity(chance, kind, f"{name}Request")
    flexible = b"\0" if kind.__flexible__ else b""
    if key == 7 and version == 0:
        return None  # it has a header of its own
    frame = struct.pack(">hhih", key, version, 5, -1) + flexible + encode_entity(entity)
    return Sent(user, key, version, frame, kind.__flexible__)


def _folder(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def _entity(chance: random.Random, kind: Any, request: str) -> Any:
    hints = get_type_hints(kind)
    return kind(**{one.name: _value(chance, hints[one.name], one.name, request) for one in fields(kind)})


def _value(chance: random.Random, hint: Any, name: str, request: str) -> Any:
    if get_origin(hint) in (Union, UnionType):
        (some_hint,) = (part for part in get_args(hint) if part is not type(None))
        may_be_none = (request, name) not in _NEVER_NONE and _draw(name, request) is None
        if may_be_none and chance.random() < 0.3:
            return None
        return _value(chance, some_hint, name, request)
    if get_origin(hint) is tuple:
        of = get_args(hint)[0]
        found = [_value(chance, of, name, request) for _ in range(chance.choice((1, 1, 1, 2)))]
        return tuple({_about(one): one for one in found}.values())
    if is_dataclass(hint):
        return _entity(chance, hint, request)
    draw = _draw(name, request)
    return draw(chance) if draw is not None else _any(chance, hint, name)


def _about(entry: Any) -> object:
    """A broker 3.9.1 sends no answer, either, if a forbidden change is named twice."""
    named = getattr(entry, "resource_type", None), getattr(entry, "resource_name", None)
    return entry if None in named else named


def _draw(name: str, request: str) -> Draw | None:
    if name == "resource_name":
        return _IN.get(request, {}).get(name, one_of("a", "b", "", "none"))
    return _IN.get(request, {}).get(name) or _IN_ANY.get(name)


def _any(chance: random.Random, hint: Any, name: str) -> Any:
    hint = getattr(hint, "__supertype__", hint)
    if hint is UUID:
        return UUID(int=chance.getrandbits(128))
    if hint is bool:
        return chance.random() < 0.5
    if issubclass(hint, datetime.timedelta):
        return hint(milliseconds=5_000) if hint is datetime.timedelta else hint.parse(datetime.timedelta(seconds=5))
    if issubclass(hint, int):
        return hint(chance.choice((0, 1)))
    if issubclass(hint, float):
        return hint(1.0)
    if issubclass(hint, bytes):
        return b""
    if issubclass(hint, str):
        return hint("retention.ms" if name in ("name", "config_name", "configuration_keys") else "zz")
    raise TypeError(f"{name}: {hint}")

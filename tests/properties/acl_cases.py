"""Random rights, and what someone wants to do: the same ones for us as for Kafka's AclAuthorizer.

`python -m tests.properties.acl_cases` writes them, line by line, for `fixtures/acls/Decide.java`, which says what Kafka
decides.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random
from typing import Final

from msgspec import Struct

from zk_layout.catalog import encode
from zk_layout.znodes.acls import (
    AclEntry,
    AclOperation,
    Acls,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)

SETS: Final = 6_000
REQUESTS_OF_A_SET: Final = 8
SUPER_USERS: Final = "User:super;Role:super"

_TYPES = (ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
_NAMES = ("*", "a", "ab", "abc", "abd", "b", "ä", "äb", "kafka-cluster")
_ENTRIES_FOR = ("User:ann", "User:ann", "User:bob", "User:*", "Role:ann", "Role:*", "User:super")
_ASKING = ("User:ann", "User:ann", "User:bob", "Role:ann", "User:super", "User:Ann")
_HOSTS = ("10.0.0.1", "10.0.0.2")
_ENTRIES_FROM = ("*", "*", *_HOSTS)
_ASKED = tuple(operation for operation in AclOperation if operation not in (AclOperation.UNKNOWN, AclOperation.ALL))
_OFTEN = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)


class Wanted(Struct, frozen=True):
    """One request; without a name, it is about any resource of the type."""

    principal: str
    host: str
    operation: AclOperation
    resource_type: ResourceType
    name: str | None


class Rights(Struct, frozen=True):
    """What is given and taken, and what is asked then."""

    allows_everyone: bool
    acls: dict[ResourcePattern, Acls]
    wanted: tuple[Wanted, ...]


def cases(seed: int = 12) -> Iterator[Rights]:
    """Always the same ones for a seed."""
    random = Random(seed)
    for _ in range(SETS):
        acls = {}
        for _ in range(random.randrange(6)):
            pattern = ResourcePattern(random.choice(_TYPES), random.choice(_NAMES), random.choice(tuple(PatternType)))
            entries = dict.fromkeys(_entry(random) for _ in range(random.randrange(1, 4)))
            acls[pattern] = Acls(tuple(entries))
        wanted = tuple(_wanted(random) for _ in range(REQUESTS_OF_A_SET))
        yield Rights(random.random() < 0.3, acls, wanted)


def _entry(random: Random) -> AclEntry:
    operation = random.choice((*_OFTEN, *AclOperation))
    permission = PermissionType.DENY if random.random() < 0.3 else PermissionType.ALLOW
    return AclEntry(random.choice(_ENTRIES_FOR), random.choice(_ENTRIES_FROM), operation, permission)


def _wanted(random: Random) -> Wanted:
    name = None if random.random() < 0.3 else random.choice(_NAMES)
    operation = random.choice((*_OFTEN, *_ASKED))
    return Wanted(random.choice(_ASKING), random.choice(_HOSTS), operation, random.choice(_TYPES), name)


def _lines(rights: Rights) -> Iterator[str]:
    yield f"rights\t{str(rights.allows_everyone).lower()}\t{SUPER_USERS}"
    for pattern, acls in rights.acls.items():
        kind = pattern.resource_type.name
        yield f"acls\t{kind}\t{pattern.pattern_type}\t{pattern.name}\t{encode(acls).decode()}"
    yield from map(wanted_line, rights.wanted)


def wanted_line(one: Wanted) -> str:
    """A request as Java programs read it."""
    name = "" if one.name is None else f"\t{one.name}"
    return f"wanted\t{one.principal}\t{one.host}\t{one.operation.name}\t{one.resource_type.name}{name}"


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # it is a text file
    for each in cases():
        for line in _lines(each):
            print(line)  # noqa: T201  # it is what this is for

"""Which rights are there, and who wants what? Set after set, each made of the one before."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from msgspec import Struct

from tests.acls.authorizers import Implementation
from tests.properties.acl_cases import Wanted
from zk_layout.znodes.acls import (
    AclEntry,
    AclOperation,
    Acls,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)

REQUESTS_OF_A_SET: Final = 16
SUPER_USERS: Final = "User:super;User:CN=root,O=lab"

_MOST_PATTERNS = 10
_NAMES = ("*", "a", "ab", "abc", "abd", "b", "ä", "äb", "Ab", "a.b_c-1", "kafka-cluster", "super")
_PRINCIPALS = ("User:ann", "User:ann", "User:bob", "Role:ann", "User:CN=eve,O=lab", "User:super")
_ENTRIES_FOR = (*_PRINCIPALS, "User:*", "User:*", "Role:*", "User:a:b")
_ASKING = (*_PRINCIPALS, "User:Ann", "User:CN=root,O=lab", "User:ANONYMOUS", "User:*", "User:a:b")
_HOSTS = ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
_ENTRIES_FROM = ("*", "*", *_HOSTS)
_OFTEN = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.ALTER_CONFIGS,
    AclOperation.DESCRIBE_CONFIGS,
)
_OF_USERS = (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS)


class RightsSet(Struct, frozen=True):
    """What differs from the set before, who writes it, and what is wanted then.

    Shape:
        `changed` has the entries that each pattern has from now on. `is_kafkas` where Kafka's authorizer writes them.
    """

    number: int
    is_kafkas: bool
    changed: dict[ResourcePattern, Acls]
    wanted: tuple[Wanted, ...]


class Walk:
    """Random sets of rights; always the same ones for a seed and a kind of authorizer."""

    def __init__(self, seed: int, implementation: Implementation) -> None:
        self._random = Random(seed)
        self._held: dict[ResourcePattern, Acls] = {}
        self._judges_types = implementation.judges_types
        is_new = implementation.knows_users
        self._types = [kind for kind in ResourceType if is_new or kind is not ResourceType.USER]
        self._types += [ResourceType.TOPIC] * 3 + [ResourceType.GROUP]
        beyond = () if is_new else _OF_USERS
        self._askable = [o for o in AclOperation if o is not AclOperation.UNKNOWN and o not in beyond]
        # Before 3.0 what has an operation of a later Kafka cannot be read at all.
        self._written = list(AclOperation) if is_new else self._askable

    def sets(self) -> Iterator[RightsSet]:
        """One after the other, without an end."""
        number = 0
        while True:
            number += 1
            is_kafkas = self._random.random() < 0.5
            changed = dict(self._change(is_kafkas=is_kafkas) for _ in range(self._random.randrange(1, 4)))
            self._held = {p: acls for p, acls in (self._held | changed).items() if acls.entries}
            wanted = tuple(self._wanted() for _ in range(REQUESTS_OF_A_SET))
            yield RightsSet(number, is_kafkas, changed, wanted)

    def _change(self, *, is_kafkas: bool) -> tuple[ResourcePattern, Acls]:
        random = self._random
        if self._held and random.random() < len(self._held) / _MOST_PATTERNS:
            pattern = random.choice(list(self._held))
            if random.random() < 0.7:
                return pattern, Acls(())
        else:
            pattern = self._pattern()
        entries = [self._entry(is_kafkas=is_kafkas) for _ in range(random.randrange(1, 5))]
        return pattern, Acls(tuple(dict.fromkeys(entries)))

    def _pattern(self) -> ResourcePattern:
        random = self._random
        return ResourcePattern(random.choice(self._types), random.choice(_NAMES), random.choice(list(PatternType)))

    def _entry(self, *, is_kafkas: bool) -> AclEntry:
        """What Kafka's authorizer does not know it does not write; in ZooKeeper there may be all of it."""
        random = self._random
        operation = random.choice((*_OFTEN, *(self._askable if is_kafkas else self._written)))
        permission = PermissionType.DENY if random.random() < 0.3 else PermissionType.ALLOW
        return AclEntry(random.choice(_ENTRIES_FOR), random.choice(_ENTRIES_FROM), operation, permission)

    def _wanted(self) -> Wanted:
        """Mostly about what there are rights to."""
        random = self._random
        pattern = random.choice(list(self._held)) if self._held and random.random() < 0.7 else self._pattern()
        name = random.choice((pattern.name, pattern.name, *_NAMES))
        is_by_type = self._judges_types and random.random() < 0.2
        operation = random.choice((*_OFTEN, *(o for o in self._askable if o is not AclOperation.ALL)))
        host = random.choice(_HOSTS)
        return Wanted(random.choice(_ASKING), host, operation, pattern.resource_type, None if is_by_type else name)

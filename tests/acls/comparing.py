"""Does our authorizer decide like Kafka's own, set after set? Kafka's writes half of the sets, ours the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from msgspec import Struct

from controller.core.acl_authorizer import AclAuthorizer, KnownAcls, host_of, super_users
from controller.lab.zookeeper import zookeeper_client
from tests.acls.authorizers import Authorizers, Implementation, running
from tests.acls.walk import SUPER_USERS, RightsSet, Walk
from tests.properties.acl_cases import Wanted, wanted_line
from zk_layout.catalog import encode
from zk_layout.znodes.acls import (
    CHANGES,
    AclAddress,
    AclEntry,
    AclOperation,
    Acls,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    change_address,
    changes,
    decode,
    encode_change,
)

_SWEEP_EVERY = 20
_SENTINELS = tuple(ResourcePattern(ResourceType.GROUP, "sentinel", pattern_type) for pattern_type in PatternType)


class Difference(Struct, frozen=True):
    """A request with different decisions: `D` or `A` without, and with, `allow.everyone.if.no.acl.found`."""

    number: int
    wanted: Wanted
    kafkas: str
    ours: str
    rights: Mapping[ResourcePattern, Acls]


class Comparison(Struct):
    """The result of a comparison."""

    sets: int = 0
    decisions: int = 0
    allowed: int = 0
    differences: list[Difference] = []


class _Ours:
    """Our two authorizers, and their ACLs."""

    def __init__(self) -> None:
        self.rights: dict[ResourcePattern, Acls] = {}
        self._known = KnownAcls()
        for resource_type in ResourceType:
            for pattern_type in PatternType:
                self._known.open_folder(resource_type, pattern_type)
        self._both = [
            AclAuthorizer(self._known, super_users(SUPER_USERS), allows_everyone_if_no_acl_is_found=allows_everyone)
            for allows_everyone in (False, True)
        ]

    def put(self, pattern: ResourcePattern, acls: Acls) -> None:
        self.rights[pattern] = acls
        self._known.put(pattern, acls)

    def decide(self, wanted: Wanted) -> str:
        return "".join("A" if self._is_allowed(one, wanted) else "D" for one in self._both)

    @staticmethod
    def _is_allowed(one: AclAuthorizer, wanted: Wanted) -> bool:
        asked = (wanted.principal, host_of(wanted.host), wanted.operation)
        if wanted.name is None:
            return one.is_allowed_by_resource_type(*asked, wanted.resource_type)
        return one.is_allowed(*asked, ResourcePattern(wanted.resource_type, wanted.name))


def compare(
    implementation: Implementation, zookeeper: str, sets: int, seed: int, tell: Callable[[Comparison], None]
) -> Comparison:
    """Compare so many sets, on an empty ZooKeeper; `tell` gets every set.

    Raises:
        LabError: Kafka's authorizers cannot run here, or gave up.
    """
    found, ours = Comparison(), _Ours()
    walk = Walk(seed, implementation).sets()
    with running(implementation, zookeeper, SUPER_USERS) as kafkas, zookeeper_client(zookeeper) as client:
        for rights in islice(walk, sets):
            if rights.is_kafkas:
                _have_written(kafkas, rights)
            else:
                _write(client, rights.changed, ours.rights)
            _await(kafkas, client, rights.number)
            decided = kafkas.decisions(map(wanted_line, rights.wanted))
            for pattern in rights.changed:
                ours.put(pattern, _read(client, pattern))
            for wanted, kafka_s in zip(rights.wanted, decided, strict=True):
                _count(found, rights, wanted, kafka_s, ours)
            if rights.number % _SWEEP_EVERY == 0:
                _sweep(client)
            found.sets += 1
            tell(found)
    return found


def _count(found: Comparison, rights: RightsSet, wanted: Wanted, kafka_s: str, ours: _Ours) -> None:
    found.decisions += len(kafka_s)
    found.allowed += kafka_s.count("A")
    decided = ours.decide(wanted)
    if decided != kafka_s:
        held = {pattern: acls for pattern, acls in ours.rights.items() if acls.entries}
        found.differences.append(Difference(rights.number, wanted, kafka_s, decided, held))


def _have_written(kafkas: Authorizers, rights: RightsSet) -> None:
    for pattern, acls in rights.changed.items():
        kafkas.delete(pattern)
        if acls.entries:
            kafkas.create(pattern, acls.entries)


def _write(client: KazooClient, rights: Mapping[ResourcePattern, Acls], there: Mapping[ResourcePattern, Acls]) -> None:
    """Write like our controller: the entries, and a notification of each pattern, at once."""
    transaction = client.transaction()
    for pattern, acls in rights.items():
        path, is_there = AclAddress(pattern).path, bool(there.get(pattern, Acls(())).entries)
        if acls.entries and is_there:
            transaction.set_data(path, encode(acls))
        elif acls.entries:
            transaction.create(path, encode(acls))
        elif is_there:
            transaction.delete(path)
        for change in changes(pattern):
            transaction.create(change_address(change).path, encode_change(change), sequence=True)
    for result in transaction.commit():
        if isinstance(result, Exception):
            raise result


def _await(kafkas: Authorizers, client: KazooClient, number: int) -> None:
    """Wait for the last notification: those of a kind are followed one by one, so all earlier ones are known then."""
    seen = Acls((AclEntry("User:sentinel", str(number), AclOperation.READ, PermissionType.ALLOW),))
    _write(client, dict.fromkeys(_SENTINELS, seen), dict.fromkeys(_SENTINELS, seen) if number > 1 else {})
    for pattern in _SENTINELS:
        kafkas.wait_for(pattern, str(number))


def _read(client: KazooClient, pattern: ResourcePattern) -> Acls:
    try:
        return decode(client.get(AclAddress(pattern).path)[0])
    except NoNodeError:
        return Acls(())


def _sweep(client: KazooClient) -> None:
    """Delete followed notifications, which would pile up and slow down further ones."""
    for folder in CHANGES.values():
        transaction = client.transaction()
        for child in client.get_children(folder):
            transaction.delete(f"{folder}/{child}")
        transaction.commit()

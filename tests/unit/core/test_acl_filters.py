"""Which entries does a filter match? What Kafka's ResourcePatternFilterTest and AccessControlEntryFilter say."""

from __future__ import annotations

import pytest

from controller.core.acls.filters import matches_entry, matches_resource, named
from controller.core.messages.requests import AclFilter
from zk_layout.znodes.acls import AclEntry, AclOperation, PatternType, PermissionType, ResourcePattern, ResourceType

ANY, MATCH, LITERAL, PREFIXED, LATER = 1, 2, 3, 4, 99
TOPIC, GROUP = 2, 3


def about(resource_type: int, name: str | None, pattern_type: int) -> AclFilter:
    return AclFilter(resource_type, name, pattern_type, None, None, ANY, ANY)


def topic(name: str, pattern_type: PatternType = PatternType.LITERAL) -> ResourcePattern:
    return ResourcePattern(ResourceType.TOPIC, name, pattern_type)


BEGINNING = PatternType.PREFIXED


@pytest.mark.parametrize(
    ("wanted", "resource", "is_matched"),
    [
        (about(TOPIC, "Name", PREFIXED), topic("Name"), False),
        (about(TOPIC, "Name", LITERAL), topic("Name", BEGINNING), False),
        (about(GROUP, "Name", LITERAL), topic("Name"), False),
        (about(LATER, "Name", LITERAL), topic("Name"), False),
        (about(TOPIC, "Different", LITERAL), topic("Name"), False),
        (about(TOPIC, "NAME", LITERAL), topic("Name"), False),
        (about(TOPIC, "Name", LITERAL), topic("Name"), True),
        (about(TOPIC, "Name", PREFIXED), topic("Name", BEGINNING), True),
        (about(ANY, "Name", PREFIXED), topic("Name", BEGINNING), True),
        (about(TOPIC, "Name", ANY), topic("Name"), True),
        (about(TOPIC, "Name", ANY), topic("Name", BEGINNING), True),
        (about(TOPIC, "Name-something", ANY), topic("Name", BEGINNING), False),
        (about(TOPIC, None, PREFIXED), topic("Name", BEGINNING), True),
        (about(TOPIC, None, ANY), topic("Name"), True),
        (about(TOPIC, None, MATCH), topic("Name", BEGINNING), True),
        (about(TOPIC, "*", LITERAL), topic("*"), True),
        (about(TOPIC, "Name", LITERAL), topic("*"), False),
        (about(TOPIC, "*", LITERAL), topic("Name"), False),
        (about(TOPIC, "Name", MATCH), topic("*"), True),
        (about(TOPIC, "*", MATCH), topic("Name"), False),
        (about(TOPIC, "Name", MATCH), topic("Name", BEGINNING), True),
        (about(TOPIC, "Name-something", MATCH), topic("Name", BEGINNING), True),
        (about(TOPIC, "Name", MATCH), topic("Name-something", BEGINNING), False),
        (about(TOPIC, "Name", LATER), topic("Name"), False),
        (about(TOPIC, None, LATER), topic("Name"), False),
    ],
)
def test_resources(wanted: AclFilter, resource: ResourcePattern, is_matched: bool) -> None:
    assert matches_resource(wanted, resource) is is_matched
    found = named(wanted)
    assert found is None or not is_matched or resource in found


ENTRY = AclEntry("User:ann", "10.0.0.1", AclOperation.READ, PermissionType.ALLOW)
LATER_ENTRY = AclEntry("User:ann", "*", AclOperation.UNKNOWN, PermissionType.UNKNOWN)


@pytest.mark.parametrize(
    ("wanted", "entry", "is_matched"),
    [
        ((None, None, ANY, ANY), ENTRY, True),
        (("User:ann", "10.0.0.1", 3, 3), ENTRY, True),
        (("User:*", None, ANY, ANY), ENTRY, False),
        ((None, "*", ANY, ANY), ENTRY, False),
        ((None, None, 2, ANY), ENTRY, False),
        ((None, None, ANY, 2), ENTRY, False),
        ((None, None, LATER, ANY), ENTRY, False),
        ((None, None, ANY, LATER), ENTRY, False),
        ((None, None, LATER, LATER), LATER_ENTRY, True),
        ((None, None, ANY, ANY), LATER_ENTRY, True),
    ],
)
def test_entries(wanted: tuple[str | None, str | None, int, int], entry: AclEntry, is_matched: bool) -> None:
    assert matches_entry(AclFilter(ANY, None, ANY, *wanted), entry) is is_matched

"""Are ACLs read and written like brokers of all versions?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zk_layout import catalog
from zk_layout.codec import Malformed
from zk_layout.znodes.acls import (
    FOLDERS,
    AclAddress,
    AclChange,
    AclChangeAddress,
    AclEntry,
    AclOperation,
    Acls,
    ExtendedAclChangeAddress,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    change_address,
    changes,
    encode,
)

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "acls"
VERSIONS = ("2_4_1", "3_9_1")
TRANSACTION = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "t 1")
TRANSACTIONS = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "tx-", PatternType.PREFIXED)


def captured(version: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((FIXTURES / f"kafka_writes_{version}.json").read_text())
    return found


def in_json(data: str) -> Any:
    """The decoded JSON, independent of order."""
    value = json.loads(data)
    if "acls" in value:
        value["acls"] = sorted(value["acls"], key=lambda entry: sorted(entry.items()))
    return value


def decode(path: str, data: bytes) -> object:
    address = catalog.address_of(path)
    assert address is not None
    return catalog.decode(address, data)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_brokers_write_is_read_and_would_be_written_again(version: str) -> None:
    for path, data in captured(version).items():
        address = catalog.address_of(path)
        if not data:
            assert address is None, "a folder"
            continue
        assert address is not None, path
        assert address.path == path
        value = catalog.decode(address, data.encode())
        assert isinstance(value, Acls | AclChange)
        written = catalog.encode(value).decode()
        if isinstance(address, AclChangeAddress):
            assert written.lower() == data.lower()
        elif isinstance(address, ExtendedAclChangeAddress):
            assert in_json(written.lower()) == in_json(data.lower())
        else:
            assert in_json(written) == in_json(data)


def test_the_folders_are_those_that_brokers_make() -> None:
    paths = captured("3_9_1")

    made = {
        path for path, data in paths.items() if path.count("/") == 2 and path.startswith("/kafka-acl/") and not data
    }
    made |= {path for path in paths if path.count("/") == 3 and path.startswith("/kafka-acl-extended/prefixed/")}
    assert set(FOLDERS) == made


@pytest.mark.parametrize("resource", [TRANSACTION, TRANSACTIONS], ids=["literal", "prefixed"])
def test_brokers_of_every_version_are_told_in_their_own_spelling(resource: ResourcePattern) -> None:
    told = {catalog.encode(change).decode() for change in changes(resource)}
    folder = change_address(changes(resource)[0]).path.rpartition("/")[0]

    for version in VERSIONS:
        written = {data for path, data in captured(version).items() if path.startswith(f"{folder}/")}
        assert told & written, version


def test_what_is_one_word_is_told_once() -> None:
    assert changes(ResourcePattern(ResourceType.TOPIC, "t")) == (AclChange(ResourcePattern(ResourceType.TOPIC, "t")),)


@pytest.mark.parametrize("name", ["*", "t", "größe", "a group", "%2F", "...", "<x>", "汉字", "\N{GRINNING FACE}"])
def test_a_resource_may_have_any_name_that_zookeeper_takes(name: str) -> None:
    literal = AclAddress(ResourcePattern(ResourceType.GROUP, name))
    prefixed = AclAddress(ResourcePattern(ResourceType.GROUP, name, PatternType.PREFIXED))

    assert (literal.path, prefixed.path) == (f"/kafka-acl/Group/{name}", f"/kafka-acl-extended/prefixed/Group/{name}")
    assert catalog.address_of(literal.path) == literal
    assert catalog.address_of(prefixed.path) == prefixed


@pytest.mark.parametrize(
    "path",
    [
        "/kafka-acl/Topic",
        "/kafka-acl/Topic/",
        "/kafka-acl/Topic/a/b",
        "/kafka-acl/Topic/..",
        "/kafka-acl/Topic/a\nb",
        "/kafka-acl/topic/a",
        "/kafka-acl/Any/a",
        "/kafka-acl-extended/literal/Topic/a",
        "/kafka-acl-changes",
        "/kafka-acl-changes/a b",
    ],
)
def test_other_paths_are_no_rights(path: str) -> None:
    assert catalog.address_of(path) is None


def entry(**changed: object) -> bytes:
    fields = {"principal": "User:ann", "permissionType": "Allow", "operation": "Read", "host": "*", **changed}
    return json.dumps({"version": 1, "acls": [{k: v for k, v in fields.items() if v is not None}]}).encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (entry(principal="ann"), "has no type"),
        (entry(operation="Any"), "for filters only"),
        (entry(permissionType="ANY"), "for filters only"),
        (entry(host=None), "host"),
        (entry(host=1), "host"),
        (b'{"version":2,"acls":[]}', "version"),
        (b'{"acls":[]}', "version"),
        (b'{"version":1}', "acls"),
        (b"{", "truncated"),
    ],
)
def test_rights_that_brokers_would_not_read_either_are_malformed(data: bytes, reason: str) -> None:
    value = decode("/kafka-acl/Topic/t", data)

    assert isinstance(value, Malformed)
    assert reason in value.reason


def test_what_a_later_kafka_may_know_is_kept_and_means_nothing() -> None:
    value = decode("/kafka-acl/Topic/t", entry(operation="Fly", permissionType="Perhaps"))

    assert value == Acls((AclEntry("User:ann", "*", AclOperation.UNKNOWN, PermissionType.UNKNOWN),))


def test_case_and_order_and_repetition_do_not_matter() -> None:
    one = AclEntry("User:ann", "*", AclOperation.READ, PermissionType.DENY)
    twice = {"principal": "User:ann", "permissionType": "DENY", "operation": "read", "host": "*", "since": 4}

    assert decode("/kafka-acl/Topic/t", json.dumps({"acls": [twice, twice], "version": 1}).encode()) == Acls((one,))
    assert decode("/kafka-acl/Topic/t", encode(Acls((one,)))) == Acls((one,))


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/kafka-acl-changes/acl_changes_0", b"TOPIC"),
        ("/kafka-acl-changes/acl_changes_0", b"ANY:t"),
        ("/kafka-acl-changes/acl_changes_0", b"TOPIC:\xff"),
        ("/kafka-acl-extended-changes/acl_changes_0", b"TOPIC:t"),
        (
            "/kafka-acl-extended-changes/acl_changes_0",
            b'{"version":2,"resourceType":"TOPIC","name":"t","patternType":"PREFIXED"}',
        ),
        (
            "/kafka-acl-extended-changes/acl_changes_0",
            b'{"version":1,"resourceType":"TOPIC","name":"t","patternType":"LITERAL"}',
        ),
    ],
)
def test_notifications_that_name_no_pattern_are_malformed(path: str, data: bytes) -> None:
    assert isinstance(decode(path, data), Malformed)

"""Does every family refuse invalid bytes with one typed error, in one line?"""

from __future__ import annotations

import pytest

from zk_layout import catalog
from zk_layout.catalog import Value
from zk_layout.codec import DEEPEST, LARGEST_BYTES, Malformed, json_decoder
from zk_layout.znodes.acls import Acls
from zk_layout.znodes.configs import Config
from zk_layout.znodes.reassignment_status import StatusRoot

PATHS = [
    "/brokers/ids/1",
    "/brokers/topics/t",
    "/brokers/topics/t/partitions/0/state",
    "/controller",
    "/controller_epoch",
    "/admin/reassign_partitions",
    "/admin/preferred_replica_election",
    "/isr_change_notification/isr_change_0000000000",
    "/log_dir_event_notification/log_dir_event_0000000000",
    "/config/changes/config_change_0000000000",
    "/config/topics/t",
    "/config/brokers/<default>",
    "/feature",
    "/kafka_zk_controller/replica_deletions/t",
    "/kafka_zk_controller/released",
    "/latest_producer_id_block",
    "/admin/reassign_partitions_status/1",
    "/admin/reassignments/t-0",
    "/delegation_token/tokens/a",
    "/kafka-acl/Topic/t",
    "/kafka-acl-changes/acl_changes_0000000000",
    "/kafka-acl-extended-changes/acl_changes_0000000000",
]
MAY_BE_EMPTY: dict[str, Value | None] = {
    "/latest_producer_id_block": None,
    "/admin/reassignments/t-0": None,
    "/kafka-acl/Topic/t": Acls(()),
}

HOSTILE = {
    "objects in objects": b'{"a":' * 600 + b"1" + b"}" * 600,
    "lists under a key that nobody reads": b'{"x":' + b"[" * 1500 + b"]" * 1500 + b"}",
    "nesting where entries are expected": b'{"partitions":[' + b"[" * 2000 + b"]" * 2000 + b"]}",
    "nesting that never ends": b'{"partitions":' * 3000,
    "a number of thousands of digits": b'{"version":' + b"9" * 5000 + b"}",
    "not a number": b"NaN",
    "nothing": b"null",
    "no bytes": b"",
    "bytes of no text": b"\xff\xfe",
    "half a character": b'{"topic":"\xc3',
    "half a pair of characters": b'{"entity_path":"topics/\\ud800","partitions":[{"topic":"\\ud800","partition":0}]}',
    "a mebibyte of blanks": b" " * (1 << 20),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_bytes_that_no_writer_writes_are_malformed(path: str, data: bytes) -> None:
    address = catalog.address_of(path)
    assert address is not None

    value = catalog.decode(address, data)

    if not data and path in MAY_BE_EMPTY:
        assert value == MAY_BE_EMPTY[path]
    elif isinstance(value, Malformed):
        assert len(value.reason) <= 300
        assert value.reason.isprintable()
        assert "Error:" not in value.reason  # which would be an unexpected error in a decoder
    elif isinstance(value, Config):
        assert value == Config({}), "JSON without settings"
    else:
        assert getattr(value, "moves", None) == (), "only the legacy znode refuses its entries one by one"


@pytest.mark.parametrize("path", ["/admin/reassign_partitions_status", "/admin/reassignments"])
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_of_our_own_folders_nothing_is_taken_from_what_cannot_be_read(path: str, data: bytes) -> None:
    address = catalog.address_of(path)
    assert address is not None

    assert not isinstance(catalog.decode(address, data), Malformed)


@pytest.mark.parametrize("path", PATHS)
def test_numbers_are_numbers_and_truth_is_none(path: str) -> None:
    address = catalog.address_of(path)
    assert address is not None
    fields = ("leader", "leader_epoch", "controller_epoch", "brokerid", "broker", "port", "partition", "status")
    for wrong in ("true", '"1"', "1.5", "[]", "-9223372036854775809", "NaN", "1e400"):
        text = "{" + ",".join(f'"{field}":{wrong}' for field in fields) + ',"isr":[1],"host":"h","topic":"t"}'

        value = catalog.decode(address, text.encode())
        assert isinstance(value, Malformed) or value == Config({}), (path, wrong)


def test_what_is_nested_as_deep_as_anybody_writes_is_read() -> None:
    data = b'{"x":' + b"[" * (DEEPEST - 1) + b"]" * (DEEPEST - 1) + b',"last_request_id":7}'

    assert json_decoder(StatusRoot)(data) == StatusRoot(7)


def test_brackets_in_a_text_are_not_nesting() -> None:
    address = catalog.address_of("/kafka_zk_controller/released")
    assert address is not None
    data = b'{"by":"' + b"[{" * 100 + b'\\"","at_ms":1}'

    assert getattr(catalog.decode(address, data), "by", None) == "[{" * 100 + '"'


def test_nobody_decodes_what_is_larger_than_any_znode() -> None:
    address = catalog.address_of("/brokers/topics/t")
    assert address is not None

    value = catalog.decode(address, b'{"partitions":{}}' + b" " * LARGEST_BYTES)

    assert isinstance(value, Malformed)
    assert "larger than" in value.reason


LONG_NAME = "n" * 999_300


@pytest.mark.parametrize(
    "path",
    [
        f"/isr_change_notification/{LONG_NAME}",
        f"/log_dir_event_notification/{LONG_NAME}",
        f"/config/changes/{LONG_NAME}",
        f"/delegation_token/tokens/{LONG_NAME}",
        "/brokers/topics/a b",
        "/brokers/topics/a\nb",
        "/brokers/topics/größe",
        "/brokers/topics/t/partitions/x/state",
        "/brokers/topics/t/partitions/-1/state",
        "/brokers/topics/t/partitions/1099511627776/state",
        "/brokers/ids/abc",
        "/brokers/ids/-1",
        "/admin/delete_topics/a:b",
        "/admin/reassignments/a b-0",
        "/admin/reassign_partitions_status/2147483648",
        "/kafka_zk_controller/replica_deletions/a b",
    ],
)
def test_a_name_that_nobody_gives_names_nothing(path: str) -> None:
    assert catalog.address_of(path) is None


def test_a_request_id_that_leaves_no_room_for_the_next_counts_for_nothing() -> None:
    address = catalog.address_of("/admin/reassign_partitions_status")
    assert address is not None

    for last in (2**31 - 1, 2**63, -1, 10**400):
        assert catalog.decode(address, b'{"last_request_id":%d}' % last) is None
    assert catalog.decode(address, b'{"last_request_id":2146000000}') == StatusRoot(2_146_000_000)


def test_figures_of_a_status_that_nobody_could_write_again_are_malformed() -> None:
    address = catalog.address_of("/admin/reassign_partitions_status/1")
    assert address is not None
    sound = (
        b'{"request_id":1,"origin":"o","requested_ms":%s,"updated_ms":0,"finished_ms":null,"counts":{},"topics":[]%s}'
    )

    assert not isinstance(catalog.decode(address, sound % (b"0", b"")), Malformed)
    assert isinstance(catalog.decode(address, sound % (b"9" * 30, b"")), Malformed)
    assert isinstance(catalog.decode(address, sound % (b"0", b',"copied_bytes":' + b"9" * 30)), Malformed)
    assert isinstance(catalog.decode(address, sound % (b"0", b',"bytes_per_second":1e400')), Malformed)


def test_the_highest_controller_epoch_leaves_room_for_the_next() -> None:
    address = catalog.address_of("/controller_epoch")
    assert address is not None

    assert catalog.decode(address, b"2147483646") == 2_147_483_646
    assert isinstance(catalog.decode(address, b"2147483647"), Malformed)

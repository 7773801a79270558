"""Is everything read that Kafka's decoder passes over: bytes behind the first JSON value, other encodings, a mark?

Kafka's own decoders are asked in `tests/decoders`.
"""

from __future__ import annotations

import pytest

from zk_layout import catalog
from zk_layout.codec import DEEPEST, Malformed, passed_over
from zk_layout.ids import BrokerId, LeaderEpoch, PartitionId, TopicName
from zk_layout.znodes.admin import LegacyMove, LegacyReassignment
from zk_layout.znodes.brokers import Endpoint, Registration
from zk_layout.znodes.configs import Config
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Topic

ACL = '{"version":1,"acls":[{"principal":"User:ann","permissionType":"Allow","operation":"Read","host":"*"}]}'
SOUND = {
    "/brokers/ids/1": '{"version":4,"host":"größe","port":9092,"jmx_port":-1,"endpoints":["PLAINTEXT://k:9092"]}',
    "/brokers/topics/t": '{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{},"removing_replicas":{}}',
    "/brokers/topics/t/partitions/0/state": (
        '{"controller_epoch":9,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}'
    ),
    "/controller": '{"version":2,"brokerid":3,"timestamp":"17","kraftControllerEpoch":-1}',
    "/admin/reassign_partitions": '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2]}]}',
    "/admin/preferred_replica_election": '{"version":1,"partitions":[{"topic":"t","partition":0}]}',
    "/isr_change_notification/isr_change_0000000000": '{"version":1,"partitions":[{"topic":"t","partition":0}]}',
    "/log_dir_event_notification/log_dir_event_0000000000": '{"version":1,"broker":1,"event":1}',
    "/config/changes/config_change_0000000000": '{"version":2,"entity_path":"topics/t"}',
    "/config/topics/t": '{"version":1,"config":{"retention.ms":"5","note":"{ü}"}}',
    "/config/brokers/<default>": '{"version":1,"config":{"unclean.leader.election.enable":"true"}}',
    "/config/users/ann": '{"version":1,"config":{"controller_mutation_rate":"2"}}',
    "/feature": '{"version":2,"features":{},"status":1}',
    "/latest_producer_id_block": '{"version":1,"broker":2,"block_start":"1000","block_end":"1999"}',
    "/delegation_token/tokens/a": '{"version":1,"expiryTimestamp":5,"maxTimestamp":6}',
    "/kafka-acl/Topic/t": ACL,
    "/kafka-acl-extended/prefixed/Topic/t": ACL,
    "/kafka-acl-extended-changes/acl_changes_0": (
        '{"version":1,"resourceType":"TOPIC","name":"t","patternType":"PREFIXED"}'
    ),
    "/admin/reassignments/t-0": '{"version":1,"assignment":[1,2]}',
    "/admin/reassign_partitions_status": '{"version":1,"last_request_id":7}',
    "/kafka_zk_controller/replica_deletions/t": '{"version":1,"topic_id":null,"replicas":{"0":[1]}}',
    "/kafka_zk_controller/released": '{"version":1,"by":"ann","at_ms":1,"reason":""}',
}
ODD = {
    "a stray brace": (b"%s}", "1 byte behind the JSON value"),
    "a second value": (b"%s{}", "2 bytes behind the JSON value"),
    "the rest of a longer value": (b'%s","isr":[3]}', "12 bytes behind the JSON value"),
    "a zero": (b"%s\0", "1 byte behind the JSON value"),
    "words": (b"%s # mended by hand", "16 bytes behind the JSON value"),
    "bytes of no text": (b"%s\xff\xfe", "2 bytes behind the JSON value"),
    "brackets without end": (b"%s" + b"[" * 5_000, "5000 bytes behind the JSON value"),
    "a byte order mark": (b"\xef\xbb\xbf%s", "a byte order mark"),
    "both": (b"\xef\xbb\xbf%s\n}\n", "a byte order mark and 1 byte behind the JSON value"),
}
ENCODINGS = ("UTF-16", "UTF-16-LE", "UTF-16-BE", "UTF-32", "UTF-32-LE", "UTF-32-BE")


def decoded(path: str, data: bytes) -> object:
    address = catalog.address_of(path)
    assert address is not None
    value = catalog.decode(address, data)
    assert not isinstance(value, Malformed), value
    return value


@pytest.mark.parametrize("path", SOUND)
@pytest.mark.parametrize(("odd", "named"), ODD.values(), ids=ODD)
def test_what_stands_around_the_json_is_passed_over_and_named(path: str, odd: bytes, named: str) -> None:
    sound = SOUND[path].encode()
    data = odd.replace(b"%s", sound)

    assert decoded(path, data) == decoded(path, sound)
    assert passed_over(data) == named
    assert passed_over(sound) is None


@pytest.mark.parametrize("path", SOUND)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_json_in_another_encoding_is_read_and_named(path: str, encoding: str) -> None:
    data = SOUND[path].encode(encoding)

    assert decoded(path, data) == decoded(path, SOUND[path].encode())
    assert passed_over(data) == f"the encoding {encoding}"
    assert decoded(path, data + "}".encode(encoding)) == decoded(path, data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"}",
        b'{"leader":1',
        b'{"leader":1,"isr":[1}}',
        b'\xef\xbb\xbf{"leader":',
        b"\xff\xfe{",
        b"# {}",
        b'{"isr":[1]}' + b"x" * 20,
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
)
def test_without_a_whole_state_there_is_nothing_to_read(data: bytes) -> None:
    address = catalog.address_of("/brokers/topics/t/partitions/0/state")
    assert address is not None

    assert isinstance(catalog.decode(address, data), Malformed)
    assert passed_over(data) in (None, "20 bytes behind the JSON value")


def test_of_two_values_and_of_two_keys_kafka_reads_the_first_and_the_last() -> None:
    state = b'{"controller_epoch":9,"leader":1,"version":1,"leader_epoch":4,"leader_epoch":5,"isr":[1]}'

    value = decoded("/brokers/topics/t/partitions/0/state", state + state.replace(b'"leader":1', b'"leader":2'))

    assert value == PartitionState(BrokerId(1), LeaderEpoch(5), 9, (BrokerId(1),))  # type: ignore[arg-type]


def test_what_is_nested_too_deep_is_refused_in_the_value_alone() -> None:
    deep = b"[" * DEEPEST + b"]" * DEEPEST
    address = catalog.address_of("/brokers/topics/t")
    assert address is not None

    assert catalog.decode(address, b'{"partitions":{}}' + deep) == Topic({})
    assert isinstance(catalog.decode(address, b'{"partitions":{},"x":%s}}' % deep), Malformed)


@pytest.mark.parametrize(
    "path", ["/config/topics/t", "/config/brokers/<default>", "/config/users/a", "/config/clients/a"]
)
@pytest.mark.parametrize(
    "data", [b"", b" \n", b"{}", b'{"version":1}', b'{"config":null}', b'{"config":[]}', b"null", b"[]", b"7"]
)
def test_settings_that_name_none_are_none(path: str, data: bytes) -> None:
    assert decoded(path, data) == Config({})


@pytest.mark.parametrize("data", [b"{", b"retention.ms=5", b'{"config":{"a":1}}', b'{"config":{"a":null}}', b"\xff"])
def test_settings_that_cannot_be_read_stay_malformed(data: bytes) -> None:
    address = catalog.address_of("/config/topics/t")
    assert address is not None

    assert isinstance(catalog.decode(address, data), Malformed)


@pytest.mark.parametrize("timestamp", ["[]", "true", '["17"]', "{}", "1.5"])
def test_the_holder_of_controller_is_known_with_any_timestamp(timestamp: str) -> None:
    data = f'{{"version":1,"brokerid":3,"timestamp":{timestamp}}}'.encode()

    assert decoded("/controller", data) == ControllerClaim(BrokerId(3))


def test_an_old_tools_partition_may_be_a_number_in_quotes_and_only_that() -> None:
    data = b'{"version":1,"partitions":[{"topic":"t","partition":"1","replicas":[2]},{"topic":5,"partition":0}]}'

    value = decoded("/admin/reassign_partitions", data)

    assert isinstance(value, LegacyReassignment)
    assert value.moves == (LegacyMove(TopicName("t"), PartitionId(1), (BrokerId(2),)),)
    assert len(value.rejected) == 1


def test_a_registration_of_version_1_has_its_host_and_port_alone() -> None:
    data = (
        b'{"version":1,"host":"k","port":9092,"endpoints":["IN://l:9"],"listener_security_protocol_map":{"IN":"SSL"}}'
    )

    assert decoded("/brokers/ids/1", data) == Registration((Endpoint("PLAINTEXT", "k", 9092),))

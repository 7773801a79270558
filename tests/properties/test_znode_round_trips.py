"""Whatever this controller writes into a znode, it reads back; whatever lies there, it survives."""

from __future__ import annotations

import re
from collections import Counter
from types import NoneType
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from zk_layout import catalog
from zk_layout.bounds import HIGHEST_REQUEST_ID, INT32_MAX
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerId, ControllerEpoch, PartitionId, RequestId, TopicName, TopicPartition
from zk_layout.znodes import (
    brokers,
    challenge,
    move_records,
    notifications,
    pause,
    release,
    replica_deletions,
    switchover,
    throttles,
    topics,
    waiting_moves,
)
from zk_layout.znodes import replicas as znodes_of_replicas
from zk_layout.znodes.acls import (
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
    changes,
)
from zk_layout.znodes.admin import (
    LegacyMove,
    LegacyReassignment,
    LegacyReassignmentAddress,
    PreferredElection,
    PreferredElectionAddress,
    TopicDeletionAddress,
)
from zk_layout.znodes.configs import (
    BrokerConfigAddress,
    ClientConfigAddress,
    Config,
    DefaultBrokerConfigAddress,
    TopicConfigAddress,
    UserClientConfigAddress,
    UserConfigAddress,
)
from zk_layout.znodes.controller import ControllerAddress, ControllerClaim, ControllerEpochAddress
from zk_layout.znodes.controller_ids import ControllerIds, ControllerIdsAddress
from zk_layout.znodes.delegation_tokens import (
    DelegationTokenAddress,
    DelegationTokenChangeAddress,
    TokenChange,
    TokenTimes,
)
from zk_layout.znodes.features import FeatureAddress, Features
from zk_layout.znodes.migration import Migration, MigrationAddress
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, PartitionState, StateAddress
from zk_layout.znodes.producer_ids import HIGHEST_PRODUCER_ID, ProducerIdBlock, ProducerIdBlockAddress
from zk_layout.znodes.reassignment_status import (
    MoveProgress,
    PartitionStatus,
    ReassignmentStatusAddress,
    ReplicaProgress,
    RequestStatus,
    StatusRoot,
    StatusRootAddress,
    TopicStatus,
)
from zk_layout.znodes.reassignments import FolderKeeper, Reassignment, ReassignmentAddress, ReassignmentsAddress

ids = st.integers(0, 2**31 - 1).map(BrokerId)
names = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True).filter(lambda n: n not in (".", ".."))
topic_ids = st.from_regex(r"[A-Za-z0-9_-]{22}", fullmatch=True)
replicas = st.lists(ids, max_size=5).map(tuple)
texts = st.text(max_size=20)
partitions = st.builds(TopicPartition, names, ids)
endpoints = st.builds(
    brokers.Endpoint,
    st.sampled_from(("INSIDE", "CLIENTS", "PLAINTEXT", "A_B-C.D")),
    st.sampled_from(("localhost", "10.0.0.1", "::1", "fe80::1", "a.b-c.example")),
    st.integers(-1, 65535),
    st.sampled_from(brokers.SECURITY_PROTOCOLS),
)
registrations = st.builds(
    brokers.Registration,
    st.lists(endpoints, min_size=1, max_size=4, unique_by=lambda e: e.listener).map(tuple),
    st.none() | texts,
    st.dictionaries(names, st.dictionaries(names, st.integers(0, 99), max_size=2), max_size=2),
)

sizes = st.none() | st.integers(0, 2**50)
rates = st.none() | st.floats(0, 1e12)
move_progress = st.builds(
    MoveProgress,
    st.none() | ids,
    texts,
    st.integers(0, 2**45),
    st.none() | texts,
    st.lists(st.builds(ReplicaProgress, ids, sizes, sizes, rates, rates, st.none() | texts), max_size=2).map(tuple),
)
partition_statuses = st.builds(
    PartitionStatus,
    ids,
    replicas,
    st.booleans(),
    st.none() | texts,
    st.none() | move_progress,
    sizes,
    st.booleans(),
)
topic_statuses = st.builds(
    TopicStatus,
    names,
    st.lists(partition_statuses, max_size=2).map(tuple),
    st.none() | st.integers(0, 2**63 - 1),
    st.none() | topic_ids,
)
request_statuses = st.builds(
    RequestStatus,
    ids,
    texts,
    st.integers(0, 2**45),
    st.integers(0, 2**45),
    st.none() | st.integers(0, 2**45),
    st.dictionaries(texts, ids, max_size=3),
    st.lists(topic_statuses, max_size=2).map(tuple),
    sizes,
    sizes,
    rates,
    rates,
    reason=st.just(UNSET) | texts,
    give_up_ms=st.just(UNSET) | st.integers(0, 2**63 - 1),
)


acl_entries = st.builds(
    AclEntry,
    st.builds("{}:{}".format, st.sampled_from(("User", "Group")), texts),
    texts,
    st.sampled_from(AclOperation),
    st.sampled_from(PermissionType),
)
acls_of_one = st.lists(acl_entries, unique=True, max_size=4).map(lambda entries: Acls(tuple(entries)))


def acl_changes(pattern_type: PatternType) -> st.SearchStrategy[AclChange]:
    """Of any resource, for brokers of any version."""
    patterns = st.builds(ResourcePattern, st.sampled_from(ResourceType), texts, st.just(pattern_type))
    return patterns.flatmap(lambda pattern: st.sampled_from(changes(pattern)))


@st.composite
def assignments(draw: st.DrawFn) -> topics.Assignment:
    """Any replicas, and any of them being added or removed: a znode may hold what arithmetic would not."""
    held = draw(replicas)
    adding = tuple(r for r in held if draw(st.booleans()))
    removing = tuple(r for r in held if r not in adding and draw(st.booleans()))
    return topics.Assignment(held, adding, removing if len(set(removing)) < len(set(held)) else ())


@st.composite
def producer_id_blocks(draw: st.DrawFn) -> ProducerIdBlock:
    first, last = sorted(draw(st.tuples(*[st.integers(0, HIGHEST_PRODUCER_ID)] * 2)))
    return ProducerIdBlock(draw(ids | st.just(BrokerId(-1))), first, last)


VALUES: dict[catalog.Address, st.SearchStrategy[object]] = {
    brokers.BrokerAddress(BrokerId(3)): registrations,
    topics.TopicAddress(TopicName("t")): st.builds(
        topics.Topic, st.dictionaries(ids, assignments(), max_size=4), st.none() | topic_ids
    ),
    StateAddress(TopicName("t"), PartitionId(0)): st.builds(
        PartitionState, st.integers(-2, 99), st.integers(0, 2**31 - 2), ids, replicas, st.sampled_from((0, 1))
    ),
    MigrationAddress(): st.builds(Migration, ids, ids, st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1)),
    ControllerAddress(): st.builds(ControllerClaim, ids, st.booleans(), st.integers(0, 2**53), st.none() | ids),
    ControllerEpochAddress(): st.integers(0, 2**31 - 2).map(ControllerEpoch),
    LegacyReassignmentAddress(): st.builds(
        LegacyReassignment, st.lists(st.builds(LegacyMove, names, ids, replicas)).map(tuple)
    ),
    PreferredElectionAddress(): st.builds(PreferredElection, st.lists(partitions).map(tuple)),
    notifications.IsrChangeAddress("isr_change_0000000001"): st.builds(
        notifications.IsrChange, st.lists(partitions).map(tuple)
    ),
    notifications.LogDirEventAddress("log_dir_event_0000000001"): st.builds(notifications.LogDirEvent, ids),
    TopicConfigAddress(TopicName("t")): st.builds(Config, st.dictionaries(texts, texts, max_size=4)),
    UserConfigAddress("ann%20b"): st.builds(Config, st.dictionaries(texts, texts, max_size=4)),
    UserClientConfigAddress("<default>", "b.c"): st.builds(Config, st.dictionaries(texts, texts, max_size=4)),
    ClientConfigAddress("%2A"): st.builds(Config, st.dictionaries(texts, texts, max_size=4)),
    DefaultBrokerConfigAddress(): st.builds(Config, st.dictionaries(texts, texts, max_size=4)),
    notifications.ConfigChangeAddress("config_change_0000000001"): st.builds(
        notifications.ConfigChange, texts.filter(lambda text: text not in ("", "/"))
    ),
    ControllerIdsAddress(): st.builds(ControllerIds, replicas),
    FeatureAddress(): st.builds(Features, st.booleans(), st.dictionaries(texts, st.integers(1, 9), max_size=3)),
    replica_deletions.ReplicaDeletionsAddress(TopicName("t")): st.builds(
        replica_deletions.ReplicaDeletions, st.dictionaries(ids, replicas, max_size=4), st.none() | topic_ids
    ),
    waiting_moves.WaitingMovesAddress(TopicName("a-1"), waiting_moves.PartNumber(2)): st.builds(
        waiting_moves.WaitingMoves,
        st.integers(0, 2**60),
        st.dictionaries(
            ids,
            st.builds(
                waiting_moves.WaitingMove,
                replicas,
                replicas,
                st.integers(0, 2**60),
                st.none() | st.integers(0, 2**45),
                st.none() | st.integers(0, 2**63 - 1),
                st.integers(-(2**31), 2**31 - 1),
            ),
        ),
        st.none() | topic_ids,
    ),
    throttles.ThrottledTopicAddress(TopicName("a-1")): st.builds(
        throttles.ThrottledTopic,
        st.none() | texts,
        st.dictionaries(st.builds("{}:{}".format, ids, ids), st.integers(1, 2**63 - 1), max_size=4),
    ),
    throttles.ThrottledBrokerAddress(BrokerId(3)): st.builds(
        throttles.ThrottledBroker, st.none() | texts, st.none() | texts
    ),
    BrokerConfigAddress(BrokerId(3)): st.builds(Config, st.dictionaries(texts, texts, max_size=4)),
    move_records.MoveRecordsAddress(RequestId(7), move_records.RecordsNumber(2)): st.builds(
        move_records.MoveRecords,
        texts,
        st.integers(0, 2**45),
        st.integers(1, 9),
        st.dictionaries(
            texts,
            st.builds(
                move_records.TopicRecord,
                st.integers(0, 2**60),
                st.dictionaries(ids, st.tuples(replicas, replicas), max_size=3),
                st.none() | topic_ids,
            ),
            max_size=2,
        ),
        st.none() | texts,
        st.none() | texts,
        st.none() | texts,
        st.none() | texts,
    ),
    ProducerIdBlockAddress(): st.none() | producer_id_blocks(),
    ReassignmentStatusAddress(RequestId(7)): request_statuses,
    znodes_of_replicas.ReplicaAddress(BrokerId(3)): st.builds(
        znodes_of_replicas.Replica,
        texts,
        st.booleans(),
        st.integers(0, 2**45),
        texts,
        texts,
        texts,
        texts,
        st.booleans(),
        st.booleans(),
    ),
    challenge.ChallengeAddress(): st.builds(challenge.Challenge, ids, st.integers(0, 2**45)),
    switchover.SwitchoverAddress(): st.builds(switchover.Switchover, ids, texts, st.integers(0, 2**45)),
    pause.PauseAddress(): st.builds(pause.Pause, texts, st.integers(0, 2**45), texts),
    release.ReleaseAddress(): st.builds(release.Release, texts, st.integers(0, 2**45), texts),
    StatusRootAddress(): st.none() | st.builds(StatusRoot, st.integers(0, HIGHEST_REQUEST_ID).map(RequestId)),
    ReassignmentsAddress(): st.builds(FolderKeeper, st.integers(-1, 2**31 - 1)),
    ReassignmentAddress(TopicName("a-1"), PartitionId(2)): st.none() | st.builds(Reassignment, replicas),
    DelegationTokenAddress("abc"): st.builds(TokenTimes, st.integers(-1, 2**45), st.integers(-1, 2**45)),
    DelegationTokenChangeAddress(): st.builds(TokenChange, texts),
    AclAddress(ResourcePattern(ResourceType.GROUP, "größe *")): acls_of_one,
    AclAddress(ResourcePattern(ResourceType.TOPIC, "größe", PatternType.PREFIXED)): acls_of_one,
    AclChangeAddress("acl_changes_0000000001"): acl_changes(PatternType.LITERAL),
    ExtendedAclChangeAddress("acl_changes_0000000001"): acl_changes(PatternType.PREFIXED),
}
WITHOUT_DATA: tuple[catalog.Address, ...] = (
    PartitionAddress(TopicName("t"), PartitionId(0)),
    PartitionsAddress(TopicName("t")),
    TopicDeletionAddress(TopicName("t")),
)
ALL = (*VALUES, *WITHOUT_DATA)
KINDS = (
    "Acl AclChange Broker BrokerConfig Challenge ClientConfig ConfigChange Controller ControllerEpoch ControllerIds "
    "DefaultBrokerConfig DelegationToken DelegationTokenChange ExtendedAclChange Feature IsrChange "
    "LegacyReassignment LogDirEvent Migration MoveRecords Partition Partitions Pause PreferredElection ProducerIdBlock "
    "Reassignment ReassignmentStatus Reassignments Release Replica ReplicaDeletions State StatusRoot Switchover "
    "ThrottledBroker ThrottledTopic Topic TopicConfig TopicDeletion TopicRemnant UserClientConfig UserConfig "
    "WaitingMoves"
)


@pytest.mark.parametrize("address", VALUES, ids=lambda a: type(a).__name__)
@given(data=st.data())
def test_what_is_written_is_read_back(address: catalog.Address, data: st.DataObject) -> None:
    value = data.draw(VALUES[address])

    assert catalog.decode(address, catalog.encode(value)) == value


@pytest.mark.parametrize("address", ALL, ids=lambda a: type(a).__name__)
def test_a_path_names_the_address_it_came_from(address: catalog.Address) -> None:
    takers = [row.address for row in catalog.FAMILIES if row.pattern and re.fullmatch(row.pattern, address.path)]

    assert catalog.address_of(address.path) == address
    assert takers == [type(address)]


@pytest.mark.parametrize("address", VALUES, ids=lambda a: type(a).__name__)
@given(data=st.binary(max_size=60) | st.from_regex(rb'[\[\]{}":,0-9a-z -]{0,60}', fullmatch=True))
def test_whatever_lies_there_is_a_value_or_a_reason(address: catalog.Address, data: bytes) -> None:
    value = catalog.decode(address, data)

    if isinstance(value, Malformed):
        assert value.reason
        assert "\n" not in value.reason
        assert value.size_bytes == len(data)
    else:
        assert catalog.decode(address, catalog.encode(value)) == value


@pytest.mark.parametrize("address", WITHOUT_DATA, ids=lambda a: type(a).__name__)
@given(data=st.binary(max_size=20))
def test_what_lies_in_a_znode_without_data_does_not_matter(address: catalog.Address, data: bytes) -> None:
    assert catalog.decode(address, data) is None


def path_of(row: catalog.Family[Any, Any]) -> st.SearchStrategy[tuple[catalog.Family[Any, Any], str]]:
    return st.tuples(st.just(row), st.from_regex(row.pattern or "", fullmatch=True))


@given(case=st.sampled_from([row for row in catalog.FAMILIES if row.pattern]).flatmap(path_of))
def test_a_path_is_that_of_one_family(case: tuple[catalog.Family[Any, Any], str]) -> None:
    row, path = case
    address = catalog.address_of(path)

    assert [each for each in catalog.FAMILIES if each.pattern and re.fullmatch(each.pattern, path)] == [row]
    assert (type(address), address.path) == (row.address, path) if address else number_of(path) > INT32_MAX


def number_of(path: str) -> int:
    digits = re.findall(r"\d+(?=\Z|/state\Z)", path)
    return int(digits[0]) if digits else 0


def test_each_address_has_one_row_and_each_value_one_encoder() -> None:
    encoders = {(row.value, row.encode) for row in catalog.FAMILIES}

    assert Counter(row.address for row in catalog.FAMILIES) == Counter(get_args(catalog.Address))
    assert Counter(value for value, _ in encoders) == Counter((*get_args(catalog.Value), NoneType))


def test_every_family_has_its_round_trip() -> None:
    tested = {type(address) for address in ALL}

    # A topic's remnant is found by a survey, never by its path.
    assert tested | {topics.TopicRemnantAddress} == {row.address for row in catalog.FAMILIES}


def test_metrics_call_a_family_what_they_always_have() -> None:
    assert " ".join(sorted(row.kind for row in catalog.FAMILIES)) == KINDS

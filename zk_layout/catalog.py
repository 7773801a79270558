"""Which znode is it, and how are its bytes read and written? The only table of known znodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import NoneType
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from zk_layout.bounds import INT32_MAX
from zk_layout.codec import Malformed, Undecodable, one_line
from zk_layout.ids import ControllerEpoch
from zk_layout.znodes import (
    acls,
    admin,
    brokers,
    challenge,
    configs,
    controller,
    controller_ids,
    delegation_tokens,
    features,
    migration,
    move_records,
    notifications,
    partition_state,
    pause,
    producer_ids,
    reassignment_status,
    reassignments,
    release,
    replica_deletions,
    replicas,
    switchover,
    throttles,
    topics,
    waiting_moves,
)

Address = (
    brokers.BrokerAddress
    | topics.TopicAddress
    | topics.TopicRemnantAddress
    | partition_state.StateAddress
    | partition_state.PartitionAddress
    | partition_state.PartitionsAddress
    | controller.ControllerAddress
    | controller.ControllerEpochAddress
    | controller_ids.ControllerIdsAddress
    | admin.LegacyReassignmentAddress
    | admin.PreferredElectionAddress
    | admin.TopicDeletionAddress
    | notifications.IsrChangeAddress
    | notifications.LogDirEventAddress
    | notifications.ConfigChangeAddress
    | configs.TopicConfigAddress
    | configs.DefaultBrokerConfigAddress
    | configs.UserConfigAddress
    | configs.UserClientConfigAddress
    | configs.ClientConfigAddress
    | challenge.ChallengeAddress
    | features.FeatureAddress
    | migration.MigrationAddress
    | move_records.MoveRecordsAddress
    | pause.PauseAddress
    | replica_deletions.ReplicaDeletionsAddress
    | waiting_moves.WaitingMovesAddress
    | throttles.ThrottledTopicAddress
    | throttles.ThrottledBrokerAddress
    | configs.BrokerConfigAddress
    | producer_ids.ProducerIdBlockAddress
    | reassignment_status.StatusRootAddress
    | reassignment_status.ReassignmentStatusAddress
    | reassignments.ReassignmentsAddress
    | reassignments.ReassignmentAddress
    | release.ReleaseAddress
    | replicas.ReplicaAddress
    | switchover.SwitchoverAddress
    | delegation_tokens.DelegationTokenAddress
    | delegation_tokens.DelegationTokenChangeAddress
    | acls.AclAddress
    | acls.AclChangeAddress
    | acls.ExtendedAclChangeAddress
)

Value = (
    brokers.Registration
    | topics.Topic
    | partition_state.PartitionState
    | controller.ControllerClaim
    | controller_ids.ControllerIds
    | ControllerEpoch
    | challenge.Challenge
    | admin.LegacyReassignment
    | admin.PreferredElection
    | notifications.IsrChange
    | notifications.LogDirEvent
    | notifications.ConfigChange
    | configs.Config
    | features.Features
    | migration.Migration
    | move_records.MoveRecords
    | pause.Pause
    | replica_deletions.ReplicaDeletions
    | waiting_moves.WaitingMoves
    | throttles.ThrottledTopic
    | throttles.ThrottledBroker
    | producer_ids.ProducerIdBlock
    | reassignment_status.RequestStatus
    | reassignments.FolderKeeper
    | reassignments.Reassignment
    | release.Release
    | replicas.Replica
    | switchover.Switchover
    | reassignment_status.StatusRoot
    | delegation_tokens.TokenTimes
    | delegation_tokens.TokenChange
    | acls.Acls
    | acls.AclChange
)

AddressT = TypeVar("AddressT", bound=Address)
ValueT = TypeVar("ValueT", bound=Value | None)


class Family(Struct, Generic[AddressT, ValueT], frozen=True):
    """All znodes of one kind: where they are, and what they hold.

    Shape:
        `pattern` is a regular expression of the whole path. Its groups, of which the last may be a number, are the
        fields of `address`, unless `made_from` makes the address from them. Without a pattern no path names the znode.
    """

    pattern: str | None
    address: type[AddressT]
    value: type[ValueT]
    decode: Callable[[bytes], ValueT | None]
    encode: Callable[[ValueT], bytes]
    made_from: Callable[..., AddressT] | None = None

    @property
    def kind(self) -> str:
        """The name of the family in metrics."""
        return self.address.__name__.removesuffix("Address")


def _decode_nothing(_: bytes) -> None:
    """Ignore the data of a znode that should have none."""


def _encode_nothing(_: None) -> bytes:
    return b""


# Kafka's limit, 249 of these letters, or 255 before 0.10: a broker names a folder after the topic, and one that it
# cannot create costs it the whole log directory.
_TOPIC = "([a-zA-Z0-9._-]{1,255})"
# Notifications and tokens: deleting one logs its path, so names with other letters are ignored.
_NAME = "([a-zA-Z0-9._=-]{1,255})"
_SPELT = r"(<default>|(?!\.{1,2}(?:/|\Z))[a-zA-Z0-9._%-]+)"  # any name of a user or client, by Kafka's Sanitizer
# Names of groups and transactional ids are free: all that ZooKeeper accepts in a path.
_ACL_NAME = r"((?!\.{1,2}\Z)[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+)"
_NUMBER = "(?P<number>0|[1-9][0-9]{0,9})"  # as Kafka writes them into paths: without leading zeros

# The most frequent first: a path is compared with one pattern after the other.
# fmt: off
_ROWS = (
    Family(rf"{topics.ROOT}/{_TOPIC}/partitions/{_NUMBER}/state",
        partition_state.StateAddress, partition_state.PartitionState, partition_state.decode, partition_state.encode),
    Family(rf"{topics.ROOT}/{_TOPIC}",
        topics.TopicAddress, topics.Topic, topics.decode, topics.encode),
    Family(rf"{replicas.ROOT}/{_NUMBER}",
        replicas.ReplicaAddress, replicas.Replica, replicas.decode, replicas.encode),
    Family(rf"{brokers.ROOT}/{_NUMBER}",
        brokers.BrokerAddress, brokers.Registration, brokers.decode, brokers.encode),
    Family(rf"{topics.ROOT}/{_TOPIC}/partitions/{_NUMBER}",
        partition_state.PartitionAddress, NoneType, _decode_nothing, _encode_nothing),
    Family(rf"{topics.ROOT}/{_TOPIC}/partitions",
        partition_state.PartitionsAddress, NoneType, _decode_nothing, _encode_nothing),
    Family(None, topics.TopicRemnantAddress, NoneType, _decode_nothing, _encode_nothing),
    Family(rf"{notifications.ISR_CHANGES}/{_NAME}",
        notifications.IsrChangeAddress, notifications.IsrChange,
        notifications.decode_isr_change, notifications.encode_isr_change),
    Family(rf"{notifications.LOG_DIR_EVENTS}/{_NAME}",
        notifications.LogDirEventAddress, notifications.LogDirEvent,
        notifications.decode_log_dir_event, notifications.encode_log_dir_event),
    Family(rf"{notifications.CONFIG_CHANGES}/{_NAME}",
        notifications.ConfigChangeAddress, notifications.ConfigChange,
        notifications.decode_config_change, notifications.encode_config_change),
    Family(rf"{admin.DELETE_TOPICS}/{_TOPIC}",
        admin.TopicDeletionAddress, NoneType, _decode_nothing, _encode_nothing),
    Family("/admin/reassign_partitions",
        admin.LegacyReassignmentAddress, admin.LegacyReassignment,
        admin.decode_reassignment, admin.encode_reassignment),
    Family("/admin/preferred_replica_election",
        admin.PreferredElectionAddress, admin.PreferredElection, admin.decode_election, admin.encode_election),
    Family(rf"{configs.USERS}/{_SPELT}",
        configs.UserConfigAddress, configs.Config, configs.decode, configs.encode),
    Family(rf"{configs.USERS}/{_SPELT}/clients/{_SPELT}",
        configs.UserClientConfigAddress, configs.Config, configs.decode, configs.encode),
    Family(rf"{configs.CLIENTS}/{_SPELT}",
        configs.ClientConfigAddress, configs.Config, configs.decode, configs.encode),
    Family(rf"/config/topics/{_TOPIC}",
        configs.TopicConfigAddress, configs.Config, configs.decode, configs.encode),
    Family("/config/brokers/<default>",
        configs.DefaultBrokerConfigAddress, configs.Config, configs.decode, configs.encode),
    Family(rf"{configs.BROKERS}/{_NUMBER}",
        configs.BrokerConfigAddress, configs.Config, configs.decode, configs.encode),
    Family(rf"{replica_deletions.ROOT}/{_TOPIC}",
        replica_deletions.ReplicaDeletionsAddress, replica_deletions.ReplicaDeletions,
        replica_deletions.decode, replica_deletions.encode),
    Family(rf"{waiting_moves.ROOT}/{_TOPIC}-{_NUMBER}",
        waiting_moves.WaitingMovesAddress, waiting_moves.WaitingMoves, waiting_moves.decode, waiting_moves.encode),
    Family(rf"{throttles.TOPICS}/{_TOPIC}",
        throttles.ThrottledTopicAddress, throttles.ThrottledTopic, throttles.decode_topic, throttles.encode_topic),
    Family(rf"{throttles.BROKERS}/{_NUMBER}",
        throttles.ThrottledBrokerAddress, throttles.ThrottledBroker, throttles.decode_broker, throttles.encode_broker),
    Family(rf"{move_records.ROOT}/(0|[1-9][0-9]{{0,9}})-{_NUMBER}",
        move_records.MoveRecordsAddress, move_records.MoveRecords,
        move_records.decode, move_records.encode, move_records.address_of),
    Family(reassignments.ROOT,
        reassignments.ReassignmentsAddress, reassignments.FolderKeeper,
        reassignments.decode_keeper, reassignments.encode_keeper),
    Family(rf"{reassignments.ROOT}/{_TOPIC}-{_NUMBER}",
        reassignments.ReassignmentAddress, reassignments.Reassignment, reassignments.decode, reassignments.encode),
    Family(reassignment_status.ROOT,
        reassignment_status.StatusRootAddress, reassignment_status.StatusRoot,
        reassignment_status.decode_root, reassignment_status.encode_root),
    Family(rf"{reassignment_status.ROOT}/{_NUMBER}",
        reassignment_status.ReassignmentStatusAddress, reassignment_status.RequestStatus,
        reassignment_status.decode, reassignment_status.encode),
    Family("/controller",
        controller.ControllerAddress, controller.ControllerClaim, controller.decode_claim, controller.encode_claim),
    Family("/controller_epoch",
        controller.ControllerEpochAddress, ControllerEpoch, controller.decode_epoch, controller.encode_epoch),
    Family("/kafka_zk_controller/challenge",
        challenge.ChallengeAddress, challenge.Challenge, challenge.decode, challenge.encode),
    Family("/kafka_zk_controller/controller_ids",
        controller_ids.ControllerIdsAddress, controller_ids.ControllerIds,
        controller_ids.decode, controller_ids.encode),
    Family("/kafka_zk_controller/paused",
        pause.PauseAddress, pause.Pause, pause.decode, pause.encode),
    Family("/kafka_zk_controller/released",
        release.ReleaseAddress, release.Release, release.decode, release.encode),
    Family("/kafka_zk_controller/switchover",
        switchover.SwitchoverAddress, switchover.Switchover, switchover.decode, switchover.encode),
    Family("/feature",
        features.FeatureAddress, features.Features, features.decode, features.encode),
    Family("/migration",
        migration.MigrationAddress, migration.Migration, migration.decode, migration.encode),
    Family("/latest_producer_id_block",
        producer_ids.ProducerIdBlockAddress, producer_ids.ProducerIdBlock, producer_ids.decode, producer_ids.encode),
    Family(rf"{delegation_tokens.ROOT}/{_NAME}",
        delegation_tokens.DelegationTokenAddress, delegation_tokens.TokenTimes,
        delegation_tokens.decode, delegation_tokens.encode),
    Family(rf"{delegation_tokens.CHANGES}/token_change_",
        delegation_tokens.DelegationTokenChangeAddress, delegation_tokens.TokenChange,
        delegation_tokens.decode_change, delegation_tokens.encode_change),
    Family(rf"({'|'.join(acls.ROOTS.values())})/({'|'.join(acls.ResourceType)})/{_ACL_NAME}",
        acls.AclAddress, acls.Acls, acls.decode, acls.encode, acls.address_below),
    Family(rf"{acls.CHANGES[acls.PatternType.LITERAL]}/{_NAME}",
        acls.AclChangeAddress, acls.AclChange, acls.decode_change, acls.encode_change),
    Family(rf"{acls.CHANGES[acls.PatternType.PREFIXED]}/{_NAME}",
        acls.ExtendedAclChangeAddress, acls.AclChange, acls.decode_extended_change, acls.encode_change),
)
# fmt: on
# The rows have no annotation of their own: with this one, mypy would not check that a row's types fit together.
FAMILIES: Final[tuple[Family[Any, Any], ...]] = _ROWS

_DECODERS: dict[type[Address], Callable[[bytes], Value | None]] = {row.address: row.decode for row in FAMILIES}
# An epoch is an int while it runs.
_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    getattr(row.value, "__supertype__", row.value): row.encode for row in FAMILIES
}
_KINDS: dict[type[Address], str] = {row.address: row.kind for row in FAMILIES}
_FIXED: dict[str, Address] = {
    row.pattern: row.address() for row in FAMILIES if row.pattern and not row.address.__struct_fields__
}
_PATTERNS: tuple[tuple[re.Pattern[str], Callable[..., Address]], ...] = tuple(
    (re.compile(rf"{row.pattern}\Z"), row.made_from or row.address)
    for row in FAMILIES
    if row.pattern and row.address.__struct_fields__
)


def kind_of(address: Address) -> str:
    """The name of a znode's family in metrics.

    >>> kind_of(controller.ControllerEpochAddress())
    'ControllerEpoch'
    """
    return _KINDS[type(address)]


def address_of(path: str) -> Address | None:
    """The znode that a path below the chroot names; None for one that does not concern this controller.

    >>> address_of("/brokers/topics/orders/partitions/0/state")
    StateAddress(topic='orders', partition=0)
    >>> address_of("/consumers/g") is None, address_of("/brokers/ids/2147483648") is None
    (True, True)
    """
    fixed = _FIXED.get(path)
    if fixed is not None:
        return fixed
    for pattern, make in _PATTERNS:
        match = pattern.match(path)
        if match is not None:
            if match.lastgroup != "number":
                return make(*match.groups())
            *names, number = match.groups()
            return make(*names, int(number)) if int(number) <= INT32_MAX else None
    return None


def decode(address: Address, data: bytes) -> Value | Malformed | None:
    """The typed value of a znode's bytes; None for families that carry no data, and
    for a znode that was created without data.

    Bytes that Kafka would not write there become `Malformed`, never an exception: a fact about a bad znode is
    still a fact. An unexpected error gives its type as the reason.
    """
    decoder = _DECODERS[type(address)]
    try:
        return decoder(data)
    except Undecodable as error:
        return Malformed(one_line(str(error)), len(data))
    except Exception as error:  # any client may have written these bytes: they cost their znode, nothing else
        return Malformed(one_line(f"{type(error).__name__}: {error}"), len(data))


def encode(value: Value | None) -> bytes:
    """The bytes of a typed value; a znode without data is empty.

    >>> encode(ControllerEpoch(7))
    b'7'
    """
    return _ENCODERS[type(value)](value)

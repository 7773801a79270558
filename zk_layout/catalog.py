"""Which znode is it, and how are its bytes read and written? The only list of known znodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from zk_layout.bounds import INT32_MAX
from zk_layout.codec import Malformed, Undecodable, one_line
from zk_layout.ids import BrokerId, ControllerEpoch, PartitionId, RequestId, TopicName
from zk_layout.znodes import (
    acls,
    admin,
    brokers,
    configs,
    controller,
    controller_ids,
    delegation_tokens,
    features,
    notifications,
    partition_state,
    producer_ids,
    reassignment_status,
    reassignments,
    release,
    replica_deletions,
    replicas,
    switchover,
    topics,
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
    | features.FeatureAddress
    | replica_deletions.ReplicaDeletionsAddress
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
    | admin.LegacyReassignment
    | admin.PreferredElection
    | notifications.IsrChange
    | notifications.LogDirEvent
    | notifications.ConfigChange
    | configs.Config
    | features.Features
    | replica_deletions.ReplicaDeletions
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

_DECODERS: dict[type, Callable[[bytes], Value | None]] = {
    brokers.BrokerAddress: brokers.decode,
    topics.TopicAddress: topics.decode,
    partition_state.StateAddress: partition_state.decode,
    controller.ControllerAddress: controller.decode_claim,
    controller.ControllerEpochAddress: controller.decode_epoch,
    controller_ids.ControllerIdsAddress: controller_ids.decode,
    admin.LegacyReassignmentAddress: admin.decode_reassignment,
    admin.PreferredElectionAddress: admin.decode_election,
    notifications.IsrChangeAddress: notifications.decode_isr_change,
    notifications.LogDirEventAddress: notifications.decode_log_dir_event,
    notifications.ConfigChangeAddress: notifications.decode_config_change,
    configs.TopicConfigAddress: configs.decode,
    configs.DefaultBrokerConfigAddress: configs.decode,
    configs.UserConfigAddress: configs.decode_user,
    configs.UserClientConfigAddress: configs.decode_user,
    configs.ClientConfigAddress: configs.decode_user,
    features.FeatureAddress: features.decode,
    replica_deletions.ReplicaDeletionsAddress: replica_deletions.decode,
    producer_ids.ProducerIdBlockAddress: producer_ids.decode,
    reassignment_status.ReassignmentStatusAddress: reassignment_status.decode,
    reassignments.ReassignmentsAddress: reassignments.decode_keeper,
    reassignments.ReassignmentAddress: reassignments.decode,
    release.ReleaseAddress: release.decode,
    replicas.ReplicaAddress: replicas.decode,
    switchover.SwitchoverAddress: switchover.decode,
    reassignment_status.StatusRootAddress: reassignment_status.decode_root,
    delegation_tokens.DelegationTokenAddress: delegation_tokens.decode,
    delegation_tokens.DelegationTokenChangeAddress: delegation_tokens.decode_change,
    acls.AclAddress: acls.decode,
    acls.AclChangeAddress: acls.decode_change,
    acls.ExtendedAclChangeAddress: acls.decode_extended_change,
}

_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    brokers.Registration: brokers.encode,
    topics.Topic: topics.encode,
    partition_state.PartitionState: partition_state.encode,
    controller.ControllerClaim: controller.encode_claim,
    controller_ids.ControllerIds: controller_ids.encode,
    int: controller.encode_epoch,
    admin.LegacyReassignment: admin.encode_reassignment,
    admin.PreferredElection: admin.encode_election,
    notifications.IsrChange: notifications.encode_isr_change,
    notifications.LogDirEvent: notifications.encode_log_dir_event,
    notifications.ConfigChange: notifications.encode_config_change,
    configs.Config: configs.encode,
    features.Features: features.encode,
    replica_deletions.ReplicaDeletions: replica_deletions.encode,
    producer_ids.ProducerIdBlock: producer_ids.encode,
    reassignment_status.RequestStatus: reassignment_status.encode,
    reassignments.FolderKeeper: reassignments.encode_keeper,
    reassignments.Reassignment: reassignments.encode,
    release.Release: release.encode,
    replicas.Replica: replicas.encode,
    switchover.Switchover: switchover.encode,
    reassignment_status.StatusRoot: reassignment_status.encode_root,
    delegation_tokens.TokenTimes: delegation_tokens.encode,
    delegation_tokens.TokenChange: delegation_tokens.encode_change,
    acls.Acls: acls.encode,
    acls.AclChange: acls.encode_change,
    type(None): lambda _: b"",
}

_FIXED: dict[str, Address] = {
    address.path: address
    for address in (
        controller.ControllerAddress(),
        controller.ControllerEpochAddress(),
        controller_ids.ControllerIdsAddress(),
        admin.LegacyReassignmentAddress(),
        admin.PreferredElectionAddress(),
        features.FeatureAddress(),
        configs.DefaultBrokerConfigAddress(),
        producer_ids.ProducerIdBlockAddress(),
        reassignment_status.StatusRootAddress(),
        reassignments.ReassignmentsAddress(),
        release.ReleaseAddress(),
        switchover.SwitchoverAddress(),
        delegation_tokens.DelegationTokenChangeAddress(),
    )
}

# What Kafka takes, 249 letters of these, or 255 before 0.10: a broker names a folder after the topic, and one that it
# cannot make costs it the whole log directory.
_TOPIC = "([a-zA-Z0-9._-]{1,255})"
# Notifications and tokens: whoever deletes one writes its path, and what is in nobody's alphabet is in nobody's log.
_NAME = "([a-zA-Z0-9._=-]{1,255})"
_SPELT = r"(<default>|(?!\.{1,2}(?:/|\Z))[a-zA-Z0-9._%-]+)"  # any name of a user or client, by Kafka's Sanitizer
# Names of groups and transactional ids are anybody's: all that ZooKeeper takes in a path.
_ACL_NAME = r"((?!\.{1,2}\Z)[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+)"
_ACL_TYPE = f"({'|'.join(acls.ResourceType)})"
_NUMBER = "(?P<number>0|[1-9][0-9]{0,9})"  # as Kafka writes them into paths: without leading zeros


def _acl(pattern_type: acls.PatternType, resource_type: str, name: str) -> acls.AclAddress:
    return acls.AclAddress(acls.ResourcePattern(acls.ResourceType(resource_type), name, pattern_type))


_PATTERNS: tuple[tuple[re.Pattern[str], Callable[..., Address]], ...] = tuple(
    (re.compile(rf"{pattern}\Z"), build)
    for pattern, build in (
        (
            rf"{topics.ROOT}/{_TOPIC}/partitions/{_NUMBER}/state",
            lambda t, p: partition_state.StateAddress(TopicName(t), PartitionId(int(p))),
        ),
        (rf"{topics.ROOT}/{_TOPIC}", lambda t: topics.TopicAddress(TopicName(t))),
        (rf"{replicas.ROOT}/{_NUMBER}", lambda b: replicas.ReplicaAddress(BrokerId(int(b)))),
        (rf"{brokers.ROOT}/{_NUMBER}", lambda b: brokers.BrokerAddress(BrokerId(int(b)))),
        (
            rf"{topics.ROOT}/{_TOPIC}/partitions/{_NUMBER}",
            lambda t, p: partition_state.PartitionAddress(TopicName(t), PartitionId(int(p))),
        ),
        (rf"{topics.ROOT}/{_TOPIC}/partitions", lambda t: partition_state.PartitionsAddress(TopicName(t))),
        (rf"{notifications.ISR_CHANGES}/{_NAME}", notifications.IsrChangeAddress),
        (rf"{notifications.LOG_DIR_EVENTS}/{_NAME}", notifications.LogDirEventAddress),
        (rf"{notifications.CONFIG_CHANGES}/{_NAME}", notifications.ConfigChangeAddress),
        (rf"{admin.DELETE_TOPICS}/{_TOPIC}", lambda t: admin.TopicDeletionAddress(TopicName(t))),
        (rf"{configs.USERS}/{_SPELT}", configs.UserConfigAddress),
        (rf"{configs.USERS}/{_SPELT}/clients/{_SPELT}", configs.UserClientConfigAddress),
        (rf"{configs.CLIENTS}/{_SPELT}", configs.ClientConfigAddress),
        (rf"/config/topics/{_TOPIC}", lambda t: configs.TopicConfigAddress(TopicName(t))),
        (
            rf"{replica_deletions.ROOT}/{_TOPIC}",
            lambda t: replica_deletions.ReplicaDeletionsAddress(TopicName(t)),
        ),
        (
            rf"{reassignments.ROOT}/{_TOPIC}-{_NUMBER}",
            lambda t, p: reassignments.ReassignmentAddress(TopicName(t), PartitionId(int(p))),
        ),
        (
            rf"{reassignment_status.ROOT}/{_NUMBER}",
            lambda r: reassignment_status.ReassignmentStatusAddress(RequestId(int(r))),
        ),
        (rf"{delegation_tokens.ROOT}/{_NAME}", delegation_tokens.DelegationTokenAddress),
        (rf"{acls.ROOTS[acls.PatternType.LITERAL]}/{_ACL_TYPE}/{_ACL_NAME}", partial(_acl, acls.PatternType.LITERAL)),
        (rf"{acls.ROOTS[acls.PatternType.PREFIXED]}/{_ACL_TYPE}/{_ACL_NAME}", partial(_acl, acls.PatternType.PREFIXED)),
        (rf"{acls.CHANGES[acls.PatternType.LITERAL]}/{_NAME}", acls.AclChangeAddress),
        (rf"{acls.CHANGES[acls.PatternType.PREFIXED]}/{_NAME}", acls.ExtendedAclChangeAddress),
    )
)


def address_of(path: str) -> Address | None:
    """The znode that a path below the chroot names; None for one that this controller has no business with.

    >>> address_of("/brokers/topics/orders/partitions/0/state")
    StateAddress(topic='orders', partition=0)
    >>> address_of("/consumers/g") is None, address_of("/brokers/ids/2147483648") is None
    (True, True)
    """
    fixed = _FIXED.get(path)
    if fixed is not None:
        return fixed
    for pattern, build in _PATTERNS:
        match = pattern.match(path)
        if match is not None:
            is_sendable = int(match.groupdict().get("number", 0)) <= INT32_MAX
            return build(*match.groups()) if is_sendable else None
    return None


def decode(address: Address, data: bytes) -> Value | Malformed | None:
    """The typed value of a znode's bytes; None for families that carry no data, and
    where nothing was written into a znode created beforehand.

    Bytes that are not what Kafka writes there become `Malformed`, never an exception: a fact about a bad znode is
    still a fact. What a decoder did not think of says its type.
    """
    decoder = _DECODERS.get(type(address))
    if decoder is None:
        return None
    try:
        return decoder(data)
    except Undecodable as error:
        return Malformed(one_line(str(error)), len(data))
    except Exception as error:  # anybody may have written these bytes: they cost their znode, nothing else
        return Malformed(one_line(f"{type(error).__name__}: {error}"), len(data))


def encode(value: Value | None) -> bytes:
    """The bytes of a typed value; a znode without data is empty.

    >>> encode(ControllerEpoch(7))
    b'7'
    """
    return _ENCODERS[type(value)](value)

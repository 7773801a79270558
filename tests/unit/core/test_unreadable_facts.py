"""A znode that cannot be read is named once for each of its versions, whatever its family."""

from __future__ import annotations

import pytest

from controller.core.state.cluster import ClusterState
from zk_layout.catalog import Address
from zk_layout.codec import Malformed
from zk_layout.facts import Stat, present
from zk_layout.ids import BrokerId, PartitionId, RequestId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.admin import LegacyReassignmentAddress, PreferredElectionAddress
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.configs import DefaultBrokerConfigAddress, TopicConfigAddress
from zk_layout.znodes.controller_ids import ControllerIdsAddress
from zk_layout.znodes.delegation_tokens import DelegationTokenAddress
from zk_layout.znodes.features import FeatureAddress
from zk_layout.znodes.notifications import ConfigChangeAddress, IsrChangeAddress, LogDirEventAddress
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.pause import PauseAddress
from zk_layout.znodes.producer_ids import ProducerIdBlockAddress
from zk_layout.znodes.reassignment_status import ReassignmentStatusAddress
from zk_layout.znodes.reassignments import ReassignmentAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletionsAddress
from zk_layout.znodes.topics import TopicAddress

TOPIC, FIRST = TopicName("orders"), PartitionId(0)
FAMILIES: tuple[Address, ...] = (
    TopicAddress(TOPIC),
    StateAddress(TOPIC, FIRST),
    TopicConfigAddress(TOPIC),
    ReplicaDeletionsAddress(TOPIC),
    ReassignmentAddress(TOPIC, FIRST),
    BrokerAddress(BrokerId(1)),
    DefaultBrokerConfigAddress(),
    LegacyReassignmentAddress(),
    PreferredElectionAddress(),
    IsrChangeAddress("isr_change_1"),
    LogDirEventAddress("log_dir_event_1"),
    ConfigChangeAddress("config_change_1"),
    ProducerIdBlockAddress(),
    ReassignmentStatusAddress(RequestId(1)),
    FeatureAddress(),
    ControllerIdsAddress(),
    PauseAddress(),
    DelegationTokenAddress("token"),
)


@pytest.mark.parametrize("address", FAMILIES, ids=lambda address: type(address).__name__)
def test_each_version_is_named_once(address: Address) -> None:
    state = ClusterState()

    for version in (0, 0, 1, 1):
        zxid = Zxid(10 + version)
        state.apply(present(address, Malformed("not JSON", 3), Stat(Zxid(10), zxid, ZnodeVersion(version))))

    named = [path for path, reason in state.take_changes().malformed if reason.startswith("not JSON; ")]
    assert named == [address.path, address.path]

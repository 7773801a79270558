"""What is the request with this number called?

Source: Kafka's ApiKeys.
"""

from __future__ import annotations

_IN_ORDER = """
Produce Fetch ListOffsets Metadata LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown
OffsetCommit OffsetFetch FindCoordinator JoinGroup Heartbeat LeaveGroup SyncGroup DescribeGroups
ListGroups SaslHandshake ApiVersions CreateTopics DeleteTopics DeleteRecords InitProducerId
OffsetForLeaderEpoch AddPartitionsToTxn AddOffsetsToTxn EndTxn WriteTxnMarkers TxnOffsetCommit
DescribeAcls CreateAcls DeleteAcls DescribeConfigs AlterConfigs AlterReplicaLogDirs DescribeLogDirs
SaslAuthenticate CreatePartitions CreateDelegationToken RenewDelegationToken ExpireDelegationToken
DescribeDelegationToken DeleteGroups ElectLeaders IncrementalAlterConfigs AlterPartitionReassignments
ListPartitionReassignments OffsetDelete DescribeClientQuotas AlterClientQuotas
DescribeUserScramCredentials AlterUserScramCredentials Vote BeginQuorumEpoch EndQuorumEpoch
DescribeQuorum AlterPartition UpdateFeatures Envelope FetchSnapshot DescribeCluster DescribeProducers
BrokerRegistration BrokerHeartbeat UnregisterBroker DescribeTransactions ListTransactions
AllocateProducerIds ConsumerGroupHeartbeat ConsumerGroupDescribe ControllerRegistration
GetTelemetrySubscriptions PushTelemetry AssignReplicasToDirs ListClientMetricsResources
DescribeTopicPartitions
"""
_NAMES = dict(enumerate(_IN_ORDER.split()))
LAST_KEY = max(_NAMES)


def api_name(api_key: int) -> str:
    """Its name and number; only the number for one that is not known.

    >>> api_name(45), api_name(999)
    ('AlterPartitionReassignments (45)', 'api key 999')
    """
    name = _NAMES.get(api_key)
    return f"api key {api_key}" if name is None else f"{name} ({api_key})"

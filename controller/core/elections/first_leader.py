"""Who leads a partition that never had a leader?

Source: Kafka's ZkPartitionStateMachine.initializeLeaderAndIsrForPartitions.
"""

from __future__ import annotations

from controller.core.steps.change import Case, Change, Next, listed
from controller.core.view import Cluster
from zk_layout.ids import LeaderEpoch
from zk_layout.znodes.partition_state import PartitionState


def next_step(case: Case, cluster: Cluster) -> Next:
    """The first online replica leads, all online ones are in sync: there is no data yet to be behind on.

    None while no replica is online, or while a broker's id is still to be put in our place.
    """
    if case.state is not None or cluster.own_id in case.assignment.target:
        return None
    online = tuple(r for r in case.assignment.replicas if cluster.is_online(r, case.at))
    if not online:
        return None
    state = PartitionState(online[0], LeaderEpoch(0), cluster.controller_epoch, online)
    return Change(f"new partition {case.at}: {online[0]} leads, ISR {listed(online)}", state=state)

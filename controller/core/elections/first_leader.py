"""Who leads a partition that never had a leader?

Source: Kafka's ZkPartitionStateMachine.initializeLeaderAndIsrForPartitions.
"""

from __future__ import annotations

from controller.core.messages.effects import Notice
from controller.core.state.view import Cluster
from controller.core.steps.change import Case, Change, Next, listed
from controller.core.steps.invariants import Violated
from zk_layout.ids import LeaderEpoch
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import TopicAddress


def next_step(case: Case, cluster: Cluster) -> Next:
    """The first online replica leads, and all online ones are in sync: there are no records yet to lack.

    None while no replica is online, and while the topic's znode cannot be read: its replicas may have changed, and
    without a state there is no version that such a change would have raised.

    Raises:
        Violated: the topic's znode names a broker twice, as no request can; no state may do so.
    """
    if case.state is not None or cluster.may_not_read(TopicAddress(case.at.topic)):
        return None
    replicas = case.assignment.replicas
    if len({*replicas}) < len(replicas):
        found = (
            f"{TopicAddress(case.at.topic).path} gives {case.at} the replicas {listed(replicas)}, with a broker twice"
        )
        raise Violated(f"{found}: reassign it to replicas that name each broker once")
    online = tuple(r for r in case.assignment.replicas if cluster.is_online(r, case.at))
    if not online:
        return None
    state = PartitionState(online[0], LeaderEpoch(0), cluster.controller_epoch, online)
    why = f"new partition {case.at}: {online[0]} leads, ISR {listed(online)}"
    return Change(why, state=state, notice=_missing(case, cluster))


def _missing(case: Case, cluster: Cluster) -> Notice | None:
    """Warn of a partition that begins with fewer replicas than assigned."""
    ids = tuple(r for r in case.assignment.replicas if r in cluster.controllers)
    if not ids:
        return None
    what = f"{case.at} lacks {len(ids)} of {len(case.assignment.replicas)} replicas until there are brokers for them"
    return Notice("missing replicas", f"{what}: {listed(ids)} are ids of controllers, which host nothing")

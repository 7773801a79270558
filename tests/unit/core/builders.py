"""How are cases for the rules written down briefly?"""

from __future__ import annotations

from controller.core.cluster import Cluster, TopicView
from controller.core.rules.change import Case
from zk_layout.facts import Stat, present
from zk_layout.ids import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionId,
    Replicas,
    TopicName,
    TopicPartition,
    ZnodeVersion,
    Zxid,
)
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.topics import Assignment

OWN = BrokerId(900)
EPOCH = ControllerEpoch(7)
AT = TopicPartition(TopicName("orders"), PartitionId(0))


def ids(text: str) -> Replicas:
    """`"1,2"` as replicas."""
    return tuple(BrokerId(int(part)) for part in text.split(",") if part.strip())


def cluster(live: str, *, unclean: bool = False, shutting_down: str = "") -> Cluster:
    """A cluster in which these brokers are registered, besides ourselves."""
    made = Cluster(OWN, EPOCH, unclean_election=unclean)
    for broker in (*ids(live), OWN):
        registration = Registration((Endpoint("PLAINTEXT", "127.0.0.1", 9000 + broker),))
        stat = Stat(Zxid(broker), Zxid(broker), ZnodeVersion(1))
        made.apply(present(BrokerAddress(broker), registration, stat))
    made.shutting_down.update(ids(shutting_down))
    return made


def state(leader: int, isr: str, leader_epoch: int = 3, controller_epoch: int = 6) -> PartitionState:
    """A partition state; by default one that an earlier controller wrote."""
    return PartitionState(BrokerId(leader), LeaderEpoch(leader_epoch), ControllerEpoch(controller_epoch), ids(isr))


def written(leader: int, isr: str, leader_epoch: int = 4) -> PartitionState:
    """The state a rule decided on: by default one leader epoch after `state`."""
    return PartitionState(BrokerId(leader), LeaderEpoch(leader_epoch), EPOCH, ids(isr))


def case(
    replicas: str,
    leader: int | None = None,
    isr: str = "",
    *,
    adding: str = "",
    removing: str = "",
    owed: str = "",
    confirmed: str = "",
    is_untold: bool = False,
    is_patience_over: bool = False,
    is_gathering: bool = False,
) -> Case:
    """One partition of the topic `orders`; without a leader it never had one."""
    return Case(
        AT,
        TopicView(AT.topic),
        Assignment(ids(replicas), ids(adding), ids(removing)),
        None if leader is None else state(leader, isr),
        is_untold=is_untold,
        confirmed=frozenset(ids(confirmed)),
        is_patience_over=is_patience_over,
        is_gathering=is_gathering,
        owed=ids(owed),
    )

"""What if a broker's own controller rules for a moment? It claims, elects a little, tells everybody, and goes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from controller.core.commands import LeaderAndIsr, LiveBroker, PartitionView, UpdateMetadata
from controller.core.effects import Tell
from tests.simulation.zookeeper import MakeNode, Operation, RemoveNode, SetData
from zk_layout import catalog
from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, SessionId, TopicPartition
from zk_layout.znodes.admin import DELETE_TOPICS
from zk_layout.znodes.brokers import Endpoint
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.partition_state import PartitionState, StateAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletions, ReplicaDeletionsAddress

if TYPE_CHECKING:
    from tests.simulation.world import World

CLAIM, EPOCH = "/controller", "/controller_epoch"


def rule_briefly(world: World, broker: BrokerId, for_s: float) -> None:
    """A broker takes `/controller`, whoever held it, and gives it up again."""
    zookeeper = world.zookeeper
    session = zookeeper.open_session()
    epoch = ControllerEpoch(int(zookeeper.nodes[EPOCH].data) + 1)
    operations: list[Operation] = [SetData(EPOCH, str(epoch).encode())]
    if CLAIM in zookeeper.nodes:
        operations.append(RemoveNode(CLAIM))
    operations.append(MakeNode(CLAIM, catalog.encode(ControllerClaim(broker)), is_ephemeral=True))
    zookeeper.multi(session, operations)
    world.say("native", f"broker {broker} takes /controller with epoch {epoch} for {for_s:.2f}s")
    known = [at for at in world.checker.states if f"{DELETE_TOPICS}/{at.topic}" not in zookeeper.nodes]
    views = [raised(world, session, at, epoch) for at in known if world.random.random() < 0.5]
    tell(world, broker, epoch, views)
    move_back(world, session)
    world.clock.after(for_s, lambda: world.expire(session))


def move_back(world: World, session: SessionId) -> None:
    """What a move here and back leaves: replicas that our own controllers have noted to be deleted host it again."""
    zookeeper = world.zookeeper
    for name, topic in world.checker.topics.items():
        path = ReplicaDeletionsAddress(name).path
        if path in zookeeper.nodes or f"{DELETE_TOPICS}/{name}" in zookeeper.nodes:
            continue
        if topic.partitions and world.random.random() < 0.3:
            number = world.random.choice(sorted(topic.partitions))
            owed = ReplicaDeletions({number: topic.partitions[number].replicas}, topic.topic_id)
            zookeeper.multi(session, [MakeNode(path, catalog.encode(owed))])
            world.say("native", f"has moved {name}-{number} back to the brokers that owe its deletion")


def raised(world: World, session: SessionId, at: TopicPartition, epoch: ControllerEpoch) -> PartitionView:
    """The same leader in the next leader epoch, as a native controller writes it when it changes anything."""
    node = world.zookeeper.nodes[StateAddress(at.topic, at.partition).path]
    held = world.checker.states[at]
    state = PartitionState(held.leader, LeaderEpoch(held.leader_epoch + 1), epoch, held.isr, held.leader_recovery_state)
    operation = SetData(StateAddress(at.topic, at.partition).path, catalog.encode(state), node.version)
    world.zookeeper.multi(session, [operation])
    topic = world.checker.topics[at.topic]
    assignment = topic.partitions[at.partition]
    return PartitionView(
        at.topic,
        topic.topic_id,
        at.partition,
        epoch,
        state.leader,
        state.leader_epoch,
        state.isr,
        PartitionEpoch(node.version),
        state.leader_recovery_state,
        assignment.replicas,
        assignment.adding,
        assignment.removing,
    )


def tell(world: World, ruler: BrokerId, epoch: ControllerEpoch, views: list[PartitionView]) -> None:
    """Everybody who lives hears of it, sooner or later."""
    registered = [b for b in world.brokers.values() if f"/brokers/ids/{b.broker}" in world.zookeeper.nodes]
    live = tuple(LiveBroker(b.broker, (Endpoint("PLAINTEXT", b.name, 9092),)) for b in registered)
    for broker in registered:
        if broker.model is None:
            continue
        hosted = tuple(v for v in views if broker.broker in v.replicas)
        commands = (UpdateMetadata(tuple(views), live), LeaderAndIsr(hosted, (), live))
        tells = [Tell(broker.broker, broker.model.broker_epoch, epoch, command) for command in commands]
        world.clock.after(world.network.delay(), partial(deliver, world, ruler, tells))


def deliver(world: World, ruler: BrokerId, tells: list[Tell]) -> None:
    """What was told arrives, in order."""
    for told in tells:
        world.deliver(ruler, told)

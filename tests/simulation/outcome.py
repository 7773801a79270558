"""Did everything end as it should, once the faults have stopped?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.lab.broker_model import BrokerModel
from tests.simulation.broken import Broken, hold
from tests.simulation.clients import LEGACY, PREFERRED
from tests.simulation.controllers import Role
from tests.simulation.refusals import Concern
from zk_layout.ids import NO_LEADER, BrokerId, Replicas, TopicName, TopicPartition
from zk_layout.znodes import replica_deletions
from zk_layout.znodes.admin import DELETE_TOPICS
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.replica_deletions import ReplicaDeletionsAddress
from zk_layout.znodes.topics import Assignment

if TYPE_CHECKING:
    from tests.simulation.world import World


def check_outcome(world: World) -> None:
    """Check every promise about the end.

    Raises:
        Broken: one of them does not hold.
    """
    leading = [c for c in world.controllers.values() if c.role is Role.LEADING]
    if len(leading) != 1:
        raise Broken(f"{len(leading)} controllers lead in the end")
    if world.checker.answers.unanswered:
        raise Broken(f"never answered: {world.checker.answers.unanswered}")
    live = {b.broker: b.model for b in world.brokers.values() if b.model is not None}
    _topics_are_at_rest(world, leading[0].own_id, live)
    for broker, model in live.items():
        _has_no_strays(world, broker, model)
        _knows_who_lives(world, model, leading[0].own_id, live)
        for at in model.led():
            world.checker.records.leads_with_everything(model, at)
    _nothing_is_left_over(world)
    leader = leading[0].own_id
    for wrong in (world.move_requests.outcome(), world.folder.outcome(leader), world.wall_clocks.outcome(leader)):
        hold(wrong)
    hold(world.limits.outcome())
    hold(world.throttles.outcome())


def _topics_are_at_rest(world: World, leader: BrokerId, live: dict[BrokerId, BrokerModel]) -> None:
    for name, topic in world.checker.topics.items():
        if name not in world.checker.unwanted:
            for number, assignment in topic.partitions.items():
                _is_at_rest(world, TopicPartition(name, number), assignment, live)
        elif not world.refusals.excuse(name) & Concern.DELETING:
            _waits_for_somebody(world, name, leader, live)


def _is_at_rest(world: World, at: TopicPartition, assignment: Assignment, live: dict[BrokerId, BrokerModel]) -> None:
    able = {b: m for b, m in live.items() if not m.is_offline(at) and not _has_log_of_another(world, b, at)}
    if not world.refusals.excuses(at, Concern.LEADING):
        _is_led(world, at, assignment, able)
        _is_known(world, at, assignment, live, able)
    if not world.refusals.excuses(at, Concern.MOVING):
        _does_not_move(world, at, assignment, able)


def _waits_for_somebody(world: World, name: TopicName, leader: BrokerId, live: dict[BrokerId, BrokerModel]) -> None:
    """An unfinished deletion waits for a broker that is down, and clients do not see the topic.

    No term can know that a broker still has a former topic of that name: as under Kafka's own controller it
    could not be reached at the deletion, and the next term began before it could.
    """
    partitions = world.checker.topics[name].partitions
    replicas = {r for a in partitions.values() for r in a.replicas}
    node = world.zookeeper.nodes.get(ReplicaDeletionsAddress(name).path)
    owed = [] if node is None else replica_deletions.decode(node.data).replicas.values()
    able = {b for b, m in live.items() if not any(at.topic == name for at in (*m.offline, *m.unmade))}
    if not replicas.union(*owed) - able - {leader}:
        raise Broken(f"topic {name} is still there, though every broker that has a replica of it lives")
    for broker, model in live.items():
        if any(at.topic == name and at.partition in partitions for at in model.cache):
            raise Broken(f"broker {broker} still knows of topic {name}, which is being deleted")


def _has_log_of_another(world: World, broker: BrokerId, at: TopicPartition) -> bool:
    """Whether a broker has kept the log of an earlier topic, whose replicas were overwritten by hand before it went.

    It refuses this one, until a person removes that log.
    """
    log, topic = world.brokers[broker].disk.get(at), world.checker.topics[at.topic]
    return at in world.checker.edited and log is not None and log.topic_id not in (None, topic.topic_id)


def _is_led(world: World, at: TopicPartition, assignment: Assignment, live: dict[BrokerId, BrokerModel]) -> None:
    state = world.checker.states.get(at)
    if state is None:
        if any(r in live for r in assignment.replicas):
            raise Broken(f"{at} was never given a leader, though of {assignment.replicas} some live")
        return
    if state.leader in world.brokers and _has_log_of_another(world, state.leader, at):
        return  # it refuses for good, as Kafka's brokers do: no controller knows of that log
    if state.leader not in live and any(r in live for r in state.isr):
        raise Broken(f"{at} has no live leader, though of its ISR {list(state.isr)} some live: {state}")
    if state.leader not in live and state.leader != NO_LEADER:
        raise Broken(f"{at} is still said to be led by {state.leader}, which cannot: {state}")
    able = [r for r in assignment.original if r in live and at in live[r].disk]
    may_be_unclean = world.plan.unclean_election and not world.refusals.excuses(at, Concern.ELECTING_UNCLEANLY)
    if state.leader == NO_LEADER and may_be_unclean and able:
        raise Broken(f"{at} has no leader, though {able} may be elected without being in sync: {state}")
    if state.leader != NO_LEADER and state.leader in live:
        if not live[state.leader].leads(at):
            raise Broken(f"broker {state.leader} does not know that it leads {at}")
        alive_replicas = [r for r in _wanted(world, at, assignment, live[state.leader]) if r in live]
        missing = [r for r in alive_replicas if r not in state.isr]
        is_stuck = at in world.checker.unheard and not world.plan.traits.uses_alter_partition
        is_hung_up_on = world.sizes.is_misconfigured and world.sizes.is_too_large(at.topic)
        if (
            missing and not is_stuck and not is_hung_up_on
        ):  # a leader that writes the state itself and knows another version
            raise Broken(f"live replicas {missing} of {at} are not in its ISR {list(state.isr)}")


def _wanted(world: World, at: TopicPartition, assignment: Assignment, leader: BrokerModel) -> Replicas:
    """The replicas of a partition with a live leader: what another process wrote over them does not count.

    If that may not be put right, they are those that the leader was sent.
    """
    if at not in world.checker.edited or not world.refusals.excuses(at, Concern.MOVING) or not leader.leads(at):
        return assignment.target
    view = leader.replicas[at].view
    return tuple(r for r in view.replicas if r not in view.removing)


def _does_not_move(world: World, at: TopicPartition, assignment: Assignment, live: dict[BrokerId, BrokerModel]) -> None:
    state = world.checker.states.get(at)
    can_finish = all(r in live for r in assignment.target) and (state is None or state.leader in live)
    if assignment.is_moving and can_finish:
        raise Broken(f"{at} still moves, though its target lives: {assignment} {state}")
    known = {
        *world.clients.recorded_controllers(),
        *(c.own_id for c in world.controllers.values() if c.role is Role.LEADING),
    }
    is_anybody_free = not live.keys() <= set(assignment.target)
    if not known.isdisjoint(assignment.target) and is_anybody_free:
        raise Broken(f"{at} is still placed on a controller: {assignment}")


def _is_known(
    world: World,
    at: TopicPartition,
    assignment: Assignment,
    live: dict[BrokerId, BrokerModel],
    able: dict[BrokerId, BrokerModel],
) -> None:
    state = world.checker.states.get(at)
    if state is None:
        return
    version = world.zookeeper.nodes[f"/brokers/topics/{at.topic}/partitions/{at.partition}/state"].version
    for broker, model in live.items():
        view = model.cache.get(at)
        if view is None:
            raise Broken(f"broker {broker} has never heard of {at}")
        announced = (
            PartitionState(view.leader, view.leader_epoch, view.controller_epoch, view.isr, view.leader_recovery_state),
            version if at in world.checker.unheard else view.partition_epoch,
        )
        # If the topic's znode may not be written any more, the replicas are those announced before.
        is_listed = view.replicas in (assignment.replicas, assignment.target)
        if announced != (state, version) or not (is_listed or world.refusals.excuses(at, Concern.MOVING)):
            raise Broken(f"broker {broker} knows {view}, ZooKeeper has {state} v{version} {assignment}")
        # Without a live leader a replica keeps its log, and its last epoch.
        if state.leader in live and broker in _wanted(world, at, assignment, live[state.leader]) and broker in able:
            epoch = model.replicas[at].view.leader_epoch if at in model.replicas else None
            if epoch != state.leader_epoch:
                raise Broken(f"broker {broker} is in leader epoch {epoch} of {at}, not {state.leader_epoch}")


def _has_no_strays(world: World, broker: BrokerId, model: BrokerModel) -> None:
    for at in model.hosted().keys() - model.offline.keys():
        topic = world.checker.topics.get(at.topic)
        if at in world.checker.edited or world.refusals.excuse(at.topic) & (Concern.MOVING | Concern.DELETING):
            continue  # a successor between such a write and its end finds no trace of the dropped replica
        if topic is None or at.topic in world.checker.unwanted or broker not in topic.partitions[at.partition].replicas:
            raise Broken(f"broker {broker} keeps a stray replica of {at}")


def _knows_who_lives(world: World, model: BrokerModel, leader: BrokerId, live: dict[BrokerId, BrokerModel]) -> None:
    if sorted(model.alive) != sorted([*live, leader]):
        raise Broken(f"broker {model.broker} believes that {sorted(model.alive)} live, not {sorted([*live, leader])}")
    if model.controller != leader:
        raise Broken(f"broker {model.broker} takes {model.controller} for the controller, not {leader}")


def _nothing_is_left_over(world: World) -> None:
    nodes = world.zookeeper.nodes
    left = [p for p in nodes if p in (LEGACY, PREFERRED) or p.startswith("/isr_change_notification/")]
    for parent in ("/config/topics", DELETE_TOPICS, replica_deletions.ROOT):
        gone = [name for name in nodes[parent].children if name not in world.checker.topics]
        if gone:
            raise Broken(f"left over in {parent} of topics that are gone: {gone}")
    waiting = {name for name in world.checker.topics if world.refusals.excuse(name) & Concern.DELETING}
    stale = [n for n in nodes[DELETE_TOPICS].children if n not in world.checker.unwanted and n not in waiting]
    if stale:
        raise Broken(f"requests that mean no topic of today were not removed: {stale}")
    moving = [t for t in world.checker.topics.values() if any(a.is_moving for a in t.partitions.values())]
    is_held_up = world.sizes.excuses_legacy() or world.sizes.is_misconfigured or world.refusals.is_something_left
    entries = world.limits.legacy_entries().items()
    may_be_left = bool(moving) or is_held_up or any(world.limits.may_wait(at, to) for at, to in entries)
    if left and not (may_be_left and left == [LEGACY]):
        raise Broken(f"left over in ZooKeeper: {left}")
    live = {b.broker for b in world.brokers.values() if b.is_up}
    for path, node in nodes.items():
        parent, _, name = path.rpartition("/")
        if parent == replica_deletions.ROOT and name not in world.checker.unwanted:
            held = replica_deletions.decode(node.data)
            owed = {
                b
                for number, replicas in held.replicas.items()
                for b in replicas
                if b in live and not world.brokers[b].is_offline(TopicPartition(TopicName(name), number))
            }
            if owed and not world.refusals.excuse(TopicName(name)) & Concern.MOVING:
                raise Broken(f"{path} still names live brokers {sorted(owed)}")

"""What does a move wait for? In sentences, and in numbers."""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.reassignment.places import (
    ABSENT,
    AWAY,
    CHANGES,
    CLUSTER,
    DISKS,
    HOURS,
    INTO,
    MIN_ISR,
    OUT,
    RACK,
    RECENT,
    ROOM,
    THE_CLUSTER,
    ZNODE,
    Place,
    Room,
)
from controller.core.state.waiting_znodes import Door
from controller.core.steps.change import listed
from zk_layout.ids import Replicas, TopicPartition
from zk_layout.znodes.admin import LegacyReassignmentAddress
from zk_layout.znodes.reassignments import ROOT
from zk_layout.znodes.waiting_moves import WaitingMove

PAUSED = "paused"
STATES = (ABSENT, RECENT, DISKS, MIN_ISR, AWAY, HOURS, CHANGES)
MEASURES = {
    CLUSTER: "waiting_moves_cluster",
    INTO: "waiting_moves_into",
    OUT: "waiting_moves_out",
    RACK: "waiting_moves_rack",
    ZNODE: "waiting_moves_znode",
    CHANGES: "waiting_moves_changes",
    ABSENT: "waiting_moves_absent",
    MIN_ISR: "waiting_moves_min_isr",
    AWAY: "waiting_moves_brokers",
    RECENT: "waiting_moves_receivers",
    DISKS: "waiting_moves_disks",
    HOURS: "waiting_moves_windows",
    PAUSED: "waiting_moves_paused",
}


def reason(obstacle: Place | None, room: Room, state: str) -> str:
    """What a move waits for that stands behind this place, or behind none; `state` is what is wrong elsewhere."""
    if obstacle is not None and obstacle.kind in (MIN_ISR, AWAY):
        return state or "whether all partitions are in sync is not known yet"
    if obstacle is not None and obstacle.kind == HOURS:
        return "none begins outside of reassignment.moves.windows"
    if obstacle is not None and obstacle.kind == ABSENT:
        return f"broker {obstacle.broker} is not alive"
    if obstacle is not None and obstacle.kind == CHANGES:
        return "no more changes are allowed in this second"
    if obstacle is not None and obstacle.kind == ZNODE:
        return f"the znode of topic {obstacle.name} has room for {room.limit(obstacle)} moves at once"
    if obstacle is not None and obstacle.kind == RACK:
        return f"{room.taken(obstacle)} of {room.limit(obstacle)} moves into rack {obstacle.name} are in flight"
    if obstacle is not None and obstacle.kind in (INTO, OUT):
        way = "into" if obstacle.kind == INTO else "out of"
        return f"{room.taken(obstacle)} of {room.limit(obstacle)} moves {way} broker {obstacle.broker} are in flight"
    if room.is_full(THE_CLUSTER):
        return f"{room.taken(THE_CLUSTER)} of {room.limit(THE_CLUSTER)} moves are in flight"
    return "others have waited longer"


def overtaken(at: TopicPartition, move: WaitingMove, target: Replicas) -> str:
    """Why a move is dropped whose partition someone else has moved."""
    what = f"{at} no longer waits to move from {listed(move.former)} to {listed(move.to)}"
    return f"{what}: meanwhile another process has moved it to {listed(target)}"


def gave_up(at: TopicPartition, move: WaitingMove, reason: str) -> str:
    """Why a move is dropped that has waited too long."""
    after = "reassignment.moves.give.up.ms"
    if move.give_up_ms is not None:
        after = f"the {move.give_up_ms / 1000:g} s that its request gave it"
    return f"{at} gives up waiting to move to {listed(move.to)} after {after}: {reason}"


def asked_again(at: TopicPartition, move: WaitingMove) -> str:
    """Why a waiting move is written again."""
    return f"{at} was asked again to move to {listed(move.to)}: it waits on, as the later request says"


def on_its_way(at: TopicPartition, to: Replicas) -> str:
    """Why a move is dropped that needs nothing more."""
    return f"{at} no longer waits to move to {listed(to)}: it is there, or on its way"


def superseded(at: TopicPartition, move: WaitingMove, target: Replicas, door: Door) -> str:
    """Why a client's move is dropped that a znode overrules."""
    znode = LegacyReassignmentAddress().path if door is Door.LEGACY else ROOT
    return f"{at} no longer waits to move to {listed(move.to)}: {znode} asks for {listed(target)}"


def figures(sizes: Mapping[Place, int], room: Room, aside: int, *, is_paused: bool) -> dict[str, float]:
    """How many moves wait, by what they wait for. What stands before a place with room waits for the cluster's."""
    found = dict.fromkeys(MEASURES, 0)
    found[CLUSTER] = aside
    for place, size in sizes.items():
        is_own = place.kind in STATES or (place.kind in ROOM and room.is_full(place))
        found[PAUSED if is_paused else place.kind if is_own else CLUSTER] += size
    return {MEASURES[what]: count for what, count in found.items()}

"""Stopping moves: which of them, how, and what happens to their throttles?

Source: Kafka's ReassignPartitionsCommand, `cancelAssignment`; KIP-455, first revision, "gentler cancellation".
"""

from __future__ import annotations

from msgspec import Struct

from controller.reassign.answer import Answer
from controller.reassign.cluster import Cluster, Listing, Mode
from controller.reassign.executing import Clock, by_partition, move_directories, read_plan_file
from controller.reassign.listing import NOT_OURS
from controller.reassign.plans import Plan, listed, plural
from controller.reassign.refusals import Declined, Refused
from controller.reassign.selecting import Selection, selected
from controller.reassign.throttles import unthrottle
from controller.reassign.verifying import clear_throttles
from zk_layout.ids import TopicPartition


class Cancellation(Struct, frozen=True):
    """What to cancel, and how."""

    selection: Selection
    mode: Mode | None = None
    preserve_throttles: bool = False
    timeout_ms: int = 10_000


def cancel(cluster: Cluster, asked: Cancellation, answer: Answer, clock: Clock) -> None:
    """Cancel the selected moves.

    Raises:
        Stopped: nothing was cancelled, or some partitions were refused.
    """
    listing = cluster.listing(selected(cluster, asked.selection))
    demand_mode(listing, asked.mode)
    plan = Plan(()) if asked.selection.plan_file is None else read_plan_file(asked.selection.plan_file)
    moving = sorted(listing.moves)
    if moving:
        _cancel(cluster, moving, asked.mode, answer)
    elif asked.selection.is_everything:
        answer.say("No partition reassignments found.")
    else:
        answer.say("None of the specified partition reassignments are active.")
    answer.document["cancelled"] = [{"topic": at.topic, "partition": at.partition} for at in moving]
    if asked.selection.plan_file is not None:
        found = cluster.directories(plan.directories)
        back = {replica: its.current for replica, its in found.items() if its.current and its.future}
        if not back:
            answer.say("None of the specified partition moves are active.")
        move_directories(cluster, back, asked.timeout_ms, answer, clock)
    if not asked.preserve_throttles:
        _clear(cluster, plan, moving, answer)


def demand_mode(listing: Listing, mode: Mode | None) -> None:
    """Refuse options that only our controller supports, before any request.

    Raises:
        Refused: the controller is Kafka's own.
    """
    if mode is None or listing.controller is not None:
        return
    if mode is Mode.GENTLE:
        raise Refused(NOT_OURS.format(what="--gentle", instead="without it, copies that have arrived are dropped too"))
    raise Refused(
        NOT_OURS.format(what="--force", instead="remove it: that controller never checks what a cancellation stops")
    )


def _cancel(cluster: Cluster, moving: list[TopicPartition], mode: Mode | None, answer: Answer) -> None:
    answered = cluster.alter(dict.fromkeys(moving), mode)
    done = [at for at in moving if at not in answered.refused]
    if done:
        answer.say(f"Successfully cancelled partition reassignment{plural(done)} for: {listed(done)}")
    if answered.request_id is not None:
        answer.document["request_id"] = answered.request_id
    if answered.refused:
        answer.document["cancelled"] = [{"topic": at.topic, "partition": at.partition} for at in done]
        answer.document["refused"] = {str(at): reason for at, reason in sorted(answered.refused.items())}
        subject = f"Error cancelling partition reassignment{plural(list(answered.refused))} for:"
        raise Declined("\n".join([subject, *by_partition(answered.refused)]))


def _clear(cluster: Cluster, plan: Plan, cancelled: list[TopicPartition], answer: Answer) -> None:
    """With a file, clear all throttles as Kafka's tool does; without one, other moves keep their rate."""
    if plan.partitions:
        brokers = {broker for target in plan.targets.values() for broker in target}
        clear_throttles(cluster, brokers, {at.topic for at in plan.targets}, answer)
    elif cancelled:
        still = cluster.listing().moves
        topics = {at.topic for at in cancelled} - {at.topic for at in still}
        if still:
            cluster.configure(unthrottle((), topics))
            answer.warn("brokers' throttles are kept because other moves are in progress")
        else:
            clear_throttles(cluster, (), topics, answer)

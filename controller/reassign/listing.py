"""Which moves are in progress?

Source: Kafka's ReassignPartitionsCommand, `curReassignmentsToString`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from controller.reassign.answer import Answer
from controller.reassign.cluster import Cluster, Listing, Move
from controller.reassign.plans import listed
from controller.reassign.refusals import Refused
from controller.reassign.selecting import Selection, selected
from zk_layout.codec import one_line
from zk_layout.ids import TopicPartition
from zk_layout.znodes.move_records import LONGEST_REASON_BYTES
from zk_layout.znodes.reassignment_status import RequestStatus

NOT_OURS = "{what} needs kafka-zk-controller: this cluster is led by Kafka's own controller; {instead}"


def show_moves(cluster: Cluster, selection: Selection, request_id: int | None, answer: Answer) -> None:
    """Print every selected move, in order; with a request's id only its own, and the state of that request."""
    listing = cluster.listing(selected(cluster, selection), request_id)
    moves = listing.moves
    if request_id is not None:
        request = demand_request(listing, request_id)
        moves = {at: move for at, move in moves.items() if move.progress and move.progress.request_id == request_id}
        answer.document["request"] = msgspec.to_builtins(request)
        answer.say(request_sentence(request))
    if moves:
        answer.say("Current partition reassignments:")
    else:
        answer.say("No partition reassignments found.")
    for at, move in sorted(moves.items()):
        answer.say(move_sentence(at, move))
        if move.progress is not None and move.progress.waits_for:
            answer.say(f"    {move.progress.stage}: {move.progress.waits_for}")
    answer.document["controller"] = listing.controller
    answer.document["reassignments"] = [as_document(at, move) for at, move in sorted(moves.items())]


def demand_request(listing: Listing, request_id: int) -> RequestStatus:
    """The status of a request.

    Raises:
        Refused: the controller knows no ids, or not this one.
    """
    if listing.controller is None:
        raise Refused(NOT_OURS.format(what="--request", instead="remove it"))
    if listing.request is None:
        raise Refused(
            f"Request {request_id} is not known: no request has had this id, or its status is older than "
            "reassign.partitions.status.min.retention.ms"
        )
    return listing.request


def move_sentence(at: TopicPartition, move: Move) -> str:
    """In the words of Kafka's tool.

    >>> from zk_layout.ids import PartitionId, TopicName
    >>> move_sentence(TopicPartition(TopicName("t"), PartitionId(0)), Move((3, 1), (3,)))
    't-0: replicas: 3,1. adding: 3.'
    """
    adding = f" adding: {listed(move.adding)}." if move.adding else ""
    removing = f" removing: {listed(move.removing)}." if move.removing else ""
    return f"{at}: replicas: {listed(move.replicas)}.{adding}{removing}"


def as_document(at: TopicPartition, move: Move) -> dict[str, Any]:
    """One move in JSON."""
    return {
        "topic": at.topic,
        "partition": at.partition,
        "replicas": list(move.replicas),
        "adding": list(move.adding),
        "removing": list(move.removing),
        "progress": None if move.progress is None else msgspec.to_builtins(move.progress),
    }


def request_sentence(request: RequestStatus) -> str:
    """The state of a request, in one line."""
    counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(request.counts.items())) or "nothing to do"
    requested = datetime.fromtimestamp(request.requested_ms / 1000).astimezone().isoformat(sep=" ", timespec="seconds")
    why = "" if not request.reason else f", reason {one_line(request.reason, LONGEST_REASON_BYTES)!r}"
    patience = patience_of(None if request.give_up_ms is msgspec.UNSET else request.give_up_ms)
    return f"Request {request.request_id} ({request.origin}, {requested}{why}{patience}): {counts}"


def patience_of(give_up_ms: int | None) -> str:
    """How long a request lets its moves wait to begin, behind what else is said of it.

    >>> patience_of(None), patience_of(0), patience_of(90_000)
    ('', ', waits however long', ', gives up waiting after 90 s')
    """
    if give_up_ms is None:
        return ""
    return f", gives up waiting after {give_up_ms / 1000:g} s" if give_up_ms else ", waits however long"

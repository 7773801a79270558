"""What moves now?

Source: Kafka's ReassignPartitionsCommand, `curReassignmentsToString`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from controller.reassign.answer import Answer
from controller.reassign.cluster import Cluster, Listing, Move
from controller.reassign.plans import listed
from controller.reassign.refusals import Refused
from controller.reassign.selecting import Selection, selected
from zk_layout.ids import TopicPartition

NOT_OURS = "{what} needs kafka-zk-controller: this cluster is led by Kafka's own controller; {instead}"


def show_moves(cluster: Cluster, selection: Selection, request_id: int | None, answer: Answer) -> None:
    """Every move selected, in order; with a request's id also what became of that request."""
    listing = cluster.listing(selected(cluster, selection), request_id)
    if request_id is not None:
        answer.document["request"] = demand_request(listing, request_id)
        answer.say(f"Request {request_id}:")
        answer.say("\n".join(f"  {key}: {_shown(value)}" for key, value in (listing.request or {}).items()))
    if listing.moves:
        answer.say("Current partition reassignments:")
    else:
        answer.say("No partition reassignments found.")
    for at, move in sorted(listing.moves.items()):
        answer.say(move_sentence(at, move))
        if move.standing is not None and move.standing.waits_for:
            answer.say(f"    {move.standing.stage}: {move.standing.waits_for}")
    answer.document["controller"] = listing.controller
    answer.document["reassignments"] = [as_document(at, move) for at, move in sorted(listing.moves.items())]


def demand_request(listing: Listing, request_id: int) -> dict[str, object]:
    """The status of a request.

    Raises:
        Refused: the controller knows no ids, or not this one.
    """
    if listing.controller is None:
        raise Refused(NOT_OURS.format(what="--request", instead="leave it out"))
    if listing.request is None:
        raise Refused(
            f"Request {request_id} is not known: no request has had this id, or its status is older than "
            "reassign.partitions.status.min.retention.ms"
        )
    return listing.request


def move_sentence(at: TopicPartition, move: Move) -> str:
    """As Kafka's tool puts it.

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
        "progress": None if move.standing is None else msgspec.to_builtins(move.standing),
    }


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

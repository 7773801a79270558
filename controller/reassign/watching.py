"""Following moves until they are done, or until the user has seen enough."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct, structs

from controller.reassign.cluster import Cluster, Directories, Listing, Move, PartitionState
from controller.reassign.executing import Clock
from controller.reassign.lagging import lags
from controller.reassign.listing import demand_request
from controller.reassign.outlook import in_doubt
from controller.reassign.plans import Replica
from controller.reassign.progress import Progress, Snapshot
from controller.reassign.refusals import DONE, FAILED, Refused
from controller.reassign.selecting import Selection, selected
from controller.reassign.views import View
from zk_layout.ids import Replicas, TopicPartition

COMPUTED = (
    "Kafka's own controller does not report progress: bytes and rates are computed here from sizes and offsets of logs"
)


class Watch(Struct, frozen=True):
    """What to follow; `expected` are moves that were just started.

    Units:
        `interval_s` between two looks.
    """

    selection: Selection
    request_id: int | None = None
    expected: Mapping[TopicPartition, Replicas] = {}
    interval_s: float = 1.0


def watch(cluster: Cluster, asked: Watch, first: Listing, view: View, clock: Clock) -> int:
    """Show snapshots until nothing moves; the exit code says whether every move completed."""
    progress = Progress(asked.expected)
    partitions = selected(cluster, asked.selection)
    listing = first
    with view:
        while True:
            snapshot = look(cluster, progress, wanted_moves(listing, asked), clock)
            view.show(snapshot)
            if snapshot.is_over:
                return DONE if all(ended.is_complete for ended in snapshot.ended) else FAILED
            clock.sleep(asked.interval_s)
            listing = cluster.listing(partitions, asked.request_id)


def first_listing(cluster: Cluster, asked: Watch) -> Listing:
    """The moves in progress at the start.

    Raises:
        Refused: the controller does not know the request.
    """
    listing = cluster.listing(selected(cluster, asked.selection), asked.request_id)
    if asked.request_id is not None:
        demand_request(listing, asked.request_id)
    return listing


def wanted_moves(listing: Listing, asked: Watch) -> Mapping[TopicPartition, Move]:
    """The request's moves, if one was named."""
    if asked.request_id is None:
        return listing.moves
    return {
        at: move
        for at, move in listing.moves.items()
        if move.progress is not None and move.progress.request_id == asked.request_id
    }


def look(cluster: Cluster, progress: Progress, moves: Mapping[TopicPartition, Move], clock: Clock) -> Snapshot:
    """Take one snapshot.

    Brokers are asked for sizes only if the controller reports no progress, and for offsets always: it has sizes, too.
    """
    unmeasured = [at for at, move in moves.items() if move.progress is None]
    needed = {*unmeasured, *progress.awaited(moves)}
    states = _states(cluster, needed) if needed else {}
    states |= _states_if_shown(cluster, {at for at, move in moves.items() if move.adding} - needed)
    directories: Mapping[Replica, Directories] = {}
    if unmeasured:
        holders = {
            Replica(broker, at.topic, at.partition)
            for at in unmeasured
            if at in states
            for broker in (*moves[at].adding, states[at].leader)
        }
        directories = cluster.directories(holders)
    snapshot = progress.advance(clock.now(), moves, states, directories, lags(cluster, moves, states))
    doubtful = in_doubt(snapshot)
    return structs.replace(snapshot, throttles=cluster.throttles(doubtful)) if doubtful else snapshot


def _states_if_shown(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionState]:
    """None where we may see moves and not topics: then what the controller reports has to do."""
    try:
        return _states(cluster, partitions) if partitions else {}
    except Refused:
        return {}


def _states(cluster: Cluster, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionState]:
    topics = cluster.topics({at.topic for at in partitions})
    return {at: topics[at.topic][at.partition] for at in partitions if at.partition in topics.get(at.topic, {})}

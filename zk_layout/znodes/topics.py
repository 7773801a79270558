"""What does a topic's znode say: `/brokers/topics/<topic>`?

Source: KIP-455 "topics/[topic] zNode content"; Kafka's TopicZNode (which names the maps `adding_replicas` and
`removing_replicas`), and its Partition.isUnderReplicated.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from zk_layout.bounds import Brokers, Id, Partition
from zk_layout.codec import encode_json, json_decoder
from zk_layout.ids import PartitionId, Replicas, TopicId, TopicName

ROOT = "/brokers/topics"
NOTHING: Replicas = ()


class Assignment(Struct, frozen=True, gc=False):
    """The replicas of one partition, and which of them a move is adding or removing.

    >>> moving = Assignment(replicas=(3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    >>> moving.target, moving.original, moving.is_moving
    ((3, 4), (1, 2), True)

    Shape:
        `replicas` is everything, target order first, then what is still to be removed; no duplicates.
        `adding` and `removing` are disjoint subsets of it, both empty when nothing moves.
    """

    replicas: Replicas
    adding: Replicas = NOTHING
    removing: Replicas = NOTHING

    @property
    def is_moving(self) -> bool:
        """Whether a move is under way."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Replicas:
        """The replicas when the move is done."""
        replicas, removing = self.replicas, self.removing
        if not removing:
            return replicas
        stays = len(replicas) - len(removing)
        if replicas[stays:] == removing:
            return replicas[:stays]
        return tuple([r for r in replicas if r not in removing])

    @property
    def original(self) -> Replicas:
        """The replicas before the move began, in the order in which they now stand."""
        if not self.adding:
            return self.replicas
        return tuple([r for r in self.replicas if r not in self.adding])

    @property
    def replication_factor(self) -> int:
        """How many replicas should be in sync; those that a move is still adding do not count."""
        return len(self.original)

    def is_under_replicated(self, isr: Replicas) -> bool:
        """Whether fewer are in sync, as Kafka counts.

        >>> raised = Assignment(replicas=(1, 2, 3), adding=(3,))
        >>> raised.is_under_replicated((1, 2)), raised.is_under_replicated((1,))
        (False, True)
        """
        return len(isr) < self.replication_factor


class Topic(Struct, frozen=True):
    """A topic's partitions and, when known, its id, which is kept verbatim.

    Shape:
        `partitions` is keyed by partition number; the keys need not be contiguous while a writer errs.
    """

    partitions: dict[PartitionId, Assignment]
    topic_id: TopicId | None = None


class TopicAddress(Struct, frozen=True, gc=False):
    """The znode of one topic."""

    topic: TopicName

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{ROOT}/{self.topic}"


class TopicRemnantAddress(Struct, frozen=True, gc=False):
    """A znode below a topic's that is none of Kafka's, but must be deleted with the topic.

    Shape:
        `below` is the path below the topic's znode, without a slash in front.
    """

    topic: TopicName
    below: str

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{ROOT}/{self.topic}/{self.below}"


class TopicMaps(Struct):
    """The maps of the znode as written, even if they contradict each other."""

    partitions: dict[Partition, Brokers]
    adding_replicas: dict[Partition, Brokers] | None = None
    removing_replicas: dict[Partition, Brokers] | None = None
    topic_id: Id | None = None


_decoder = json_decoder(TopicMaps)
# One value for all partitions with the same replicas: there are many where Kafka has placed them.
_alike: dict[Replicas, Assignment] = {}
_MOST_ALIKE: Final = 10_000


def decode(data: bytes) -> Topic:
    """Versions 1, 2 and 3 alike: a missing map means "none", a missing id "unknown".

    >>> decode(b'{"version":2,"partitions":{"0":[3,1]},"adding_replicas":{"0":[3]},"removing_replicas":{}}')
    Topic(partitions={0: Assignment(replicas=(3, 1), adding=(3,), removing=())}, topic_id=None)

    Shape:
        A broker listed as added or removed counts only if it is a replica, and is not listed as both; a move that
        leaves no replica does not count: it was written by hand and could never finish.
    Raises:
        Undecodable: not a topic's JSON.
    """
    json = decode_maps(data)
    adding, removing = json.adding_replicas or {}, json.removing_replicas or {}
    if not adding and not removing:
        known = _alike.get
        resting = {p: known(replicas) or _at_rest(replicas) for p, replicas in json.partitions.items()}
        return Topic(resting, json.topic_id)
    return Topic(
        {
            p: assigned(replicas, adding.get(p, NOTHING), removing.get(p, NOTHING))
            for p, replicas in json.partitions.items()
        },
        json.topic_id,
    )


def _at_rest(replicas: Replicas) -> Assignment:
    if len(_alike) >= _MOST_ALIKE:
        _alike.clear()
    assignment = _alike[replicas] = Assignment(replicas)
    return assignment


def decode_maps(data: bytes) -> TopicMaps:
    """The maps of a topic's znode, which `assigned` interprets.

    Raises:
        Undecodable: not a topic's JSON.
    """
    return _decoder(data)


def assigned(replicas: Replicas, adding: Replicas, removing: Replicas) -> Assignment:
    """The assignment that the entries of one partition mean together; see `decode`."""
    if not adding and not removing:
        return _alike.get(replicas) or _at_rest(replicas)
    is_sound = {*replicas}.issuperset(adding + removing) and {*adding}.isdisjoint(removing)
    move = Assignment(replicas, adding, removing) if is_sound else _sound(replicas, adding, removing)
    return move if move.target else Assignment(replicas)


def _sound(replicas: Replicas, adding: Replicas, removing: Replicas) -> Assignment:
    return Assignment(
        replicas,
        tuple(r for r in adding if r in replicas and r not in removing),
        tuple(r for r in removing if r in replicas and r not in adding),
    )


def encode(topic: Topic) -> bytes:
    """Version 3 if the topic has an id, else version 2, which brokers from 2.4 on read.

    >>> encode(Topic({0: Assignment((3, 1), (3,), (1,))}))
    b'{"version":2,"partitions":{"0":[3,1]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}'
    """
    json: dict[str, object] = {
        "version": 2 if topic.topic_id is None else 3,
        "partitions": {p: a.replicas for p, a in topic.partitions.items()},
        "adding_replicas": {p: a.adding for p, a in topic.partitions.items() if a.adding},
        "removing_replicas": {p: a.removing for p, a in topic.partitions.items() if a.removing},
    }
    if topic.topic_id is not None:
        json["topic_id"] = topic.topic_id
    return encode_json(json)

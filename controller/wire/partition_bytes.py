"""Which bytes encode one partition in a command?

LeaderAndIsr and UpdateMetadata describe a partition with the same fields up to its replicas, in all versions supported
here. That head is packed once for each `PartitionView` and shared by both commands and by all brokers.

Source: Kafka's LeaderAndIsrRequest.json and UpdateMetadataRequest.json.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import force_setattr

from controller.core.messages.commands import PartitionView
from controller.wire.cursor import int32s_layout
from controller.wire.packing import Packing
from controller.wire.schema import topic_id_bytes
from zk_layout.ids import TopicId, TopicName

MOST_TOPICS = 50_000  # nobody calls `forget` while a broker does not answer
_TOPIC = attrgetter("topic")
MOST_SMALL = 127  # with one entry more, a compact length takes two bytes


@lru_cache(maxsize=1024)
def _pack_compact(isr: int, replicas: int) -> Callable[..., bytes]:
    return struct.Struct(f">4iB{isr}iiB{replicas}i").pack


@lru_cache(maxsize=1024)
def _pack_legacy(isr: int, replicas: int) -> Callable[..., bytes]:
    return struct.Struct(f">4ii{isr}iii{replicas}i").pack


class Tails(Struct, frozen=True):
    """What follows the head of a partition.

    Shape:
        `usual` is `of(view)` for nearly all: those that do not move, were not recovered, and have no replica offline.
    """

    usual: bytes
    of: Callable[[PartitionView], bytes]


class PartitionPacking(Packing):
    """A `Packing` that keeps the head of each partition with its view, and caches those of topics."""

    def __init__(self, *, is_flexible: bool) -> None:
        super().__init__(is_flexible=is_flexible)
        self._pack_of, self._more = (_pack_compact, 1) if is_flexible else (_pack_legacy, 0)
        self._topics: dict[tuple[TopicName, TopicId | None, bool], bytes] = {}

    def _usual_heads(self, views: Iterable[PartitionView]) -> list[bytes]:
        """The heads of these partitions, each packed once; empty for the unusual."""
        pack = self._pack_usual
        if self._more:
            return [view.compact_head or pack(view) for view in views]
        return [view.legacy_head or pack(view) for view in views]

    def _pack_usual(self, view: PartitionView) -> bytes:
        if view.adding or view.removing or view.leader_recovery_state or view.offline:
            return b""
        head = self._head(view)
        force_setattr(view, "compact_head" if self._more else "legacy_head", head)
        return head

    def _head(self, view: PartitionView) -> bytes:
        isr, replicas, more = view.isr, view.replicas, self._more
        in_sync, assigned = len(isr), len(replicas)
        if more and (in_sync >= MOST_SMALL or assigned >= MOST_SMALL):
            return self._pack_long_head(view)
        return self._pack_of(in_sync, assigned)(
            view.partition,
            view.controller_epoch,
            view.leader,
            view.leader_epoch,
            in_sync + more,
            *isr,
            view.partition_epoch,
            assigned + more,
            *replicas,
        )

    def forget(self) -> None:
        """Drop what is cached of topics."""
        self._topics.clear()

    def _pack_long_head(self, view: PartitionView) -> bytes:
        first = (view.partition, view.controller_epoch, view.leader, view.leader_epoch)
        return b"".join(
            (
                int32s_layout(4).pack(*first),
                self.int32s(view.isr),
                int32s_layout(1).pack(view.partition_epoch),
                self.int32s(view.replicas),
            )
        )

    def topic_states(self, parts: Iterable[tuple[Iterable[PartitionView], Tails]], *, with_ids: bool) -> list[bytes]:
        """Partitions grouped under their topics, with the number of topics before them.

        Shape:
            Topics come in the order of their first partition; within one, partitions keep their order.
        """
        groups: dict[TopicName, list[bytes]] = {}
        counts: dict[TopicName, int] = {}
        for views, tails in parts:
            for topic, of_topic in groupby(views, key=_TOPIC):
                some = list(of_topic)
                if topic in groups:
                    counts[topic] += len(some)
                    groups[topic].append(self._states(some, tails))
                else:
                    counts[topic] = len(some)
                    groups[topic] = [self._topic_head(some[0], with_id=with_ids), self._states(some, tails)]
        pieces = [self.array(len(groups))]
        for topic, (head, *states) in groups.items():
            pieces += (head, self.array(counts[topic]), *states, self.no_tags)
        return pieces

    def _topic_head(self, view: PartitionView, *, with_id: bool) -> bytes:
        key = view.topic, view.topic_id, with_id
        head = self._topics.get(key)
        if head is None:
            if len(self._topics) >= MOST_TOPICS:
                self._topics.clear()
            id_bytes = topic_id_bytes(view.topic_id) if with_id else b""
            head = self._topics[key] = self.string(view.topic) + id_bytes
        return head

    def _states(self, views: Sequence[PartitionView], tails: Tails) -> bytes:
        """Partitions of one topic; nearly all of them are usual, and joined in one go."""
        heads, usual = self._usual_heads(views), tails.usual
        if all(heads):
            heads.append(b"")
            return usual.join(heads)
        pairs = zip(heads, views, strict=True)
        return b"".join(head + usual if head else self._head(view) + tails.of(view) for head, view in pairs)

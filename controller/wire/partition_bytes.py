"""Which bytes encode one partition in a command?

LeaderAndIsr and UpdateMetadata describe a partition with the same fields up to its replicas, in all versions supported
here. That head is packed once for each `PartitionView` and shared by both commands and by all brokers.

Source: Kafka's LeaderAndIsrRequest.json and UpdateMetadataRequest.json.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import groupby
from operator import attrgetter

from controller.core.messages.commands import PartitionView
from controller.wire.cursor import int32s_layout
from controller.wire.packing import Packing
from controller.wire.schema import topic_id_bytes
from zk_layout.ids import TopicId, TopicName

MOST_REMEMBERED = 200_000
_TOPIC = attrgetter("topic")
MOST_SMALL = 127  # with one entry more, a compact length takes two bytes


@lru_cache(maxsize=1024)
def _compact_head(isr: int, replicas: int) -> struct.Struct:
    return struct.Struct(f">4iB{isr}iiB{replicas}i")


@lru_cache(maxsize=1024)
def _legacy_head(isr: int, replicas: int) -> struct.Struct:
    return struct.Struct(f">4ii{isr}iii{replicas}i")


Tail = Callable[[PartitionView], bytes]
"""What follows the head of a partition."""


class PartitionPacking(Packing):
    """A `Packing` that caches the heads of partitions."""

    def __init__(self, *, is_flexible: bool, most_remembered: int = MOST_REMEMBERED) -> None:
        super().__init__(is_flexible=is_flexible)
        self._most_remembered = most_remembered
        self._heads: dict[int, tuple[PartitionView, bytes]] = {}

    def head(self, view: PartitionView) -> bytes:
        """A partition up to its replicas, packed once while it is cached.

        Views are recognised by identity and kept alive, so that no other can take their place.
        """
        known = self._heads.get(id(view))
        if known is not None:
            return known[1]
        head = self._pack_head(view)
        if len(self._heads) >= self._most_remembered:
            self.forget()
        self._heads[id(view)] = (view, head)
        return head

    def forget(self) -> None:
        """Drop all views."""
        self._heads.clear()

    def _pack_head(self, view: PartitionView) -> bytes:
        isr, replicas = view.isr, view.replicas
        if self.is_flexible:
            if len(isr) >= MOST_SMALL or len(replicas) >= MOST_SMALL:
                return self._pack_long_head(view)
            layout, more = _compact_head(len(isr), len(replicas)), 1
        else:
            layout, more = _legacy_head(len(isr), len(replicas)), 0
        return layout.pack(
            view.partition,
            view.controller_epoch,
            view.leader,
            view.leader_epoch,
            len(isr) + more,
            *isr,
            view.partition_epoch,
            len(replicas) + more,
            *replicas,
        )

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

    def topic_states(self, parts: Iterable[tuple[Iterable[PartitionView], Tail]], *, with_ids: bool) -> list[bytes]:
        """Partitions grouped under their topics, with the number of topics before them.

        Shape:
            Topics come in the order of their first partition; within one, partitions keep their order. Pieces of one
            partition are not joined: they are shared, and a caller that needs one piece joins all of them at once.
        """
        groups: dict[TopicName, tuple[TopicId | None, list[bytes]]] = {}
        known, head = self._heads.get, self.head
        for views, tail in parts:
            for topic, of_topic in groupby(views, key=_TOPIC):
                some = list(of_topic)
                _, states = groups.setdefault(topic, (some[0].topic_id, []))
                for view in some:
                    held = known(id(view))
                    states += (head(view) if held is None else held[1], tail(view))
        pieces = [self.array(len(groups))]
        for topic, (topic_id, states) in groups.items():
            pieces.append(self.string(topic))
            if with_ids:
                pieces.append(topic_id_bytes(topic_id))
            pieces.append(self.array(len(states) // 2))
            pieces += states
            pieces.append(self.no_tags)
        return pieces

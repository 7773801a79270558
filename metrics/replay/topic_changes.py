"""Which partitions did a write of a topic's znode change?

Kafka writes the whole topic for one partition that moves: a topic of 5,000 partitions costs 10,000 writes of
up to 430 KB. Only the bytes that differ from the write before are decoded; the rest is only compared.
"""

from __future__ import annotations

import msgspec

from zk_layout.codec import Undecodable
from zk_layout.ids import PartitionId, Replicas
from zk_layout.znodes import topics
from zk_layout.znodes.topics import Assignment

Changed = dict[PartitionId, Assignment | None]

_SECTIONS = (b'"partitions":{', b'"adding_replicas":{', b'"removing_replicas":{')
_Entries = dict[PartitionId, Replicas]
_entries = msgspec.json.Decoder(_Entries)


class TopicContent:
    """One topic as last written; `change_to` takes the next write.

    >>> topic = TopicContent()
    >>> _ = topic.change_to(b'{"partitions":{"0":[1],"1":[2]}}')
    >>> topic.change_to(b'{"partitions":{"0":[1],"1":[3,2]},"adding_replicas":{"1":[3]}}')
    {1: Assignment(replicas=(3, 2), adding=(3,), removing=())}
    """

    __slots__ = ("_sections", "_tables")

    def __init__(self) -> None:
        self._sections: tuple[bytes, ...] | None = None
        self._tables: tuple[_Entries, _Entries, _Entries] = ({}, {}, {})

    def change_to(self, data: bytes) -> Changed:
        """The partitions whose assignment differs from the write before; None for one that is gone.

        Raises:
            Undecodable: not a topic's JSON; what was known stays.
        """
        sections = _sections_of(data)
        if sections is None or self._sections is None:
            return self._replace(data, sections)
        try:
            differing = [
                _differing(table, before, now)
                for table, before, now in zip(self._tables, self._sections, sections, strict=True)
            ]
        except msgspec.DecodeError:
            return self._replace(data, sections)
        self._sections = sections
        changed: set[PartitionId] = set()
        for table, entries in zip(self._tables, differing, strict=True):
            changed.update(entries)
            for partition, replicas in entries.items():
                if replicas is None:
                    table.pop(partition, None)
                else:
                    table[partition] = replicas
        return {partition: self.assignment(partition) for partition in sorted(changed)}

    def assignment(self, partition: PartitionId) -> Assignment | None:
        """What one partition was last assigned; None for one that the topic does not list."""
        replicas, adding, removing = self._tables
        if partition not in replicas:
            return None
        return Assignment(replicas[partition], adding.get(partition, ()), removing.get(partition, ()))

    def _replace(self, data: bytes, sections: tuple[bytes, ...] | None) -> Changed:
        topic = topics.decode(data)
        before = {partition: self.assignment(partition) for partition in self._tables[0]}
        moving = {p: a for p, a in topic.partitions.items() if a.is_moving}
        self._tables = (
            {p: a.replicas for p, a in topic.partitions.items()},
            {p: a.adding for p, a in moving.items() if a.adding},
            {p: a.removing for p, a in moving.items() if a.removing},
        )
        self._sections = sections
        changed: Changed = {p: None for p in before if p not in topic.partitions}
        changed.update({p: a for p, a in topic.partitions.items() if before.get(p) != a})
        return changed


def changed_assignments(content: TopicContent, data: bytes) -> Changed:
    """As `TopicContent.change_to`; nothing for bytes that are no topic's."""
    try:
        return content.change_to(data)
    except Undecodable:
        return {}


def _sections_of(data: bytes) -> tuple[bytes, ...] | None:
    """The inside of each map, if the JSON is written as Kafka and this project write it."""
    found = []
    for name in _SECTIONS:
        start = data.find(name)
        if start < 0:
            found.append(b"")
            continue
        start += len(name)
        end = data.find(b"}", start)
        inside = data[start:end]
        if end < 0 or data.find(name, start) >= 0 or b"{" in inside or b" " in inside:
            return None
        found.append(inside)
    return tuple(found) if found[0] else None


def _differing(table: _Entries, before: bytes, now: bytes) -> dict[PartitionId, Replicas | None]:
    if before == now:
        return {}
    same = _common_prefix(before, now)
    # Go back to behind the last entry that is whole in both.
    start = now.rfind(b"]", 0, same) + 1
    tail = _common_suffix(before, now, min(len(before), len(now)) - same)
    end = now.find(b"]", len(now) - tail)
    tail = 0 if end < 0 else len(now) - end - 1
    window_now = _parsed(now[start : len(now) - tail])
    window_before = _parsed(before[start : len(before) - tail])
    differing: dict[PartitionId, Replicas | None] = {
        p: replicas for p, replicas in window_now.items() if table.get(p) != replicas
    }
    differing.update({p: None for p in window_before if p not in window_now})
    return differing


def _parsed(window: bytes) -> _Entries:
    return _entries.decode(b"{" + window.strip(b",") + b"}")


def _common_prefix(a: bytes, b: bytes) -> int:
    low, high = 0, min(len(a), len(b))
    view = memoryview(b)
    while low < high:
        middle = (low + high + 1) // 2
        # Compares in place, where comparing slices would copy them.
        if a.startswith(view[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _common_suffix(a: bytes, b: bytes, limit: int) -> int:
    low, high = 0, limit
    view = memoryview(b)
    while low < high:
        middle = (low + high + 1) // 2
        if a.endswith(view[len(b) - middle : len(b) - low], 0, len(a) - low):
            low = middle
        else:
            high = middle - 1
    return low

"""Which partitions did a write of a topic's znode change?

Kafka writes the whole topic for one partition that moves: a topic of 5,000 partitions costs 10,000 writes of
up to 430 KB. Only the bytes that differ from the previous write are decoded; the rest is only compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from zk_layout.bounds import Brokers, Partition
from zk_layout.ids import PartitionId, Replicas
from zk_layout.znodes import topics
from zk_layout.znodes.topics import Assignment

Changed = dict[PartitionId, Assignment | None]

_SECTIONS = (b"partitions", b"adding_replicas", b"removing_replicas")
# A name, and the start of a map or a whole number or text, as Kafka and this project write them.
_MEMBER = re.compile(rb'"(\w+)":(?:(\{)|\d+|"[\w-]*")')
# Where the inside of a map starts and ends.
_Span = tuple[int, int]
_ABSENT: _Span = (0, 0)
_Entries = dict[PartitionId, Replicas]
_entries = msgspec.json.Decoder(dict[Partition, Brokers])


class TopicContent:
    """One topic as last written; `change_to` takes the next write.

    >>> topic = TopicContent()
    >>> _ = topic.change_to(b'{"partitions":{"0":[1],"1":[2]}}')
    >>> topic.change_to(b'{"partitions":{"0":[1],"1":[3,2]},"adding_replicas":{"1":[3]}}')
    {1: Assignment(replicas=(3, 2), adding=(3,), removing=())}
    """

    __slots__ = ("_data", "_sections", "_tables")

    def __init__(self) -> None:
        self._data = b""
        self._sections: tuple[_Span, ...] | None = None
        self._tables: tuple[_Entries, _Entries, _Entries] = ({}, {}, {})

    def change_to(self, data: bytes) -> Changed:
        """The partitions whose assignment differs from the previous write; None for a removed one.

        Raises:
            Undecodable: not a topic's JSON; what was known stays.
        """
        sections = _sections_of(data)
        if sections is None or self._sections is None:
            return self._replace(data, sections)
        try:
            differing = [
                _differing(table, (self._data, *before), (data, *now))
                for table, before, now in zip(self._tables, self._sections, sections, strict=True)
            ]
        except msgspec.DecodeError:
            return self._replace(data, sections)
        self._data, self._sections = data, sections
        before = {partition: self.assignment(partition) for entries in differing for partition in entries}
        for table, entries in zip(self._tables, differing, strict=True):
            for partition, replicas in entries.items():
                if replicas is None:
                    table.pop(partition, None)
                else:
                    table[partition] = replicas
        return self._changed_since(before)

    def assignment(self, partition: PartitionId) -> Assignment | None:
        """The last assignment of one partition; None if the topic does not list it."""
        replicas, adding, removing = self._tables
        if partition not in replicas:
            return None
        return topics.assigned(replicas[partition], adding.get(partition, ()), removing.get(partition, ()))

    def _changed_since(self, before: Mapping[PartitionId, Assignment | None]) -> Changed:
        now = ((partition, self.assignment(partition)) for partition in sorted(before))
        return {partition: assignment for partition, assignment in now if assignment != before[partition]}

    def _replace(self, data: bytes, sections: tuple[_Span, ...] | None) -> Changed:
        maps = topics.decode_maps(data)
        before = {partition: self.assignment(partition) for partition in (*self._tables[0], *maps.partitions)}
        self._tables = maps.partitions, maps.adding_replicas or {}, maps.removing_replicas or {}
        self._data, self._sections = data, sections if _are_flat(data, sections) else None
        return self._changed_since(before)


def _sections_of(data: bytes) -> tuple[_Span, ...] | None:
    """Where each map is, if the JSON is written as Kafka and this project write it."""
    found: dict[bytes, _Span] = {}
    at = 1
    while (member := _MEMBER.match(data, at)) is not None:
        at = member.end()
        if member[2]:
            # Entries are lists, so that the first brace ends the map. Searching one byte is far faster than two.
            start, at = at, data.find(b"}", at) + 1
            if not at or member[1] in found:
                return None
            found[member[1]] = (start, at - 1)
        following = data[at : at + 1]
        at += 1
        if following == b"}":
            is_whole = at == len(data) and _SECTIONS[0] in found
            return tuple(found.get(name, _ABSENT) for name in _SECTIONS) if is_whole else None
        if following != b",":
            return None
    return None


def _are_flat(data: bytes, sections: tuple[_Span, ...] | None) -> bool:
    """Whether all maps hold only lists, without spaces, so that later writes can be compared byte by byte."""
    return all(data.find(b"{", *span) < 0 and data.find(b" ", *span) < 0 for span in sections or ())


def _differing(
    table: _Entries, before: tuple[bytes, int, int], now: tuple[bytes, int, int]
) -> dict[PartitionId, Replicas | None]:
    a, a_start, a_end = before
    b, b_start, b_end = now
    same = _common_prefix(before, now)
    if same == a_end - a_start == b_end - b_start:
        return {}
    # Go back to the end of the last entry that is whole in both.
    whole = b.rfind(b"]", b_start, b_start + same) + 1
    same = whole - b_start if whole else 0
    tail = _common_suffix(before, now, min(a_end - a_start, b_end - b_start) - same)
    end = b.find(b"]", b_end - tail, b_end)
    tail = 0 if end < 0 else b_end - end - 1
    window_now = _parsed(b[b_start + same : b_end - tail])
    window_before = _parsed(a[a_start + same : a_end - tail])
    differing: dict[PartitionId, Replicas | None] = {
        p: replicas for p, replicas in window_now.items() if table.get(p) != replicas
    }
    differing.update({p: None for p in window_before if p not in window_now})
    return differing


def _parsed(window: bytes) -> _Entries:
    return _entries.decode(b"{" + window.strip(b",") + b"}")


def _common_prefix(before: tuple[bytes, int, int], now: tuple[bytes, int, int]) -> int:
    a, a_start, a_end = before
    b, b_start, b_end = now
    low, high = 0, min(a_end - a_start, b_end - b_start)
    view = memoryview(b)
    middle = high  # most maps do not change
    while low < high:
        # Compares in place, where comparing slices would copy them.
        if a.startswith(view[b_start + low : b_start + middle], a_start + low):
            low = middle
        else:
            high = middle - 1
        middle = (low + high + 1) // 2
    return low


def _common_suffix(before: tuple[bytes, int, int], now: tuple[bytes, int, int], limit: int) -> int:
    a, _, a_end = before
    b, _, b_end = now
    low, high = 0, limit
    view = memoryview(b)
    while low < high:
        middle = (low + high + 1) // 2
        if a.endswith(view[b_end - middle : b_end - low], 0, a_end - low):
            low = middle
        else:
            high = middle - 1
    return low

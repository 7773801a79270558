"""Where can a transaction log be cut, and where does it write topics? Found by hopping from header to header.

Data is not looked into: of a log of large writes most bytes need not even be read.
"""

from __future__ import annotations

from struct import Struct

from msgspec import Struct as Value

from zk_layout.storage.jute import int_at
from zk_layout.storage.operations import last_write
from zk_layout.storage.txnlog import (
    END_OF_RECORD,
    HEADER_SIZE,
    LARGEST_BODY,
    RECORD_HEADER_SIZE,
    SMALLEST_BODY,
    record_at,
)

# Only a topic's znode holds this; the spacing is Kafka's own, and this project's.
_TOPIC_DATA = b'"partitions":{'
_TOPICS = b"/brokers/topics/"
_LONGEST_NAME = 250
_zxid_and_time_at = Struct(">qq").unpack_from


class Split(Value, frozen=True):
    """A run of whole records: where it starts, and the zxid and time of its first one."""

    offset: int
    zxid: int
    time_ms: int


class TopicWrite(Value, frozen=True):
    """Where a topic's znode was written: the start of the record, and the data where it may be wanted again."""

    topic: str
    offset: int
    data: bytes | None = None


class Index(Value, frozen=True):
    """Where a log can be cut, its last zxid and time, and where its records end.

    Shape:
        `splits` is empty when the log holds no transaction.
    """

    splits: tuple[Split, ...]
    last_zxid: int
    last_time_ms: int
    end: int
    count: int
    topics: tuple[TopicWrite, ...] = ()


class Indexer:
    """Hop from record to record without looking inside; feed it the file in order.

    It stops at the first thing that is not a record; what comes behind belongs to the last split, whose
    reader reports it.
    """

    def __init__(self, step_bytes: int, *, keep_topics: bool = False, may_leap: bool = False) -> None:
        """With `keep_topics` the data of topics is kept, for files in which nothing can be looked up later.

        With `may_leap` the bytes fed next must be those from `wanted` on, which may be far behind the last ones.
        """
        self._step = step_bytes
        self._keep_topics = keep_topics
        self._may_leap = may_leap
        self._topics: list[TopicWrite] = []
        self._splits: list[Split] = []
        self._count = 0
        self._last = (0, 0)
        self._at = HEADER_SIZE
        self._start = 0
        self._rest = b""
        self._is_broken = False
        self._leapt: tuple[Split, list[TopicWrite]] | None = None

    @property
    def wanted(self) -> int:
        """Where in the file the bytes wanted next begin."""
        return self._start + len(self._rest)

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes; False when the rest need not be read."""
        if self._leapt is not None and not self._land(*self._leapt, chunk):
            return False
        buffer = self._rest + chunk if self._rest else chunk
        start, at, size = self._start, self._at - self._start, len(buffer)
        last, count = -1, self._count
        due = self._splits[-1].offset + self._step if self._splits else 0
        topic_at = _found(buffer, _TOPIC_DATA, max(at, 0))
        while at + RECORD_HEADER_SIZE + SMALLEST_BODY <= size:
            checksum, length = record_at(buffer, at)
            end = at + RECORD_HEADER_SIZE + length
            if length < SMALLEST_BODY or length > LARGEST_BODY or checksum >> 32:
                self._is_broken = True
                break
            if end >= size:
                break
            if buffer[end] != END_OF_RECORD:
                self._is_broken = True
                break
            if start + at >= due:
                zxid, time_ms = _zxid_and_time_at(buffer, at + 24)
                self._splits.append(Split(start + at, zxid, time_ms))
                due = start + at + self._step
            if end > topic_at:
                topic_at = self._note_topics(buffer, at, topic_at, end)
            last = at
            count += 1
            at = end + 1
        if last >= 0:
            self._last = _zxid_and_time_at(buffer, last + 24)
        self._count = count
        self._at = start + at
        if not (self._may_leap and not self._is_broken and self._leap(buffer, at)):
            keep = min(at, size)
            self._start, self._rest = start + keep, buffer[keep:]
        return not self._is_broken

    def result(self) -> Index:
        """What was found so far."""
        return Index(tuple(self._splits), *self._last, self._at, self._count, tuple(self._topics))

    def _leap(self, buffer: bytes, at: int) -> bool:
        """Go to the end of a record if only the data that it writes last is not in the buffer."""
        if at + RECORD_HEADER_SIZE + SMALLEST_BODY > len(buffer):
            return False
        end = at + RECORD_HEADER_SIZE + record_at(buffer, at)[1]
        write = last_write(buffer, at + RECORD_HEADER_SIZE) if end > len(buffer) else None
        if write is None:
            return False
        path, data_at = write
        held = len(self._topics)
        self._note_topics(buffer, at, _found(buffer, _TOPIC_DATA, at), data_at)
        if _TOPICS in path:
            self._note_topic(path[path.rfind(_TOPICS) + len(_TOPICS) :], at, None)
        self._leapt = Split(self._at, *_zxid_and_time_at(buffer, at + 24)), self._topics[held:]
        del self._topics[held:]
        self._start, self._rest = self._start + end, b""
        return True

    def _land(self, record: Split, topics: list[TopicWrite], chunk: bytes) -> bool:
        """Take the record that was leapt over, if its end is where it should be."""
        if not chunk:
            return True
        self._leapt = None
        if chunk[0] != END_OF_RECORD:
            self._is_broken = True
            return False
        if not self._splits or record.offset >= self._splits[-1].offset + self._step:
            self._splits.append(record)
        self._topics += topics
        self._last = record.zxid, record.time_ms
        self._count += 1
        self._at = self._start + 1
        return True

    def _note_topics(self, buffer: bytes, record: int, data_at: int, end: int) -> int:
        """Note each topic written by a record; where the next one may be."""
        while data_at < end:
            path_at = buffer.rfind(_TOPICS, record, data_at)
            if path_at >= 0:
                # The data's length follows the path, and its first byte is zero.
                name_end = buffer.find(b"\0", path_at, data_at)
                topic = buffer[path_at + len(_TOPICS) : name_end]
                data = None
                if self._keep_topics:
                    data = buffer[name_end + 4 : name_end + 4 + int_at(buffer, name_end)[0]]
                self._note_topic(topic, record, data)
            data_at = _found(buffer, _TOPIC_DATA, data_at + 1)
        return data_at

    def _note_topic(self, topic: bytes, record: int, data: bytes | None) -> None:
        if 0 < len(topic) < _LONGEST_NAME and b"/" not in topic:
            self._topics.append(TopicWrite(topic.decode("utf-8", "replace"), self._start + record, data))


def _found(buffer: bytes, what: bytes, at: int) -> int:
    """The next place from `at` on, or behind the end."""
    found = buffer.find(what, at)
    return found if found >= 0 else len(buffer) + 1

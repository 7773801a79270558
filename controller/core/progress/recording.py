"""What is recorded of a request's moves, so that it can be rolled back?

The records are cut into znodes as they are gathered, so that no turn has to divide a hundred thousand moves.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from controller.core.messages.effects import Asking, Create
from controller.core.state.topics import TopicIdentity
from controller.core.transactions.sizes import RequestSizes
from zk_layout.bounds import INT32_MAX
from zk_layout.codec import one_line
from zk_layout.ids import Replicas, RequestId, TopicName, TopicPartition
from zk_layout.znodes.move_records import (
    LONGEST_REASON_BYTES,
    MoveRecords,
    MoveRecordsAddress,
    RecordsNumber,
    TopicRecord,
)

MOST_BYTES = 60_000
HEADER_BYTES = 3_000 + 2 * LONGEST_REASON_BYTES  # a quotation mark takes two
SMALLEST_BYTES = 1_000
BYTES_A_TOPIC = 90
BYTES_A_MOVE = 24
BYTES_A_REPLICA = 11  # the longest id, and a comma
LONGEST_PATH = MoveRecordsAddress(RequestId(INT32_MAX), RecordsNumber(INT32_MAX)).path


def most_bytes(sizes: RequestSizes) -> int:
    """How many bytes the moves in one znode may take; a request that writes it must not grow too large."""
    return max(SMALLEST_BYTES, min(MOST_BYTES, sizes.most_data_bytes(LONGEST_PATH)) - HEADER_BYTES)


class Recording(Struct, eq=False):
    """The moves of one request, in parts that each fit into a znode. Sizes are estimated, and never too low."""

    most_bytes: int
    parts: list[dict[TopicName, TopicRecord]] = field(default_factory=list)
    left_bytes: int = 0

    def add(self, at: TopicPartition, topic: TopicIdentity, to: Replicas, former: Replicas) -> None:
        """Record one move, behind those before it."""
        size = BYTES_A_MOVE + BYTES_A_REPLICA * (len(to) + len(former))
        size_of_topic = BYTES_A_TOPIC + len(at.topic)
        if not self.parts or size + size_of_topic > self.left_bytes:
            self.parts.append({})
            self.left_bytes = self.most_bytes
        part = self.parts[-1]
        record = part.get(at.topic)
        if record is None:
            record = part[at.topic] = TopicRecord(topic.czxid, {}, topic.topic_id)
            self.left_bytes -= size_of_topic
        record.moves[at.partition] = (to, former)
        self.left_bytes -= size

    def creations(self, request: RequestId, by: Asking, give_up_ms: int | None = None) -> Iterator[Create]:
        """The znodes that say it."""
        who: tuple[str | None, str | None, str | None] = (None, None, None)
        if by.caller is not None:
            who = (one_line(by.caller.principal), one_line(by.caller.client_id), one_line(by.caller.address))
        for number, topics in enumerate(self.parts):
            value = MoveRecords(by.origin, by.requested_ms, len(self.parts), topics, *who, by.reason, give_up_ms)
            yield Create(MoveRecordsAddress(request, RecordsNumber(number)), value)

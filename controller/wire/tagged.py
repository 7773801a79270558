"""What do reassignment messages say beyond Kafka's schema, and where?

In tagged fields, with tags above all of Kafka's own. Kafka's own clients and controllers skip them unread (KIP-482),
but not every other client does: an answer has them only if its request has one. Text is UTF-8, JSON is that of the
status znodes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import groupby
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from controller.core.messages.replies import OngoingMove, ReassignmentsListed
from controller.wire.cursor import Cursor, Malformed
from controller.wire.mode import MODE
from controller.wire.packing import COMPACT, unsigned_varint
from zk_layout.ids import RequestId
from zk_layout.znodes.reassignment_status import MoveProgress, RequestStatus

ADDITIONS: Final = 20001  # both requests: the sender reads what is added to answers; empty
REQUEST_ID: Final = 20000  # ListPartitionReassignments request, AlterPartitionReassignments response: int64
CONTROLLER: Final = 20000  # ListPartitionReassignments response: the name of this software
THROTTLE: Final = 20002  # AlterPartitionReassignments request: int64, bytes a second for each receiving broker
REASON: Final = 20003  # AlterPartitionReassignments request: why, for people
WEIGHTS: Final = 20004  # AlterPartitionReassignments request: int32s, one for each partition, in its order
GIVE_UP: Final = 20005  # AlterPartitionReassignments request: int64, how many ms moves may wait; 0: however long
REQUEST_STATUS: Final = 20001  # ListPartitionReassignments response: JSON
PROGRESS: Final = 20000  # ListPartitionReassignments response, each partition: JSON

_INT64 = struct.Struct(">q")
_T = TypeVar("_T")
_progress_decoder = msgspec.json.Decoder(MoveProgress)
_status_decoder = msgspec.json.Decoder(RequestStatus)
_encode_json = msgspec.json.Encoder().encode


def tagged(fields: Mapping[int, bytes]) -> bytes:
    """Tagged fields in the form that ends a message or one of its entries.

    >>> tagged({}), tagged({20000: b"ab"})
    (b'\\x00', b'\\x01\\xa0\\x9c\\x01\\x02ab')
    """
    parts = [unsigned_varint(len(fields))]
    for tag in sorted(fields):
        parts += (unsigned_varint(tag), unsigned_varint(len(fields[tag])), fields[tag])
    return b"".join(parts)


def with_tagged(message: bytes, fields: Mapping[int, bytes]) -> bytes:
    """A message that ends without tagged fields, with these.

    Raises:
        ValueError: it has some already, or is of a version without them.
    """
    if not fields:
        return message
    if message[-1:] != b"\0":
        raise ValueError("tagged fields can be added only to a flexible message without any")
    return message[:-1] + tagged(fields)


def reads_additions(fields: Mapping[int, bytes]) -> bool:
    """Whether the sender of a request with these tagged fields understands ours.

    >>> reads_additions({ADDITIONS: b""}), reads_additions({7: b""})
    (True, False)
    """
    return not fields.keys().isdisjoint((ADDITIONS, REQUEST_ID, MODE, THROTTLE, REASON, WEIGHTS, GIVE_UP))


def request_id_field(request: RequestId | None) -> dict[int, bytes]:
    """The field with a request id, if there is one."""
    return {} if request is None else {REQUEST_ID: _INT64.pack(request)}


def request_id_of(fields: Mapping[int, bytes], cursor: Cursor) -> RequestId | None:
    """The request id among tagged fields.

    Raises:
        Malformed: not 64 bits.
    """
    number = _int64_of(fields, REQUEST_ID, "request_id", cursor)
    return None if number is None else RequestId(number)


def throttle_field(bytes_s: int | None) -> dict[int, bytes]:
    """The field with a throttle, if there is one."""
    return {} if bytes_s is None else {THROTTLE: _INT64.pack(bytes_s)}


def throttle_of(fields: Mapping[int, bytes], cursor: Cursor) -> int | None:
    """The throttle among tagged fields, in bytes a second.

    Raises:
        Malformed: not 64 bits.
    """
    return _int64_of(fields, THROTTLE, "throttle", cursor)


def give_up_field(give_up_ms: int | None) -> dict[int, bytes]:
    """The field with the time after which moves give up waiting, if there is one."""
    return {} if give_up_ms is None else {GIVE_UP: _INT64.pack(give_up_ms)}


def give_up_of(fields: Mapping[int, bytes], cursor: Cursor) -> int | None:
    """After how many milliseconds moves give up waiting, among tagged fields.

    Raises:
        Malformed: not 64 bits.
    """
    return _int64_of(fields, GIVE_UP, "give_up", cursor)


def weights_field(weights: tuple[int, ...]) -> dict[int, bytes]:
    """The field with the weights of a request's partitions, if any has one."""
    return {WEIGHTS: COMPACT.int32s(weights)} if any(weights) else {}


def weights_of(fields: Mapping[int, bytes], count: int) -> tuple[int, ...]:
    """The weights of so many partitions, in their order; empty without the field.

    Raises:
        Malformed: not as many numbers of 32 bits.
    """
    raw = fields.get(WEIGHTS)
    if raw is None:
        return ()
    cursor = Cursor(raw, is_flexible=True, most_entries=count)
    weights = cursor.int32s("weights")
    cursor.finish()
    if len(weights) != count:
        raise cursor.malformed("weights", f"are {len(weights)}, for {count} partitions")
    return weights


def reason_field(reason: str | None) -> dict[int, bytes]:
    """The field with a reason, if there is one."""
    return {} if reason is None else {REASON: COMPACT.string(reason)}


def reason_of(fields: Mapping[int, bytes]) -> str | None:
    """The reason among tagged fields, even if it may not be recorded.

    Raises:
        Malformed: not text.
    """
    raw = fields.get(REASON)
    if raw is None:
        return None
    cursor = Cursor(raw, is_flexible=True)
    reason = cursor.string("reason")
    cursor.finish()
    return reason


def _int64_of(fields: Mapping[int, bytes], tag: int, what: str, cursor: Cursor) -> int | None:
    raw = fields.get(tag)
    if raw is None:
        return None
    if len(raw) != _INT64.size:
        raise cursor.malformed(what, f"has {len(raw)} bytes, not {_INT64.size}")
    number: int = _INT64.unpack(raw)[0]
    return number


def without_additions(reply: ReassignmentsListed) -> ReassignmentsListed:
    """The answer as Kafka's own controller would give it for the same moves."""
    moves = tuple(replace(move, progress=None) for move in reply.moves)
    return replace(reply, moves=moves, controller=None, request_status=None)


def listed(reply: ReassignmentsListed) -> bytes:
    """The body of a ListPartitionReassignments response, whose inner entries have tagged fields too."""
    topics = [(topic, list(moves)) for topic, moves in groupby(reply.moves, lambda m: m.topic_partition.topic)]
    parts = [struct.pack(">ih", 0, reply.error), COMPACT.nullable_string(reply.message), COMPACT.array(len(topics))]
    for topic, moves in topics:
        parts += (COMPACT.string(topic), COMPACT.array(len(moves)))
        parts += map(_ongoing, moves)
        parts.append(b"\0")
    fields: dict[int, bytes] = {}
    if reply.controller is not None:
        fields[CONTROLLER] = COMPACT.string(reply.controller)
    if reply.request_status is not None:
        fields[REQUEST_STATUS] = _json(reply.request_status)
    parts.append(tagged(fields))
    return b"".join(parts)


def controller_of(fields: Mapping[int, bytes]) -> str | None:
    """The name of the software that answered; None from Kafka's own.

    Raises:
        Malformed: not text.
    """
    raw = fields.get(CONTROLLER)
    return None if raw is None else Cursor(raw, is_flexible=True).string("controller")


def status_of(fields: Mapping[int, bytes]) -> RequestStatus | None:
    """The status of the request asked for.

    Raises:
        Malformed: not its JSON.
    """
    return _from_json(_status_decoder, fields.get(REQUEST_STATUS), "request_status")


def progress_of(fields: Mapping[int, bytes]) -> MoveProgress | None:
    """The progress of a partition's move.

    Raises:
        Malformed: not its JSON.
    """
    return _from_json(_progress_decoder, fields.get(PROGRESS), "progress")


def _from_json(decoder: msgspec.json.Decoder[_T], raw: bytes | None, what: str) -> _T | None:
    if raw is None:
        return None
    text = Cursor(raw, is_flexible=True).string(what)
    try:
        return decoder.decode(text)
    except msgspec.DecodeError as error:
        raise Malformed(f"{what} is not the JSON expected: {error}") from None


def _ongoing(move: OngoingMove) -> bytes:
    fields = {} if move.progress is None else {PROGRESS: _json(move.progress)}
    lists = map(COMPACT.int32s, (move.replicas, move.adding, move.removing))
    return b"".join((struct.pack(">i", move.topic_partition.partition), *lists, tagged(fields)))


def _json(value: object) -> bytes:
    return COMPACT.utf8(_encode_json(value))

"""Where does one message on a connection end, and what does its header say?

Source: Kafka protocol guide, "Requests" (a 32-bit size before each); KIP-482 for header versions.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from controller.wire.apis import THROTTLED_SINCE, ApiKey, is_flexible
from controller.wire.cursor import Cursor
from controller.wire.packing import LEGACY

_SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">hhi")


class OversizedFrame(ValueError):
    """A frame announces an unacceptable size; close the connection."""


class FrameBuffer:
    """Splits the bytes that arrive on one connection into messages.

    >>> frames = FrameBuffer(max_bytes=100)
    >>> frames.feed(bytes([0, 0, 0, 2, 7]))
    []
    >>> frames.feed(bytes([8, 0, 0]))
    [b'\\x07\\x08']

    Shape:
        Frames come without their size.

    Raises:
        OversizedFrame: before anything of the frame is stored; only bytes that arrived are ever held.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()

    @property
    def announced_bytes(self) -> int | None:
        """The size of the message that is arriving; None if not even that is known."""
        return _SIZE.unpack_from(self._held)[0] if len(self._held) >= _SIZE.size else None

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes that arrived; return the messages they complete."""
        held = self._held
        held += data
        frames: list[bytes] = []
        at = 0
        while len(held) - at >= 4:
            (size,) = _SIZE.unpack_from(held, at)
            if not 0 <= size <= self._max_bytes:
                raise OversizedFrame(
                    f"a message announces {size} bytes where 0 to {self._max_bytes} are accepted; "
                    "the sender must speak the plain Kafka protocol here and send less at once"
                )
            if len(held) - at - 4 < size:
                break
            with memoryview(held) as view:
                frames.append(bytes(view[at + 4 : at + 4 + size]))
            at += 4 + size
        if at:
            del held[:at]
        return frames


class RequestHeader(Struct, frozen=True):
    """The fields at the start of every request.

    Shape:
        `reads_additions` is not part of it on the wire: a tagged field of the request says that its sender reads what
        this controller adds to Kafka's answers. Other clients get no additions, because some misread them.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None
    reads_additions: bool = False

    @property
    def has_client_id(self) -> bool:
        """Whether the header has a client id: always, except in ControlledShutdown v0."""
        return (self.api_key, self.api_version) != (ApiKey.CONTROLLED_SHUTDOWN, 0)


def framed(*pieces: bytes) -> bytes:
    """One message with its size in front."""
    body = b"".join(pieces)
    return _SIZE.pack(len(body)) + body


def framed_apart(head: bytes, body: bytes) -> tuple[bytes, bytes]:
    """The same in two pieces, so that the second can be shared."""
    return _SIZE.pack(len(head) + len(body)) + head, body


def encode_request_header(header: RequestHeader) -> bytes:
    """The header of a request in `ApiKey`; in flexible versions it ends with tagged fields."""
    head = _HEAD.pack(header.api_key, header.api_version, header.correlation_id)
    if not header.has_client_id:
        return head
    return (
        head
        + LEGACY.nullable_string(header.client_id)
        + (b"\0" if is_flexible(header.api_key, header.api_version) else b"")
    )


def encode_response_header(header: RequestHeader) -> bytes:
    """The header of the answer to a request; ApiVersions alone always gets the oldest kind (KIP-511)."""
    head = _SIZE.pack(header.correlation_id)
    if header.api_key == ApiKey.API_VERSIONS or not is_flexible(header.api_key, header.api_version):
        return head
    return head + b"\0"


def throttle_ms_of(header: RequestHeader, answer: bytes) -> int:
    """The throttle time in another node's answer about topics; `answer` begins with its size."""
    since = THROTTLED_SINCE.get(header.api_key)
    if since is None or header.api_version < since:
        return 0
    at = _SIZE.size + len(encode_response_header(header))
    return int(_SIZE.unpack_from(answer, at)[0]) if len(answer) >= at + _SIZE.size else 0


def response_cursor(api_key: int, version: int, frame: bytes) -> tuple[int, Cursor]:
    """The correlation id of a response, and a cursor at its body.

    Raises:
        Malformed: shorter than a header.
    """
    cursor = Cursor(frame, is_flexible=is_flexible(api_key, version))
    correlation_id = cursor.int32("correlation_id")
    if api_key != ApiKey.API_VERSIONS:
        cursor.tags()
    return correlation_id, cursor

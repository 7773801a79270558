"""Which bytes ask for a login, and which answer? SaslHandshake (17) and SaslAuthenticate (36), both directions.

Source: Kafka's SaslHandshakeRequest.json, SaslAuthenticateRequest.json and their responses; KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from controller.core.messages.errors import ErrorCode
from controller.wire.apis import ApiKey, is_flexible
from controller.wire.cursor import Cursor
from controller.wire.frames import RequestHeader, encode_request_header, encode_response_header, framed, response_cursor
from controller.wire.packing import Packing, unsigned_varint
from controller.wire.requests import reading

_ERROR = struct.Struct(">h")
_SIZE = struct.Struct(">i")
_LIFETIME = struct.Struct(">q")


class HandshakeResponse(Struct, frozen=True):
    """What a broker answers to SaslHandshake; `error` may be a number that this controller does not know."""

    error: int
    mechanisms: tuple[str, ...]


class AuthenticateResponse(Struct, frozen=True):
    """What a broker answers to SaslAuthenticate.

    Units:
        `session_lifetime_ms` milliseconds, 0 for ever, and before version 1.
    """

    error: int
    message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int = 0


def decode_handshake(header: RequestHeader, frame: bytes) -> str:
    """The mechanism that is asked for.

    Raises:
        MalformedRequest: it breaks off, or claims what it does not hold.
    """
    with reading(header, frame) as cursor:
        return cursor.string("mechanism")


def encode_handshake_answer(header: RequestHeader, error: ErrorCode, mechanisms: tuple[str, ...]) -> bytes:
    """The answer to SaslHandshake, with its size."""
    packing = Packing(is_flexible=False)
    names = (packing.string(name) for name in mechanisms)
    return framed(encode_response_header(header), _ERROR.pack(error), packing.array(len(mechanisms)), *names)


def decode_authenticate(header: RequestHeader, frame: bytes) -> bytes:
    """The token of the mechanism.

    Raises:
        MalformedRequest: it breaks off, or claims what it does not hold.
    """
    with reading(header, frame) as cursor:
        token = cursor.bytes_with_length("auth_bytes")
        cursor.tags()
    return token


def encode_authenticate_answer(
    header: RequestHeader,
    error: ErrorCode = ErrorCode.NONE,
    message: str | None = None,
    auth_bytes: bytes = b"",
    session_lifetime_ms: int = 0,
) -> bytes:
    """The answer to SaslAuthenticate, with its size."""
    packing = _packing(header)
    return framed(
        encode_response_header(header),
        _ERROR.pack(error),
        packing.nullable_string(message),
        _with_length(packing, auth_bytes),
        _LIFETIME.pack(session_lifetime_ms) if header.api_version >= 1 else b"",
        packing.no_tags,
    )


def encode_handshake(header: RequestHeader, mechanism: str) -> bytes:
    """The request SaslHandshake, with its size."""
    return framed(encode_request_header(header), Packing(is_flexible=False).string(mechanism))


def encode_authenticate(header: RequestHeader, token: bytes) -> bytes:
    """The request SaslAuthenticate, with its size."""
    packing = _packing(header)
    return framed(encode_request_header(header), _with_length(packing, token), packing.no_tags)


def decode_handshake_answer(version: int, frame: bytes) -> HandshakeResponse:
    """What a broker answers to SaslHandshake.

    Raises:
        Malformed: it breaks off, or claims what it does not hold.
    """
    _, cursor = response_cursor(ApiKey.SASL_HANDSHAKE, version, frame)
    error = cursor.int16("error_code")
    mechanisms = tuple(cursor.string("mechanism") for _ in cursor.array("mechanisms", 2))
    cursor.finish()
    return HandshakeResponse(error, mechanisms)


def decode_authenticate_answer(version: int, frame: bytes) -> AuthenticateResponse:
    """What a broker answers to SaslAuthenticate.

    Raises:
        Malformed: it breaks off, or claims what it does not hold.
    """
    _, cursor = response_cursor(ApiKey.SASL_AUTHENTICATE, version, frame)
    answer = _authenticate_answer(cursor, version)
    cursor.tags()
    cursor.finish()
    return answer


def _authenticate_answer(cursor: Cursor, version: int) -> AuthenticateResponse:
    return AuthenticateResponse(
        error=cursor.int16("error_code"),
        message=cursor.nullable_string("error_message"),
        auth_bytes=cursor.bytes_with_length("auth_bytes"),
        session_lifetime_ms=cursor.int64("session_lifetime_ms") if version >= 1 else 0,
    )


def _packing(header: RequestHeader) -> Packing:
    return Packing(is_flexible=is_flexible(header.api_key, header.api_version))


def _with_length(packing: Packing, raw: bytes) -> bytes:
    return (unsigned_varint(len(raw) + 1) if packing.is_flexible else _SIZE.pack(len(raw))) + raw

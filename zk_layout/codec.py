"""How do JSON bytes become a typed value, with one clear reason when they do not?"""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


class Undecodable(ValueError):
    """The bytes are not what this family of znodes holds; the message is the reason, in one line."""


def json_decoder(shape: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder that ignores unknown keys, as Kafka's decoders do."""
    return msgspec.json.Decoder(shape)


def decode_json(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """The typed value.

    Raises:
        Undecodable: the bytes are not JSON, or not of the expected shape.
    """
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Undecodable(f"{error} in {excerpt(data)}") from error


def encode_json(value: object) -> bytes:
    """Compact JSON, as Kafka writes it."""
    return msgspec.json.encode(value)


def excerpt(data: bytes, limit: int = 60) -> str:
    """The first bytes, for a message a person reads."""
    text = data[:limit].decode("utf-8", "replace")
    return repr(text + "…" if len(data) > limit else text)

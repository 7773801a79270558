"""How do JSON bytes become a typed value, with one clear reason when they do not?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, structs

T = TypeVar("T")

# ZooKeeper takes 1 MiB unless jute.maxbuffer is raised; what is larger than this is in nobody's cluster by mistake.
LARGEST_BYTES: Final = 16 << 20
# The deepest that anybody writes is five: the progress of a replica within a request's status.
DEEPEST: Final = 32
_ALL_BUT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_QUICK_ROUNDS: Final = 4


class Undecodable(ValueError):
    """The bytes are not what this family of znodes holds; the message is the reason, in one line."""


class Malformed(Struct, frozen=True):
    """A znode whose bytes are not what Kafka writes there; `reason` says what is wrong, in one line."""

    reason: str
    size_bytes: int


def json_decoder(shape: type[T]) -> Callable[[bytes], T]:
    """What makes a value of this shape of JSON. It ignores unknown keys, as Kafka's decoders do.

    Raises:
        Undecodable: (the decoder) the bytes are not JSON, not of the expected shape, or more than anybody writes.
    """
    return partial(_decode, msgspec.json.Decoder(shape))


def _decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Size and depth are looked at first, for a decoder uses the stack that we all live on."""
    if len(data) > LARGEST_BYTES:
        raise Undecodable(f"{len(data)} bytes, larger than the {LARGEST_BYTES} that are looked at")
    if data.count(b"[") + data.count(b"{") > DEEPEST and _is_too_deep(data):
        raise Undecodable(f"nested deeper than {DEEPEST} levels in {excerpt(data)}")
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Undecodable(f"{error} in {excerpt(data)}") from error


def _is_too_deep(data: bytes) -> bool:
    """Whether brackets are nested deeper than anybody nests them.

    Taking the innermost level off is quick, and a few rounds do for what is written in earnest. Brackets within texts
    are none; telling them apart comes last.
    """
    brackets = data.translate(None, _ALL_BUT_BRACKETS)
    for _ in range(_QUICK_ROUNDS):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    if not _is_deeper(brackets, DEEPEST - _QUICK_ROUNDS):
        return False
    outside = data.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2]
    return _is_deeper(b"".join(outside).translate(None, _ALL_BUT_BRACKETS), DEEPEST)


def _is_deeper(brackets: bytes, limit: int) -> bool:
    return next(filter(limit.__lt__, accumulate(map(_STEP.__getitem__, brackets))), None) is not None


def encode_json(value: object) -> bytes:
    """Compact JSON, as Kafka writes it."""
    return msgspec.json.encode(value)


def encode_version_1(value: Struct) -> bytes:
    """The fields by their names, behind a version, as Kafka begins what it writes."""
    return encode_json({"version": 1, **structs.asdict(value)})


def one_line(text: str, limit: int = 300) -> str:
    r"""A text that somebody else has a part in, short and printable, so that it can be logged.

    >>> one_line("a\nb" + "c" * 10, limit=5)
    'a\\nb…'
    """
    shown = text if text.isprintable() else repr(text[:limit])[1:-1]
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def excerpt(data: bytes, limit: int = 60) -> str:
    """The first bytes, for a message a person reads."""
    text = data[:limit].decode("utf-8", "replace")
    return repr(text + "…" if len(data) > limit else text)

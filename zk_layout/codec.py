"""How do JSON bytes become a typed value, with one clear reason when they do not?"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, structs

T = TypeVar("T")

# ZooKeeper accepts 1 MiB unless jute.maxbuffer is raised; no real znode is larger than this.
LARGEST_BYTES: Final = 16 << 20
# The deepest in use is five: the progress of a replica within a request's status.
DEEPEST: Final = 32
_ALL_BUT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_QUICK_ROUNDS: Final = 4
_BLANKS: Final = b" \t\n\r"
_ENCODINGS: Final = {"utf-8-sig": "a byte order mark"}
_scanner = json.JSONDecoder()
_whole_value = msgspec.json.Decoder(msgspec.Raw)


class Undecodable(ValueError):
    """The bytes are not what this family of znodes holds; the message is the reason, in one line."""


class Malformed(Struct, frozen=True):
    """A znode whose bytes Kafka would not write; `reason` says what is wrong, in one line."""

    reason: str
    size_bytes: int


def json_decoder(shape: type[T]) -> Callable[[bytes], T]:
    """A decoder that ignores what Kafka's decoders ignore: unknown keys, and what `passed_over` names.

    Raises:
        Undecodable: (the decoder) the bytes are not JSON, not of the expected shape, or too large.

    Source: Kafka's Json.parseBytes, which is Jackson's ObjectMapper.readTree.
    """
    return partial(_decode, msgspec.json.Decoder(shape))


def _decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Size and depth are looked at first, for a decoder uses the stack that we all live on."""
    if len(data) > LARGEST_BYTES:
        raise Undecodable(f"{len(data)} bytes, larger than the {LARGEST_BYTES} that are looked at")
    if data.count(b"[") + data.count(b"{") > DEEPEST and _is_too_deep(data):
        refused = Undecodable(f"nested deeper than {DEEPEST} levels in {excerpt(data)}")
    else:
        try:
            return decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            refused = Undecodable(f"{error} in {excerpt(data)}")
    value, oddities = _first_value(data)
    if oddities:
        return _decode(decoder, value)
    raise refused


def passed_over(data: bytes) -> str | None:
    """What in a readable znode's JSON Kafka's decoder passes over, for people; None if there is no such thing.

    >>> passed_over(b'{"version":1}}'), passed_over(b'{"version":1}')
    ('1 byte behind the JSON value', None)
    >>> passed_over('{"version":1}'.encode("utf-16"))
    'the encoding UTF-16'
    """
    if data.find(b"}") == len(data) - 1 and data.startswith(b"{"):
        return None  # the only brace that closes is the last byte: true of most znodes, and quickly found
    try:
        _whole_value.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return " and ".join(_first_value(data)[1]) or None
    return None


def _first_value(data: bytes) -> tuple[bytes, list[str]]:
    """The first JSON value in UTF-8, and what is odd about the bytes: nothing if they hold no JSON value."""
    if len(data) > LARGEST_BYTES:
        return data, []
    encoding = json.detect_encoding(data)
    oddities = [] if encoding == "utf-8" else [_ENCODINGS.get(encoding, f"the encoding {encoding.upper()}")]
    text = (data.decode(encoding, "replace").encode() if oddities else data).lstrip(_BLANKS)
    try:
        # Latin-1 has one character for each byte, so that the end is that in the bytes.
        _, end = _scanner.raw_decode(text.decode("latin-1"))
    except (ValueError, RecursionError):
        return data, []
    behind = len(text[end:].strip(_BLANKS))
    if behind:
        oddities.append(f"{behind} {'byte' if behind == 1 else 'bytes'} behind the JSON value")
    return text[:end], oddities


def _is_too_deep(data: bytes) -> bool:
    """Whether brackets are nested deeper than in any real znode.

    Removing the innermost level is fast, and a few rounds suffice for real data. Brackets within strings
    do not count; they are sorted out last.
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
    r"""A text with foreign content, shortened and made printable for the log.

    >>> one_line("a\nb" + "c" * 10, limit=5)
    'a\\nb…'
    """
    shown = text if text.isprintable() else repr(text[:limit])[1:-1]
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def excerpt(data: bytes, limit: int = 60) -> str:
    """The first bytes, for a message to a person."""
    text = data[:limit].decode("utf-8", "replace")
    return repr(text + "…" if len(data) > limit else text)

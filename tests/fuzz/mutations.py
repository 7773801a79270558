"""How is sound input made hostile? By its structure, or byte by byte."""

from __future__ import annotations

import json
from random import Random
from typing import Any

EXTREMES = (
    -1,
    -2,
    -3,
    0,
    1,
    2,
    3,
    2**31 - 2,
    2**31 - 1,
    2**31,
    2**32,
    2**63 - 1,
    2**63,
    2**64,
    -(2**31),
    -(2**63),
    10**30,
)
TEXTS = (
    "",
    "1",
    "-1",
    "x",
    "\x00",
    "ä",
    "\ud800",
    "a/b",
    "..",
    "true",
    "null",
    "NaN",
    "1e400",
    "9" * 400,
    "sound-0",
    "\n" * 9,
)
VALUES: tuple[Any, ...] = (None, True, False, 1.5, float("nan"), float("inf"), [], {}, [[]], [None], {"": []})
WHOLE = (
    b"",
    b"null",
    b"[]",
    b"{}",
    b"0",
    b"-1",
    b"{not json",
    b"\x00",
    b"\xff\xfe\x00",
    b'{"a":' * 600,
    b"[" * 3000 + b"]" * 3000,
    b'{"version":' + b"9" * 5000 + b"}",
    b'{"partitions":[' + b"[" * 1500 + b"]" * 1500 + b"]}",
)


def hostile(random: Random, sound: bytes) -> bytes:
    """A mutation of the input; now and then it is still sound."""
    kind = random.random()
    if kind < 0.1:
        return random.choice(WHOLE)
    if kind < 0.3:
        return scrambled(random, sound)
    try:
        value = json.loads(sound)
    except ValueError:
        return scrambled(random, sound)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        value = _changed(random, value)
    text = json.dumps(value, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.1:
        text = _doubled(random, text)
    return text.encode("utf-8", "surrogatepass")


def _changed(random: Random, value: Any) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(list(value))
        kind = random.random()
        if kind < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if kind < 0.2:
            return value | {_text(random): value[key]}
        return value | {key: _changed(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.85:
        at = random.randrange(len(value))
        kind = random.random()
        if kind < 0.15:
            return value[:at] + value[at + 1 :]
        if kind < 0.3:
            return [*value, value[at]]
        if kind < 0.4:
            return random.sample(value, len(value))
        return [*value[:at], _changed(random, value[at]), *value[at + 1 :]]
    return _other(random, value)


def _other(random: Random, value: Any) -> Any:
    kind = random.random()
    if isinstance(value, int) and kind < 0.75:
        return random.choice(EXTREMES) if kind < 0.5 else value + random.choice((-1, 1))
    if isinstance(value, str) and kind < 0.75:
        return _text(random)
    if kind < 0.8:
        return random.choice(EXTREMES)
    if kind < 0.85:
        return str(value)
    if kind < 0.9:
        return [value]
    return random.choice(VALUES)


def _text(random: Random) -> str:
    return random.choice(TEXTS) if random.random() < 0.8 else "n" * random.choice((249, 255, 256, 1024, 40_000))


def _doubled(random: Random, text: str) -> str:
    """One key twice."""
    at = text.find('"', random.randrange(len(text)))
    end = text.find(",", at)
    return text if at < 0 or end < 0 else text[:at] + text[at:end] + "," + text[at:]


def scrambled(random: Random, sound: bytes) -> bytes:
    """Byte by byte."""
    data = bytearray(sound)
    for _ in range(random.choice((1, 1, 2, 8))):
        at = random.randrange(len(data) + 1)
        match random.randrange(4):
            case 0:
                data[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                data[at:at] = random.randbytes(random.randrange(1, 9))
            case 2:
                del data[at : at + random.randrange(1, 9)]
            case _:
                del data[at:]
    return bytes(data)

"""Which content of a znode may be shown? Everything but secrets: passwords, keys, and data that reveals them.

Kafka keeps credentials of SCRAM with their salts in `/config/users`, the HMACs of delegation tokens, and passwords of
brokers' listeners, which it encrypts.
"""

from __future__ import annotations

import re
from typing import Any

from zk_layout.codec import Undecodable, json_decoder, passed_over
from zk_layout.watched import SENSITIVE

HIDDEN = "(hidden)"
# Names of settings, and of members of Kafka's JSON.
_SECRET = re.compile(
    r"password|passphrase|secret|hmac|jaas|keystore\.key|^SCRAM-|credential|salt|stored_key|server_key", re.IGNORECASE
)
_ITERATIONS = re.compile(r"iterations=(\d+)")
_decoder = json_decoder(object)


def content(path: str, data: bytes | None) -> Any:
    """A znode's content: JSON as values, other text as text, and for anything else its size.

    >>> content("/config/users/ann", b'{"config":{"SCRAM-SHA-256":"salt=a,stored_key=b,server_key=c,iterations=4096"}}')
    {'config': {'SCRAM-SHA-256': '(hidden), iterations=4096'}}
    >>> content("/a", b"7"), content("/a", b"\\xff"), content("/a", None)
    (7, '1 bytes that are no text', None)
    >>> content("/a", b'{"password":"x"}}')
    {'as Kafka reads it': {'password': '(hidden)'}, 'passed over': '1 byte behind the JSON value'}
    """
    if not data:
        return None
    try:
        value = _decoder(data)
    except Undecodable:
        return _text(path, data)
    if (oddity := passed_over(data)) is None:
        return _masked(value)
    is_json = isinstance(value, dict | list)  # not a text that begins with a number
    return {"as Kafka reads it": _masked(value), "passed over": oddity} if is_json else _text(path, data)


def setting(name: str, value: str) -> str:
    """The value of one setting.

    >>> setting("listener.name.a.ssl.keystore.password", "x"), setting("retention.ms", "1")
    ('(hidden)', '1')
    """
    if not _SECRET.search(name):
        return value
    iterations = _ITERATIONS.search(value)
    return f"{HIDDEN}, {iterations[0]}" if iterations else HIDDEN


def _text(path: str, data: bytes) -> str:
    if any(f"{folder}/" in path for folder in SENSITIVE):
        return HIDDEN  # unreadable content may hold anything
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"{len(data)} bytes that are no text"


def _masked(value: Any) -> Any:
    match value:
        case dict():
            return {name: _of(name, inside) for name, inside in value.items()}
        case list():
            return [_masked(inside) for inside in value]
    return value


def _of(name: str, value: Any) -> Any:
    if isinstance(value, dict | list):
        return _masked(value)
    return setting(name, value) if isinstance(value, str) else value

"""How is any value of the core written so that it can be read back as the same value?

Events and effects hold unions of many types, so each value names its type by a tag: `{"is": "Woke", "alarm": {"is":
"Again"}}`. Tuples are lists. Reading creates only values of the classes in `tags` and imports nothing named in its
input.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any

from msgspec import Struct

from controller.core.messages.commands import HEADS
from controller.core.messages.effects import Operation, operation
from controller.runtime.tags import class_of, tag_of

KIND = "is"
CONTENT = "of"


class Unreadable(ValueError):
    """Not something `to_plain` makes."""


def to_plain(value: object) -> Any:
    """The value in dicts, lists, strings and numbers, without fields that have their default.

    Raises:
        TypeError: a kind of value that events and effects do not hold.
    """
    match value:
        case Enum():
            return {KIND: _tag(type(value)), CONTENT: value.value}
        case None | bool() | int() | float() | str():
            return value
        case Operation(write, data) if data == operation(write).data:
            return {KIND: _tag(Operation), "write": to_plain(write)}  # its bytes follow from that
        case Struct():
            return {KIND: _tag(type(value)), **_changed_fields(value)}
        case tuple() if hasattr(value, "_asdict"):
            return {KIND: _tag(type(value)), **{key: to_plain(item) for key, item in value._asdict().items()}}
        case list() | tuple():
            return [to_plain(item) for item in value]
        case dict():
            return {KIND: "dict", CONTENT: [[to_plain(key), to_plain(item)] for key, item in value.items()]}
        case frozenset() | set():
            # Sorted by the written form, so that the same set is always written alike.
            return {KIND: "frozenset", CONTENT: sorted((to_plain(item) for item in value), key=repr)}
        case bytes():
            return {KIND: "bytes", CONTENT: base64.b64encode(value).decode()}
        case _:
            raise TypeError(f"a {type(value).__name__} cannot be written to a journal: {value!r:.80}")


def from_plain(plain: Any) -> Any:
    """The value that was written; lists become tuples.

    Raises:
        Unreadable: not what `to_plain` makes, or what another release of it made.
    """
    if isinstance(plain, list):
        return tuple(from_plain(item) for item in plain)
    if not isinstance(plain, dict):
        return plain
    kind = plain.get(KIND)
    if not isinstance(kind, str):
        raise Unreadable(f"an object without {KIND!r}: {plain!r:.80}")
    try:
        return _made(kind, plain)
    except Unreadable:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"{kind[:80]!r} has other fields here ({type(error).__name__}: {error})") from None


def _made(kind: str, plain: dict[str, Any]) -> Any:
    special = _SPECIAL.get(kind)
    if special is not None:
        return special(plain[CONTENT])
    known = class_of(kind)
    if known is None:
        raise Unreadable(f"no message has the tag {kind[:80]!r} here")
    if issubclass(known, Enum):
        return known(plain[CONTENT])
    fields = {key: from_plain(item) for key, item in plain.items() if key != KIND}
    if known is Operation and "data" not in fields:
        return operation(fields["write"])
    return known(**fields)


_SPECIAL: dict[str, Callable[[Any], Any]] = {
    "dict": lambda pairs: {from_plain(key): from_plain(item) for key, item in pairs},
    "frozenset": lambda items: frozenset(from_plain(item) for item in items),
    "bytes": base64.b64decode,
}


def _changed_fields(value: Struct) -> dict[str, Any]:
    changed = {}
    for name, default in _fields(type(value)):
        item = getattr(value, name)
        if type(item) is not type(default) or item != default:
            changed[name] = to_plain(item)
    return changed


_NO_DEFAULT = object()


@cache
def _fields(kind: type[Struct]) -> tuple[tuple[str, object], ...]:
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    # Defaults belong to the last fields; default factories make values of types that no field has.
    required = len(names) - len(defaults)
    fields = zip(names, (*[_NO_DEFAULT] * required, *defaults), strict=True)
    return tuple((name, default) for name, default in fields if name not in HEADS)


@cache
def _tag(kind: type) -> str:
    tag = tag_of(kind)
    if tag is None:
        raise TypeError(f"{kind.__name__} cannot be written to a journal: no event and no effect holds one")
    return tag

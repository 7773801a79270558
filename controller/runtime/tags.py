"""Which classes can a journal hold, and which tag stands for each?

A class's tag is its name, without its module. Only the classes that events, effects and the machine's settings can hold
have one, so a journal can create nothing else, whatever is written in it.

Tags are permanent: a renamed class leaves its former tag in `FORMER`, and a new class takes one that was never used.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Any, NewType, get_args, get_type_hints

from msgspec import Struct

import controller.core.machine  # noqa: F401 - its duties define the alarms
from controller.core.messages.effects import Effect
from controller.core.messages.events import Event
from controller.core.settings import MachineSettings
from zk_layout.catalog import Address, Value

FORMER = {
    # Two alarms had one name; before there were tags, a name began with its module.
    "controller.core.steps.aside:LookAgain": "TryTopicAgain",
}
# `zk_layout.facts` imports these for type checkers only.
_NOT_IMPORTED = {"Address": Address, "Value": Value}


@cache
def tagged() -> frozenset[type[Any]]:
    """Every class that has a tag."""
    found: set[type[Any]] = set()
    for root in (Event, Effect, MachineSettings):
        _collect(root, found)
    return frozenset(found)


def tag_of(kind: type[Any]) -> str | None:
    """The tag of this class; None if events and effects cannot hold it."""
    return kind.__name__ if _by_tag().get(kind.__name__) is kind else None


def class_of(written: str) -> type[Any] | None:
    """The class for a tag, a former tag, or `module:name` from before there were tags."""
    name = written.rpartition(":")[2]
    return _by_tag().get(FORMER.get(written) or FORMER.get(name, name))


@cache
def _by_tag() -> dict[str, type[Any]]:
    return {kind.__name__: kind for kind in tagged()}


def _collect(hint: Any, found: set[type[Any]]) -> None:
    if isinstance(hint, NewType):
        _collect(hint.__supertype__, found)
    elif parts := get_args(hint):
        for part in parts:
            _collect(part, found)
    elif _is_ours(hint) and hint not in found:
        found.add(hint)
        for part in _within(hint):
            _collect(part, found)


def _is_ours(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, (Struct, tuple, Enum)) and hint is not tuple


def _within(kind: type[Any]) -> Iterator[Any]:
    if issubclass(kind, Enum):
        return
    yield from get_type_hints(kind, localns=_NOT_IMPORTED).values()
    if issubclass(kind, Struct):
        # A field of numbers or texts may hold a member of an enum, which its default shows.
        yield from map(type, kind.__struct_defaults__)
        # Alarms that tests define have no tag.
        yield from (sub for sub in kind.__subclasses__() if sub.__module__.startswith("controller."))

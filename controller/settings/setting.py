"""What is known of one setting?"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct

from controller.settings.kinds import Kind, Value


class Setting(Struct, frozen=True):
    """One key: its kind, its default, and its meaning.

    `is_kafkas` if Kafka has the key, too, with the same meaning; `same_as` names the key whose value is the default.
    `protecting` chooses among the brokers' values if this one is not set; None for keys that are not taken from
    brokers. A change `counts_at_once` or, if not, after a restart.
    """

    key: str
    kind: Kind
    default: Value | None
    doc: str
    is_kafkas: bool = True
    is_required: bool = False
    same_as: str | None = None
    protecting: Callable[[Collection[Any]], Any] | None = None
    counts_at_once: bool = False


def ours(key: str, kind: Kind, default: Value | None, doc: str, *, counts_at_once: bool = False) -> Setting:
    """A setting that Kafka does not have."""
    return Setting(key, kind, default, doc, is_kafkas=False, counts_at_once=counts_at_once)

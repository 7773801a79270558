"""The configuration was read again: what counts from now on, and what waits for a restart?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from controller.settings.parts import Settings, settings_of
from controller.settings.reading import LISTENER_LIMIT
from controller.settings.table import SETTINGS
from controller.settings.values import HIDDEN, Values, shown

NOT_SET: Final = "not set"
_BY_KEY = {one.key: one for one in SETTINGS}
_V = TypeVar("_V")


class Change(Struct, frozen=True):
    """A setting that has another value in the configuration than in force; both as they may be shown."""

    key: str
    before: str
    now: str


class Reread(Struct, frozen=True):
    """What follows from a configuration that was read again.

    Shape:
        `settings` are in force from now on: what differs from before is in `changed`. `pending` counts after a restart.
    """

    settings: Settings
    changed: tuple[Change, ...]
    pending: tuple[Change, ...]


def counts_at_once(key: str) -> bool:
    """Whether a change of this setting counts without a restart.

    >>> counts_at_once("log.level"), counts_at_once("listeners"), counts_at_once("ssl.keystore.location")
    (True, False, False)
    """
    return _BY_KEY[key].counts_at_once if key in _BY_KEY else LISTENER_LIMIT.match(key) is not None


def reread(in_force: Settings, written: Settings) -> Reread:
    """Compare the settings in force with those that are written now."""
    before, now = in_force.values, written.values
    changes = {change.key: change for change in _changes(before, now)}
    changed = tuple(change for key, change in changes.items() if counts_at_once(key))
    values = replace(
        before,
        by_key=_merged(before.by_key, now.by_key),
        given=frozenset(
            {key for key in before.given if not counts_at_once(key)} | {key for key in now.given if counts_at_once(key)}
        ),
        written=_merged(before.written, now.written),
        beside=_merged(before.beside, now.beside),
    )
    settings = settings_of(
        values, in_force.listening, in_force.zookeeper, written.limits.most_per_listener, written.ignored
    )
    return Reread(settings, changed, tuple(change for key, change in changes.items() if not counts_at_once(key)))


def _merged(before: Mapping[str, _V], now: Mapping[str, _V]) -> Mapping[str, _V]:
    """What is written now for keys that count at once, and what is in force for the others."""
    kept = {key: value for key, value in before.items() if not counts_at_once(key)}
    return MappingProxyType({**kept, **{key: value for key, value in now.items() if counts_at_once(key)}})


def _changes(before: Values, now: Values) -> Iterator[Change]:
    for key, setting in _BY_KEY.items():
        is_another = before.by_key[key] != now.by_key[key]
        # Set to what is the default, it is no longer taken from the brokers.
        is_taken_elsewhere = setting.protecting is not None and (key in before.given) != (key in now.given)
        follows_another = setting.same_as is not None and key not in before.given | now.given
        if (is_another or is_taken_elsewhere) and not follows_another:
            yield Change(key, *(_in_table(key, values) for values in (before, now)))
    for key in sorted({*before.beside, *now.beside}):
        if before.beside.get(key) != now.beside.get(key):
            yield Change(key, *(_beside(key, values) for values in (before, now)))


def _in_table(key: str, values: Values) -> str:
    setting, value = _BY_KEY[key], values.by_key[key]
    if value is None or (setting.protecting is not None and key not in values.given):
        return NOT_SET
    return _printable(key, values, lambda: shown(key, value) or "empty")


def _beside(key: str, values: Values) -> str:
    text = values.beside.get(key)
    return NOT_SET if text is None else _printable(key, values, lambda: shown(key, text.reveal()))


def _printable(key: str, values: Values, text: Callable[[], str]) -> str:
    """As it may be shown: what a provider gave stays what is written."""
    found = text()
    return found if found == HIDDEN else values.written.get(key, found)

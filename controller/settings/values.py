"""Which value is in force for each key, once all are valid?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from controller.settings.kinds import Value
from controller.settings.security import Secret

HIDDEN = "[hidden]"

_SECRETS = ("password", "secret", "jaas", "credential", "keystore.key", "master.key")


class Values(Struct, frozen=True):
    """The values in force, by key. Only this package looks up by key; all others receive the parts made from it.

    Shape:
        `by_key` has every key of the table, None without a value and a default. `given` are the keys that the operator
        has set; all others have their defaults, or the brokers' values. `written` has what stands in the configuration
        for values that came from providers. `beside` has the texts of keys that are given, but not in the table: those
        that secure listeners, and limits for one listener.

    Units:
        Keys that end in `.ms` are milliseconds, those in `.bytes` bytes.
    """

    by_key: Mapping[str, Value | None]
    given: frozenset[str] = frozenset()
    written: Mapping[str, str] = MappingProxyType({})
    beside: Mapping[str, Secret] = MappingProxyType({})

    def text(self, key: str) -> str:
        """A value as text; empty if it is not set."""
        value = self.by_key[key]
        return "" if value is None else str(value)

    def number(self, key: str) -> int:
        """The value of a key that the table declares a number."""
        value = self.by_key[key]
        assert isinstance(value, int)
        return value

    def seconds(self, key: str) -> float:
        """The value of a key that the table declares in milliseconds."""
        return self.number(key) / 1000

    def flag(self, key: str) -> bool:
        """The value of a key that the table declares true or false."""
        return self.by_key[key] is True

    def overridden(self, by_key: Mapping[str, Value]) -> Values:
        """The same, with these values of the brokers in force."""
        return replace(self, by_key=MappingProxyType({**self.by_key, **by_key}))

    def shown(self) -> dict[str, str]:
        """Every setting in force, in printable form."""
        return {key: "" if value is None else shown(key, value) for key, value in self.by_key.items()}

    def printable(self) -> dict[str, str]:
        """The same, without what came from providers: it was put there because it may be secret."""
        return {key: text if text == HIDDEN else self.written.get(key, text) for key, text in self.shown().items()}


def shown(key: str, value: Value) -> str:
    """A value in printable form, in Kafka's spelling.

    >>> shown("delete.topic.enable", True), shown("ssl.key.password", "abc")
    ('true', '[hidden]')
    """
    if any(word in key for word in _SECRETS):
        return HIDDEN
    return str(value).lower() if isinstance(value, bool) else str(value)

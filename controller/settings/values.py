"""What is in force, once everything was found to be good?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from controller.settings.kinds import Value
from controller.settings.security import BrokerSecurity, ListenerSecurity, Secret, ZooKeeperSecurity
from zk_layout.znodes.brokers import Endpoint

HIDDEN = "[hidden]"

_SECRETS = ("password", "secret", "jaas", "credential", "keystore.key", "master.key")


class Listener(Struct, frozen=True):
    """One address to listen on; an empty host means every interface."""

    name: str
    host: str
    port: int


class Settings(Struct, frozen=True):
    """The whole configuration; parts receive only what they use.

    Shape:
        `values` has every key of the table, None where nothing is set and there is no default. `ignored` are keys that
        do not concern a controller.
        `most_connections` is by listener, where one has a limit of its own. `security` is by listener, and
        `towards_brokers` has those on which this process can connect to brokers. `token_key` is by what delegation
        tokens are checked, `zookeeper` how this process goes to ZooKeeper. `given` are the keys that the operator has
        set; all others have their defaults.

    Units:
        Keys that end in `.ms` are milliseconds, those in `.bytes` bytes.
    """

    values: Mapping[str, Value | None]
    listeners: tuple[Listener, ...]
    advertised_endpoints: tuple[Endpoint, ...]
    inter_broker_listener: str
    ignored: tuple[str, ...] = ()
    most_connections: Mapping[str, int] = MappingProxyType({})
    security: Mapping[str, ListenerSecurity] = MappingProxyType({})
    towards_brokers: Mapping[str, BrokerSecurity] = MappingProxyType({})
    control_plane_listener: str = ""
    token_key: Secret | None = None
    zookeeper: ZooKeeperSecurity = ZooKeeperSecurity()
    given: frozenset[str] = frozenset()

    def text(self, key: str) -> str:
        """A value as text."""
        return str(self.values[key])

    def number(self, key: str) -> int:
        """A value that the table declares a number."""
        value = self.values[key]
        assert isinstance(value, int)
        return value

    def seconds(self, key: str) -> float:
        """A value that the table declares in milliseconds."""
        return self.number(key) / 1000

    def flag(self, key: str) -> bool:
        """A value that the table declares a truth."""
        return self.values[key] is True

    def overridden(self, values: Mapping[str, Value]) -> Settings:
        """The same, where these values are in force."""
        return replace(self, values=MappingProxyType({**self.values, **values}))

    @property
    def broker_id(self) -> int:
        """Our own id."""
        return self.number("broker.id")

    @property
    def rack(self) -> str | None:
        """Our rack, as the brokers have theirs."""
        rack = self.values["broker.rack"]
        return None if rack is None else str(rack)

    def shown(self) -> dict[str, str]:
        """Every setting in force as it may be printed."""
        return {key: "" if value is None else shown(key, value) for key, value in self.values.items()}


def shown(key: str, value: Value) -> str:
    """A value as it may be printed, in Kafka's spelling.

    >>> shown("delete.topic.enable", True), shown("ssl.key.password", "abc")
    ('true', '[hidden]')
    """
    if any(word in key for word in _SECRETS):
        return HIDDEN
    return str(value).lower() if isinstance(value, bool) else str(value)

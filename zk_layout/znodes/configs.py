"""Which settings were changed at run time, for a topic, a user, one broker or all: `/config/topics/<topic>` …?

Source: Kafka's ConfigEntityZNode.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast
from urllib.parse import quote

from msgspec import Struct

from zk_layout.codec import encode_version_1, json_decoder
from zk_layout.ids import BrokerId, TopicName

BROKERS = "/config/brokers"
USERS = "/config/users"
CLIENTS = "/config/clients"


class TopicConfigAddress(Struct, frozen=True, gc=False):
    """The settings of one topic."""

    topic: TopicName

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"/config/topics/{self.topic}"


class UserConfigAddress(Struct, frozen=True, gc=False):
    """The settings of one user: quotas and SCRAM credentials.

    Shape:
        `user` is spelt as `sanitized` spells it, or `<default>`.
    """

    user: str

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{USERS}/{self.user}"


class UserClientConfigAddress(Struct, frozen=True, gc=False):
    """The settings of one client id of one user: quotas. Both are spelt as in `UserConfigAddress`."""

    user: str
    client: str

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{clients_of(self.user)}/{self.client}"


class ClientConfigAddress(Struct, frozen=True, gc=False):
    """The settings of one client id, with any user: quotas. It is spelt as in `UserConfigAddress`."""

    client: str

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{CLIENTS}/{self.client}"


def clients_of(user: str) -> str:
    """The parent of one user's client ids."""
    return f"{USERS}/{user}/clients"


def sanitized(name: str) -> str:
    """A name as a part of a path, as Kafka's Sanitizer spells it.

    >>> sanitized("ann *~/")
    'ann%20%2A%7E%2F'
    """
    return quote(name, safe="").replace("~", "%7E")


class DefaultBrokerConfigAddress(Struct, frozen=True, gc=False):
    """The settings that all brokers and the controller share."""

    path: ClassVar[str] = f"{BROKERS}/<default>"  # the name is not a placeholder


class BrokerConfigAddress(Struct, frozen=True, gc=False):
    """The settings of one broker. Passwords among them are encrypted with a secret that only brokers have."""

    broker: BrokerId

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{BROKERS}/{self.broker}"


class Config(Struct, frozen=True):
    """Settings by name; every value is a string."""

    config: dict[str, str]


UNCLEAN_ELECTION = "unclean.leader.election.enable"


def is_unclean_allowed(config: Config, default: bool) -> bool:
    """Whether a replica that is not in sync may lead, by this config or else by the default.

    >>> is_unclean_allowed(Config({"unclean.leader.election.enable": " True"}), default=False)
    True
    """
    configured = config.config.get(UNCLEAN_ELECTION)
    return default if configured is None else configured.strip().lower() == "true"


def readable(value: object) -> Config:
    """The settings that were read. Unreadable ones allow nothing that loses data.

    >>> readable(None), readable("what cannot be read").config
    (Config(config={}), {'unclean.leader.election.enable': 'false'})
    """
    if isinstance(value, Config):
        return value
    return Config({} if value is None else {UNCLEAN_ELECTION: "false"})


_NoObject = list[Any] | str | float | bool | None


class _Json(Struct):
    config: dict[str, str] | _NoObject = None


_decoder = json_decoder(cast("type[_Json | _NoObject]", _Json | _NoObject))


def decode(data: bytes) -> Config:
    """The settings that differ from the defaults; none in JSON that has no object `config`, as Kafka reads it.

    Setting quotas for a user's client leaves the user's own znode empty.

    >>> decode(b""), decode(b'{"version":1}'), decode(b'{"version":1,"config":{"retention.ms":"5"}}').config
    (Config(config={}), Config(config={}), {'retention.ms': '5'})

    Raises:
        Undecodable: not JSON, or a value that is no string.
    """
    json = _decoder(data) if data.strip() else None
    return Config(json.config if isinstance(json, _Json) and isinstance(json.config, dict) else {})


def encode(config: Config) -> bytes:
    """As brokers and tools write it."""
    return encode_version_1(config)

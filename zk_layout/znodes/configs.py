"""Which settings were changed at run time, for a topic, a user, or all brokers: `/config/topics/<topic>` …?

Source: Kafka's ConfigEntityZNode.
"""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from zk_layout.codec import encode_version_1, json_decoder
from zk_layout.ids import TopicName

USERS = "/config/users"
CLIENTS = "/config/clients"


class TopicConfigAddress(Struct, frozen=True, gc=False):
    """The settings of one topic."""

    topic: TopicName

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"/config/topics/{self.topic}"


class UserConfigAddress(Struct, frozen=True, gc=False):
    """The settings of one user: quotas and SCRAM credentials.

    Shape:
        `user` is spelt as `sanitized` spells it, or `<default>`.
    """

    user: str

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{USERS}/{self.user}"


class UserClientConfigAddress(Struct, frozen=True, gc=False):
    """The settings of one client id of one user: quotas. Both are spelt as in `UserConfigAddress`."""

    user: str
    client: str

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{clients_of(self.user)}/{self.client}"


class ClientConfigAddress(Struct, frozen=True, gc=False):
    """The settings of one client id, whoever uses it: quotas. It is spelt as in `UserConfigAddress`."""

    client: str

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return f"{CLIENTS}/{self.client}"


def clients_of(user: str) -> str:
    """Where the client ids of one user are."""
    return f"{USERS}/{user}/clients"


def sanitized(name: str) -> str:
    """A name as a part of a path, as Kafka's Sanitizer spells it.

    >>> sanitized("ann *~/")
    'ann%20%2A%7E%2F'
    """
    return quote(name, safe="").replace("~", "%7E")


class DefaultBrokerConfigAddress(Struct, frozen=True, gc=False):
    """The settings that all brokers share, and a controller with them."""

    path: ClassVar[str] = "/config/brokers/<default>"  # the name is not a placeholder


class Config(Struct, frozen=True):
    """Settings by name; every value is a string."""

    config: dict[str, str]


UNCLEAN_ELECTION = "unclean.leader.election.enable"


def is_unclean_allowed(config: Config, default: bool) -> bool:
    """Whether a replica that is not in sync may lead, where this config or, without a word of it, the default says so.

    >>> is_unclean_allowed(Config({"unclean.leader.election.enable": " True"}), default=False)
    True
    """
    configured = config.config.get(UNCLEAN_ELECTION)
    return default if configured is None else configured.strip().lower() == "true"


def readable(value: object) -> Config:
    """The settings that were read. Of those that cannot be read nothing is known: nothing is allowed that loses data.

    >>> readable(None), readable("what cannot be read").config
    (Config(config={}), {'unclean.leader.election.enable': 'false'})
    """
    if isinstance(value, Config):
        return value
    return Config({} if value is None else {UNCLEAN_ELECTION: "false"})


decode = json_decoder(Config)
"""The settings that differ from the defaults."""


def decode_user(data: bytes) -> Config:
    """The settings of a user or client id. Who sets quotas of a user's client leaves the user's own znode empty.

    >>> decode_user(b"")
    Config(config={})

    Raises:
        Undecodable: not a config's JSON.
    """
    return decode(data) if data else Config({})


def encode(config: Config) -> bytes:
    """As brokers and tools write it."""
    return encode_version_1(config)

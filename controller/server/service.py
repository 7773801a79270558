"""What do all connections of this node share?"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from msgspec import Struct

from controller.core.clients.authorization import Withheld, anybody
from controller.core.messages.replies import BrokerConfig
from controller.core.messages.requests import Caller
from controller.security.login import Login
from controller.server.connection_quotas import ConnectionQuotas
from controller.server.inquiries import Inquiries
from controller.server.memory_pools import MemoryPools
from controller.server.metadata_answers import MetadataAnswers
from controller.server.relay import Brokers
from controller.server.repeated_lines import RepeatedLines
from controller.server.topic_configs import TopicConfigs
from controller.settings.limits import Limits
from controller.wire.apis import api_name
from zk_layout.ids import BrokerId
from zk_layout.znodes.acls import AclOperation, ResourcePattern, ResourceType

AuthorizerOfTypes = Callable[[Caller, AclOperation, ResourceType], bool]
Judged = Callable[[Caller, str, AclOperation, ResourcePattern, bool], None]


class ServerObserver(Protocol):
    """Is told what happens on listeners, on the event loop; it must return at once."""

    def answered(self, listener: str, api_key: int, took_s: float) -> None:
        """A request was answered; `took_s` counts from its last byte's arrival."""

    def connections_changed(self, count: int) -> None:
        """So many connections are open on all listeners."""

    def client_disconnected(self, reason: str) -> None:
        """The controller closed or refused a connection; `reason` is short and stable."""


class Tls(Protocol):
    """How connections of one listener are encrypted: `controller.security.tls.tls`."""

    def context(self) -> ssl.SSLContext:
        """For the next connection."""

    def principal(self, certificate: bytes) -> str:
        """Whom the certificate of a client (DER) stands for, such as User:CN=ann.

        Raises:
            AuthenticationFailed: nobody.
        """

    def reason(self, error: ssl.SSLError) -> str:
        """Why a handshake failed, for who reads the log."""


class Door(Struct, frozen=True):
    """How one listener lets clients in: with `tls` encrypted, with `login` only who logs in by SASL.

    Logins wait until `is_ready`: a client that is refused takes its password for wrong, and may give up for good.
    Before a login no message has more than `most_login_bytes`: Kafka's sasl.server.max.receive.size.
    """

    tls: Tls | None = None
    login: Callable[[], Login] | None = None
    is_ready: Callable[[], Awaitable[object]] | None = None
    most_login_bytes: int = 512 * 1024


def _nothing(*_: object) -> bool:
    return False


def _nobody_listens(*_: object) -> None:
    """Nothing is kept."""


class Service:
    """What all connections have in common."""

    def __init__(
        self,
        own_id: BrokerId,
        observer: ServerObserver,
        limits: Limits,
        inter_broker_listener: str | None,
        brokers: Brokers | None = None,
    ) -> None:
        self.limits_users: Callable[[], bool] = lambda: False
        self.own_configs: Callable[[], Mapping[str, BrokerConfig]] = dict
        self.is_allowed = anybody if brokers is None else brokers.is_allowed
        self.is_allowed_for_any: AuthorizerOfTypes = _nothing
        """Whether a client may do something with at least one resource of a type."""
        self.withheld: Callable[[], Withheld | None] = lambda: None
        """Why nothing is done for clients that they would have to be allowed elsewhere, if so."""
        self.judged: Judged = _nobody_listens
        """Hears what was decided about rights, and for which request, where somebody judges at all."""
        self.own_id = own_id
        self.observer = observer
        self.limits = limits
        self.inquiries = Inquiries()
        self.metadata = MetadataAnswers(self.inquiries)
        self.topic_configs = TopicConfigs(brokers)
        self.quotas = ConnectionQuotas(limits, inter_broker_listener)
        self.pools = MemoryPools(limits)
        self.repeated = RepeatedLines()
        self.expected: dict[str, bool] = {}
        """Clients that are looked out for, by name, and whether they have come."""
        self.handshakes = ThreadPoolExecutor(1, "handshakes")
        self.brokers_handshakes = ThreadPoolExecutor(1, "brokers-handshakes")
        """Where TLS handshakes are computed, one at a time; however many strangers come, brokers do not wait for them
        where they have a listener of their own."""
        self.beside = ThreadPoolExecutor(1, "requests")
        """Where what takes long is decoded and encoded: one request at a time, while the event loop goes on."""

    def may(self, caller: Caller, api_key: int, operation: AclOperation, resource: ResourcePattern) -> bool:
        """Whether a client may do this, which it wants by a request of this kind."""
        if operation is not AclOperation.CLUSTER_ACTION and self.withheld() is not None:
            return False
        is_allowed = self.is_allowed(caller, operation, resource)
        if self.is_allowed is not anybody:
            self.judged(caller, api_name(api_key).partition(" ")[0], operation, resource, is_allowed)
        return is_allowed

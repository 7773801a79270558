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
    """Receives what happens on listeners, on the event loop; must return at once."""

    def answered(self, listener: str, api_key: int, took_s: float) -> None:
        """A request was answered; `took_s` counts from the arrival of its last byte."""

    def connections_changed(self, count: int) -> None:
        """The number of open connections on all listeners."""

    def client_disconnected(self, reason: str) -> None:
        """The controller closed or refused a connection; `reason` is short and stable."""


class Tls(Protocol):
    """TLS on one listener: `controller.security.tls.tls`."""

    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""

    def principal(self, certificate: bytes) -> str:
        """The principal of a client certificate (DER), such as User:CN=ann.

        Raises:
            AuthenticationFailed: it has none.
        """

    def reason(self, error: ssl.SSLError) -> str:
        """Why a handshake failed, for the log."""


class ListenerAccess(Struct, frozen=True):
    """The security of one listener: encrypted with `tls`, authenticated by SASL with `login`.

    Logins wait until `is_ready`: a client refused too early takes its password for wrong and may give up for good.
    Before a login, no message exceeds `most_login_bytes`: Kafka's sasl.server.max.receive.size.
    """

    tls: Tls | None = None
    login: Callable[[], Login] | None = None
    is_ready: Callable[[], Awaitable[object]] | None = None
    most_login_bytes: int = 512 * 1024


def _nothing(*_: object) -> bool:
    return False


def _not_recorded(*_: object) -> None:
    """For a service without a log of decisions."""


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
        """Why requests that need an authorizer of this process are refused, if they are."""
        self.judged: Judged = _not_recorded
        """Receives decisions about rights and the requests they concern, where there is an authorizer."""
        self.is_cut_off: Callable[[], bool] = lambda: False
        """Whether ZooKeeper has stopped answering this process. Standbys learn it from ApiVersions."""
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
        """Client ids that are watched for, and whether they have come."""
        self.handshakes = ThreadPoolExecutor(1, "handshakes")
        self.brokers_handshakes = ThreadPoolExecutor(1, "brokers-handshakes")
        """Computes TLS handshakes, one at a time. Where brokers have a listener of their own, they do not wait for
        those of other clients."""
        self.beside = ThreadPoolExecutor(1, "requests")
        """Decodes and encodes large requests, one at a time, while the event loop goes on."""

    def adjust(self, limits: Limits) -> None:
        """Follow changed limits, of open connections with their next request."""
        self.limits = limits
        self.quotas.adjust(limits)
        self.pools.adjust(limits)

    def may(self, caller: Caller, api_key: int, operation: AclOperation, resource: ResourcePattern) -> bool:
        """Whether a client may do what its request of this type needs."""
        if operation is not AclOperation.CLUSTER_ACTION and self.withheld() is not None:
            return False
        is_allowed = self.is_allowed(caller, operation, resource)
        if self.is_allowed is not anybody:
            self.judged(caller, api_name(api_key).partition(" ")[0], operation, resource, is_allowed)
        return is_allowed

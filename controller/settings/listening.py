"""Where does this process listen, what does it advertise, and which listener do brokers use?

Source: KafkaConfig.validateValues, EndPoint and SocketServerConfigs; KIP-103, KIP-291.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from controller.settings.draft import Draft
from controller.settings.securing import broker_security_of, demand_login, security_of, token_key_of
from controller.settings.security import BrokerSecurity, ListenerSecurity, Secret
from controller.settings.table import PROTOCOLS
from zk_layout.codec import Undecodable
from zk_layout.znodes.brokers import Endpoint, parse_endpoint

_EVERYWHERE = ("", "0.0.0.0", "::")


class Listening(Struct, frozen=True):
    """Where to listen, what to advertise, and the names of the listeners between brokers.

    Shape:
        Listener names are in capitals, as Kafka has them, and unique. An empty host in `bound` means every interface.
        `security` and `towards_brokers` are by name; the latter has only those on which this process could connect to
        brokers. `control_plane` is `inter_broker` if no other is set. `token_key` verifies delegation tokens.
    """

    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker: str
    control_plane: str
    security: Mapping[str, ListenerSecurity]
    towards_brokers: Mapping[str, BrokerSecurity]
    token_key: Secret | None

    @property
    def for_brokers(self) -> frozenset[str]:
        """The listeners over which brokers reach this process."""
        return frozenset({self.inter_broker, self.control_plane})


def settle(draft: Draft) -> Listening:
    """Read settings that depend on each other; conflicts become complaints."""
    protocols = _protocols(draft)
    bound = _endpoints(draft, "listeners", protocols)
    ports = [endpoint.port for endpoint in bound]
    if len(set(ports)) < len(ports):
        draft.complain("listeners", "two listeners have the same port")
    advertised = bound
    if draft.is_given("advertised.listeners"):
        advertised = _endpoints(draft, "advertised.listeners", protocols)
        _compare_names(draft, bound, advertised)
    _check_reachable(draft, advertised)
    names = tuple(endpoint.listener for endpoint in advertised)
    inter_broker = _inter_broker(draft, names)
    control_plane = draft.text("control.plane.listener.name").upper() or inter_broker
    security = {e.listener: security_of(draft, e.listener, e.security_protocol) for e in bound}
    for name in dict.fromkeys((inter_broker, control_plane)):
        if name in security:
            demand_login(draft, name, security[name])
    towards = {name: broker_security_of(draft, name, secured) for name, secured in security.items()}
    return Listening(
        bound,
        advertised,
        inter_broker,
        control_plane,
        MappingProxyType(security),
        MappingProxyType({name: found for name, found in towards.items() if found is not None}),
        token_key_of(draft),
    )


def _protocols(draft: Draft) -> dict[str, str]:
    key = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for part in draft.text(key).split(","):
        listener, _, protocol = part.strip().upper().partition(":")
        if protocol in PROTOCOLS:
            protocols[listener] = protocol
        else:
            draft.complain(key, f"expected LISTENER:PROTOCOL, where the protocol is one of {', '.join(PROTOCOLS)}")
    return protocols


def _endpoints(draft: Draft, key: str, protocols: dict[str, str]) -> tuple[Endpoint, ...]:
    endpoints: dict[str, Endpoint] = {}
    for part in draft.text(key).split(","):
        name, scheme, address = part.strip().partition("://")
        try:
            endpoint = parse_endpoint(name.upper() + scheme + address, protocols)
        except Undecodable as error:
            draft.complain(key, str(error))
            continue
        if endpoint.port < 1:
            draft.complain(key, f"{endpoint} needs a port from 1 to 65535")
        if endpoint.listener in endpoints:
            draft.complain(key, f"listener {endpoint.listener} is listed twice")
        endpoints[endpoint.listener] = endpoint
    return tuple(endpoints.values())


def _compare_names(draft: Draft, bound: tuple[Endpoint, ...], advertised: tuple[Endpoint, ...]) -> None:
    names = [endpoint.listener for endpoint in bound]
    for endpoint in advertised:
        if endpoint.listener not in names:
            draft.complain(
                "advertised.listeners",
                f"listener {endpoint.listener} is not in listeners, which has {', '.join(names)}",
            )


def _check_reachable(draft: Draft, advertised: tuple[Endpoint, ...]) -> None:
    key = "advertised.listeners" if draft.is_given("advertised.listeners") else "listeners"
    for endpoint in advertised:
        if endpoint.host in _EVERYWHERE:
            draft.complain(
                key,
                f"{endpoint} cannot be advertised, because no client can connect to it; name an address of this host "
                "that brokers and clients can reach in advertised.listeners",
            )


def _inter_broker(draft: Draft, names: tuple[str, ...]) -> str:
    key, other_key = "inter.broker.listener.name", "security.inter.broker.protocol"
    if draft.is_given(key) and draft.is_given(other_key):
        draft.complain(key, f"{other_key} is set, too; keep the one that the brokers have")
    if not draft.is_given(key):
        key = other_key
    _expect_advertised(draft, key, names)
    if draft.is_given("control.plane.listener.name"):
        _expect_advertised(draft, "control.plane.listener.name", names)
    return draft.text(key).upper()


def _expect_advertised(draft: Draft, key: str, names: tuple[str, ...]) -> None:
    wanted = draft.text(key).upper()
    if names and wanted not in names:
        draft.complain(key, f"brokers reach the controller over {wanted}, but only {', '.join(names)} is advertised")

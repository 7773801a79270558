"""Where does a new replica listen? On listeners with the brokers' names, at addresses of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

from controller.first_settings.found import ClusterSeen
from controller.settings.table import HTTP_PORT

FIRST_PORT: Final = 9095
_BY_DEFAULT: Final = "PLAINTEXT://:9092"
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def listener_names(values: Mapping[str, str]) -> tuple[str, ...]:
    """The broker's listeners that others know, and that of the control plane, in the broker's order.

    >>> listener_names({"listeners": "INSIDE://:9092,OUTSIDE://:9094", "advertised.listeners": "inside://b:9092"})
    ('INSIDE',)
    """
    text = values.get("advertised.listeners") or values.get("listeners") or _BY_DEFAULT
    parts = [part.strip().partition("://")[0].upper() for part in text.split(",") if part.strip()]
    control_plane = values.get("control.plane.listener.name", "").upper()
    return tuple(dict.fromkeys([*parts, *([control_plane] if control_plane else [])]))


def is_loopback(host: str) -> bool:
    """Whether only processes on the same host reach it.

    >>> is_loopback("127.0.0.1"), is_loopback("kafka-1.example")
    (True, False)
    """
    return host.lower() in _LOOPBACK


def are_local(seen: ClusterSeen) -> bool:
    """Whether all brokers advertise only addresses of their own host, as on a machine for tests."""
    hosts = {endpoint.host for registration in seen.registrations.values() for endpoint in registration.endpoints}
    return bool(hosts) and all(map(is_loopback, hosts))


def endpoints(names: Sequence[str], host: str, first_port: int, used: Collection[int]) -> dict[str, str]:
    """`listeners` and `advertised.listeners`, with ports from the first one on that no broker uses.

    >>> endpoints(["INSIDE", "OUTSIDE"], "c1", 9095, [9096])["advertised.listeners"]
    'INSIDE://c1:9095,OUTSIDE://c1:9097'
    """
    ports = (port for port in count(first_port) if port not in used and port != HTTP_PORT)
    numbers = dict(zip(names, ports, strict=False))
    shown = f"[{host}]" if ":" in host else host
    bound = shown if is_loopback(host) else "0.0.0.0"
    return {
        "listeners": ",".join(f"{name}://{bound}:{port}" for name, port in numbers.items()),
        "advertised.listeners": ",".join(f"{name}://{shown}:{port}" for name, port in numbers.items()),
    }


def ports_of_brokers(values: Mapping[str, str], seen: ClusterSeen) -> frozenset[int]:
    """The ports on which brokers listen, as far as they are known."""
    return frozenset(
        [
            *_ports(values.get("listeners") or _BY_DEFAULT),
            *_ports(values.get("advertised.listeners", "")),
            *(endpoint.port for one in seen.registrations.values() for endpoint in one.endpoints),
        ]
    )


def _ports(listeners: str) -> Iterator[int]:
    for part in listeners.split(","):
        port = part.rpartition(":")[2].strip()
        if port.isdecimal():
            yield int(port)

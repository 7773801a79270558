"""What does a broker's registration say: `/brokers/ids/<id>`?

Source: Kafka's BrokerIdZNode.
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta, Struct

from zk_layout.codec import Undecodable, encode_json, excerpt, json_decoder
from zk_layout.ids import BrokerId
from zk_layout.znodes.controller import PRODUCT

ROOT = "/brokers/ids"
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

HIGHEST_PORT = 65535
LONGEST_NAME = 255
LONGEST_RACK = 1024  # brokers set no limit, the protocol one of 32 KiB

_ENDPOINT = re.compile(r"^([A-Za-z0-9_.-]{1,255})://\[?([^\]]{0,255}?)\]?:(-1|[0-9]+)\Z")


class BrokerAddress(Struct, frozen=True, gc=False):
    """The registration of one broker."""

    broker: BrokerId

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{ROOT}/{self.broker}"


class Endpoint(Struct, frozen=True):
    """One listener of a broker as clients reach it.

    >>> str(Endpoint("INSIDE", "::1", 9092, "SSL"))
    'INSIDE://[::1]:9092'
    """

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    @property
    def address(self) -> str:
        """Host and port, as clients see them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.listener}://{self.address}"


class Registration(Struct, frozen=True):
    """A live broker: its listeners and its rack. Its epoch is the czxid of the znode.

    `is_ours` marks the registration of one of our processes, as opposed to a real broker's.
    """

    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    features: dict[str, dict[str, int]] = {}
    is_ours: bool = False

    def endpoint(self, listener: str) -> Endpoint | None:
        """The endpoint of one listener, if the broker has it."""
        return next((e for e in self.endpoints if e.listener == listener), None)


class _Json(Struct):
    version: int = 4
    host: Annotated[str, Meta(max_length=LONGEST_NAME)] | None = None
    port: Annotated[int, Meta(ge=-1, le=HIGHEST_PORT)] = -1
    endpoints: tuple[str, ...] | None = None
    listener_security_protocol_map: dict[str, str] | None = None
    rack: Annotated[str, Meta(max_length=LONGEST_RACK)] | None = None
    features: dict[str, dict[str, int]] | None = None
    product: str | None = None


_decoder = json_decoder(_Json)


def parse_endpoint(text: str, protocols: dict[str, str] | None = None) -> Endpoint:
    """One `LISTENER://host:port`; a listener missing from the map must be named like a security protocol.

    >>> parse_endpoint("PLAINTEXT://127.0.0.1:9092").port
    9092

    Raises:
        Undecodable: not an endpoint, or a listener whose protocol is unknown.
    """
    match = _ENDPOINT.match(text)
    if match is None:
        raise Undecodable(f"{excerpt(text.encode())} is not an endpoint; expected LISTENER://host:port")
    listener, host, port = match.groups()
    protocol = (protocols or {}).get(listener, listener)
    if protocol not in SECURITY_PROTOCOLS:
        raise Undecodable(
            f"listener {listener} has no security protocol; map it to one of {', '.join(SECURITY_PROTOCOLS)}"
        )
    if len(port) > 5 or int(port) > HIGHEST_PORT:
        raise Undecodable(f"{excerpt(text.encode())} has a port above {HIGHEST_PORT}")
    return Endpoint(listener, host, int(port), protocol)


def decode(data: bytes) -> Registration:
    """Versions 1 to 5; version 1 has only host and port, a PLAINTEXT listener.

    Raises:
        Undecodable: not a registration's JSON, or without any endpoint.
    """
    json = _decoder(data)
    if json.endpoints and json.version != 1:
        endpoints = tuple(parse_endpoint(e, json.listener_security_protocol_map) for e in json.endpoints)
    elif json.host is not None:
        endpoints = (Endpoint("PLAINTEXT", json.host, json.port),)
    else:
        raise Undecodable("registration names no endpoint")
    return Registration(endpoints, json.rack, json.features or {}, json.product == PRODUCT)


def encode(registration: Registration) -> bytes:
    """Version 5, which every broker from 2.4 on decodes; timestamps are informational and left at 0."""
    plain = next((e for e in registration.endpoints if e.security_protocol == "PLAINTEXT"), None)
    json: dict[str, object] = {
        "version": 5,
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "jmx_port": -1,
        "timestamp": "0",
        "endpoints": [str(e) for e in registration.endpoints],
        "listener_security_protocol_map": {e.listener: e.security_protocol for e in registration.endpoints},
        "features": registration.features,
    }
    if registration.rack is not None:
        json["rack"] = registration.rack
    if registration.is_ours:
        json["product"] = PRODUCT  # a key that brokers do not look for
    return encode_json(json)

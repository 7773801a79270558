"""How much may clients take, all together and each?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from controller.settings.kinds import counts_in
from controller.settings.values import Values

UNLIMITED_BYTES = 2**62
_MEBIBYTE = 1024 * 1024
_NONE: Mapping[str, int] = MappingProxyType({})


class Limits(Struct, frozen=True):
    """Limits on clients.

    Shape:
        `most_per_listener` is by listener name; others have no limit of their own. `most_for_address` is by host as
        the operator has written it, and by IP address in the server; others have `most_per_address`.

    Units:
        `idle_s`: Kafka's `connections.max.idle.ms`: a request must begin within it. `request_s`: a request must be
        complete within it, and some of an answer must be read.
        `most_request_bytes`: Kafka's `socket.request.max.bytes`. `queued_bytes`: Kafka's `queued.max.request.bytes`,
        of requests that are arriving; those of brokers have as much again.
        `unsent_bytes`: of answers that clients have not read.
        `most_new_per_s`: Kafka's `max.connection.creation.rate`.
        `send_buffer_bytes` and `receive_buffer_bytes`: Kafka's `socket.send.buffer.bytes` and
        `socket.receive.buffer.bytes`, memory of the system for a connection; -1: the system's default.
        `most_newcomers`: this many more on the brokers' listener may still have to authenticate.
        `failed_login_delay_s`: Kafka's `connection.failed.authentication.delay.ms`: a failed login is answered later.
    """

    most_request_bytes: int = 16 * _MEBIBYTE
    idle_s: float = 600.0
    most_connections: int = 2_000
    request_s: float = 30.0
    queued_bytes: int = 32 * _MEBIBYTE
    open_bytes: int = 32 * _MEBIBYTE
    unsent_bytes: int = 64 * _MEBIBYTE
    most_per_address: int = 2**31 - 1
    most_for_address: Mapping[str, int] = _NONE
    most_per_listener: Mapping[str, int] = _NONE
    most_new_per_s: int = 2**31 - 1
    send_buffer_bytes: int = 102_400
    receive_buffer_bytes: int = 102_400
    failed_login_delay_s: float = 0.1
    most_newcomers: int = 64


def limits_of(values: Values, most_per_listener: Mapping[str, int]) -> Limits:
    """Build it from the keys about connections and requests."""
    queued_bytes = values.number("queued.max.request.bytes")
    return Limits(
        values.number("socket.request.max.bytes"),
        values.seconds("connections.max.idle.ms"),
        values.number("max.connections"),
        queued_bytes=UNLIMITED_BYTES if queued_bytes < 0 else queued_bytes,
        most_per_address=values.number("max.connections.per.ip"),
        most_for_address=counts_in(values.text("max.connections.per.ip.overrides")),
        most_per_listener=most_per_listener,
        most_new_per_s=values.number("max.connection.creation.rate"),
        send_buffer_bytes=values.number("socket.send.buffer.bytes"),
        receive_buffer_bytes=values.number("socket.receive.buffer.bytes"),
        failed_login_delay_s=values.seconds("connection.failed.authentication.delay.ms"),
    )

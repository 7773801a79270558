"""How much may clients take, all together and each?"""

from __future__ import annotations

import resource
import socket
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

RESERVED_DESCRIPTORS = 160
"""For ZooKeeper, the HTTP server, logs, the journal, the loop itself, and newcomers beyond the limit."""

_MEBIBYTE = 1024 * 1024
_NONE: Mapping[str, int] = MappingProxyType({})


class Limits(Struct, frozen=True):
    """How much clients may take.

    Shape:
        `most_per_listener` is by listener name, `most_for_address` by IP address; others have no limit of their own
        but `most_per_address`.

    Units:
        `idle_s`: Kafka's `connections.max.idle.ms`: a request must have begun within it. `request_s`: what has begun
        must be complete within it, and of an answer something must have been taken.
        `most_request_bytes`: Kafka's `socket.request.max.bytes`. `queued_bytes`: Kafka's `queued.max.request.bytes`,
        of requests that are arriving; those of brokers have as much again.
        `unsent_bytes`: of answers that clients have not taken.
        `most_new_per_s`: Kafka's `max.connection.creation.rate`.
        `send_buffer_bytes` and `receive_buffer_bytes`: Kafka's `socket.send.buffer.bytes` and
        `socket.receive.buffer.bytes`, of memory that the system takes for a connection; -1: as it likes.
        `most_newcomers`: so many more on the brokers' listener may still have to show who they are.
        `failed_login_delay_s`: Kafka's `connection.failed.authentication.delay.ms`: whoever fails is answered later.
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


def connections_within(most_connections: int, *, is_relaying: bool) -> int:
    """How many connections the limit of open files leaves room for, once it is raised as far as this process may.

    One descriptor in eight and `RESERVED_DESCRIPTORS` stay free for ZooKeeper, brokers and HTTP. A client whose
    requests are relayed may take a second one, to a broker.
    """
    each = 2 if is_relaying else 1
    wanted = (most_connections * each + RESERVED_DESCRIPTORS) * 8 // 7 + 1
    allowed = _raised_to(wanted)
    return max(1, min(most_connections, (allowed - allowed // 8 - RESERVED_DESCRIPTORS) // each))


def _raised_to(wanted: int) -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        hard = max(wanted, soft)
    if soft != resource.RLIM_INFINITY and soft < wanted and soft < hard:
        soft = min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        except (OSError, ValueError):
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else soft


def by_address(limits: Mapping[str, int]) -> dict[str, int]:
    """Limits of hosts, by each of their addresses; a name that nobody knows limits nobody."""
    found: dict[str, int] = {}
    for host, most in limits.items():
        try:
            found |= {str(entry[4][0]): most for entry in socket.getaddrinfo(host, None)}
        except OSError:
            continue
    return found

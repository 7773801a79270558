"""How many connections fit, and which addresses are limited?"""

from __future__ import annotations

import resource
import socket
from collections.abc import Mapping

RESERVED_DESCRIPTORS = 160
"""For ZooKeeper, the HTTP server, logs, the journal, the event loop, and newcomers beyond the limit."""


def connections_within(most_connections: int, *, is_relaying: bool) -> int:
    """How many connections the limit of open files allows, once raised as far as this process may.

    One descriptor in eight and `RESERVED_DESCRIPTORS` stay free for ZooKeeper, brokers and HTTP. Each relayed client
    may take a second descriptor, for a broker.
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
    """The hosts' limits by address; a name that does not resolve limits no client."""
    found: dict[str, int] = {}
    for host, most in limits.items():
        try:
            found |= {str(entry[4][0]): most for entry in socket.getaddrinfo(host, None)}
        except OSError:
            continue
    return found

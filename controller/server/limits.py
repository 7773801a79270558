"""How many connections are there room for, and which addresses are limited?"""

from __future__ import annotations

import resource
import socket
from collections.abc import Mapping

RESERVED_DESCRIPTORS = 160
"""For ZooKeeper, the HTTP server, logs, the journal, the loop itself, and newcomers beyond the limit."""


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

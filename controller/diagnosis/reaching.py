"""Do the servers of ZooKeeper and the brokers accept connections from this host, and how fast?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from controller.zk import preparation
from controller.zk.bridge import Bridge

_WITHIN_S: Final = 3.0
_AT_ONCE: Final = 64
_ZOOKEEPER_PORT: Final = 2181


def servers_in(connect: str) -> dict[str, tuple[str, int]]:
    """The servers of a `zookeeper.connect`, by name.

    >>> servers_in("zk1:2182,[::1]/kafka")
    {'zk1:2182': ('zk1', 2182), '[::1]': ('::1', 2181)}
    """
    found = {}
    for server in connect.partition("/")[0].split(","):
        host, colon, port = server.strip().rpartition(":")
        has_port = bool(colon) and port.isdecimal()
        host = host if has_port else server.strip()
        found[server.strip()] = host.strip("[]"), int(port) if has_port else _ZOOKEEPER_PORT
    return found


async def broker_addresses(bridge: Bridge) -> dict[str, tuple[str, int]]:
    """The addresses that brokers advertise, by broker and listener.

    Raises:
        Refused, SessionEnded: ZooKeeper does not say.
    """
    registrations = await preparation.registrations(bridge)
    return {
        f"broker {broker} {endpoint}": (endpoint.host, endpoint.port)
        for broker, registration in sorted(registrations.items())
        for endpoint in registration.endpoints
    }


async def reach(addresses: Mapping[str, tuple[str, int]]) -> dict[str, str]:
    """How many milliseconds a connection took, or why there is none."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(host: str, port: int) -> str:
        async with slots:
            began = time.monotonic()
            try:
                async with asyncio.timeout(_WITHIN_S):
                    _, writer = await asyncio.open_connection(host, port)
            except TimeoutError:
                return f"no connection within {_WITHIN_S:g} s"
            except (OSError, ValueError, OverflowError) as error:
                return str(error) or type(error).__name__
            writer.transport.abort()
            return f"connected in {(time.monotonic() - began) * 1000:.1f} ms"

    found = await asyncio.gather(*(one(*address) for address in addresses.values()))
    return dict(zip(addresses, found, strict=True))

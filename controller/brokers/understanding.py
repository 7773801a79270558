"""Do the brokers understand what `inter.broker.protocol.version` would make this controller send?

Kafka's own controllers never ask. A broker hangs up on a version it does not know, so a controller that speaks too
new a protocol would rule a cluster that does not hear it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from controller.connections.broker import Broken, BrokerConnection, Dialer
from controller.wire.versions import InterBrokerProtocol, VersionRange, newest_within
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import Endpoint, Registration

_ANSWER_WITHIN_S = 2.0
_COMPLAINTS_SHOWN = 3


class Understanding:
    """Whether some broker has said that it understands this controller, and none that it does not."""

    def __init__(self, protocol: InterBrokerProtocol, listener: str, dialer: Dialer) -> None:
        """Nobody was asked yet. `listener` is the one over which brokers are told."""
        self._protocol = protocol
        self._listener = listener
        self._dialer = dialer
        self._is_certain = False

    async def complaint(self, registered: Callable[[], Awaitable[Mapping[BrokerId, Registration]]]) -> str | None:
        """Why brokers would not understand this controller; nobody is asked any more once that is certain.

        One that cannot be reached has no say: it may be going down, and must not hold up a fail-over.
        """
        if self._is_certain:
            return None
        found = {b: e for b, r in (await registered()).items() if (e := r.endpoint(self._listener)) is not None}
        answers = await asyncio.gather(*(_versions_of(endpoint, self._dialer) for endpoint in found.values()))
        said = {broker: ranges for broker, ranges in zip(found, answers, strict=True) if ranges is not None}
        complaints = tuple(_complaints(said, self._protocol))
        self._is_certain = bool(said) and not complaints
        return "; ".join(complaints[:_COMPLAINTS_SHOWN]) or None


async def _versions_of(endpoint: Endpoint, dialer: Dialer) -> Mapping[int, VersionRange] | None:
    connection = BrokerConnection(dialer, endpoint)
    try:
        return await connection.versions(_ANSWER_WITHIN_S)
    except Broken:
        return None
    finally:
        connection.drop()


def _complaints(said: Mapping[BrokerId, Mapping[int, VersionRange]], protocol: InterBrokerProtocol) -> Iterable[str]:
    for broker, ranges in said.items():
        for api, version in protocol.commands.items():
            if api in ranges and version not in ranges[api]:
                newest = newest_within(ranges)
                remedy = "" if newest is None else f"; the newest it understands is {newest.major}.{newest.minor}"
                yield (
                    f"broker {broker} understands {api.name} {ranges[api]}, and inter.broker.protocol.version="
                    f"{protocol} means {version}{remedy}"
                )
                break

"""How is a connection to a broker opened? The seam for TLS and SASL: only a dialer knows how a listener is secured."""

from __future__ import annotations

import asyncio

from zk_layout.znodes.brokers import Endpoint

READ_AHEAD_BYTES = 1024 * 1024


class PlaintextDialer:
    """Connections to PLAINTEXT listeners."""

    def __init__(self, read_ahead_bytes: int = READ_AHEAD_BYTES) -> None:
        """Of a response that nobody takes, about twice as much is held."""
        self._read_ahead_bytes = read_ahead_bytes

    async def open_connection(self, endpoint: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """One new connection.

        Raises:
            OSError: nobody listens there, or the listener is secured and plain text would not be understood.
        """
        if endpoint.security_protocol != "PLAINTEXT":
            raise ConnectionError(
                f"listener {endpoint} speaks {endpoint.security_protocol} but this controller is configured "
                "for PLAINTEXT; choose a PLAINTEXT inter-broker listener"
            )
        return await asyncio.open_connection(endpoint.host, endpoint.port, limit=self._read_ahead_bytes)

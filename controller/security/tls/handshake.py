"""Would two ends of a TLS connection accept each other? A handshake in memory, without a network."""

from __future__ import annotations

import ssl

_MOST_ROUNDS = 10


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Complete a handshake of a client that connects to this host with a server.

    Raises:
        ssl.SSLError: one of them refuses the other.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_side=False, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_MOST_ROUNDS):
        ends = [end for end in ends if not _is_done(end)]
        if not ends:
            return
    raise ssl.SSLError(0, "the handshake does not complete")


def _is_done(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True

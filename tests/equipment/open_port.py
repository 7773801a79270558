"""Does anything listen on a port of this machine?"""

from __future__ import annotations

import socket


def is_listening(port: int, timeout_s: float = 1.0) -> bool:
    """Whether something accepts connections there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s):
            return True
    except OSError:
        return False

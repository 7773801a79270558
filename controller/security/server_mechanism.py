"""What do the server's sides of all mechanisms have in common?"""

from __future__ import annotations

from abc import ABC, abstractmethod


class ServerMechanism(ABC):
    """One login by one mechanism: bytes in, bytes out, until it `is_done`."""

    is_done = False
    """Whether the client is known."""
    user = ""
    """Who it is, once it `is_done`."""
    expires_at_ms: int | None = None
    """When what it has shown ends (milliseconds since 1970); None for never."""
    is_token = False
    """Whether it came with a delegation token: it may then make no further ones."""

    @abstractmethod
    def answer(self, token: bytes) -> bytes:
        """The challenge that answers what the client says.

        Raises:
            AuthenticationFailed: and nothing else, whatever the bytes.
        """

"""What do the server's sides of all mechanisms have in common?"""

from __future__ import annotations

from abc import ABC, abstractmethod


class ServerMechanism(ABC):
    """One login by one mechanism: bytes in, bytes out, until it `is_done`."""

    is_done = False
    """Whether the client has authenticated."""
    user = ""
    """The user, once it `is_done`."""
    expires_at_ms: int | None = None
    """When the credential expires (milliseconds since 1970); None for never."""
    is_token = False
    """Whether the client used a delegation token: it may then create no further ones."""

    @abstractmethod
    def answer(self, token: bytes) -> bytes:
        """The challenge that answers the client's token.

        Raises:
            AuthenticationFailed: the only error, whatever the bytes.
        """

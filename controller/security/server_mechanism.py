"""What do the server's sides of all mechanisms have in common?"""

from __future__ import annotations

from typing import Protocol


class ServerMechanism(Protocol):
    """One login by one mechanism: bytes in, bytes out, until it `is_done`."""

    @property
    def is_done(self) -> bool:
        """Whether the client is known."""

    @property
    def user(self) -> str:
        """Who it is, once it `is_done`."""

    @property
    def expires_at_ms(self) -> int | None:
        """When what it has shown ends (milliseconds since 1970); None for never."""

    @property
    def is_token(self) -> bool:
        """Whether it came with a delegation token: it may then make no further ones."""

    def answer(self, token: bytes) -> bytes:
        """The challenge that answers what the client says.

        Raises:
            AuthenticationFailed: and nothing else, whatever the bytes.
        """

"""What do the server's sides of all mechanisms have in common?"""

from __future__ import annotations

from typing import Protocol


class ServerMechanism(Protocol):
    """One login by one mechanism: bytes in, bytes out, until it `is_done`."""

    @property
    def is_done(self) -> bool:
        """Whether the client has authenticated."""

    @property
    def user(self) -> str:
        """The user, once it `is_done`."""

    @property
    def expires_at_ms(self) -> int | None:
        """When the credential expires (milliseconds since 1970); None for never."""

    @property
    def is_token(self) -> bool:
        """Whether the client used a delegation token: it may then create no further ones."""

    def answer(self, token: bytes) -> bytes:
        """The challenge that answers the client's token.

        Raises:
            AuthenticationFailed: the only error, whatever the bytes.
        """

"""Why was somebody not let in: what does the other side get to know, and what the log?"""

from __future__ import annotations

from controller.core.messages.errors import ErrorCode


class AuthenticationFailed(Exception):
    """A login ends here, the connection with it.

    Shape:
        `message` is for the client; None for the text that tells nothing but the mechanism. `reason` is for the log: it
        may name a user, never a password or token. Without `is_told` Kafka closes the connection unanswered.
    """

    def __init__(
        self,
        reason: str,
        message: str | None = None,
        *,
        error: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED,
        is_told: bool = True,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message
        self.error = error
        self.is_told = is_told


def told(message: str) -> AuthenticationFailed:
    """A failure whose text the client may read as well."""
    return AuthenticationFailed(message, message)


class UnusableSecurity(ValueError):
    """Settings by which nobody can log in; the text names the setting, never what it is set to."""

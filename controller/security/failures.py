"""Why did a login fail: what may the client see, and what the log?"""

from __future__ import annotations

from controller.core.messages.errors import ErrorCode


class AuthenticationFailed(Exception):
    """A login fails here, and the connection ends.

    Shape:
        `message` is for the client; None stands for a text that names only the mechanism. `reason` is for the log: it
        may name a user, never a password or token. Without `is_answered` Kafka closes the connection unanswered.
    """

    def __init__(
        self,
        reason: str,
        message: str | None = None,
        *,
        error: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED,
        is_answered: bool = True,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message
        self.error = error
        self.is_answered = is_answered


def shown_to_client(message: str) -> AuthenticationFailed:
    """A failure whose text the client may see as well."""
    return AuthenticationFailed(message, message)


class UnusableSecurity(ValueError):
    """Settings with which no login can succeed; the text names the setting, never its value."""

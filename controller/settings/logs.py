"""What is logged, in which form, and where?"""

from __future__ import annotations

from msgspec import Struct

from controller.settings.values import Values


class LogSettings(Struct, frozen=True):
    """The log of this process, and those of its authorizer and of moves.

    Shape:
        `format` is auto, text or json. Without `authorizer_file` the authorizer's lines are among the others; without
        `moves_file` nothing is logged of single moves.
    """

    level: str
    format: str
    authorizer_level: str
    authorizer_file: str | None
    moves_file: str | None


def logs_of(values: Values) -> LogSettings:
    """Build it from the keys `log.…`."""
    return LogSettings(
        level=values.text("log.level"),
        format=values.text("log.format"),
        authorizer_level=values.text("log.authorizer.level"),
        authorizer_file=values.text("log.authorizer.file") or None,
        moves_file=values.text("log.moves.file") or None,
    )

"""What may a log line contain? Values of a bounded length, and in a text for people nothing that is not text.

Names and messages come from znodes and clients: a terminal must not interpret them, and they must not look like other
lines.
"""

from __future__ import annotations

import re
from typing import Any, Final

from structlog.typing import EventDict, Processor, WrappedLogger

LONGEST_LINE: Final = 32_000
LONGEST_VALUE: Final = 4_000
_SHORT_VALUE: Final = 300
_SEVERAL_LINES: Final = ("exception", "stack")
# C0 and C1, line separators, characters that change the direction of text, unpaired surrogates.
_NOT_TEXT: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def cut(text: str, longest: int = LONGEST_VALUE) -> str:
    r"""The beginning and the end of a long text.

    >>> cut("abcdefghijkl", 8)
    'abcd … (4 characters) … ijkl'
    """
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} … ({len(text) - 2 * half} characters) … {text[-half:]}"


def escaped(text: str) -> str:
    r"""Text without anything that a terminal or a reader would misinterpret.

    >>> escaped("a\x1b[2J\nb\u202ec")
    'a\\x1b[2J\\nb\\u202ec'
    """
    return _NOT_TEXT.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


def bounded(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Cut text values to the allowed length."""
    return {
        key: cut(value) if isinstance(value, str) and key not in _SEVERAL_LINES else value
        for key, value in event.items()
    }


def plain(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Escape text values, and indent the further lines of a traceback, so that they cannot look like other lines."""
    return {key: _plain(key, value) if isinstance(value, str) else value for key, value in event.items()}


def _plain(key: str, value: str) -> str:
    if key not in _SEVERAL_LINES:
        return escaped(value)
    return "\n".join(f"    {escaped(line)}" for line in cut(value, 4 * LONGEST_VALUE).split("\n"))


def short(render: Processor) -> Processor:
    """Render again, with less of each value, if the line is too long."""

    def render_short(logger: WrappedLogger, name: str, event: EventDict) -> Any:
        kept = dict(event)
        line = render(logger, name, event)
        if not isinstance(line, str) or len(line) <= LONGEST_LINE:
            return line
        return render(logger, name, {key: _shortened(key, value) for key, value in kept.items()})

    return render_short


def _shortened(key: str, value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    return cut(text, 2 * LONGEST_VALUE if key in _SEVERAL_LINES else _SHORT_VALUE)

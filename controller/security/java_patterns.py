r"""How does Python read a regular expression that was written for Java?

Java knows more line terminators than Python: `.` matches none of them, and `$` matches before the last one. So a name
with U+2028 at its end, or a carriage return in it, would be mapped by other rules here than on the brokers. After an
empty match Java goes on one character later, where Python looks for a longer match at the same place.

Source: java.util.regex.Pattern.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from itertools import islice

_NO_TERMINATOR = r"[^\n\r\x85\u2028\u2029]"
_END = r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)"
_BY_JAVA = {".": _NO_TERMINATOR, "$": _END, r"\Z": _END, r"\z": r"\Z", "(?<": "(?P<"}
# Nothing for it in Python, or something else: better to refuse it than to misread it.
_ONLY_IN_JAVA = re.compile(r"\\[pPGQERXhHvVKk]|&&")
_PIECE = re.compile(
    r"(?P<escaped>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|\(\?(?P<on>[a-z]*)(?:-(?P<off>[a-z]+))?(?P<scope>[:)])"
    r"|(?P<named>\(\?<(?=[A-Za-z]))|(?P<open>\()|(?P<close>\))|(?P<sign>[.$])",
    re.DOTALL,
)


def compiled(pattern: str) -> re.Pattern[str]:
    r"""The pattern in Python.

    >>> compiled("CN=(.*)").fullmatch("CN=a\u2028b") is None, compiled("(?s)CN=(.*)$").search("CN=ann\r")[0]
    (True, 'CN=ann\r')

    `\b` knows no letters but ASCII's, as in Java from 19 on.

    Raises:
        re.error: it is malformed, or has something that Python lacks or reads differently.
    """
    if (found := _ONLY_IN_JAVA.search(pattern)) is not None:
        raise re.error(f"{found[0]} of Java's patterns is not supported", pattern, found.start())
    with warnings.catch_warnings():
        # Nested sets mean something else in Java.
        warnings.simplefilter("error", FutureWarning)
        try:
            return re.compile(_translated(pattern), re.ASCII)
        except FutureWarning as warning:
            raise re.error(str(warning), pattern) from None


def finds(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The matches that Java's `find` gives, one after the other."""
    at = 0
    while at <= len(text) and (found := pattern.search(text, at)) is not None:
        yield found
        at = found.end() + (found.start() == found.end())


def replaced(
    pattern: re.Pattern[str], text: str, replacement: Callable[[re.Match[str]], str], *, most: int | None = None
) -> str:
    """The text with each match replaced; `most` limits their number.

    >>> replaced(compiled("(.*?)"), "ab", lambda found: "-")
    '-a-b-'
    """
    done, at = "", 0
    for found in islice(finds(pattern, text), most):
        done += text[at : found.start()] + replacement(found)
        at = found.end()
    return done + text[at:]


def _translated(pattern: str) -> str:
    """What differs, written for Python. Whether `.` matches everything depends on the flags of each group around it."""
    every = [False]

    def piece(found: re.Match[str]) -> str:
        text = found[0]
        if found["scope"] is not None:
            if "m" in found["on"]:
                raise re.error("the flag m is not supported", pattern, found.start())
            is_every = "s" in found["on"] or (every[-1] and "s" not in (found["off"] or ""))
            if found["scope"] == ":":
                every.append(is_every)
            else:
                every[-1] = is_every
        elif found["open"] or found["named"]:
            every.append(every[-1])
        elif found["close"] and len(every) > 1:
            every.pop()
        if found["set"] or (text == "." and every[-1]):
            return text
        return _BY_JAVA.get(text, text)

    return _PIECE.sub(piece, pattern)

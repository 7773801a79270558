"""How is a properties file written that explains each of its lines?"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

import javaproperties
from msgspec import Struct

_WIDTH: Final = 118
_ESCAPED = re.compile(r"\\(.)")


class Line(Struct, frozen=True):
    """One setting, and the comment above it.

    Shape:
        `is_set`: otherwise the line is a comment, too, for the reader to complete or to uncomment. Its `repr` does not
        show the value, which may be secret.
    """

    key: str
    value: str
    comment: str
    is_set: bool = True

    def __repr__(self) -> str:
        return f"Line({self.key!r}, …)"


class Section(Struct, frozen=True):
    """Settings that belong together. `text` stands where there is none."""

    title: str
    lines: tuple[Line, ...] = ()
    text: tuple[str, ...] = ()


def as_properties(introduction: Iterable[str], sections: Iterable[Section]) -> str:
    """The whole file, in ASCII."""
    found = [*_comments(introduction)]
    for section in sections:
        if not (section.lines or section.text):
            continue
        found += ["", f"# --- {section.title} ".ljust(_WIDTH + 2, "-"), *_comments(section.text)]
        for line in section.lines:
            found += ["", *_comments([line.comment]), f"{'' if line.is_set else '#'}{line.key}={as_value(line.value)}"]
    return "\n".join([*found, ""])


def as_value(text: str) -> str:
    r"""A value as Java's Properties reads it back, with no more escapes than needed.

    >>> print(as_value(" zk: 2181=\\ü"))
    \ zk: 2181=\\\u00fc
    """
    return _ESCAPED.sub(lambda found: found[found.start() > 0 and found[1] in ":=#! "], javaproperties.escape(text))


def _comments(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        shown = text.replace(".…", ".*").encode("ascii", "backslashreplace").decode()
        for line in textwrap.wrap(shown, _WIDTH, break_long_words=False, break_on_hyphens=False) or [""]:
            yield f"# {line}".rstrip()

"""What in a line does a name before it call a secret?"""

from __future__ import annotations

import re
from typing import Final

from controller.settings.values import HIDDEN

_WORDS: Final = ("pass", "pwd", "secret", "credential", "key", "token", "assertion", "hmac", "digest", "user_")
_NAME: Final = r"""(?: password | passwd | passphrase | pwd | \bpass | secret | credentials? | master\.key
    | secret[._-]?key | keystore\.key | stored_?key | server_?key | private_?key | access_?key | api[_-]?key
    | [_-]token | client_assertion | \bhmac | superdigest | \buser_[\w.-]{1,100}+ )"""
_NAMED: Final = re.compile(
    rf"""(?ix) {_NAME}
    (?: \\*+ ["']? \s{{0,9}}+ (?: => | [=:>] ) | \\*+ ["']? \s{{0,9}}+ , \s{{0,9}}+ \\*+ ["']? value \\*+ ["']? [=:] )
    \s{{0,9}}+
    (?: [\[({{] \s{{0,9}}+ (?: \\*+ ["'] \w{{1,40}}+ \\*+ ["'] \s{{0,9}}+ : \s{{0,9}}+ )?+ )?+
    (?! \\*+ ["']? \[hidden\] )
    (?: b? (?P<quote> \\*+ ["'] ) | (?= [^\s,;}}\]"'<] ) )
    """
)
_AFTER_A_SPACE: Final = re.compile(
    r"""(?ix) ( --[\w-]{0,40} (?: password | passwd | pwd | secret | token ) \s++
    | ^\s*+ [\w-]++ (?: \.[\w-]++ )*+ (?<=\.password) \s++ )
    (?! [=:] | \[hidden\] ) \S++ """
)
_ONLY_A_KEY: Final = re.compile(r"\s*(?:export\s+|-)?[\w.-]+\s*[=:]\s*")
_UP_TO_HERE: Final = re.compile(r"[^\s,;}\]\"'<]+")
_QUOTES: Final = {quote: re.compile(rf"(?<!\\)(\\*+){quote}") for quote in "\"'"}


def without_named(line: str) -> str:
    """The line without what names in it call secrets. What was quoted stays quoted, so that JSON stays JSON.

    >>> without_named('"ssl.key.password": "abc", "b": 1'), without_named("ssl.key.password=a b, c")
    ('"ssl.key.password": "[hidden]", "b": 1', 'ssl.key.password=[hidden]')
    """
    small = line.lower()
    if not any(word in small for word in _WORDS):  # found out much faster than by the expressions
        return line
    shown: list[str] = []
    at = 0
    while (found := _NAMED.search(line, at)) is not None:
        shown += (line[at : found.end()], HIDDEN)
        at = _end_of_value(line, found, is_first=at == 0)
    return _AFTER_A_SPACE.sub(rf"\1{HIDDEN}", "".join((*shown, line[at:])))


def _end_of_value(line: str, found: re.Match[str], *, is_first: bool) -> int:
    """Where the value ends that begins where a name was found.

    In JSON in JSON its quotes have backslashes, and quotes inside have more.
    """
    end = len(line.rstrip("\r\n"))
    delimiter = found["quote"]
    if delimiter is None:
        if is_first and _ONLY_A_KEY.fullmatch(line, 0, found.end()):
            return end  # a line of a properties file, whose value may have spaces
        inside = _UP_TO_HERE.match(line, found.end())
        return found.end() if inside is None else inside.end()
    level = len(delimiter) - 1
    for closing in _QUOTES[delimiter[-1]].finditer(line, found.end()):
        before = len(closing[1])
        if before < level or before % (2 * (level + 1)) == level:
            return closing.start() if before <= level else closing.end() - len(delimiter)
    return end

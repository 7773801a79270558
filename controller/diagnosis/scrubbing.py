"""How is a text kept free of secrets, wherever they come from? By what they are, and by what stands before them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

from controller.settings.values import HIDDEN

_SHORTEST: Final = 3
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?(?:-----END \1PRIVATE KEY-----|\Z)", re.DOTALL
)
_HASHED: Final = re.compile(r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}")
_HEADER: Final = re.compile(r"(?i)\b(Basic|Bearer)\s+[A-Za-z0-9._~+/=-]{8,}")
_IN_ADDRESS: Final = re.compile(r"(://[^\s/:@\"']*:)[^\s/@\"']+(@)")
_JAAS_IN_JSON: Final = re.compile(r'(?i)(jaas\.config"\s*+:\s*+")(?:[^"\\]|\\.)*+')
_JAAS: Final = re.compile(r"(?i)(jaas\.config\s*+[=:]\s*+)(?!\[hidden\])[^\n]++")
_WORDS: Final = ("pass", "secret", "credential", "key", "token", "assertion", "user_")
_NAMED: Final = re.compile(
    r"""(?ix)
    ( (?: password | passwd | passphrase | secret | credentials? | master\.key | secret\.key | keystore\.key
        | stored_key | server_key | private_?key | access_?key | api_?key | [_-]token | client_assertion
        | \buser_[\w.-]{1,100}+ )
      \\? ["']? \s{0,9}+ [=:] \s{0,9}+ )
    (?! \[hidden\] )
    (?: ( \\" ) (?: [^"\\] | \\[^"] )*+ | ( " ) (?: [^"\\] | \\. )*+ | ( ' ) [^']*+ | [^\s,;}\]"']++ )
    """
)


class Scrubber:
    """Replaces known secrets in each of their spellings, and whatever a name before it calls one."""

    def __init__(self, secrets: Iterable[str]) -> None:
        spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
        longest_first = sorted(spellings, key=lambda text: (-len(text), text))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def scrub(self, text: str) -> str:
        """The text without secrets.

        >>> Scrubber(["horse"]).scrub('a horse; password = "staple", sasl.jaas.config=x y')
        'a [hidden]; password = "[hidden]", sasl.jaas.config=[hidden]'
        """
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        text = _PRIVATE_KEY.sub(HIDDEN, text)
        text = _HASHED.sub(HIDDEN, text)
        text = _HEADER.sub(rf"\1 {HIDDEN}", text)
        text = _IN_ADDRESS.sub(rf"\1{HIDDEN}\2", text)
        text = _JAAS_IN_JSON.sub(rf"\1{HIDDEN}", text)
        text = _JAAS.sub(rf"\1{HIDDEN}", text)
        return "".join(map(_without_named, text.splitlines(keepends=True)))


def _without_named(line: str) -> str:
    """Most lines name nothing, which is found out much faster than by the expression."""
    small = line.lower()
    return _NAMED.sub(_named, line) if any(word in small for word in _WORDS) else line


def _named(found: re.Match[str]) -> str:
    """What was quoted stays quoted, so that JSON stays JSON."""
    return f"{found[1]}{found[2] or found[3] or found[4] or ''}{HIDDEN}"


def _spellings(secret: str) -> Iterator[str]:
    """As it is, as in JSON, in an address, and in Base64 at each of the three places where that can begin."""
    bare = secret.strip()
    if len(bare) < _SHORTEST:
        return
    yield bare
    yield json.dumps(bare)[1:-1]
    yield json.dumps(bare, ensure_ascii=False)[1:-1]
    yield quote(bare, safe="")
    data = bare.encode()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        inner = encoded[(0, 2, 3)[before] : len(encoded) - bool((before + len(data)) % 3)]
        if len(inner) >= 2 * _SHORTEST:
            yield inner

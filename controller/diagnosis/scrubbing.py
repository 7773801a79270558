"""How is a text kept free of secrets, wherever they come from? By what they are, and by what stands before them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

from controller.diagnosis.named_secrets import without_named
from controller.settings.values import HIDDEN

_SHORTEST: Final = 3
_LEVELS: Final = 4
"""Of JSON in JSON: a reason in a znode in a list of znodes in a log."""
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?(?:-----END \1PRIVATE KEY-----|\Z)", re.DOTALL
)
_END_OF_KEY: Final = re.compile(r"-----END [A-Z ]*PRIVATE KEY-----")
_IN_KEY: Final = re.compile(r"[A-Za-z0-9+/=]{1,80}\r?\n")
_HASHED: Final = re.compile(r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}")
_HEADER: Final = re.compile(r"(?i)\b(Basic|Bearer|Negotiate)\s+[A-Za-z0-9._~+/=-]{8,}")
_TOKEN: Final = re.compile(r"(?<![\w-])eyJ[\w-]{5,}+\.[\w-]{5,}+(?:\.[\w-]*+)?")
_IN_ADDRESS: Final = re.compile(r"(://[^\s/:@\"']*:)(?!\d{1,5}(?:[/,\s\"']|\Z))[^\s@\"']{1,256}+(@)")
_ALONE_IN_ADDRESS: Final = re.compile(r"(://)[^\s/:@\"'\[]{1,256}+(@)")
_IN_QUERY: Final = re.compile(r"(?i)([?&][\w-]{0,40}(?:token|secret|sig|signature|key|code)=)[^&\s\"'#]++")
_DIGEST: Final = re.compile(r"(?i)(\bdigest[: ][^\s:,\"'@]{1,256}+:)[^\s,\"'@]++")
_JAAS_IN_JSON: Final = re.compile(r'(?i)(jaas\.config"\s*+:\s*+")(?:[^"\\]|\\.)*+')
_JAAS: Final = re.compile(r"(?i)(jaas\.config\s*+[=:]\s*+)(?!\[hidden\])[^\n]++")


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
        text = _without_ends_of_keys(_PRIVATE_KEY.sub(HIDDEN, text))
        text = _HASHED.sub(HIDDEN, text)
        text = _HEADER.sub(rf"\1 {HIDDEN}", text)
        text = _TOKEN.sub(HIDDEN, text)
        text = _IN_ADDRESS.sub(rf"\1{HIDDEN}\2", text)
        text = _ALONE_IN_ADDRESS.sub(rf"\1{HIDDEN}\2", text)
        text = _IN_QUERY.sub(rf"\1{HIDDEN}", text)
        text = _DIGEST.sub(rf"\1{HIDDEN}", text)
        text = _JAAS_IN_JSON.sub(rf"\1{HIDDEN}", text)
        text = _JAAS.sub(rf"\1{HIDDEN}", text)
        return "".join(map(without_named, text.splitlines(keepends=True)))


def _without_ends_of_keys(text: str) -> str:
    """Hide private keys whose beginning is not in the text, as of a log of which only the end was taken."""
    if _END_OF_KEY.search(text) is None:
        return text
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        if (end := _END_OF_KEY.search(line)) is None:
            kept.append(line)
            continue
        while kept and _IN_KEY.fullmatch(kept[-1]):
            kept.pop()
        kept.append(HIDDEN + line[end.end() :])
    return "".join(kept)


def _spellings(secret: str) -> Iterator[str]:
    """As it is, as in JSON, in an address, and in Base64 at each of the three places where that can begin."""
    bare = secret.strip()
    if len(bare) < _SHORTEST:
        return
    yield bare
    for is_ascii in (True, False):
        escaped = bare
        for _ in range(_LEVELS):
            escaped = json.dumps(escaped, ensure_ascii=is_ascii)[1:-1]
            yield escaped
    yield quote(bare, safe="")
    data = bare.encode()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode().rstrip("=")
        inner = encoded[(0, 2, 3)[before] : len(encoded) - bool((before + len(data)) % 3)]
        if len(inner) >= 2 * _SHORTEST:
            yield inner

"""Which texts of a configuration are secret? Of one that cannot be used, too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from controller.settings.providers import Providers, Unresolved, concerns_providers
from controller.settings.sources import from_environment, from_file, from_overrides
from controller.settings.values import HIDDEN, shown

_OPTION: Final = re.compile(r"""([\w.-]+)\s*=\s*("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s;]+)""")
_SECRET_KEY: Final = re.compile(r"(?:token|pwd|passphrase|api.?key|access.?key|user\.info)\Z", re.IGNORECASE)
_IN_ADDRESS: Final = re.compile(r"://[^\s/:@]*:([^\s@]+)@")
_SECRET_OPTION: Final = re.compile(r"password|secret|token|^user_|key\Z", re.IGNORECASE)


def secret_texts(path: Path | None, overrides: Iterable[str], environment: Mapping[str, str]) -> frozenset[str]:
    """Passwords, keys, login modules with their secret options, passwords in addresses, and all that providers gave."""
    unreported: list[str] = []
    given = {} if path is None else from_file(path, unreported)
    given |= from_environment(environment, unreported) | from_overrides(overrides, unreported)
    providers = Providers({key: one.text for key, one in given.items()}, environment)
    found: set[str] = set()
    for key, one in given.items():
        try:
            text = one.text if concerns_providers(key) else providers.resolve(one.text)
        except Unresolved:
            text = one.text
        if shown(key, text) == HIDDEN or text != one.text or _SECRET_KEY.search(key):
            found |= {text, *_parts(text)}
        for password in _IN_ADDRESS.findall(text):
            found |= {password, unquote(password)}
    return frozenset(found - {""})


def _parts(text: str) -> Iterator[str]:
    """The secrets inside a secret: those of a login module, and the password of `user:password`."""
    user, colon, password = text.partition(":")
    if colon and user and not any(sign.isspace() for sign in text):
        yield password
    for name, value in _OPTION.findall(text):
        if _SECRET_OPTION.search(name):
            bare = value.strip("\"'")
            yield bare
            yield re.sub(r"\\(.)", r"\1", bare)

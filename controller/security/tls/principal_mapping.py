"""Which user does a client certificate stand for, by `ssl.principal.mapping.rules`?

Source: Kafka's SslPrincipalMapper (KIP-371).
"""

from __future__ import annotations

import re

from msgspec import Struct

from controller.security import java_patterns

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = java_patterns.compiled(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = java_patterns.compiled(_RULE)
_TRIMMED = "".join(map(chr, range(0x21)))
_REFERENCE = re.compile(r"\$([0-9]+)")


class NoRuleApplies(Exception):
    """No rule has a name for this certificate: Kafka refuses the connection."""


class _Rule(Struct, frozen=True):
    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        # Like Java's replaceAll: what still matches after the whole name, even the empty string, is replaced as well.
        found = java_patterns.replaced(self.pattern, name, lambda match: _replaced(self.replacement, match))
        return found.lower() if self.case == "L" else found.upper() if self.case == "U" else found


class PrincipalMapping:
    """The rules, in their order; the first that matches the whole name decides.

    >>> PrincipalMapping("RULE:^CN=(.*?),OU=Ops.*$/$1/L, DEFAULT").user("CN=Ann,OU=Ops,C=DE")
    'ann'

    Raises:
        ValueError: a malformed rule, or a regular expression that Python lacks or interprets differently.
    """

    def __init__(self, rules: str) -> None:
        texts = [match[1] for match in java_patterns.finds(_SPLITTER, rules.strip(_TRIMMED))]
        self._rules = tuple(rule for text in texts if (rule := _parsed(text)) is not None)

    def user(self, distinguished_name: str) -> str:
        """The name of the user.

        Raises:
            NoRuleApplies: no rule matches.
        """
        for rule in self._rules:
            if (found := rule.apply(distinguished_name)) is not None:
                return found
        raise NoRuleApplies(f"no rule of ssl.principal.mapping.rules applies to {distinguished_name}")


def _parsed(text: str) -> _Rule | None:
    match = _PARSER.match(text)
    if match is None or match.end() != len(text):
        raise ValueError(f"ssl.principal.mapping.rules: invalid rule {text!r}")
    if match[1] is not None:
        return _Rule()
    if match[2] is None:
        return None
    try:
        pattern = java_patterns.compiled(match[2])
    except re.error as error:
        raise ValueError(f"ssl.principal.mapping.rules: {text!r}: {error}") from None
    replacement = _literal_where_no_group(match[3], pattern.groups)
    try:
        _check(replacement, pattern)
    except ValueError as error:
        raise ValueError(f"ssl.principal.mapping.rules: {text!r}: {error}") from None
    return _Rule(pattern, replacement, match[4])


def _literal_where_no_group(replacement: str, groups: int) -> str:
    """If there are groups, a reference to a missing one stays as it is written."""
    if groups == 0:
        return replacement
    found = replacement
    for match in _REFERENCE.finditer(replacement):
        number = int(match[1])
        while number > groups and number >= 10:
            number //= 10
        if not match[1].startswith("0") and number > groups:
            # Kafka uses positions of the unchanged text, even after an earlier change.
            found = found[: match.start()] + "\\" + found[match.start() :]
    return found


_PIECE = re.compile(r"\\(.)|\$\{(\w+)\}|\$([0-9]+)|([^\\$]+)|(.)", re.DOTALL)


def _check(replacement: str, pattern: re.Pattern[str]) -> None:
    for literal, name, digits, _, wrong in _PIECE.findall(replacement):
        if wrong and not literal:
            raise ValueError(f"{wrong!r} in the replacement is neither escaped nor a reference")
        if name and name not in pattern.groupindex:
            raise ValueError(f"no group is named {name}")
        if digits and int(digits[0]) > pattern.groups:
            raise ValueError(f"there is no group {digits[0]}")


def _replaced(replacement: str, match: re.Match[str]) -> str:
    found = ""
    for literal, name, digits, text, _ in _PIECE.findall(replacement):
        if name:
            found += match[name] or ""
        elif digits:
            number, used = int(digits[0]), 1
            while used < len(digits) and number * 10 + int(digits[used]) <= match.re.groups:
                number, used = number * 10 + int(digits[used]), used + 1
            found += (match[number] or "") + digits[used:]
        else:
            found += literal or text
    return found

r"""What is the short name of a Kerberos principal, by `sasl.kerberos.principal.to.local.rules`?

Kafka's patterns are Java's. What Python lacks (`\p{…}`, `&&` in brackets) is refused when the settings are read.

Source: Kafka's KerberosShortNamer, KerberosRule and KerberosName.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from controller.security import java_patterns
from controller.security.failures import UnusableSecurity

KEY = "sasl.kerberos.principal.to.local.rules"

_RULE = re.compile(r"DEFAULT|RULE:\[(\d*):([^\]]*)\](\(([^)]*)\))?(s/([^/]*)/([^/]*)/(g)?)?/?(L|U)?", re.ASCII)
_NAME = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_PARAMETER = re.compile(r"\$(\d*)", re.ASCII)


class NoShortName(Exception):
    """No rule gives this principal a name."""


class KerberosName(Struct, frozen=True):
    """A Kerberos principal: `service/host@realm`, of which only the first part is required."""

    service: str
    host: str | None = None
    realm: str | None = None


def parse_name(principal: str) -> KerberosName:
    """The parts of a principal.

    >>> parse_name("kafka/broker1@EXAMPLE.COM")
    KerberosName(service='kafka', host='broker1', realm='EXAMPLE.COM')

    Raises:
        NoShortName: it has an @, but not the form of a principal.
    """
    found = _NAME.fullmatch(principal)
    if found is not None:
        return KerberosName(found[1], found[2], found[3])
    if "@" in principal:
        raise NoShortName(f"Malformed Kerberos name: {principal}")
    return KerberosName(principal)


class _Rule(Struct, frozen=True):
    """One rule; without `format` it is DEFAULT."""

    components: int = 0
    format: str | None = None
    match: re.Pattern[str] | None = None
    sought: re.Pattern[str] | None = None
    replacement: str = ""
    repeats: bool = False
    letter_case: str | None = None

    def applied(self, parameters: Sequence[str], default_realm: str) -> str | None:
        """The name it gives; None if it does not apply."""
        name: str | None = None
        if self.format is None:
            name = parameters[1] if parameters[0] == default_realm else None
        elif len(parameters) - 1 == self.components:
            name = _filled(self.format, parameters)
            if self.match is not None and not self.match.fullmatch(name):
                return None
            if self.sought is not None:
                name = _replaced(name, self.sought, self.replacement, most=None if self.repeats else 1)
        if name is None:
            return None
        if "/" in name or "@" in name:
            raise NoShortName(f"Non-simple name {name} after a rule of {KEY}")
        return {"L": name.lower(), "U": name.upper()}.get(self.letter_case or "", name)


class ShortNames:
    """The rules of a listener.

    >>> ShortNames(["RULE:[1:$1@$0](.*@EXAMPLE.COM)s/@.*//"], "").of("ann@EXAMPLE.COM")
    'ann'
    """

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """Parse the rules.

        Raises:
            UnusableSecurity: a rule is malformed.
        """
        self._rules = [_parsed(rule) for rule in rules]
        self._default_realm = default_realm

    def of(self, principal: str) -> str:
        """The short name of a principal.

        Raises:
            NoShortName: no rule applies, or the one that does gives no name.
        """
        name = parse_name(principal)
        if name.realm is None:
            return name.service
        parameters = [name.realm, name.service, *([] if name.host is None else [name.host])]
        for rule in self._rules:
            short = rule.applied(parameters, self._default_realm)
            if short is not None:
                return short
        raise NoShortName(f"No rules apply to {principal}")


def _parsed(rule: str) -> _Rule:
    found = _RULE.match(rule)
    if found is None:
        raise UnusableSecurity(f"{KEY}: Invalid rule: {rule}")
    if found.end() != len(rule):
        raise UnusableSecurity(f"{KEY}: Invalid rule: `{rule}`, unmatched substring: `{rule[found.end() :]}`")
    if found[2] is None:
        return _Rule()
    if not found[1]:
        raise UnusableSecurity(f"{KEY}: Invalid rule: {rule}: a number must precede the colon")
    return _Rule(
        components=int(found[1]),
        format=found[2],
        match=_pattern(found[4], rule),
        sought=_pattern(found[6], rule),
        replacement=found[7] or "",
        repeats=found[8] is not None,
        letter_case=found[9],
    )


def _pattern(text: str | None, rule: str) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return java_patterns.compiled(text)
    except re.error as error:
        raise UnusableSecurity(f"{KEY}: Invalid rule: {rule}: {error}") from error


def _filled(format_: str, parameters: Sequence[str]) -> str:
    def parameter(found: re.Match[str]) -> str:
        if not found[1] or int(found[1]) >= len(parameters):
            raise NoShortName(f"{found[0]} in {format_} is outside of the valid range 0 to {len(parameters) - 1}")
        return parameters[int(found[1])]

    return _PARAMETER.sub(parameter, format_)


def _replaced(text: str, sought: re.Pattern[str], replacement: str, most: int | None) -> str:
    r"""Replace as Java does: `$1` is a group, with as many digits as there are groups; `\` escapes the next
    character."""
    return java_patterns.replaced(sought, text, lambda found: _replacement(found, replacement), most=most)


def _replacement(found: re.Match[str], replacement: str) -> str:
    pieces: list[str] = []
    at = 0
    while at < len(replacement):
        sign = replacement[at]
        at += 1
        if sign == "\\" and at < len(replacement):
            pieces.append(replacement[at])
            at += 1
        elif sign == "$":
            at, group = _group(found, replacement, at)
            pieces.append(found[group] or "")
        else:
            pieces.append(sign)
    return "".join(pieces)


def _group(found: re.Match[str], replacement: str, at: int) -> tuple[int, int]:
    if at == len(replacement) or replacement[at] not in "0123456789" or int(replacement[at]) > found.re.groups:
        raise NoShortName(f"no group that {replacement} names in a rule of {KEY}")
    number = int(replacement[at])
    at += 1
    while (
        at < len(replacement)
        and replacement[at] in "0123456789"
        and number * 10 + int(replacement[at]) <= found.re.groups
    ):
        number = number * 10 + int(replacement[at])
        at += 1
    return at, number

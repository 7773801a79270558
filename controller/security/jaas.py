"""Which login module, with which options, does a `sasl.jaas.config` name?

Source: Kafka's JaasConfig and JaasContext; Java's StreamTokenizer, whose rules split the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from controller.security.failures import UnusableSecurity
from controller.settings.security import Secret

PLAIN_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_LOGIN: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KERBEROS_LOGIN: Final = "com.sun.security.auth.module.Krb5LoginModule"

_FLAGS = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_REFUSED = frozenset({"com.sun.security.auth.module.JndiLoginModule", "com.sun.security.auth.module.LdapLoginModule"})
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NUMBER = frozenset("0123456789.")
_QUOTES = frozenset("\"'")


class LoginModule(Struct, frozen=True):
    """One login module: a Java class name and its options."""

    name: str
    control_flag: str
    options: Mapping[str, Secret]

    def option(self, key: str) -> str | None:
        """The value of one option; None if it is not set."""
        value = self.options.get(key)
        return None if value is None else value.reveal()


class _Token(Struct, frozen=True):
    """A token of the text: `word` is None for signs and numbers, which `kind` distinguishes."""

    kind: str
    word: str | None = None


def parse_jaas(text: Secret, key: str = "sasl.jaas.config") -> LoginModule:
    """The one login module of a setting called `key`.

    >>> parse_jaas(Secret('a.b.C required username="ann" password=\\'x"y\\';')).option("password")
    'x"y'

    Raises:
        UnusableSecurity: where Kafka refuses it. The message never quotes the text: a missing quote turns half a
            password into an option.
    """
    tokens = _tokens(text.reveal())
    modules = [_module(first, tokens, key) for first in tokens]
    if not modules:
        raise UnusableSecurity(f"{key}: Login module not specified in JAAS config")
    if len(modules) != 1:
        raise UnusableSecurity(f"{key}: JAAS config property contains {len(modules)} login modules, should be 1 module")
    [module] = modules
    if module.name.strip() in _REFUSED:
        raise UnusableSecurity(f"{key}: {module.name.strip()} is not allowed")
    return module


def _module(first: _Token, tokens: Iterator[_Token], key: str) -> LoginModule:
    flag = next(tokens, None)
    if first.word is None:
        raise UnusableSecurity(f"{key}: Login module not specified in JAAS config")
    if flag is None:
        raise UnusableSecurity(f"{key}: Login module control flag not specified in JAAS config")
    if flag.word is None:
        raise UnusableSecurity(f"{key}: Login module control flag is not available in the JAAS config")
    if flag.word.upper() not in _FLAGS:
        raise UnusableSecurity(f"{key}: Invalid login module control flag in JAAS config")
    options: dict[str, Secret] = {}
    for name in tokens:
        if name.kind == ";":
            return LoginModule(first.word, flag.word.upper(), MappingProxyType(options))
        sign, value = next(tokens, None), None
        if sign is not None and sign.kind == "=":
            value = next(tokens, None)
        if value is None or value.word is None:
            raise UnusableSecurity(f"{key}: Value not specified for a key in JAAS config")
        if name.word is not None:  # Java stores values without a name where they cannot be looked up
            options[name.word] = Secret(value.word)
    raise UnusableSecurity(f"{key}: JAAS config entry not terminated by semi-colon")


def _tokens(text: str) -> Iterator[_Token]:
    """Split by a StreamTokenizer with Java's and C's comments, and "-", "_" and "$" in words."""
    at = 0
    while at < len(text):
        sign = text[at]
        if sign <= " ":
            at += 1
        elif sign == "/":
            at = _after_comment(text, at)
        elif sign in _QUOTES:
            at, word = _quoted(text, at)
            yield _Token(sign, word)
        elif sign in _NUMBER or sign == "-":
            at, kind = _number(text, at)
            yield _Token(kind)
        elif _is_letter(sign):
            end = at
            while end < len(text) and (_is_letter(text[end]) or text[end] in _NUMBER):
                end += 1
            yield _Token("word", text[at:end])
            at = end
        else:
            yield _Token(sign)
            at += 1


def _is_letter(sign: str) -> bool:
    return (sign.isascii() and sign.isalpha()) or sign in "-_$" or sign >= "\xa0"


def _after_comment(text: str, at: int) -> int:
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    ends = [end for end in (text.find("\n", at), text.find("\r", at)) if end >= 0]
    return min(ends, default=len(text))


def _number(text: str, at: int) -> tuple[int, str]:
    """Java reads a number and keeps no word of it; a minus or point alone is a sign."""
    end = at + 1 if text[at] == "-" else at
    if end > at and (end == len(text) or text[end] not in _NUMBER):
        return end, "-"
    has_point = False
    begin = end
    while end < len(text) and text[end] in _NUMBER and not (text[end] == "." and has_point):
        has_point = has_point or text[end] == "."
        end += 1
    if text[begin:end] == ".":
        return end, "."
    return end, "number"


def _quoted(text: str, at: int) -> tuple[int, str]:
    """The end of the quotation that begins here, and its content; the end of a line closes it, too."""
    quote, found = text[at], []
    at += 1
    while at < len(text) and text[at] not in (quote, "\n", "\r"):
        if text[at] == "\\" and at + 1 < len(text):
            at, sign = _escape(text, at + 1)
        else:
            sign = text[at]
            at += 1
        found.append(sign)
    return (at + 1 if at < len(text) and text[at] == quote else at), "".join(found)


def _escape(text: str, at: int) -> tuple[int, str]:
    if text[at] not in "01234567":
        return at + 1, _ESCAPED.get(text[at], text[at])
    end = at + 1
    longest = at + (3 if text[at] <= "3" else 2)
    while end < min(len(text), longest) and text[end] in "01234567":
        end += 1
    return end, chr(int(text[at:end], 8))

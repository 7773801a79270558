"""Which values are kept outside the configuration, and what are they?

`${provider:path:key}` in a value stands for what a provider, declared in `config.providers`, has under that key.

Source: Kafka's ConfigTransformer, FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider, AllowedPaths;
KIP-297, KIP-421, KIP-887, KIP-993.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import javaproperties

from controller.settings.values import HIDDEN

PROVIDERS: Final = "config.providers"
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_FILE, _DIRECTORY, _ENVIRONMENT = "FileConfigProvider", "DirectoryConfigProvider", "EnvVarConfigProvider"
_VARIABLE = re.compile(r"\$\{(.*?):((.*?):)?(.*?)\}")
_BETWEEN_WORDS = re.compile(r"[\s,;=:/\"']+")
_SHORTEST = 3


class Unresolved(ValueError):
    """A variable stands for nothing. The message says which and why, and has no value."""


def concerns_providers(key: str) -> bool:
    """Whether a key declares providers, or configures one."""
    return key == PROVIDERS or key.startswith(f"{PROVIDERS}.")


class Providers:
    """The providers that a configuration declares."""

    def __init__(self, written: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """`written` has the whole configuration, from which the keys of providers are taken."""
        self._written = written
        self._environment = environment
        self._declared = {name.strip() for name in written.get(PROVIDERS, "").split(",")} - {""}

    def resolve(self, text: str) -> str:
        """The text with values in place of its variables. A variable of no declared provider stays as it is.

        Raises:
            Unresolved: a value cannot be had. Kafka would go on with the variable itself as the value.
        """
        found = _VARIABLE.sub(self._value, text)
        return text if found == text else found.strip()

    def _value(self, variable: re.Match[str]) -> str:
        name, path, key = variable[1], variable[3] or "", variable[4]
        if name not in self._declared:
            return variable[0]
        kind = self._written.get(f"{PROVIDERS}.{name}.class", "")
        kinds = {_FILE: self._of_file, _DIRECTORY: self._of_directory, _ENVIRONMENT: self._of_environment}
        if (value_of := kinds.get(kind.removeprefix(_PACKAGE))) is not None:
            try:
                return value_of(name, path, key)
            except Unresolved as why:
                raise Unresolved(f"{variable[0]}: {why}") from None
        is_what = f"= {kind} is a Java class that cannot run here" if kind else "is missing"
        raise Unresolved(
            f"{variable[0]}: {PROVIDERS}.{name}.class {is_what}; supported are {_FILE}, {_DIRECTORY} and "
            f"{_ENVIRONMENT} of {_PACKAGE.rstrip('.')}"
        )

    def _of_file(self, name: str, path: str, key: str) -> str:
        if not path:
            raise Unresolved(f"it names no file; expected ${{{name}:/path/of/file:key}}")
        try:
            found = javaproperties.loads(_read(self._allowed(name, path)))
        except javaproperties.InvalidUEscapeError as error:
            raise Unresolved(f"{path}: {error}") from None
        if key not in found:
            raise Unresolved(f"{path} has no key {key}")
        return found[key]

    def _of_directory(self, name: str, path: str, key: str) -> str:
        if not path:
            raise Unresolved(f"it names no directory; expected ${{{name}:/path/of/directory:file}}")
        file = self._allowed(name, path) / key
        if "/" in key or not file.is_file():
            raise Unresolved(f"{path} has no file {key}")
        return _read(file)

    def _of_environment(self, name: str, path: str, key: str) -> str:
        if path:
            raise Unresolved(f"variables of the environment have no path; expected ${{{name}:NAME}}")
        pattern = self._parameter(name, "allowlist.pattern")
        try:
            is_allowed = re.search(pattern, key) is not None
        except re.error as error:
            raise Unresolved(f"{PROVIDERS}.{name}.param.allowlist.pattern: {error}") from None
        if not is_allowed:
            raise Unresolved(f"{PROVIDERS}.{name}.param.allowlist.pattern = {pattern} does not allow it")
        if key not in self._environment:
            raise Unresolved(f"environment variable {key} is not set")
        return self._environment[key]

    def _allowed(self, name: str, path: str) -> Path:
        """The path, if the provider may read it; links are not followed to judge that."""
        texts = self._parameter(name, "allowed.paths")
        if not texts:
            return Path(path)
        allowed = [Path(os.path.normpath(text)) for text in texts.split(",")]
        for one in allowed:
            if not one.is_absolute() or not one.exists():
                lacks = "does not exist" if one.is_absolute() else "is not absolute"
                raise Unresolved(f"{PROVIDERS}.{name}.param.allowed.paths: {one} {lacks}")
        wanted = Path(os.path.normpath(path))
        if not any(wanted.is_relative_to(one) for one in allowed):
            raise Unresolved(f"{PROVIDERS}.{name}.param.allowed.paths = {texts} does not allow it")
        return wanted

    def _parameter(self, name: str, parameter: str) -> str:
        return self._written.get(f"{PROVIDERS}.{name}.param.{parameter}", "")


def redacted(sentence: str, value: str) -> str:
    """The sentence without a value that came from a provider, and without its words.

    >>> redacted("'zk1:x' is not a server", "zk1:x,zk2:2181")
    "'[hidden]:x' is not a server"
    """
    words = {value, *_BETWEEN_WORDS.split(value)}
    for word in sorted((word for word in words if len(word) >= _SHORTEST), key=len, reverse=True):
        sentence = sentence.replace(word, HIDDEN)
    return sentence


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        raise Unresolved(f"{path} is not UTF-8") from None
    except OSError as error:
        raise Unresolved(f"{path} cannot be read: {error.strerror}") from None

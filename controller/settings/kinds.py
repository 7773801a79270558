"""What may be written as a setting's value?"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from controller.core.acl_authorizer import super_users
from controller.settings.security import Secret, StoreType
from controller.settings.windows import windows_in

Value = str | int | bool | Secret

AUTHORIZERS = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")

_SERVER = re.compile(r"^(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(?::(\d+))?$")
_LARGEST_PORT = 65535


class Kind(Struct, frozen=True):
    """A kind of value: its name in lists, and its parser. What is written empty is not set, unless it `may_be_empty`.

    Raises:
        ValueError: from `read`; says what is allowed.
    """

    name: str
    read: Callable[[str], Value]
    may_be_empty: bool = False


def number(least: int, most: int = 2**31 - 1) -> Kind:
    """Whole numbers, both ends included.

    >>> number(1, 10).read("7")
    7
    """
    allowed = f"a whole number from {least} to {most}"

    def read(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            raise ValueError(f"expected {allowed}") from None
        if not least <= found <= most:
            raise ValueError(f"expected {allowed}")
        return found

    return Kind(f"{least} to {most}" if most < 2**31 - 1 else f"number, at least {least}", read)


def choice(*choices: str) -> Kind:
    """One of these words, exactly."""

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return text

    return Kind(" or ".join(choices), read)


def names(*choices: str) -> Kind:
    """Some of these words, separated by commas.

    >>> names("red", "blue").read("blue, red")
    'blue,red'
    """

    def read(text: str) -> str:
        found = [part.strip() for part in text.split(",")]
        if not set(found) <= set(choices):
            raise ValueError(f"expected some of {', '.join(choices)}, separated by commas")
        return ",".join(found)

    return Kind(f"some of {', '.join(choices)}", read)


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _servers(text: str) -> str:
    """ZooKeeper's own rules: `host:port,host:port/chroot`, the chroot only once and at the end; without spaces.

    Source: ZooKeeper's ConnectStringParser, which passes over empty servers and a bare slash.
    """
    hosts, slash, chroot = text.partition("/")
    servers = [server.strip() for server in hosts.split(",") if server.strip()]
    for server in servers or [""]:
        match = _SERVER.match(server)
        if match is None or not 0 < int(match[2] or 1) <= _LARGEST_PORT:
            raise ValueError(f"{server!r} is not a server; expected host:port,host:port and perhaps /chroot")
    if chroot and (chroot.endswith("/") or "//" in f"/{chroot}" or "," in chroot):
        raise ValueError(f"'/{chroot}' is not a chroot; write it once, after the last server, like /kafka")
    return ",".join(servers) + (slash + chroot if chroot else "")


def _store_type(text: str) -> str:
    if text.upper() not in list(StoreType):
        raise ValueError(f"expected one of {', '.join(StoreType)}")
    return text.upper()


def _identification(text: str) -> str:
    if text.lower() != "https":
        raise ValueError("expected https, or nothing to skip the comparison of names")
    return text.lower()


def _user_and_password(text: str) -> Secret:
    if not all(text.partition(":")):
        raise ValueError("expected user:password")
    return Secret(text)


def _principals(text: str) -> str:
    super_users(text)
    return text


def _authorizer(text: str) -> str:
    if text.endswith(".StandardAuthorizer"):
        raise ValueError(
            "it uses the ACLs in KRaft's metadata, and brokers in ZooKeeper mode cannot have it either; "
            f"supported is {AUTHORIZERS[0]}"
        )
    if text not in AUTHORIZERS:
        raise ValueError(
            "another authorizer cannot run here, and this process would decide by other rules than the brokers; "
            f"supported is {AUTHORIZERS[0]}, which decides by the ACLs in ZooKeeper"
        )
    return text


def _counts(text: str) -> str:
    counts_in(text)
    return text


def counts_in(text: str) -> dict[str, int]:
    """Limits by host.

    >>> counts_in("10.0.0.1:200, ::1:5")
    {'10.0.0.1': 200, '::1': 5}

    Raises:
        ValueError: the text is malformed.
    """
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = part.rpartition(":")
        if not host or not count.isdecimal():
            raise ValueError(f"{part!r} is not a limit; expected host:count,host:count")
        found[host] = int(count)
    return found


def _windows(text: str) -> str:
    windows_in(text)
    return text


TEXT = Kind("text", str)
SECRET = Kind("text, not shown", Secret)
CREDENTIALS = Kind("user:password, not shown", _user_and_password)
STORE_TYPE = Kind("JKS, PKCS12 or PEM", _store_type)
IDENTIFICATION = Kind("https or empty", _identification, may_be_empty=True)
AUTHORIZER = Kind("an authorizer of Kafka's", _authorizer)
PRINCIPALS = Kind("User:name;User:name;…", _principals)
COUNTS = Kind("host:count,…", _counts)
WINDOWS = Kind("Mon-Fri 22:00-06:00 Europe/Berlin,…", _windows)
SERVERS = Kind("host:port,…/chroot", _servers)
LISTENERS = Kind("NAME://host:port,…", str)
TRUTH = Kind("true or false", _truth)
PORT = number(0, _LARGEST_PORT)
MILLISECONDS = number(1)

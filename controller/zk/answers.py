"""What can come back from ZooKeeper: answers, watch events, states of the connection?"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from controller.zk import protocol
from zk_layout.ids import Zxid


class ConnectionState(StrEnum):
    """The state of the connection and its session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class Change(StrEnum):
    """What a watch event reports."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    """A watch fired; the path is below the chroot."""

    change: Change
    path: str


class Disconnected(Exception):
    """The connection was lost before the answer came; the request may have been carried out or not."""


class TurnedAway(Disconnected):
    """A server answers, but no session comes about for reasons of security: certificates or a login."""


class SessionEnded(Exception):
    """The session has expired or was closed."""


class Refused(Exception):
    """ZooKeeper answered with an unexpected error."""

    def __init__(self, path: str, code: int) -> None:
        super().__init__(f"{protocol.error_name(code)}: {path}")
        self.code = code


class Reply(NamedTuple):
    """The answer to one request.

    Shape:
        `code` is ZooKeeper's error code, 0 when there is a `value`. `failure` is set when no answer came;
        `zxid` is meaningless then.
    """

    value: Any
    code: int
    zxid: Zxid
    failure: Disconnected | SessionEnded | None = None


Done = Callable[[Reply], None]

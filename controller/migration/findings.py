"""What can be in the way of a migration to KRaft, and what was found of it?"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Trap(StrEnum):
    """One question to the cluster."""

    PHASE = "phase"
    MIGRATION_ZNODE = "migration-znode"
    OWN_REPLICAS = "own-replicas"
    BROKERS = "brokers"
    PROTOCOL = "protocol"
    SETTINGS = "settings"
    NODE_IDS = "node-ids"
    RESERVED_IDS = "reserved-ids"
    CONTROL_PLANE = "control-plane"
    AUTHORIZER = "authorizer"
    MESSAGE_FORMAT = "message-format"
    LOG_DIRECTORIES = "log-directories"
    MOVES = "moves"
    DELETIONS = "topic-deletions"
    TOPICS = "topics"
    PARTITIONS = "partitions"
    EPOCHS = "controller-epochs"
    PRODUCER_IDS = "producer-ids"
    ENCRYPTED = "encrypted-settings"
    USERS = "users-and-tokens"
    CLIENTS = "clients"
    FINALIZING = "finalizing"


class Result(StrEnum):
    """What a finding means: nothing, a look that could not be taken, a task for the operator, or a trap."""

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    STOP = "stop"


class Finding(Struct, frozen=True):
    """The answer to one question: what was seen, where, and what to do about it."""

    trap: Trap
    result: Result
    text: str
    where: str = ""
    hint: str = ""


def ok(trap: Trap, text: str, where: str = "") -> Finding:
    """Nothing is in the way."""
    return Finding(trap, Result.OK, text, where)


def unknown(trap: Trap, text: str, where: str = "", hint: str = "") -> Finding:
    """What could not be seen, and how else to find out."""
    return Finding(trap, Result.UNKNOWN, text, where, hint)


def warning(trap: Trap, text: str, where: str, hint: str) -> Finding:
    """Something that an operator has to do, or to decide, in the course of a migration."""
    return Finding(trap, Result.WARNING, text, where, hint)


def stop(trap: Trap, text: str, where: str, hint: str) -> Finding:
    """A trap: the migration would not begin, would break off, or would lose something."""
    return Finding(trap, Result.STOP, text, where, hint)


def counted(number: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "topic"), counted(2, "topic")
    ('1 topic', '2 topics')
    """
    return f"{number} {what}{'s' * (number != 1)}"

"""Why does the tool stop? Each reason has an exit code of its own."""

from __future__ import annotations

DONE, FAILED, MISUSED, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130


class Stopped(Exception):
    """The tool goes no further; the message says what, where and what to do."""

    exit_code = FAILED
    prefix = "Error: "


class Refused(Stopped):
    """The cluster, or the state it is in, does not allow it."""


class Declined(Refused):
    """The same, where Kafka's tool lets the sentence stand alone."""

    prefix = ""


class Unusable(Stopped):
    """The options or a file cannot be used; nothing was asked of the cluster."""

    exit_code = MISUSED


class Unreachable(Stopped):
    """Nobody who could answer did."""

    exit_code = UNREACHABLE

"""Why does the tool stop? Each reason has an exit code of its own."""

from __future__ import annotations

DONE, FAILED, MISUSED, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130


class Stopped(Exception):
    """The tool goes no further; the message says what, where and what to do."""

    exit_code = FAILED
    prefix = "Error: "


class Refused(Stopped):
    """The cluster, or its present state, does not allow it."""


class Declined(Refused):
    """The same, where Kafka's tool prints only the sentence."""

    prefix = ""


class Unusable(Stopped):
    """The options or a file cannot be used; no request was made to the cluster."""

    exit_code = MISUSED


class Unreachable(Stopped):
    """No broker or server answered."""

    exit_code = UNREACHABLE

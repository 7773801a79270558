"""How does one process of a client get its plan and report each operation?

A client program reads one JSON object from standard input: `bootstrap` (host:port), `prefix` (of every name that it
uses), `operations` (their names, in order), `timeout_s` (for each of them) and `move_to` (the replicas of the move). It
prints one JSON object a line: `operation`, and `result` or `"unsupported": true`. A failure is a result with `error`
and, where there is one, `message`.

If a login is needed, `security` has it: `protocol` and `mechanism` (SSL is a certificate alone); `authority`,
`certificate` and `key` (files, PEM), `user` and `password`, `token`, `keytab`; and `file`, all of it as properties of
Java's clients.

The operation `keep_asking` belongs to `recovery.py` alone: one admin client repeats a request that only the controller
answers, for `ask_for_s` seconds with 100 ms in between, and prints a line for each attempt: `begun` and `ended` in ms
of the wall clock, and `error`, which is null for a success.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

UNSUPPORTED = "–"
OPERATION_TIMEOUT_S = 20.0
_STARTING_S = 60.0


class Plan(Struct, frozen=True):
    """The plan of one process."""

    bootstrap: str
    prefix: str
    operations: tuple[str, ...]
    move_to: tuple[int, ...]
    timeout_s: float = OPERATION_TIMEOUT_S
    ask_for_s: float = 0.0
    security: Mapping[str, str] | None = None


def hangs(result: Any) -> bool:
    """Whether an operation timed out."""
    return isinstance(result, dict) and str(result.get("error", "")).startswith("nothing within")


def carry_out(argv: Sequence[str], env: Mapping[str, str], plan: Plan) -> dict[str, Any]:
    """The result of each operation of the plan; one that the process never reported has failed."""
    most_s = _STARTING_S + len(plan.operations) * plan.timeout_s
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **env},
        start_new_session=True,
    ) as process:
        try:
            said, complaints = process.communicate(msgspec.json.encode(plan), timeout=most_s)
        except subprocess.TimeoutExpired:
            said, complaints = _killed(process)
        except BaseException:
            _killed(process)
            raise
    return read(said, complaints, plan.operations)


def _killed(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    os.killpg(process.pid, signal.SIGKILL)
    return process.communicate()


def read(said: bytes, complaints: bytes, operations: Sequence[str]) -> dict[str, Any]:
    """Operation → its result, from a process' output; foreign lines are left out.

    >>> read(b'{"operation": "a", "result": 1}\\nnoise\\n{"operation": "b", "unsupported": true}\\n', b"", ["a", "b"])
    {'a': 1, 'b': '–'}
    >>> read(b"", b"Traceback\\nImportError: no x\\n", ["a"])
    {'a': {'error': 'the program ended before', 'message': 'ImportError: no x'}}
    """
    found = {}
    for line in said.splitlines():
        try:
            printed = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            continue
        if "operation" in printed:
            found[printed["operation"]] = UNSUPPORTED if printed.get("unsupported") else printed.get("result")
    last = complaints.decode(errors="replace").strip().splitlines()[-1:] or [""]
    missing = {"error": "the program ended before", "message": last[0]}
    return {operation: found.get(operation, missing) for operation in operations}

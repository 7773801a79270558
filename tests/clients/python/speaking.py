"""How does a client program in Python get its plan, and print one line for each operation?

This folder runs in environments of its own, each with one client library, and imports nothing of the project.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

Operation = Callable[[], Any]


class Plan:
    """What this process has to do: see `tests/clients/running.py`."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.bootstrap: str = given["bootstrap"]
        self.prefix: str = given["prefix"]
        self.operations: list[str] = given["operations"]
        self.timeout_s: float = given["timeout_s"]
        self.move_to: list[int] = given["move_to"]
        self.ask_for_s: float = given["ask_for_s"]
        self.security: dict[str, str] = given.get("security") or {}

    def named(self, what: str) -> str:
        """The name of something of this run."""
        return f"{self.prefix}-{what}"


class Refused(Exception):
    """The cluster said no."""

    def __init__(self, name: str, message: str = "") -> None:
        super().__init__(name, message)
        self.name, self.message = name, message


def read_plan() -> Plan:
    """From standard input."""
    return Plan(json.load(sys.stdin))


def until(ask: Callable[[], Any], is_so: Callable[[Any], Any], within_s: float = 10.0) -> Any:
    """The answer as soon as it is so; the last one if it never is."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            answer = ask()
        except Exception:
            if time.monotonic() > deadline:
                raise
        else:
            if is_so(answer) or time.monotonic() > deadline:
                return answer
        time.sleep(0.1)


def perform(plan: Plan, operations: Mapping[str, Operation]) -> None:
    """Carry out the plan; what an operation returns, or why it failed, is one line. The process ends here."""
    asked = operations.get("validate_only")
    if asked is not None:
        operations = {**operations, "keep_asking": lambda: _keep_asking(plan, asked)}
    for name in plan.operations:
        operation = operations.get(name)
        line = {"unsupported": True} if operation is None else _outcome(operation, plan.timeout_s)
        sys.stdout.write(json.dumps({"operation": name, **line}) + "\n")
        sys.stdout.flush()
    os._exit(0)  # a thread that hangs must not hold the process


def _keep_asking(plan: Plan, ask: Operation) -> Any:
    deadline = time.monotonic() + plan.ask_for_s
    while time.monotonic() < deadline:
        begun, error = time.time(), None
        try:
            ask()
        except Exception as failure:  # of any kind: it is reported
            error = f"{type(failure).__name__}: {failure}"
        attempt = {"begun": begun * 1000, "ended": time.time() * 1000, "error": error}
        sys.stdout.write(json.dumps(attempt) + "\n")
        sys.stdout.flush()
        time.sleep(0.1)
    return {"ended": True}


def _outcome(operation: Operation, timeout_s: float) -> dict[str, Any]:
    outcome: dict[str, Any] = {}

    def run() -> None:
        try:
            outcome["result"] = operation()
        except Refused as refused:
            outcome["result"] = {"error": refused.name, "message": refused.message}
        except Exception as error:  # whatever a client raises is what its user sees
            outcome["result"] = {"error": type(error).__name__, "message": str(error)}

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return dict(outcome) or {"result": {"error": f"nothing within {timeout_s:g} s"}}

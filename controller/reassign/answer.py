"""How does the tool answer: lines for people, or one JSON document for programs?"""

from __future__ import annotations

import json
from typing import Any

import click

from controller.reassign.refusals import DONE, FAILED, Stopped


class Answer:
    """Lines appear at once, so that what an operator may need for a rollback is printed before any change.

    As JSON, nothing is printed before the end; then one document, in any case.
    """

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json
        self.document: dict[str, Any] = {}
        self.exit_code = DONE
        self.is_streamed = False
        """Whether each document is on a line of its own, and the last one has been written."""

    def say(self, text: str) -> None:
        """Print what Kafka's tool prints too; not in JSON."""
        if not self.is_json:
            click.echo(text)

    def warn(self, text: str) -> None:
        """Warn on standard error; in JSON among the `warnings`."""
        if self.is_json:
            self.document.setdefault("warnings", []).append(text)
        else:
            click.echo(text, err=True)

    def fail(self, text: str) -> None:
        """Report a failure after which the rest went on."""
        self.warn(text)
        self.exit_code = FAILED

    def stop(self, reason: Stopped) -> None:
        """Report why it went no further."""
        self.exit_code = reason.exit_code
        if self.is_json:
            self.document["error"] = str(reason)
        else:
            click.echo(f"{reason.prefix}{reason}", err=True)

    def stream(self) -> None:
        """From here on write each document on a line of its own, beginning with what there is so far."""
        self.is_streamed = True
        if self.is_json and self.document:
            click.echo(json.dumps(self.document, default=str))
        self.document = {}

    def end(self) -> int:
        """Write the document; return the exit code."""
        if self.is_json and (self.document or not self.is_streamed):
            click.echo(json.dumps(self.document, indent=None if self.is_streamed else 2, default=str))
        return self.exit_code

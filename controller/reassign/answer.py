"""How does the tool answer: lines for people, or one JSON document for programs?"""

from __future__ import annotations

import json
from typing import Any

import click

from controller.reassign.refusals import DONE, FAILED, Stopped


class Answer:
    """Lines appear at once, so that what a person may need for the way back is seen before anything is changed.

    As JSON, nothing is printed before the end; then one document, whatever happened.
    """

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json
        self.document: dict[str, Any] = {}
        self.exit_code = DONE
        self.is_streamed = False
        """Whether each document is on a line of its own, and the last one has been written."""

    def say(self, text: str) -> None:
        """What Kafka's tool says too; not in JSON."""
        if not self.is_json:
            click.echo(text)

    def warn(self, text: str) -> None:
        """To standard error; in JSON among the `warnings`."""
        if self.is_json:
            self.document.setdefault("warnings", []).append(text)
        else:
            click.echo(text, err=True)

    def fail(self, text: str) -> None:
        """Something could not be done, while the rest went on."""
        self.warn(text)
        self.exit_code = FAILED

    def stop(self, reason: Stopped) -> None:
        """It went no further."""
        self.exit_code = reason.exit_code
        if self.is_json:
            self.document["error"] = str(reason)
        else:
            click.echo(f"{reason.prefix}{reason}", err=True)

    def stream(self) -> None:
        """From here on each document is on a line of its own; what there is so far comes first."""
        self.is_streamed = True
        if self.is_json and self.document:
            click.echo(json.dumps(self.document, default=str))
        self.document = {}

    def end(self) -> int:
        """The exit code, after the document."""
        if self.is_json and (self.document or not self.is_streamed):
            click.echo(json.dumps(self.document, indent=None if self.is_streamed else 2, default=str))
        return self.exit_code

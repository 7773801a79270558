"""Which commands does a page of the docs tell to run, and do they show on this machine what the page shows?

A page has blocks of commands and what they print. Each block is named by its heading, and by what stands before a colon
in the line above it that begins in bold:

    ## 1. Observe
    **Proof**: it follows the cluster.
    ```console
    $ kafka-zk-controller status --url localhost:9640
    … phase … observing …
    ```

`…` in an output stands for anything. A command with an output may have to be repeated until it shows that; any other is
run once, and must succeed.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from controller.demo.waiting import wait_for

PATIENCE_S = 240.0
_PIECE = re.compile(
    r"^## (?P<heading>[^\n]+)$"
    r"|^\*\*(?P<label>[^*\n]+\*\*[^:\n]*):"
    r"|^```console\n(?P<block>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Command(Struct, frozen=True):
    """A command, and what it prints; None where the page does not show it."""

    line: str
    output: str | None

    def shows(self, text: str) -> bool:
        """Whether this text is what the page shows."""
        pieces = map(re.escape, (self.output or "").split("…"))
        return re.fullmatch(".*?".join(pieces), text.strip(), re.DOTALL) is not None


class Guide:
    """The commands of a page."""

    def __init__(self, page: Path) -> None:
        self._blocks: dict[tuple[str, str], list[Command]] = {}
        heading = label = ""
        for piece in _PIECE.finditer(page.read_text(encoding="utf-8")):
            if piece["heading"] is not None:
                heading, label = piece["heading"], ""
            elif piece["label"] is not None:
                label = piece["label"].replace("**", "")
            else:
                self._blocks.setdefault((heading, label), []).extend(_commands(piece["block"]))
        self._left = set(self._blocks)

    @property
    def left(self) -> set[tuple[str, str]]:
        """The blocks that were not taken yet."""
        return set(self._left)

    def take(self, heading: str, label: str) -> list[Command]:
        """The commands of the blocks with a heading and a label.

        Raises:
            KeyError: the page has none.
        """
        found = self._blocks[heading, label]
        self._left.discard((heading, label))
        return found


def _commands(block: str) -> list[Command]:
    found = []
    for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = entry.rstrip("\n").split("\n")
        last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
        output = "\n".join(lines[last + 1 :])
        found.append(Command("\n".join(lines[: last + 1]), output or None))
    return found


class Host:
    """A shell in a directory of its own, as on one host; its background jobs end with it."""

    def __init__(self, directory: Path, names: Mapping[str, str], environment: Mapping[str, str]) -> None:
        """`names` has what stands here for a name or number in the page."""
        self._names = dict(sorted(names.items(), key=lambda pair: -len(pair[0])))
        directory.mkdir()
        self.directory = directory
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=directory,
            env={**os.environ, "PATH": path, "COLUMNS": "1000", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._say("trap 'kill $(jobs -p) 2>/dev/null' EXIT")  # also where this process is killed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shell.communicate()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)

    def walk(self, commands: list[Command]) -> None:
        """Run commands in their order; each shows what the page shows, at once or after some repetitions."""
        for command in commands:
            line = self.here(command.line)
            print(f"{time.strftime('%H:%M:%S')} $ {line}")  # noqa: T201 - the log of the walk
            if command.output is None:
                code, text = self.run(line)
                assert code == 0, f"{line}\nended with {code}:\n{text}"
            else:
                self._repeat(line, Command(line, self.here(command.output)))

    def run(self, line: str) -> tuple[int, str]:
        """Run a command, which has no input; return its exit code and what it printed."""
        # What it read would be the commands that follow.
        self._say(f"{{ {line}\n}} </dev/null\nprintf '\\n{_MARK} %s\\n' $?")
        text = ""
        assert self._shell.stdout is not None
        while not (found := re.search(rf"^{_MARK} (\d+)\n", text, re.MULTILINE)):
            read = self._shell.stdout.readline()
            assert read, f"the shell ended at: {line}\n{text}"
            text += read
        return int(found[1]), text[: found.start()]

    def here(self, text: str) -> str:
        """A text of the page, with the names that this host has."""
        for name, here in self._names.items():
            text = text.replace(name, here)
        return text

    def _repeat(self, line: str, command: Command) -> None:
        text = ""

        def is_shown() -> bool:
            nonlocal text
            _, text = self.run(line)
            return command.shows(text)

        try:
            wait_for(is_shown, line, timeout_s=PATIENCE_S, every_s=0.5)
        except Exception as error:
            raise AssertionError(f"{line}\nshows\n{text}\nand in the page\n{command.output}") from error

    def _say(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{text}\n")
        self._shell.stdin.flush()


_MARK = "the-command-has-ended-with"

"""What did ZooKeeper hold at a time? Its znodes by command: ls, cat, stat, find, grep, tree, as in a shell.

Like Kafka's own shell over the metadata of KRaft, for one moment of a cluster in ZooKeeper mode.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from posixpath import join, normpath
from typing import Any

import msgspec
from msgspec import Struct

from metrics.replay.commands.as_of import as_time
from metrics.replay.commands.shown import content
from zk_layout.storage.operations import is_session_owner
from zk_layout.storage.tree import Node, parent_of

HELP = """ls [PATH]            the children of a znode
cat PATH…            what znodes hold; secrets are hidden
stat PATH            when, in which transaction and how often it was written, and by whose session it is held
find [PATH] [PATTERN] the paths of all znodes below, or of those that match a pattern, such as *orders*
grep WORDS [PATH]    znodes below whose path or content matches a regular expression
tree [PATH]          all znodes below
cd [PATH], pwd       where one is; help; exit"""


class Wrong(ValueError):
    """An invalid command."""


class Found(Struct, frozen=True):
    """A command's answer: a line for a person, and the same for a program."""

    line: str
    value: Any


class Browser:
    """The znodes of one state, and the current path."""

    def __init__(self, nodes: Mapping[str, Node], home: str = "") -> None:
        """`home` is Kafka's own path within ZooKeeper."""
        self._nodes = nodes
        self._children: dict[str, list[str]] = {}
        for path in sorted(nodes):
            if path != "/":
                self._children.setdefault(parent_of(path), []).append(path)
        self.at = home or "/"
        self._commands: dict[str, Callable[[Sequence[str]], Iterator[Found]]] = {
            "ls": self._ls, "cat": self._cat, "stat": self._stat, "find": self._find, "grep": self._grep,
            "tree": self._tree, "cd": self._cd, "pwd": self._pwd, "help": self._help,
        }  # fmt: skip

    def run(self, line: str) -> Iterator[Found]:
        """Run a command and return its answers.

        Raises:
            Wrong: no such command, or no such znode.
        """
        try:
            name, *words = shlex.split(line)
        except ValueError as wrong:
            raise Wrong(f"{line}: {wrong}") from wrong
        if name not in self._commands:
            raise Wrong(f"there is no command {name}; there are {', '.join(self._commands)}")
        yield from self._commands[name](words)

    def _there(self, words: Sequence[str], most: int = 1) -> str:
        if len(words) > most:
            raise Wrong(f"too many words: {' '.join(words[most:])}")
        path = normpath(join(self.at, words[0])) if words else self.at
        path = "/" + path.strip("/")
        if path not in self._nodes:
            raise Wrong(f"there is no znode {path}")
        return path

    def _below(self, path: str) -> Iterator[str]:
        yield path
        for child in self._children.get(path, ()):
            yield from self._below(child)

    def _ls(self, words: Sequence[str]) -> Iterator[Found]:
        for child in self._children.get(self._there(words), ()):
            name = child.rpartition("/")[2]
            yield Found(f"{name}/" if child in self._children else name, name)

    def _cat(self, words: Sequence[str]) -> Iterator[Found]:
        if not words:
            raise Wrong("cat what?")
        for word in words:
            path = self._there([word])
            held = content(path, self._nodes[path].data)
            yield Found(_written(held), {"path": path, "content": held})

    def _stat(self, words: Sequence[str]) -> Iterator[Found]:
        path = self._there(words)
        node = self._nodes[path]
        owner = f"{node.owner:#x}" if is_session_owner(node.owner) else None
        stat = {
            "path": path, "created": as_time(node.ctime_ms), "created_zxid": f"{node.czxid:#x}",
            "written": as_time(node.mtime_ms), "written_zxid": f"{node.mzxid:#x}", "version": node.version,
            "session": owner, "bytes": len(node.data or b""), "children": len(self._children.get(path, ())),
        }  # fmt: skip
        yield Found("\n".join(f"{name:13} {'–' if value is None else value}" for name, value in stat.items()), stat)

    def _find(self, words: Sequence[str]) -> Iterator[Found]:
        pattern = "*"
        if words and self._is_pattern(words[-1]):
            *words, pattern = words
        for path in self._below(self._there(words)):
            if fnmatchcase(path, pattern) or fnmatchcase(path.rpartition("/")[2], pattern):
                yield Found(path, path)

    def _is_pattern(self, word: str) -> bool:
        """Whether a word is a pattern rather than a path; a name that no znode here has is one, too."""
        is_name = "/" not in word and normpath(join(self.at, word)) not in self._nodes
        return is_name or any(sign in word for sign in "*?[")

    def _grep(self, words: Sequence[str]) -> Iterator[Found]:
        if not words:
            raise Wrong("grep what?")
        try:
            matches = re.compile(words[0]).search
        except re.error as wrong:
            raise Wrong(f"{words[0]} is no regular expression: {wrong}") from wrong
        for path in self._below(self._there(words[1:])):
            held = content(path, self._nodes[path].data)
            text = "" if held is None else _written(held)
            if matches(path) or matches(text):
                yield Found(f"{path}: {text}" if text else path, {"path": path, "content": held})

    def _tree(self, words: Sequence[str]) -> Iterator[Found]:
        top = self._there(words)
        for path in self._below(top):
            depth = 0 if path == top else path.count("/") - top.rstrip("/").count("/")
            yield Found("  " * depth + (path if path == top else path.rpartition("/")[2]), path)

    def _cd(self, words: Sequence[str]) -> Iterator[Found]:
        self.at = self._there(words or ["/"])
        yield from ()

    def _pwd(self, words: Sequence[str]) -> Iterator[Found]:
        yield Found(self._there(words), self.at)

    def _help(self, words: Sequence[str]) -> Iterator[Found]:
        del words
        yield Found(HELP, HELP)


def _written(held: Any) -> str:
    return held if isinstance(held, str) else "" if held is None else msgspec.json.encode(held).decode()

"""No text tells anybody to install this project by a name that a stranger may own on a public index."""

from __future__ import annotations

import re
from pathlib import Path

from tests.unit.test_decisions import texts

PAGE = Path(__file__).parents[2] / "docs" / "install.md"
COMMANDS = re.findall(r"^```sh\n(.*?)\n```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
# Up to the end of the command: a line, or what is between backticks.
BY_NAME = re.compile(
    r"(?:pip|pipx|uv(?:x| \w+)) (?:install|run|download|add) [^`\n]*?(?<![/\w-])kafka[-_]zk[-_]controller(?![-_./\w…])"
)
OWN_INDEX = re.compile(r" --(?:default-)?index(?:-url)? \S+ ")


def by_bare_name(text: str) -> list[str]:
    return [found for found in BY_NAME.findall(text) if not OWN_INDEX.search(found)]


def test_such_a_command_is_found() -> None:
    assert by_bare_name("`pip install kafka-zk-controller`")
    assert by_bare_name("pipx install --verbose kafka_zk_controller[replay]")
    assert by_bare_name("uv tool install kafka-zk-controller")
    assert by_bare_name("pip install --extra-index-url https://packages.example.org kafka-zk-controller")
    assert by_bare_name("pip install ./kafka_zk_controller-0.1.0-py3-none-any.whl[replay]") == []
    assert by_bare_name("pip install --index-url https://packages.example.org kafka-zk-controller") == []


def test_no_text_has_one() -> None:
    found = {str(path): by_bare_name(text) for path, text in texts() if path.name != Path(__file__).name}

    assert {path: commands for path, commands in found.items() if commands} == {}


def test_the_page_has_commands_for_each_tool() -> None:
    firsts = {line.split()[0] for block in COMMANDS for line in block.splitlines()}

    assert {"pipx", "uv"} <= firsts
    assert sum("-m pip install" in block for block in COMMANDS) > 1

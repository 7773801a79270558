"""A page's commands are found, run in their order, and compared with what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.demo.waiting import wait_for
from tests.equipment import guide
from tests.equipment.guide import Command, Guide, Host

PAGE = """# A page

## 1. First

**Do**: some words.

```console
$ echo one \\
    two > file
$ cat file
one …
```

```
$ not run
```

**Proof**, later on: more words.

```console
$ test -f file
```

## 2. Second

**Do**: again.

```console
$ sleep 100 &
$ kill %1
```
"""


@pytest.fixture
def page(tmp_path: Path) -> Guide:
    """The page above."""
    file = tmp_path / "page.md"
    file.write_text(PAGE)
    return Guide(file)


def test_blocks_are_found_by_heading_and_label_and_those_not_taken_are_known(page: Guide) -> None:
    assert page.take("1. First", "Do") == [
        Command("echo one \\\n    two > file", None),
        Command("cat file", "one …"),
    ]
    assert page.left == {("1. First", "Proof, later on"), ("2. Second", "Do")}
    with pytest.raises(KeyError):
        page.take("1. First", "Back")


@pytest.mark.parametrize(
    ("output", "text", "is_so"),
    [
        ("a … c", "a b c\n", True),
        ("a … c", "a b d", False),
        ("a\n…\nz", "a\nb\nc\nz", True),
        ("a", "a b", False),
        ("0", "10", False),
        ("(a)…", "(a) and more", True),
    ],
)
def test_only_what_is_left_open_may_differ(output: str, text: str, is_so: bool) -> None:
    assert Command("", output).shows(text) is is_so


def test_commands_run_in_one_directory_with_the_names_of_this_machine(page: Guide, tmp_path: Path) -> None:
    with Host(tmp_path / "host", {"one": "1"}, {"TWO": "2"}) as host:
        host.walk(page.take("1. First", "Do"))
        host.walk(page.take("1. First", "Proof, later on"))
        host.walk(page.take("2. Second", "Do"))
        assert host.run("echo $TWO; cat file; false") == (1, "2\n1 two\n\n")
    assert (tmp_path / "host" / "file").read_text() == "1 two\n"


def test_a_command_that_reads_does_not_get_those_that_follow(tmp_path: Path) -> None:
    with Host(tmp_path / "host", {}, {}) as host:
        assert host.run("cat") == (0, "\n")


def test_what_shows_something_else_or_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guide, "PATIENCE_S", 0.1)
    with Host(tmp_path / "host", {}, {}) as host:
        with pytest.raises(AssertionError, match="ended with 3"):
            host.walk([Command("(exit 3)", None)])
        with pytest.raises(AssertionError, match="shows\nb"):
            host.walk([Command("echo b", "a")])


def test_a_background_job_ends_with_its_host(tmp_path: Path) -> None:
    with Host(tmp_path / "host", {}, {}) as host:
        host.run("sleep 1000 &")
        code, process = host.run("echo $!")
    assert code == 0
    wait_for(lambda: not Path(f"/proc/{process.strip()}").exists(), "the job ended", timeout_s=20)

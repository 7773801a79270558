"""A tag stands for the same class for ever, and journals from before tags can still be read.

`tests/fixtures/journal/before-tags` was written by the last release that named modules: `every-class` has one value of
each class, with all its fields; `term` is the life of a machine. `tags.txt` has every tag ever given, with all fields
its class ever had: tags and fields are added, none is removed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.core.machine import Machine
from controller.core.messages.commands import HEADS
from controller.core.messages.effects import operation
from controller.core.messages.events import Again, Alarm, Woke
from controller.core.seeded_random import SeededRandom
from controller.core.settings import MachineSettings
from controller.core.single_znodes.unreadable import LookAgain
from controller.core.state.cluster import ClusterState
from controller.core.steps.quarantined_topics import TryTopicAgain
from controller.runtime.journal import Term, files, read, replay
from controller.runtime.plain import KIND, Unreadable, from_plain, to_plain
from controller.runtime.tags import FORMER, class_of, tag_of, tagged
from zk_layout.ids import ControllerEpoch, TopicName

JOURNALS = Path(__file__).parents[2] / "fixtures" / "journal"
BEFORE_TAGS = JOURNALS / "before-tags"
TAGS = JOURNALS / "tags.txt"
GIVEN = {tag: set(fields.split()) for tag, _, fields in (line.partition(":") for line in TAGS.read_text().splitlines())}


def old_lines() -> list[dict[str, Any]]:
    (path,) = files(BEFORE_TAGS / "every-class")
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def tags_for_modules(plain: Any) -> Any:
    """Today's form of what was written then."""
    if isinstance(plain, list):
        return [tags_for_modules(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    renamed = {key: tags_for_modules(item) for key, item in plain.items()}
    if ":" in plain.get(KIND, ""):
        kind = class_of(plain[KIND])
        assert kind is not None, plain[KIND]
        renamed[KIND] = kind.__name__
    if renamed.get(KIND) == "Operation" and from_plain(renamed["data"]) == operation(from_plain(renamed["write"])).data:
        del renamed["data"]
    return renamed


def test_no_two_classes_have_the_same_tag() -> None:
    assert [tag for tag, count in Counter(kind.__name__ for kind in tagged()).items() if count > 1] == []


def fields_of(kind: type[Any]) -> set[str]:
    return set(getattr(kind, "__struct_fields__", getattr(kind, "_fields", ()))) - HEADS


def test_every_tag_and_field_is_on_record() -> None:
    new = {
        kind.__name__: fields_of(kind)
        for kind in tagged()
        if kind.__name__ not in GIVEN or not fields_of(kind) <= GIVEN[kind.__name__]
    }

    assert not new, f"add them to {TAGS}; a tag must be one that no class ever had"


def test_every_tag_and_field_ever_given_is_understood() -> None:
    lost = {tag: fields for tag, fields in GIVEN.items() if (kind := class_of(tag)) is None or fields - fields_of(kind)}

    assert not lost, "journals have these: name in FORMER what a class is called now, and keep reading its fields"


def test_a_former_tag_is_not_given_again() -> None:
    names = {kind.__name__ for kind in tagged()}

    assert names.isdisjoint(FORMER)
    assert names.issuperset(FORMER.values())


def test_a_tag_says_nothing_of_the_module() -> None:
    assert to_plain(Woke(Again())) == {"is": "Woke", "alarm": {"is": "Again"}}


@pytest.mark.parametrize("module", ["controller.core.events", "controller.messages.events", "anywhere"])
def test_the_module_in_an_old_name_does_not_matter(module: str) -> None:
    assert from_plain({"is": f"{module}:Woke", "alarm": {"is": f"{module}:Again"}}) == Woke(Again())


def test_two_alarms_of_one_name_are_still_distinguished() -> None:
    of_topic = {"is": "controller.core.steps.aside:LookAgain", "topic": "orders"}

    assert from_plain(of_topic) == TryTopicAgain(TopicName("orders"))
    assert from_plain({"is": "controller.core.unreadable:LookAgain"}) == LookAgain()


def test_every_class_of_the_journals_before_tags_is_read_with_all_its_fields() -> None:
    lines = old_lines()
    values = [turn.events for turn in read(files(BEFORE_TAGS / "every-class")) if not isinstance(turn, Term)]

    assert len(lines) == len(values) == 209
    assert [to_plain(value) for value in values] == [tags_for_modules(line["events"]) for line in lines]
    assert from_plain(to_plain(tuple(values))) == tuple(values)


def test_a_term_from_before_tags_is_replayed_without_a_difference() -> None:
    """Where a decision changes on purpose, the differences it causes here are listed instead of none."""
    entries = list(read(files(BEFORE_TAGS / "term")))

    assert len(entries) == 9
    assert list(replay(entries, machine_of)) == []


def machine_of(term: Term, state: ClusterState | None = None) -> Machine:
    assert isinstance(term.settings, MachineSettings)
    return Machine(term.settings, ControllerEpoch(term.controller_epoch), SeededRandom(term.seed), state=state)


def test_a_class_that_no_event_and_no_effect_holds_has_no_tag() -> None:
    class Again(Alarm, frozen=True):
        """Of the same name."""

    assert tag_of(Again) is None
    assert class_of("Machine") is None
    with pytest.raises(TypeError, match="Again cannot be written to a journal: no event and no effect holds one"):
        to_plain(Again())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"now": 0.0, "events": [{"is": "Slept"}], "effects": []}', "no message has the tag 'Slept' here"),
        (b'{"now": 0.0, "events": [{"is": "os:system"}], "effects": []}', "no message has the tag 'os:system' here"),
        (
            b'{"now": 0.0, "events": [{"is": "Woke", "bell": 1}], "effects": []}',
            "'Woke' has other fields here (TypeError: Unexpected keyword argument 'bell')",
        ),
        (b'{"is": "Woke"}', "not a line of a journal (KeyError: 'now')"),
        (b"{", "not a line of a journal (DecodeError: Input data was truncated)"),
    ],
)
def test_what_is_not_understood_is_one_error_that_says_what_where_and_what_to_do(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = tmp_path / "journal-000001.jsonl"
    path.write_bytes(b'{"now": 0.0, "events": [], "effects": []}\n' + line + b"\n")

    with pytest.raises(Unreadable) as caught:
        list(read([path]))

    assert str(caught.value) == f"{path}, line 2: {reason}; read it with the version of the controller that wrote it"

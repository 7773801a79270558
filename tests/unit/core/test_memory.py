"""Each part of a term's memory is written by the duty that owns it; all others get it to be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct
from msgspec.structs import fields

from controller.core import memory
from controller.core.brokers.duty import Brokers
from controller.core.elections.duty import Elections
from controller.core.memory import Memory
from controller.core.reassignment.moves import Moves
from controller.core.reassignment.queue import MoveQueue
from controller.core.reassignment.throttles import Throttles
from controller.core.state.remembered import Remembered
from tests.unit.core.builders import AT, OWN, Term, ids
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import ZnodeVersion, Zxid
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

REPOSITORY = Path(__file__).parents[3]
PRODUCT = ("controller", "metrics", "zk_layout")
CORE = REPOSITORY / "controller" / "core"
OWNERS = {
    "BrokersMemory": "brokers/*.py",
    "MovesMemory": "reassignment/moves.py reassignment/removal.py",
    "LegacyMemory": "reassignment/legacy_znode.py",
    "QueueMemory": "reassignment/queue.py reassignment/giving_up.py",
    "FolderMemory": "reassignment/folder.py",
    "ForeignWritesMemory": "reassignment/foreign_writes.py",
    "ElectionsMemory": "elections/*.py",
    "TopicsMemory": "topics/*.py",
    "CountsMemory": "counts.py",
}


def parts() -> dict[str, Struct]:
    return {type(part).__name__: part for part in vars(Memory(OWN)).values()}


def test_every_part_has_an_owner() -> None:
    assert parts().keys() == OWNERS.keys()


@pytest.mark.parametrize("part", OWNERS)
def test_only_its_owner_names_a_part(part: str) -> None:
    allowed = {file for pattern in OWNERS[part].split() for file in CORE.glob(pattern)}
    allowed |= {Path(memory.__file__), *CORE.glob("*/memory.py")}
    sources = (file for package in PRODUCT for file in REPOSITORY.glob(f"{package}/**/*.py"))

    assert {file for file in sources if re.search(rf"\b{part}\b", file.read_text())} <= allowed


def test_what_all_can_read_none_can_change() -> None:
    def kinds(hint: object) -> Iterator[object]:
        yield get_origin(hint) or hint
        for inner in get_args(hint):
            yield from kinds(inner)

    for hint in get_type_hints(Remembered).values():
        assert get_origin(hint) is Mapping
        assert not {dict, list, set} & {*kinds(hint)}


def test_the_view_follows_the_parts() -> None:
    held = Memory(OWN)
    view = held.view()

    kept = {id(getattr(part, field.name)) for part in vars(held).values() for field in fields(part)}
    assert {id(getattr(view, field.name)) for field in fields(view)} <= kept
    assert len({id(getattr(view, field.name)) for field in fields(view)}) == len(fields(view))


def test_what_others_read_is_never_replaced() -> None:
    for part in parts().values():
        for field in fields(part):
            with pytest.raises(AttributeError):
                setattr(part, field.name, {})


def test_every_owner_forgets_a_topic_that_is_gone() -> None:
    term = Term("1,2")
    address = TopicAddress(AT.topic)
    term.fold(
        present(address, Topic({AT.partition: Assignment(ids("1,2"))}), Stat(Zxid(10), Zxid(10), ZnodeVersion(0)))
    )
    owners = (
        Brokers(term.shared, term.memory.brokers),
        Elections(term.shared, term.memory.elections),
        Moves(term.shared, term.memory.moves, MoveQueue(term.shared, term.memory.queue), Throttles(term.shared)),
    )
    for owner in owners:
        term.follow(owner)
    said = (term.memory.moves.confirmed, term.memory.brokers.logs_deleted, term.memory.brokers.caught_up)
    for brokers in said:
        brokers[AT] = frozenset(ids("1"))
    term.memory.elections.preferring[AT] = None

    term.fold(absent(address, Zxid(11)))

    changes = term.changes()
    for owner in owners:
        owner.follow(changes, term.out())
    assert not any((*said, term.memory.elections.preferring))

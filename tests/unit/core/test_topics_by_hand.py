"""Which edits of topics by hand does an operator hear of?"""

from __future__ import annotations

import pytest

from controller.core.messages.effects import Notice
from controller.core.topics.by_hand import TopicsByHand
from tests.unit.core.builders import Term, ids
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import PartitionId, TopicId, TopicName, ZnodeVersion, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress

ID, OTHER = TopicId("AAECAwQFBgcICQoLDA0ODw"), TopicId("BBECAwQFBgcICQoLDA0ODw")


def topic(name: str, topic_id: TopicId | None, zxid: int, version: int = 0) -> Fact:
    """The topic's znode; a later version is of the same life."""
    value = Topic({PartitionId(0): Assignment(ids("12"))}, topic_id)
    return present(TopicAddress(TopicName(name)), value, Stat(Zxid(zxid - version), Zxid(zxid), ZnodeVersion(version)))


def gone(name: str, zxid: int) -> Fact:
    return absent(TopicAddress(TopicName(name)), Zxid(zxid))


class Reader:
    """Hears the notices."""

    def __init__(self) -> None:
        self.term = Term("12")
        self.duty = TopicsByHand(self.term.shared)

    def hears(self, *facts: Fact) -> list[tuple[str, str]]:
        self.term.fold(*facts)
        return [(e.kind, e.text) for e in self.term.follow(self.duty) if isinstance(e, Notice)]


def test_two_topics_with_one_id_are_named_once() -> None:
    reader = Reader()

    found = reader.hears(topic("a", ID, 2000), topic("b", ID, 2001), topic("c", OTHER, 2002), topic("d", None, 2003))

    assert found == [("duplicate topic id", f"topics a and b have the same id {ID}")]
    assert reader.hears(topic("b", ID, 2002, version=1), topic("a", ID, 2003, version=3)) == []


@pytest.mark.parametrize("version", [0, 1])
def test_a_topic_that_gets_the_id_of_another_later_is_named(version: int) -> None:
    reader = Reader()
    assert reader.hears(topic("a", ID, 2000)) == []
    assert reader.hears(*([topic("b", None, 2001)] if version else [])) == []

    assert reader.hears(topic("b", ID, 2002, version)) == [
        ("duplicate topic id", f"topics a and b have the same id {ID}")
    ]


def test_an_id_is_free_again_when_its_topic_is_gone() -> None:
    reader = Reader()
    reader.hears(topic("a", ID, 2000))

    assert [kind for kind, _ in reader.hears(gone("a", 2001))] == ["removed topic znode"]
    assert reader.hears(topic("b", ID, 2002)) == []
    assert [kind for kind, _ in reader.hears(topic("c", ID, 2003))] == ["duplicate topic id"]


def test_a_topic_znode_that_was_removed_by_hand_is_named() -> None:
    reader = Reader()
    reader.hears(topic("a", ID, 2000), topic("b", OTHER, 2001))

    assert reader.hears(gone("a", 2010)) == [
        (
            "removed topic znode",
            "the znode of topic a was removed without a request to delete: the replicas stay on brokers' disks",
        )
    ]
    assert reader.hears() == []


def test_a_topic_that_was_removed_and_made_again_by_hand_is_named() -> None:
    reader = Reader()
    reader.hears(topic("a", ID, 2000))

    assert [kind for kind, _ in reader.hears(topic("a", OTHER, 2010))] == ["removed topic znode"]


def test_many_topics_that_were_removed_at_once_are_one_notice() -> None:
    reader = Reader()
    reader.hears(*(topic(f"t{n}", None, 2000 + n) for n in range(9)))

    ((_, text),) = reader.hears(*(gone(f"t{n}", 3000 + n) for n in range(9)))

    assert text.startswith("the znodes of 9 topics (t0, t1, t2, t3, t4 …) were removed")


@pytest.mark.parametrize("is_mark_first", [False, True])
def test_a_topic_that_was_asked_to_be_deleted_is_no_news(*, is_mark_first: bool) -> None:
    reader, mark = Reader(), TopicDeletionAddress(TopicName("a"))
    reader.hears(topic("a", ID, 2000))
    reader.hears(present(mark, None, Stat(Zxid(2005), Zxid(2005), ZnodeVersion(0))))
    ends = [absent(mark, Zxid(2010)), gone("a", 2010)]

    assert reader.hears(*(ends if is_mark_first else ends[::-1])) == []

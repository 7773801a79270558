"""Who was told to delete which replicas of a topic, who confirmed, and what comes next?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import Struct

from controller.core.brokers.duty import Brokers
from controller.core.messages.commands import Command, ReplicaStop, StopReplica, UpdateMetadata
from controller.core.messages.effects import Commit, Create, Delete, Effect, Notice, Read, Survey
from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Acknowledged, Surveyed
from controller.core.topics.deletion import TopicDeletions
from controller.core.topics.duty import Topics
from controller.core.transactions.proposal import Atom, Proposal, topic_subject
from controller.core.turn.duty import Duty
from tests.unit.core.builders import OWN, Term, commits, ids, state
from tests.unit.traps.play import Play, some
from zk_layout.codec import Malformed
from zk_layout.facts import Stat, absent, present
from zk_layout.ids import PartitionId, TopicId, TopicName, TopicPartition, ZnodeVersion, Zxid
from zk_layout.znodes.admin import TopicDeletionAddress
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.configs import Config, TopicConfigAddress
from zk_layout.znodes.partition_state import PartitionAddress, PartitionsAddress, StateAddress
from zk_layout.znodes.replica_deletions import ReplicaDeletions, ReplicaDeletionsAddress
from zk_layout.znodes.topics import Assignment, Topic, TopicAddress, TopicRemnantAddress

NAME = TopicName("orders")
MARKED_AT = 5000


class Removal(Struct):
    """The next step of a deletion: what goes first, and what is written. Both empty: it waits."""

    effects: Sequence[Effect] = ()
    atoms: tuple[Atom, ...] = ()


WAITS = Removal([])


class Desk(Term):
    """The bookkeeping as the duty for topics uses it."""

    def __init__(self, live: str, *replicas: str, deletes_topics: bool = True) -> None:
        super().__init__(live, deletes_topics=deletes_topics)
        self.deletions = TopicDeletions(self.cluster, self.memory.topics, self.memory.brokers)
        self.zxid = 2000
        if replicas:
            self.assign({p: Assignment(ids(r)) for p, r in enumerate(replicas)})
            for number, r in enumerate(replicas):
                seen = Stat(self._next(), Zxid(self.zxid), ZnodeVersion(0))
                self.fold(present(StateAddress(NAME, PartitionId(number)), state(ids(r)[0], r), seen))

    def _next(self) -> Zxid:
        self.zxid += 1
        return Zxid(self.zxid)

    def assign(self, partitions: dict[int, Assignment], czxid: int = 2000, version: int = 0) -> None:
        stat = Stat(Zxid(czxid), max(Zxid(czxid), self._next()), ZnodeVersion(version))
        self.fold(present(TopicAddress(NAME), Topic({PartitionId(n): a for n, a in partitions.items()}), stat))

    def mark(self, czxid: int = MARKED_AT) -> None:
        self.zxid = czxid
        stat = Stat(Zxid(czxid), Zxid(czxid), ZnodeVersion(0))
        self.fold(present(TopicDeletionAddress(NAME), None, stat))

    def tells(self, *fresh: int) -> list[tuple[int, Command]]:
        self.memory.brokers.updated_in_full.clear()
        self.memory.brokers.updated_in_full.update(dict.fromkeys(ids(",".join(map(str, fresh)))))
        self.deletions.follow(self.changes())
        out = self.out()
        self.deletions.announce(out)
        return [(told.broker, told.command) for told in out.sent]

    def stops(self, *fresh: int) -> dict[int, list[int]]:
        return {
            broker: [stop.partition for stop in command.stops]
            for broker, command in self.tells(*fresh)
            if isinstance(command, StopReplica)
        }

    def answer(self, broker: int, *numbers: int, refused: tuple[int, ...] = ()) -> list[TopicName]:
        command = StopReplica(tuple(ReplicaStop(NAME, n, -2, True) for n in (*numbers, *refused)))
        errors = {TopicPartition(NAME, n): ErrorCode.KAFKA_STORAGE_ERROR for n in refused}
        return self.deletions.hear(Acknowledged(broker, 1, command, ErrorCode.NONE, errors))

    def step(self) -> Removal:
        out = self.out()
        self.deletions.follow(self.changes())
        atoms = self.deletions.next_step(NAME, out)
        return Removal(out.effects, atoms)

    def removal(self, partitions: int) -> list[Commit]:
        """What is sent first once brokers have deleted the logs of so many partitions of one replica."""
        self.mark()
        self.tells()
        self.answer(1, *range(partitions))
        self.read_config()
        out = self.out()
        self.transactions.send(Duty(), (Proposal(topic_subject(NAME), self.step().atoms),), out)
        return commits(out.effects)

    def read_config(self, version: int | None = None) -> None:
        address = TopicConfigAddress(NAME)
        if version is None:
            self.fold(absent(address, self._next()))
        else:
            stat = Stat(self._next(), Zxid(self.zxid), ZnodeVersion(version))
            self.fold(present(address, Config({}), stat))


def deleted(step: Removal) -> list[tuple[str, int]]:
    (atom,) = step.atoms
    writes = (*atom.before, *atom.writes)
    assert all(isinstance(write, Delete) for write in writes)
    return [(w.address.path, w.expected) for w in writes if not isinstance(w, Create)]


def test_brokers_forget_the_topic_first_and_are_then_sent_the_deletion_of_its_replicas() -> None:
    desk = Desk("1,2,3", "1,2", "2,1")
    desk.mark()

    told = desk.tells()

    assert [(broker, type(command)) for broker, command in told] == [
        (1, UpdateMetadata),
        (2, UpdateMetadata),
        (3, UpdateMetadata),
        (1, StopReplica),
        (2, StopReplica),
    ]
    assert {v.leader for _, c in told if isinstance(c, UpdateMetadata) for v in c.partitions} == {-2}
    assert {s.leader_epoch for _, c in told if isinstance(c, StopReplica) for s in c.stops} == {-2}


def test_what_is_sent_once_is_not_sent_again() -> None:
    desk = Desk("1,2", "1,2")
    desk.mark()
    desk.tells()

    assert desk.tells() == []


def test_the_znodes_go_only_when_every_replica_is_confirmed() -> None:
    desk = Desk("1,2", "1,2", "2,1")
    desk.mark()
    desk.tells()
    desk.read_config()
    assert desk.answer(1, 0, 1) == []
    assert desk.answer(2, 0) == []
    assert desk.step() == WAITS

    assert desk.answer(2, 1) == [NAME]

    assert deleted(desk.step()) == [
        ("/brokers/topics/orders/partitions/0/state", 0),
        ("/brokers/topics/orders/partitions/0", 0),
        ("/brokers/topics/orders/partitions/1/state", 0),
        ("/brokers/topics/orders/partitions/1", 0),
        ("/brokers/topics/orders/partitions", 0),
        ("/brokers/topics/orders", 0),
        ("/admin/delete_topics/orders", 0),
    ]


def test_the_settings_are_looked_up_before_and_go_with_the_topic() -> None:
    desk = Desk("1", "1")
    desk.mark()
    desk.tells()
    desk.answer(1, 0)
    assert desk.step().effects == [Read((TopicConfigAddress(NAME),))]

    desk.read_config(version=4)

    assert ("/config/topics/orders", 4) in deleted(desk.step())


def test_every_replica_of_a_move_is_deleted_adding_and_removing_ones_too() -> None:
    desk = Desk("1,2,3,4", "1,2")
    desk.assign({0: Assignment(ids("3,4,1,2"), ids("3,4"), ids("1,2"))}, version=1)
    desk.mark()

    assert desk.stops() == {1: [0], 2: [0], 3: [0], 4: [0]}
    assert desk.cluster.moving == {}


def test_a_move_goes_on_where_the_request_to_delete_its_topic_is_taken_back() -> None:
    desk = Desk("1,2,3", "1,2")
    desk.assign({0: Assignment(ids("3,1,2"), ids("3"), ids("1"))}, version=1)
    desk.mark()

    desk.fold(absent(TopicDeletionAddress(NAME), Zxid(MARKED_AT + 1)))

    assert desk.cluster.moving == {NAME: {PartitionId(0): None}}


def test_our_own_id_hosts_nothing_and_is_not_waited_for() -> None:
    desk = Desk("1", f"1,{OWN}")
    desk.mark()
    desk.tells()
    desk.read_config()
    desk.answer(1, 0)

    assert desk.step().atoms


def test_a_broker_that_is_down_makes_the_topic_wait_and_is_named_once() -> None:
    desk = Desk("1", "1,2")
    desk.mark()
    desk.tells()
    desk.answer(1, 0)

    (notice,) = desk.step().effects

    assert isinstance(notice, Notice)
    assert notice.text == "topic orders cannot be deleted yet: broker 2 is offline and has 1 of its replicas"
    assert desk.step() == WAITS
    assert desk.deletions.figures() == {
        "topics_to_delete": 1,
        "topics_ineligible_to_delete": 1,
        "replicas_to_delete": 1,
        "replicas_ineligible_to_delete": 1,
    }


def test_a_broker_that_restarted_is_sent_everything_again() -> None:
    desk = Desk("1,2", "1,2")
    desk.mark()
    desk.tells()
    desk.answer(2, 0)

    told = desk.tells(2)

    assert [(b, type(c)) for b, c in told] == [(2, UpdateMetadata), (2, StopReplica)]


def test_a_replica_that_could_not_be_deleted_is_asked_for_again_later_and_only_that_one() -> None:
    desk = Desk("1", "1", "1")
    desk.mark()
    desk.tells()
    desk.answer(1, 0, refused=(1,))
    assert desk.deletions.is_refused
    assert desk.deletions.figures()["replicas_ineligible_to_delete"] == 1

    desk.deletions.ask_again()

    assert desk.stops() == {1: [1]}
    assert desk.deletions.figures()["replicas_ineligible_to_delete"] == 0


def test_a_partition_that_is_added_meanwhile_goes_too() -> None:
    desk = Desk("1,2", "1")
    desk.mark()
    desk.tells()
    desk.answer(1, 0)
    desk.read_config()

    desk.assign({0: Assignment(ids("1")), 1: Assignment(ids("2"))}, version=1)

    assert desk.stops() == {2: [1]}
    assert desk.step() == WAITS
    desk.answer(2, 1)
    assert deleted(desk.step())[-2:] == [("/brokers/topics/orders", 1), ("/admin/delete_topics/orders", 0)]


def test_after_a_refused_removal_what_is_there_is_listed_and_exactly_that_deleted() -> None:
    desk = Desk("1", "1")
    desk.mark()
    desk.tells()
    desk.answer(1, 0)
    desk.read_config()
    desk.deletions.failed(NAME)
    assert desk.step().effects == [Survey(NAME)]
    assert desk.step() == WAITS

    found = (
        (TopicRemnantAddress(NAME, "partitions/0/note"), 3),
        (PartitionAddress(NAME, 0), 1),
        (PartitionsAddress(NAME), 0),
    )
    desk.deletions.surveyed(Surveyed(NAME, found))

    assert deleted(desk.step()) == [
        ("/brokers/topics/orders/partitions/0/note", 3),
        ("/brokers/topics/orders/partitions/0", 1),
        ("/brokers/topics/orders/partitions", 0),
        ("/brokers/topics/orders", 0),
        ("/admin/delete_topics/orders", 0),
    ]


@pytest.mark.parametrize("partitions", [148, 149, 150, 299, 449])
def test_the_request_to_delete_a_topic_goes_with_its_znode_in_one_transaction_once_all_below_is_gone(
    partitions: int,
) -> None:
    desk = Desk("1", *["1"] * partitions)
    sent = desk.removal(partitions)
    every = []
    while sent:
        every += sent
        sent = commits([effect for commit in sent for effect in desk.accept(commit)])

    last = [commit for commit in every if Delete(TopicDeletionAddress(NAME), 0) in commit.writes]
    assert last == every[-1:]
    assert Delete(TopicAddress(NAME), 0) in last[0].writes
    assert sum(len(commit.writes) for commit in every) == 2 * partitions + 3
    assert NAME not in desk.cluster.topics


def test_the_request_to_delete_a_topic_stays_where_something_below_its_znode_is_refused() -> None:
    desk = Desk("1", *["1"] * 200)
    first, second = desk.removal(200)

    assert commits(desk.refuse(first)) == []
    assert commits(desk.accept(second)) == []
    assert commits(desk.read(*(absent(write.address, Zxid(6000)) for write in first.writes))) == []

    assert NAME in desk.cluster.deletion_marks


def test_a_request_for_a_topic_that_is_not_there_is_dropped_once_that_is_certain() -> None:
    desk = Desk("1")
    duty = Topics(desk.shared, desk.memory.topics)
    desk.mark()
    assert desk.follow(duty) + desk.propose(duty) == [Read((TopicAddress(NAME),))]

    desk.fold(absent(TopicAddress(NAME), Zxid(MARKED_AT)))

    (commit,) = commits(desk.follow(duty) + desk.propose(duty))
    assert commit.writes == (Delete(TopicDeletionAddress(NAME), 0, MARKED_AT),)
    assert commit.why == ("topic orders is not deleted: the topic does not exist",)


def test_what_a_topic_owed_that_is_gone_is_forgotten_once_that_is_certain() -> None:
    desk = Desk("1")
    duty = Topics(desk.shared, desk.memory.topics)
    address = ReplicaDeletionsAddress(NAME)
    seen = Stat(Zxid(2000), Zxid(MARKED_AT), ZnodeVersion(3))
    desk.fold(present(address, ReplicaDeletions({PartitionId(0): ids("2")}), seen))
    assert desk.follow(duty) + desk.propose(duty) == [Read((TopicAddress(NAME),))]

    desk.fold(absent(TopicAddress(NAME), Zxid(MARKED_AT)))

    (commit,) = commits(desk.follow(duty) + desk.propose(duty))
    assert commit.writes == (Delete(address, 3),)
    assert commit.why == ("what topic orders owed is forgotten: the topic does not exist",)


def test_what_a_topic_owes_that_is_there_is_not_forgotten() -> None:
    desk = Desk("1")
    duty = Topics(desk.shared, desk.memory.topics)
    seen = Stat(Zxid(2000), Zxid(MARKED_AT), ZnodeVersion(0))
    desk.fold(present(ReplicaDeletionsAddress(NAME), ReplicaDeletions({PartitionId(0): ids("2")}), seen))
    desk.assign({0: Assignment(ids("1"))}, czxid=MARKED_AT - 1)

    assert desk.follow(duty) + desk.propose(duty) == []


@pytest.mark.parametrize("is_topic_first", [True, False])
def test_what_a_former_topic_of_that_name_owed_is_forgotten_also_where_it_could_not_be_read_until_now(
    is_topic_first: bool,
) -> None:
    desk = Desk("1")
    duty = Topics(desk.shared, desk.memory.topics)
    address = ReplicaDeletionsAddress(NAME)
    seen = Stat(Zxid(MARKED_AT - 100), Zxid(MARKED_AT - 50), ZnodeVersion(3))

    owed = present(address, ReplicaDeletions({PartitionId(0): ids("2")}, TopicId("F" * 22)), seen)
    topic = Topic({PartitionId(0): Assignment(ids("1"))}, TopicId("L" * 22))
    there = present(TopicAddress(NAME), topic, Stat(Zxid(MARKED_AT), Zxid(MARKED_AT), ZnodeVersion(0)))
    desk.fold(*((there, owed) if is_topic_first else (owed, there)))

    (commit,) = commits(desk.follow(duty) + desk.propose(duty))
    assert commit.writes == (Delete(address, 3),)
    assert commit.why == ("what topic orders owed is forgotten: it was another topic of that name",)


def test_a_request_that_is_older_than_its_topic_deletes_nothing() -> None:
    desk = Desk("1")
    duty = Topics(desk.shared, desk.memory.topics)
    desk.mark()
    desk.assign({0: Assignment(ids("1"))}, czxid=MARKED_AT + 1)

    (commit,) = desk.follow(duty) + desk.propose(duty)
    assert isinstance(commit, Commit)
    assert commit.writes == (Delete(TopicDeletionAddress(NAME), 0, MARKED_AT),)


def test_that_a_request_older_than_its_topic_is_dropped_is_told() -> None:
    """A tool that copies znodes creates them in an order of its own: then a request is lost, and someone has to ask
    again."""
    play = Play(
        "brokers 1,2",
        "znode /admin/delete_topics/orders",
        "topic orders 0=1",
        "state orders-0 leader=1 isr=1",
    )

    lines = play.do("elect")

    assert some(lines, "outdated topic deletion", "topic orders is not deleted", "request it again")
    assert play.data("/admin/delete_topics/orders") is None
    assert play.data("/brokers/topics/orders") is not None


def test_where_topics_may_not_be_deleted_the_request_is_dropped() -> None:
    desk = Desk("1", "1", deletes_topics=False)
    duty = Topics(desk.shared, desk.memory.topics)
    desk.mark()

    (commit,) = desk.follow(duty) + desk.propose(duty)
    assert isinstance(commit, Commit)
    assert commit.why == ("topic orders is not deleted: delete.topic.enable is false",)


def test_while_no_one_knows_whether_topics_may_be_deleted_requests_wait_and_the_topic_is_led() -> None:
    play = Play("set deletes_topics=null", "brokers 1,2", "topic orders 0=1,2", "delete topic orders", "elect")

    assert some(play.do("broker 1 dies"), "set /brokers/topics/orders/partitions/0/state", "leader=2")
    assert some(play.do("ask delete orders"), "answer", "NOT_CONTROLLER")
    assert play.data("/admin/delete_topics/orders") is not None

    play.do("broker 1 returns", "set deletes_topics=true", "elect")
    assert play.data("/brokers/topics/orders") is None


@pytest.mark.parametrize("allowed", ["null", "true"])
def test_requests_that_are_for_nothing_are_dropped_whether_topics_may_be_deleted_or_not(allowed: str) -> None:
    play = Play(f"set deletes_topics={allowed}", "brokers 1,2", "delete topic orders", "topic orders 0=1,2")
    play.do("delete topic nothing", "elect")

    assert play.data("/admin/delete_topics/nothing") is None
    assert play.data("/admin/delete_topics/orders") is None
    assert play.data("/brokers/topics/orders") is not None


def test_a_request_that_cannot_be_dropped_holds_nothing_up() -> None:
    path = "/admin/delete_topics/orders"
    play = Play("brokers 1,2", "delete topic orders", "topic orders 0=1,2", f"refuse {path}", "elect")

    assert some(play.do("broker 1 dies"), "set /brokers/topics/orders/partitions/0/state", "leader=2")
    assert not some(play.do("ask delete orders"), "answer")

    lines = play.do("time +5s", f"allow {path}", "time +60s", "broker 1 returns")
    assert some(lines, "answer orders NONE")
    assert play.data("/brokers/topics/orders") is None


@pytest.mark.parametrize("path", ["/brokers/topics/orders", "/config/topics/orders", "/admin/delete_topics/orders"])
def test_a_removal_that_is_refused_again_and_again_is_tried_less_often(path: str) -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2", "config orders retention.ms=1", f"refuse {path}", "elect")

    lines = play.do("delete topic orders", "time +60s")

    assert 4 < sum(line.startswith("refused") for line in lines) < 12
    play.do(f"allow {path}", "time +30s")
    assert play.data("/brokers/topics/orders") is None


def test_a_request_for_an_unknown_topic_that_cannot_be_dropped_keeps_no_one_from_creating_it() -> None:
    path = "/admin/delete_topics/orders"
    play = Play("brokers 1,2", f"refuse {path}", "elect", "delete topic orders")

    assert some(play.do("ask create orders 0=1,2"), "answer orders NONE")


def test_a_deletion_that_has_begun_cannot_be_withdrawn() -> None:
    play = Play("brokers 1,2", "topic orders 0=1,2", "elect", "broker 2 hangs", "delete topic orders")

    lines = play.do("refuse /admin/delete_topics/orders", "remove /admin/delete_topics/orders", "broker 1 bounces")
    assert some(lines, "notice (withdrawn topic deletion)")
    assert not some(lines, "set /brokers/topics/orders")
    assert not some(lines, "LeaderAndIsr orders-0")

    lines = play.do("allow /admin/delete_topics/orders", "broker 2 goes-on", "time +60s")
    assert some(lines, "topic orders is deleted")
    assert play.data("/brokers/topics/orders") is None


def test_a_deletion_that_no_one_has_heard_of_can_be_withdrawn() -> None:
    play = Play("brokers 1", "topic orders 0=2", "state orders-0 leader=-1 isr=2", "elect", "delete topic orders")

    lines = play.do("remove /admin/delete_topics/orders", "broker 2 returns")
    assert not some(lines, "notice")
    assert some(lines, "set /brokers/topics/orders/partitions/0/state", "leader=2")


def test_a_topic_created_again_is_another_one() -> None:
    desk = Desk("1", "1")
    desk.mark()
    desk.tells()

    desk.assign({0: Assignment(ids("1"))}, czxid=MARKED_AT + 10)

    assert desk.tells() == []
    assert not desk.cluster.topics[NAME].is_queued_for_deletion
    assert desk.deletions.figures()["topics_to_delete"] == 0


def test_a_topic_that_lives_on_after_all_is_announced_to_its_brokers_again() -> None:
    desk = Desk("1", "1")
    desk.mark()
    desk.tells()

    desk.fold(absent(TopicDeletionAddress(NAME), Zxid(MARKED_AT + 1)))

    changes = desk.changes()
    Brokers(desk.shared, desk.memory.brokers).follow(changes, desk.out())
    desk.deletions.follow(changes)
    assert list(desk.memory.brokers.unannounced) == [TopicPartition(NAME, PartitionId(0))]
    assert desk.tells() == []


def test_what_brokers_delete_for_a_move_confirms_no_deletion_of_the_topic() -> None:
    desk = Desk("1", "1")
    desk.mark()
    desk.tells()

    command = StopReplica((ReplicaStop(NAME, 0, 3, True),))

    assert desk.deletions.hear(Acknowledged(1, 1, command, ErrorCode.NONE)) == []


def test_a_topic_whose_znode_cannot_be_read_waits() -> None:
    desk = Desk("1", "1")
    desk.mark()
    desk.tells()
    desk.answer(1, 0)
    desk.read_config()
    malformed = Stat(Zxid(2000), Zxid(MARKED_AT + 5), ZnodeVersion(3))
    desk.fold(present(TopicAddress(NAME), Malformed("no JSON", 3), malformed))
    assert desk.cluster.topics[NAME].is_malformed

    assert desk.step() == WAITS


def test_a_vanished_broker_counts_as_down() -> None:
    desk = Desk("1,2", "1,2")
    desk.mark()
    desk.tells()
    desk.fold(absent(BrokerAddress(2), Zxid(MARKED_AT + 1)))

    assert desk.deletions.figures()["replicas_ineligible_to_delete"] == 1

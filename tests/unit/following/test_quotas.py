"""Terms hear the quotas on topic changes as they are set, through lost sessions and unreadable znodes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from controller.core.messages.events import Event, QuotasRead
from controller.following.quotas import AT_ONCE, QuotasFollower
from tests.simulation.zookeeper import MakeNode, Operation, Permission, RemoveNode, SetData
from tests.unit.following.following_process import FollowingProcess
from zk_layout.znodes.configs import CLIENTS, USERS
from zk_layout.znodes.notifications import CONFIG_CHANGES
from zk_layout.znodes.quotas import DEFAULT, QuotaEntity

ANN = QuotaEntity("ann", None)
SCRAM = "salt=c2VjcmV0,stored_key=aw==,server_key=aw==,iterations=4096"


def config(**settings: object) -> bytes:
    return json.dumps({"version": 1, "config": {key: str(value) for key, value in settings.items()}}).encode()


def limited(rate: object) -> bytes:
    return config(**{"controller_mutation_rate": rate, "SCRAM-SHA-256": SCRAM})


class Following(FollowingProcess):
    """A process that follows quotas for a term that records what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Event] = []
        self.follower = QuotasFollower(self.bridge, self.notices.append)
        self.changes = 0

    def begin(self) -> None:
        self.follower.begin_term(self.heard.append)
        self.process._loop.start(self.follower.follow())

    def change(self, entity_path: str, *operations: Operation) -> None:
        """Change settings as Kafka's tools and brokers do: the settings, then the notification."""
        self.changes += 1
        notification = {"version": 2, "entity_path": entity_path}
        path = f"{CONFIG_CHANGES}/config_change_{self.changes:010}"
        self.ensemble.write(*operations)
        self.ensemble.write(MakeNode(path, json.dumps(notification).encode()))

    def until(self, entity: QuotaEntity, rate: float | None) -> None:
        self.ensemble.until(lambda: self.follower._rates.get(entity) == rate)

    def limits_users(self) -> bool:
        return self.follower.limits_users

    def known(self) -> dict[QuotaEntity, float | None]:
        """What the term knows now."""
        return {e: rate for event in self.heard if isinstance(event, QuotasRead) for e, rate in event.rates}


@pytest.fixture
def following() -> Iterator[Following]:
    made = Following()
    yield made
    made.process.end()


def test_everything_that_is_there_is_read_at_every_level(following: Following) -> None:
    levels = {
        f"{USERS}/ann": ANN,
        f"{USERS}/ann/clients/a%2Fb": QuotaEntity("ann", "a%2Fb"),
        f"{USERS}/ann/clients/{DEFAULT}": QuotaEntity("ann", DEFAULT),
        f"{USERS}/{DEFAULT}": QuotaEntity(DEFAULT, None),
        f"{USERS}/{DEFAULT}/clients/tool": QuotaEntity(DEFAULT, "tool"),
        f"{USERS}/{DEFAULT}/clients/{DEFAULT}": QuotaEntity(DEFAULT, DEFAULT),
        f"{CLIENTS}/tool": QuotaEntity(None, "tool"),
        f"{CLIENTS}/{DEFAULT}": QuotaEntity(None, DEFAULT),
    }
    for number, path in enumerate(levels):
        following.ensemble.zookeeper.make_path(path)
        following.ensemble.zookeeper.nodes[path].data = limited(number)
    following.ensemble.zookeeper.make_path(f"{USERS}/bob/clients")
    following.ensemble.zookeeper.nodes[f"{USERS}/bob"].data = config(producer_byte_rate=1)

    following.begin()
    following.until(QuotaEntity(None, DEFAULT), 7.0)

    assert following.known() == {entity: float(number) for number, entity in enumerate(levels.values())}
    assert following.notices == []


def test_a_term_that_begins_later_hears_everything_in_pieces_and_one_that_has_ended_nothing(
    following: Following,
) -> None:
    for number in range(AT_ONCE + 1):
        following.ensemble.zookeeper.make_path(f"{CLIENTS}/c{number}")
        following.ensemble.zookeeper.nodes[f"{CLIENTS}/c{number}"].data = limited(1)
    following.begin()
    following.until(QuotaEntity(None, "c0"), 1.0)

    later: list[Event] = []
    following.follower.begin_term(later.append)
    assert sorted(len(event.rates) for event in later if isinstance(event, QuotasRead)) == [1, AT_ONCE]

    following.follower.end_term()
    following.change("clients/c0", SetData(f"{CLIENTS}/c0", limited(5)))
    following.until(QuotaEntity(None, "c0"), 5.0)
    assert len(later) == 2


def test_each_change_counts(following: Following) -> None:
    following.begin()
    following.change("users/ann", MakeNode(f"{USERS}/ann", limited(2.5)))
    following.until(ANN, 2.5)
    assert following.limits_users()

    following.change("users/ann", SetData(f"{USERS}/ann", config(producer_byte_rate=1)))
    following.until(ANN, None)
    following.change("users/ann", SetData(f"{USERS}/ann", limited(3)))
    following.until(ANN, 3.0)
    following.change("users/ann", RemoveNode(f"{USERS}/ann"))
    following.until(ANN, None)
    assert not following.limits_users()

    following.change(
        "users/bob/clients/tool",
        *(MakeNode(path, b"") for path in (f"{USERS}/bob", f"{USERS}/bob/clients")),
        MakeNode(f"{USERS}/bob/clients/tool", limited(4)),
    )
    following.until(QuotaEntity("bob", "tool"), 4.0)
    assert following.known() == {ANN: None, QuotaEntity("bob", "tool"): 4.0}


def test_what_was_written_without_a_notification_applies_from_the_next_session_on(following: Following) -> None:
    following.ensemble.write(MakeNode(f"{USERS}/ann", limited(2)))
    following.begin()
    following.until(ANN, 2.0)

    following.ensemble.write(RemoveNode(f"{USERS}/ann"), MakeNode(f"{CLIENTS}/tool", limited(1)))
    following.wait(5)
    assert following.known() == {ANN: 2.0}

    following.ensemble.zookeeper.close_session(following.process.bridge.session)
    following.until(QuotaEntity(None, "tool"), 1.0)
    assert following.known() == {ANN: None, QuotaEntity(None, "tool"): 1.0}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\x00", "JSON is malformed"),
        (limited("many"), "controller_mutation_rate is 'many', not a number from 0 on"),
        (limited("-1"), "controller_mutation_rate is '-1', not a number from 0 on"),
        (b'{"version":1,"config":{"controller_mutation_rate":3}}', "$.config"),
        (b'{"version":1,"config":{"controller_mutation_rate":"3"}', "truncated"),
    ],
)
def test_a_malformed_quota_limits_no_client_and_is_named_once_without_secrets(
    following: Following, data: bytes, reason: str
) -> None:
    following.begin()
    following.change("users/ann", MakeNode(f"{USERS}/ann", limited(2)))
    following.until(ANN, 2.0)

    following.change("users/ann", SetData(f"{USERS}/ann", data))
    following.until(ANN, None)
    following.change("users/ann", SetData(f"{USERS}/ann", data))
    following.wait(3)

    (notice,) = following.notices
    assert notice.kind == "malformed znode"
    assert notice.text.startswith(f"{USERS}/ann: ")
    assert reason in notice.text
    assert "stored_key" not in notice.text
    following.change("users/ann", SetData(f"{USERS}/ann", limited(7)))
    following.until(ANN, 7.0)


@pytest.mark.parametrize(
    "entity_path",
    ["users", "users/", "users/ann/clients", "users/../x", "topics/orders", "clients/a/b", "/", "brokers/1", "ips/::1"],
)
def test_notifications_of_something_else_cost_nothing(following: Following, entity_path: str) -> None:
    following.begin()
    following.change(entity_path)
    following.change("users/ann", MakeNode(f"{USERS}/ann", limited(2)))

    following.until(ANN, 2.0)
    assert following.notices == []


def test_names_that_kafka_does_not_use_are_no_quotas(following: Following) -> None:
    for name in ("a b", "<all>", "über"):
        following.ensemble.zookeeper.make_path(f"{CLIENTS}/{name}")
        following.ensemble.zookeeper.nodes[f"{CLIENTS}/{name}"].data = limited(1)
    following.ensemble.write(MakeNode(f"{USERS}/ann", limited(2)))

    following.begin()
    following.until(ANN, 2.0)

    assert following.known() == {ANN: 2.0}


@pytest.mark.parametrize("path", [USERS, f"{USERS}/ann", f"{USERS}/ann/clients", CONFIG_CHANGES])
def test_what_may_not_be_read_is_named_once_and_counts_as_soon_as_it_can_be(following: Following, path: str) -> None:
    following.ensemble.zookeeper.make_path(f"{USERS}/ann/clients/tool")
    following.ensemble.zookeeper.nodes[f"{USERS}/ann/clients/tool"].data = limited(3)
    following.ensemble.zookeeper.nodes[f"{USERS}/ann"].data = limited(2)
    following.ensemble.write(MakeNode(f"{CLIENTS}/app", limited(1)))
    following.ensemble.zookeeper.acls[path] = Permission.ALL & ~Permission.READ
    following.begin()
    following.until(QuotaEntity(None, "app"), 1.0)
    following.wait(10)
    assert len(following.notices) == 1
    assert path in following.notices[0].text

    following.ensemble.zookeeper.acls.clear()
    following.until(ANN, 2.0)
    following.until(QuotaEntity("ann", "tool"), 3.0)
    following.wait(20)
    following.change("clients/app", SetData(f"{CLIENTS}/app", limited(9)))
    following.until(QuotaEntity(None, "app"), 9.0)
    assert len(following.notices) == 1

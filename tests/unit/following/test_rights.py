"""Do ACLs stay known for as long as the process lives, through lost sessions and unreadable znodes?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from controller.core.settings import AuthorizerSettings
from controller.following.cluster import ClusterFollower
from controller.following.rights import RightsInForce
from controller.zk.bridge import Bridge
from tests.simulation.zookeeper import MakeNode, Permission, RemoveNode, SetData
from tests.unit.following.following_process import FollowingProcess
from zk_layout.znodes.acls import FOLDERS, AclOperation, ResourcePattern, ResourceType

PATH = "/kafka-acl/Topic/orders"
DENYING = b'{"version":1,"acls":[{"principal":"User:ann","permissionType":"Deny","operation":"Read","host":"*"}]}'
ALLOWING = DENYING.replace(b"Deny", b"Allow")


class Following(FollowingProcess):
    """A process that follows ACLs and allows everything that no ACL covers."""

    def __init__(self) -> None:
        super().__init__(*FOLDERS)
        self.follow(self.bridge)

    def follow(self, bridge: Callable[[], Bridge]) -> None:
        settings = AuthorizerSettings(("User:admin",), allows_everyone_if_no_acl_is_found=True)
        self.follower = ClusterFollower(bridge, self.notices.append, judges=True)
        self.rights = RightsInForce(self.follower, settings)

    def begin(self) -> None:
        self.process._loop.start(self.follower.follow())

    def may_read(self, principal: str = "User:ann", name: str = "orders") -> bool:
        topic = ResourcePattern(ResourceType.TOPIC, name)
        return self.rights.authorizer.is_allowed(principal, "10.0.0.1", AclOperation.READ, topic)

    def until(self, is_allowed: bool, name: str = "orders") -> None:
        self.ensemble.until(lambda: self.may_read(name=name) is is_allowed)

    def expire(self) -> None:
        """The session ends, and another one is opened."""
        self.ensemble.zookeeper.close_session(self.process.bridge.session)


@pytest.fixture
def following() -> Iterator[Following]:
    made = Following()
    yield made
    made.process.end()


def test_before_anything_was_read_only_super_users_may_do_anything(following: Following) -> None:
    assert not following.may_read()
    assert following.may_read("User:admin")

    following.begin()

    following.until(True)


def test_each_change_counts(following: Following) -> None:
    following.begin()
    following.until(True)

    following.ensemble.write(MakeNode(PATH, DENYING))
    following.until(False)
    assert following.may_read(name="other")

    following.ensemble.write(SetData(PATH, ALLOWING))
    following.until(True)

    following.ensemble.write(SetData(PATH, DENYING))
    following.until(False)
    following.ensemble.write(RemoveNode(PATH))
    following.until(True)


def test_a_session_that_ends_opens_nothing_and_the_next_one_sees_what_has_gone(following: Following) -> None:
    following.ensemble.write(MakeNode(PATH, DENYING))
    following.begin()
    following.until(True, name="other")

    following.expire()
    following.ensemble.write(MakeNode(f"{PATH}2", DENYING))
    while following.may_read(name="orders2"):
        assert not following.may_read()
        following.wait(0.1)

    following.expire()
    following.ensemble.write(RemoveNode(PATH))
    following.until(True)
    assert not following.may_read(name="orders2")


def test_an_unreadable_znode_denies_is_named_once_and_tried_again(following: Following) -> None:
    following.ensemble.write(MakeNode(PATH, ALLOWING))
    following.ensemble.zookeeper.acls[PATH] = Permission.ALL & ~Permission.READ
    following.begin()
    following.until(True, name="other")
    assert not following.may_read()
    following.wait(10)
    following.expire()
    following.wait(25)
    assert [notice.kind for notice in following.notices] == ["unreadable znode"]
    assert PATH in following.notices[0].text

    following.ensemble.zookeeper.acls[PATH] = Permission.ALL
    following.until(True)


def test_malformed_rights_are_closed_and_named_once_until_they_are_mended(following: Following) -> None:
    following.ensemble.write(MakeNode(PATH, b"{"))
    following.begin()
    following.until(True, name="other")
    assert not following.may_read()
    following.wait(25)
    assert [notice.kind for notice in following.notices] == ["malformed znode"]

    following.ensemble.write(SetData(PATH, ALLOWING))
    following.until(True)


def test_a_folder_that_may_not_be_listed_closes_its_type(following: Following) -> None:
    following.ensemble.zookeeper.acls["/kafka-acl-extended/prefixed/Topic"] = Permission.ALL & ~Permission.READ
    following.begin()
    following.wait(5)
    assert not following.may_read()
    assert len(following.notices) == 1

    following.ensemble.zookeeper.acls.clear()
    following.until(True)


def test_an_unexpected_error_is_contained(following: Following) -> None:
    errors = iter([ZeroDivisionError("a bug")])

    def bridge() -> Bridge:
        for error in errors:
            raise error
        return following.process.bridge

    following.follow(bridge)
    following.begin()

    following.until(True)

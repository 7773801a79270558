"""An added user may log in at once, and a removed one no longer, through lost sessions and unreadable znodes."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import pbkdf2_hmac

import pytest

from controller.following.credentials import CredentialsFollower
from tests.simulation.zookeeper import MakeNode, RemoveNode, SetData
from tests.unit.following.following_process import FollowingProcess
from zk_layout.znodes import configs, delegation_tokens
from zk_layout.znodes.scram import MECHANISMS, credential

ANN, TOKEN = f"{configs.USERS}/ann%20b", f"{delegation_tokens.ROOT}/abc"
SPELT = credential(MECHANISMS[2], b"salt", pbkdf2_hmac("sha512", b"horse", b"salt", 4096), 4096)
KNOWN = f'{{"version":1,"config":{{"SCRAM-SHA-512":"{SPELT}"}}}}'.encode()
LIMITED = b'{"version":1,"config":{"request_percentage":"10"}}'
TOKENS = (
    b'{"version":1,"owner":"User:ann","tokenId":"abc","renewers":[],"issueTimestamp":"1","maxTimestamp":9,'
    b'"expiryTimestamp":8}'
)


class Following(FollowingProcess):
    def __init__(self) -> None:
        super().__init__(configs.USERS, delegation_tokens.ROOT)
        self.follower = CredentialsFollower(self.bridge, self.notices.append)
        self.process._loop.start(self.follower.follow())

    def knows(self, mechanism: str = "SCRAM-SHA-512") -> bool:
        return self.follower.user(mechanism, "ann b") is not None

    def until(self, is_known: bool) -> None:
        self.ensemble.until(lambda: self.knows() is is_known)


@pytest.fixture
def following() -> Iterator[Following]:
    made = Following()
    yield made
    made.process.end()


def test_users_come_change_and_go(following: Following) -> None:
    assert not following.knows()

    following.ensemble.write(MakeNode(ANN, KNOWN))
    following.until(True)
    assert not following.knows("SCRAM-SHA-256")

    following.ensemble.write(SetData(ANN, LIMITED))
    following.until(False)
    following.ensemble.write(SetData(ANN, KNOWN))
    following.until(True)
    following.ensemble.write(RemoveNode(ANN))
    following.until(False)
    assert following.notices == []


def test_a_malformed_credential_admits_no_client_and_is_named_without_being_shown(following: Following) -> None:
    following.ensemble.write(MakeNode(ANN, KNOWN.replace(b"iterations=4096", b"iterations=none")))
    following.ensemble.until(lambda: bool(following.notices))

    assert not following.knows()
    (notice,) = following.notices
    assert notice.kind == "malformed znode"
    assert notice.text.startswith(f"{ANN}: a credential of SCRAM-SHA-512")
    assert "salt=" not in notice.text

    following.ensemble.write(SetData(ANN, KNOWN))
    following.until(True)


def test_a_credential_with_bytes_behind_it_admits_its_user_and_is_named_without_being_shown(
    following: Following,
) -> None:
    following.ensemble.write(MakeNode(ANN, KNOWN + b'salt="}'))
    following.until(True)

    (notice,) = following.notices
    assert notice.kind == "odd znode"
    assert notice.text.startswith(f"{ANN} has 7 bytes behind the JSON value")
    assert "salt" not in notice.text


def test_tokens_have_their_owner(following: Following) -> None:
    following.ensemble.write(MakeNode(TOKEN, TOKENS))
    following.ensemble.until(lambda: following.follower.token("abc") is not None)

    token = following.follower.token("abc")
    assert token is not None
    assert (token.owner_name, token.expiry_timestamp, token.max_timestamp) == ("ann", 8, 9)

    following.ensemble.write(RemoveNode(TOKEN))
    following.ensemble.until(lambda: following.follower.token("abc") is None)


def test_the_next_session_sees_what_has_gone(following: Following) -> None:
    following.ensemble.write(MakeNode(ANN, KNOWN))
    following.until(True)

    following.ensemble.zookeeper.close_session(following.process.bridge.session)
    following.ensemble.write(RemoveNode(ANN))

    following.until(False)

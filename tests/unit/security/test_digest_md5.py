"""Is a password proved and verified as RFC 2831 and Java do it?"""

from __future__ import annotations

import pytest

from controller.security.failures import AuthenticationFailed
from controller.security.mechanisms.digest_md5 import DigestMd5Login
from controller.settings.security import Secret

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'
PROOF = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"


def login(user: str = "chris", password: str = "secret") -> DigestMd5Login:
    nonce = "OA6MHXh6VqTrRk"
    return DigestMd5Login(user, Secret(password), lambda: nonce, service="imap", host="elwood.innosoft.com")


def test_the_example_of_the_rfc() -> None:
    made = login()
    assert made.first_token() == b""

    said = made.next_token(CHALLENGE)

    assert said == (
        b'charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,'
        b'cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",response=d388dad90d4bbd760a152321f2143af7,qop=auth'
    )
    assert not made.is_done
    assert made.next_token(PROOF) is None
    assert made.is_done


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    made = login()
    made.next_token(CHALLENGE)

    with pytest.raises(AuthenticationFailed, match="does not know the password itself"):
        made.next_token(b"rspauth=ea40f60335c427b5527b84dbabcdfff0")


@pytest.mark.parametrize(
    "challenge",
    [
        b"realm",
        b'realm="r",algorithm=md5-sess',
        b'nonce="n",algorithm=md5',
        b'nonce="n",algorithm=md5-sess,qop="auth-int"',
        b'nonce="n,algorithm=md5-sess',
        b"\xff\xfe",
    ],
)
def test_what_is_no_challenge_is_not_answered(challenge: bytes) -> None:
    with pytest.raises(AuthenticationFailed, match="cannot be parsed"):
        login().next_token(challenge)


def test_an_empty_answer_is_a_refusal() -> None:
    with pytest.raises(AuthenticationFailed, match="has no users"):
        login().next_token(b"")
    made = login()
    made.next_token(CHALLENGE)
    with pytest.raises(AuthenticationFailed, match="does not accept user and password"):
        made.next_token(b"")


def test_names_are_quoted_and_each_login_has_a_nonce_of_its_own() -> None:
    said = login('a "b" \\c', "ü").next_token(CHALLENGE)
    one, other = (DigestMd5Login("a", Secret("b")).next_token(CHALLENGE) for _ in range(2))

    assert said is not None
    assert b'username="a \\"b\\" \\\\c"' in said
    assert one != other

"""What is exchanged around the tokens of Kerberos? With a fake context: no Kerberos is needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controller.security.failures import AuthenticationFailed
from controller.security.mechanisms.gssapi import GssapiServer
from controller.security.mechanisms.gssapi_login import GssapiLogin
from controller.security.mechanisms.kerberos_names import ShortNames


class Played:
    initiator_name = "ann@EXAMPLE.COM"

    def __init__(self, replies: list[bytes]) -> None:
        self.replies = replies
        self.complete = False

    def step(self, token: bytes | None = None) -> bytes:
        if token == b"bad":
            raise ValueError("a C library is not amused")
        reply = self.replies.pop(0)
        self.complete = not self.replies
        return reply

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        return SimpleNamespace(message=b"w" + message)

    def unwrap(self, message: bytes) -> Any:
        return SimpleNamespace(message=message[1:])


def test_our_own_side_agrees_to_no_protection_and_says_no_other_name() -> None:
    ours = GssapiLogin(lambda: Played([b"ticket", b""]))

    assert ours.auth_bytes() == b"ticket"
    ours.receive(b"reply")
    assert ours.auth_bytes() == b""
    ours.receive(b"w\x07\0\xff\xff")
    assert (ours.auth_bytes(), ours.is_done()) == (b"w\x01\0\0\0", False)
    ours.receive(b"")

    assert (ours.is_done(), ours.is_authenticated()) == (True, True)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([b"bad"], "token is refused: a C library is not amused"),
        ([b"reply", b"w\x06\0\xff\xff"], "signed or encrypted"),
        ([b"reply", b"w"], "signed or encrypted"),
    ],
)
def test_what_a_broker_may_not_say_is_reported(answers: list[bytes], reason: str) -> None:
    ours = GssapiLogin(lambda: Played([b"ticket", b""]))
    ours.auth_bytes()
    *before, last = answers
    for answer in before:
        ours.receive(answer)

    with pytest.raises(AuthenticationFailed, match=reason):
        ours.receive(last)


def test_a_missing_ticket_is_reported_with_its_reason() -> None:
    def none() -> Played:
        raise ValueError("Cannot contact any KDC\n for realm")

    with pytest.raises(AuthenticationFailed, match="no ticket for the broker: Cannot contact any KDC for realm"):
        GssapiLogin(none).auth_bytes()


def server(*replies: bytes, rules: str = "DEFAULT") -> GssapiServer:
    context = Played(list(replies))
    return GssapiServer(lambda: context, ShortNames([rules], "EXAMPLE.COM"))


@pytest.mark.parametrize("replies", [[b"reply"], [b"more", b"reply"], [b""]])
def test_a_context_then_no_protection_then_a_name(replies: list[bytes]) -> None:
    ours, expected = server(*replies), [reply for reply in replies if reply]

    assert [ours.answer(b"token") for _ in expected] == expected
    assert ours.answer(b"") == b"w\x01\x01\x00\x00"
    assert ours.answer(b"w\x01\x00\x00\x00somebody") == b""

    assert (ours.is_done, ours.user) == (True, "ann")


@pytest.mark.parametrize(
    "tokens", [[b"bad"], [b"token", b"", b"w\x04\0\0\0"], [b"token", b"", b""], [b"token", b"more"]]
)
def test_anything_else_fails(tokens: list[bytes]) -> None:
    ours = server(b"reply")
    *before, last = tokens
    for token in before:
        ours.answer(token)

    with pytest.raises(AuthenticationFailed):
        ours.answer(last)


def test_a_principal_without_a_name_fails() -> None:
    ours = server(b"", rules="RULE:[2:$1]")
    ours.answer(b"token")

    with pytest.raises(AuthenticationFailed, match="No rules apply"):
        ours.answer(b"w\x01\0\0\0")

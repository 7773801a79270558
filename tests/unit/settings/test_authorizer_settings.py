"""What the settings of an authorizer mean to the machine."""

from __future__ import annotations

from controller.core.settings import AuthorizerSettings
from tests.unit.settings.given import settings

NAME = "kafka.security.authorizer.AclAuthorizer"


def test_without_an_authorizer_no_request_is_checked() -> None:
    assert settings({"super.users": "User:ann"}).term.machine.authorizer is None


def test_an_authorizer_knows_who_may_do_everything() -> None:
    written = {
        "authorizer.class.name": NAME,
        "super.users": "User:bob;User:ann;",
        "allow.everyone.if.no.acl.found": "true",
    }

    assert settings(written).term.machine.authorizer == AuthorizerSettings(("User:ann", "User:bob"), True)
    assert settings({"authorizer.class.name": NAME}).term.machine.authorizer == AuthorizerSettings((), False)

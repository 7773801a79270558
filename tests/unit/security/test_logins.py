"""Who may log in, with each mechanism, and what do others learn?"""

from __future__ import annotations

import random
from base64 import b64decode
from contextlib import suppress

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from controller.core.messages.errors import ErrorCode
from controller.security.client_login import ClientLogin
from controller.security.failures import AuthenticationFailed, UnusableSecurity
from controller.security.jaas import parse_jaas
from controller.security.listener_mechanisms import Sources, listener_mechanisms
from controller.security.login import Login
from controller.security.mechanisms.delegation_tokens import password_of
from controller.security.mechanisms.plain import OTHER_IDENTITY, WRONG
from controller.security.mechanisms.scram import BY_NAME, ScramServer
from controller.settings.security import SaslSettings, Secret
from tests.unit.security import given
from tests.unit.security.given import ALL, NOW_MS, PASSWORD, Clock, bearer, unsecured
from zk_layout.znodes.scram import credential_of

SCRAM = sorted(BY_NAME)


def client(mechanism: str, user: str = "ann", password: str = PASSWORD, more: str = "") -> ClientLogin:
    module = parse_jaas(Secret(f'a.B required username="{user}" password="{password}" {more};'))
    return ClientLogin(mechanism, module, bearer_token=lambda: (unsecured(sub=user), {"traceId": "1"}))


def converse(server: Login, ours: ClientLogin, mechanism: str) -> None:
    assert server.handshake(mechanism).error is ErrorCode.NONE
    token: bytes | None = ours.first_token()
    while token is not None:
        token = ours.next_token(server.authenticate(token).auth_bytes)
    assert ours.is_done


def refused(server: Login, mechanism: str, *tokens: bytes) -> AuthenticationFailed:
    server.handshake(mechanism)
    *before, last = tokens
    for token in before:
        server.authenticate(token)
    with pytest.raises(AuthenticationFailed) as failure:
        server.authenticate(last)
    assert not server.is_open
    return failure.value


@pytest.mark.parametrize("mechanism", ALL)
def test_a_client_of_kafka_python_logs_in(mechanism: str) -> None:
    server = given.login()

    converse(server, client(mechanism), mechanism)

    assert server.principal == "User:ann"
    assert not server.is_token


@pytest.mark.parametrize("mechanism", SCRAM)
def test_names_with_commas_and_equals_signs_log_in(mechanism: str) -> None:
    server = given.login()

    converse(server, client(mechanism, "c,=d"), mechanism)

    assert server.principal == "User:c,=d"


@pytest.mark.parametrize("mechanism", SCRAM)
def test_the_holder_of_a_delegation_token_is_its_owner_until_it_expires(mechanism: str) -> None:
    server = given.login()

    converse(server, client(mechanism, "t0ken", given.TOKEN_PASSWORD, 'tokenauth="true"'), mechanism)

    assert server.principal == "User:ann"
    assert server.is_token
    assert server.session_ms == 60_000


@pytest.mark.parametrize("mechanism", SCRAM)
@pytest.mark.parametrize(
    ("user", "password", "more"),
    [
        ("ann", "s3cret", ""),
        ("nobody", PASSWORD, ""),
        ("t0ken", given.TOKEN_PASSWORD, ""),
        ("t0ken", PASSWORD, 'tokenauth="true"'),
        ("late", password_of("late", given.MASTER_KEY), 'tokenauth="true"'),
        ("ann", PASSWORD, 'tokenauth="true"'),
    ],
)
def test_every_refused_user_gets_the_same_answer_in_the_same_round(
    mechanism: str, user: str, password: str, more: str
) -> None:
    server, ours = given.login(), client(mechanism, user, password, more)
    server.handshake(mechanism)
    first = server.authenticate(ours.first_token())

    final = ours.next_token(first.auth_bytes)
    assert final is not None
    with pytest.raises(AuthenticationFailed) as failure:
        server.authenticate(final)

    assert failure.value.message == (
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )
    assert password not in failure.value.reason


def test_a_user_who_does_not_exist_always_has_the_same_salt() -> None:
    salts = set()
    for _ in range(2):
        server = given.login()
        server.handshake("SCRAM-SHA-256")
        salts.add(server.authenticate(b"n,,n=nobody,r=abc").auth_bytes.split(b",", 1)[1])

    [salt] = salts
    assert salt.endswith(b",i=4096")


def test_scram_speaks_as_in_rfc_7677() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = credential_of(BY_NAME["SCRAM-SHA-256"], b"pencil", salt, 4096)
    server = ScramServer(
        BY_NAME["SCRAM-SHA-256"], lambda _: credential, lambda _: None, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )

    first = server.answer(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    final = server.answer(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )

    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert (server.is_done, server.user) == (True, "user")


def test_a_credential_with_too_few_rounds_is_refused() -> None:
    weak = credential_of(BY_NAME["SCRAM-SHA-256"], PASSWORD.encode(), b"salt", 1000)
    server, ours = given.login(users=lambda *_: weak), client("SCRAM-SHA-256")
    server.handshake("SCRAM-SHA-256")
    final = ours.next_token(server.authenticate(ours.first_token()).auth_bytes)

    assert final is not None
    with pytest.raises(AuthenticationFailed, match="less than the minimum 4096"):
        server.authenticate(final)


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"ann", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"a\0b\0c\0d\0e", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0b", "Authentication failed: username not specified"),
        (b"\0bob\0", "Authentication failed: password not specified"),
        (b"\0bob\0wrong", WRONG),
        (b"\0nobody\0b", WRONG),
        (b"ann\0bob\0b", OTHER_IDENTITY),
    ],
)
def test_plain_refuses_as_kafka_does(token: bytes, message: str) -> None:
    assert refused(given.login(), "PLAIN", token).message == message


@pytest.mark.parametrize(
    ("token", "json"),
    [
        (unsecured(exp=NOW_MS // 1000), '{"status":"invalid_token"}'),
        (unsecured(iat=NOW_MS // 1000 + 1), '{"status":"invalid_token"}'),
        (unsecured(sub=" "), '{"status":"invalid_token"}'),
        (unsecured(scope="read write"), '{"status":"insufficient_scope", "scope":"[read, write]"}'),
        ("a.b.c", '{"status":"invalid_token"}'),
    ],
)
def test_a_bad_token_gets_json_and_then_an_end(token: str, json: str) -> None:
    server = given.login()
    server.handshake("OAUTHBEARER")

    assert server.authenticate(bearer(token)).auth_bytes == json.encode()
    with pytest.raises(AuthenticationFailed) as failure:
        server.authenticate(b"\x01")

    assert failure.value.message == json


def test_a_token_counts_no_longer_than_it_says() -> None:
    server = given.login(max_reauth_ms=40_000)
    converse(server, client("OAUTHBEARER"), "OAUTHBEARER")

    assert server.session_ms == 30_000


def test_another_identity_than_the_tokens_is_refused() -> None:
    message = refused(given.login(), "OAUTHBEARER", bearer(unsecured(), "bob")).message

    assert message is not None
    assert "authorization id (bob) that is different from the token's principal name (ann)" in message


class TestAgain:
    def test_the_same_principal_logs_in_again(self) -> None:
        clock = Clock()
        server = given.login(5_000, clock)
        for _ in range(3):
            converse(server, client("PLAIN"), "PLAIN")
            clock.ms += 1_000

        assert server.session_ms == 5_000
        assert server.principal == "User:ann"

    def test_no_more_than_once_a_second(self) -> None:
        server = given.login(5_000)
        converse(server, client("PLAIN"), "PLAIN")
        converse(server, client("PLAIN"), "PLAIN")

        assert server.handshake("PLAIN").error is ErrorCode.ILLEGAL_SASL_STATE
        assert server.is_open

    def test_another_principal_is_refused(self) -> None:
        server = given.login()
        converse(server, client("PLAIN"), "PLAIN")

        failure = refused(server, "PLAIN", b"\0bob\0b")

        assert failure.message == "Cannot change principals during re-authentication from User.ann: User.bob"

    def test_another_mechanism_is_refused_untold(self) -> None:
        server = given.login()
        converse(server, client("PLAIN"), "PLAIN")

        failure = refused(server, "SCRAM-SHA-256", client("SCRAM-SHA-256").first_token())

        assert failure.message == (
            "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for re-authentication of mechanism "
            "'PLAIN'"
        )
        assert not failure.is_answered

    def test_a_failure_tells_that_it_was_a_later_login(self) -> None:
        server = given.login()
        converse(server, client("SCRAM-SHA-256"), "SCRAM-SHA-256")

        message = refused(server, "SCRAM-SHA-256", b"?").message

        assert message is not None
        assert message.startswith("Authentication failed during re-authentication due to")


def test_an_unknown_mechanism_is_answered_with_the_enabled_ones_and_ends_the_login() -> None:
    server = given.login()

    answer = server.handshake("CRAM-MD5")

    assert (answer.error, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, ALL)
    with pytest.raises(AuthenticationFailed):
        server.handshake("PLAIN")


def test_a_token_without_a_handshake_is_an_illegal_state() -> None:
    with pytest.raises(AuthenticationFailed) as failure:
        given.login().authenticate(b"")

    assert failure.value.error is ErrorCode.ILLEGAL_SASL_STATE


def test_a_handshake_in_the_middle_of_a_login_is_an_illegal_state() -> None:
    server = given.login()
    server.handshake("PLAIN")

    with pytest.raises(AuthenticationFailed) as failure:
        server.handshake("PLAIN")

    assert failure.value.error is ErrorCode.ILLEGAL_SASL_STATE


@drawn(mechanism=st.sampled_from(ALL), tokens=st.lists(st.binary(max_size=80), min_size=1, max_size=3))
def test_whatever_comes_nothing_but_the_one_failure_is_raised(mechanism: str, tokens: list[bytes]) -> None:
    server = given.login()
    server.handshake(mechanism)
    with suppress(AuthenticationFailed):
        for token in tokens:
            server.authenticate(token)
    assert not server.is_open


def test_ten_thousand_spoilt_tokens_are_refused() -> None:
    chance = random.Random(12)
    clock = Clock()
    offered = given.mechanisms(clock)
    good = {
        "PLAIN": b"\0ann\0" + PASSWORD.encode(),
        "SCRAM-SHA-256": b"n,,n=ann,r=abcdef,tokenauth=true",
        "SCRAM-SHA-512": b"n,a=ann,n=ann,r=abcdef",
        "OAUTHBEARER": bearer(unsecured(scope="read")),
    }
    for _ in range(10_000):
        mechanism = chance.choice(sorted(good))
        spoilt = bytearray(good[mechanism])
        for _ in range(chance.randint(1, 4)):
            spoilt[chance.randrange(len(spoilt))] ^= chance.randint(1, 255)
        server = Login(offered, clock)
        server.handshake(mechanism)
        with suppress(AuthenticationFailed):
            server.authenticate(bytes(spoilt))
            server.authenticate(b"c=biws,r=" + chance.randbytes(8) + b",p=AAAA")
        assert not server.is_open or bytes(spoilt) == good[mechanism]


def test_a_mechanism_without_its_login_module_is_named() -> None:
    source = Sources(now_ms=Clock(), users=lambda *_: None, tokens=lambda _: None)

    with pytest.raises(UnusableSecurity, match=r"plain\.sasl\.jaas\.config is missing"):
        listener_mechanisms(SaslSettings(enabled_mechanisms=("PLAIN",)), source)


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        ("com.example.Ldap", "is a Java class"),
        ("org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler", "require signed tokens"),
    ],
)
def test_no_login_is_easier_than_with_the_handler_that_is_set(handler: str, problem: str) -> None:
    options = {"sasl.server.callback.handler.class": handler}
    settings = SaslSettings(enabled_mechanisms=("OAUTHBEARER",), jaas=given.JAAS, options=options)
    source = Sources(now_ms=Clock(), users=lambda *_: None, tokens=lambda _: None)

    with pytest.raises(UnusableSecurity, match=problem):
        listener_mechanisms(settings, source)


def test_errors_of_settings_do_not_show_them() -> None:
    for text in ('a.B required password="x" s3cret;', "a.B s3cret;", 'a.B required password=s3cret"; x', "1 s3cret"):
        with pytest.raises(UnusableSecurity) as problem:
            parse_jaas(Secret(text), "plain.sasl.jaas.config")

        assert "s3cret" not in str(problem.value)
        assert str(problem.value).startswith("plain.sasl.jaas.config: ")

"""Which token do we send to brokers, when is the next one fetched, and what is reported when there is none?"""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from controller.security.failures import UnusableSecurity
from controller.security.jaas import OAUTHBEARER_LOGIN, parse_jaas
from controller.security.tokens.bearer_tokens import BearerTokens
from controller.security.tokens.own_token import NoToken, OwnToken, Refresh, next_fetch_ms, read_token
from controller.security.tokens.token_endpoint import Client, Patience, TokenEndpoint
from controller.security.tokens.token_sources import HANDLER, URL, TokenSource, token_source
from controller.security.tokens.unsecured_tokens import unsecured_tokens
from controller.security.tokens.unsigned_tokens import unsigned_tokens
from controller.settings.security import Secret
from tests.unit.connections.certificates import make_identity
from tests.unit.security.given import NOW_MS, Clock
from tests.unit.security.identity_provider import Provider, serving, signed

SECRET = "horse+s3cret/="
KAFKA = "org.apache.kafka.common.security.oauthbearer."
ENDPOINT = f"{KAFKA}secured.OAuthBearerLoginCallbackHandler"
QUICK = {"sasl.login.retry.backoff.ms": "1", "sasl.login.retry.backoff.max.ms": "20"}
BY_ID = f'clientId="controller" clientSecret="{SECRET}"'


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving() as provider:
        provider.gives(signed(time.time() + 600))
        yield provider


def source(options: str, beside: Mapping[str, str]) -> TokenSource:
    return token_source(parse_jaas(Secret(f"{OAUTHBEARER_LOGIN} required {options};")), beside, heard)


def heard(what: str, why: str) -> None:
    assert SECRET not in what + why


def asking(provider: Provider, options: str = BY_ID, **beside: str) -> TokenSource:
    return source(options, {HANDLER: ENDPOINT, URL: provider.url, **QUICK, **beside})


def refusal(asked: TokenSource) -> NoToken:
    with pytest.raises(NoToken) as failure:
        asked()
    assert SECRET not in str(failure.value) + repr(failure.value)
    return failure.value


def token(expires_s: float = 3600, issued_s: float | None = None) -> OwnToken:
    issued = None if issued_s is None else NOW_MS + round(issued_s * 1000)
    return OwnToken(Secret(f"ends-at-{expires_s}"), NOW_MS + round(expires_s * 1000), issued)


@pytest.mark.parametrize(
    ("own", "chance", "after_s"),
    [
        (token(), 0.0, 2880),  # 80 % of an hour
        (token(), 1.0, 3060),
        (token(3600, issued_s=-400), 0.0, 2800),  # of 4000 s since it was issued
        (token(1000), 0.0, 700),  # the last five minutes are left
        (token(362), 0.0, 62),
        (token(3600, issued_s=-36_000), 0.0, 60),  # not at once, either
        (token(100), 0.0, 80),  # too short for either
    ],
)
def test_the_next_token_is_fetched_when_kafka_would(own: OwnToken, chance: float, after_s: int) -> None:
    assert next_fetch_ms(own, NOW_MS, Refresh(), chance) == NOW_MS + after_s * 1000


def test_a_token_is_asked_for_as_kafka_does_it(provider: Provider) -> None:
    asked = asking(provider, f'{BY_ID} scope="a b" extension_traceId="7"')

    assert asked() == (json.loads(provider.answers[0][1])["access_token"], {"traceId": "7"})

    [(headers, body)] = provider.asked
    assert body == "grant_type=client_credentials&scope=a+b"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert b64decode(headers["Authorization"].removeprefix("Basic ")).decode() == f"controller:{SECRET}"


def test_id_and_secret_may_be_encoded(provider: Provider) -> None:
    asking(provider, **{"sasl.oauthbearer.header.urlencode": "true"})()

    [(headers, _)] = provider.asked
    assert b64decode(headers["Authorization"].removeprefix("Basic ")) == b"controller:horse%2Bs3cret%2F%3D"


@pytest.mark.parametrize("handler", [ENDPOINT, f"{KAFKA}OAuthBearerLoginCallbackHandler"])
def test_one_fetch_is_enough_for_all_who_have_the_same_settings(provider: Provider, handler: str) -> None:
    provider.may_answer.clear()
    many = [asking(provider, **{HANDLER: handler}) for _ in range(8)]

    with ThreadPoolExecutor(8) as threads:
        got = [threads.submit(one) for one in many]
        assert provider.is_asked.wait(5)
        provider.may_answer.set()

        assert len({one.result()[0] for one in got}) == 1
    assert len(provider.asked) == 1


@pytest.mark.parametrize("status", [500, 429, 302])
def test_what_may_pass_is_tried_again(provider: Provider, status: int) -> None:
    provider.answers = [(status, ""), *provider.answers]

    assert asking(provider, **{"sasl.login.retry.backoff.max.ms": "30000"})()[0].count(".") == 2
    assert len(provider.asked) == 2


def test_the_wait_doubles_until_there_is_no_patience_left() -> None:
    waits: list[float] = []
    nowhere = urlsplit("http://127.0.0.1:1/token?key=k3y")
    ask = TokenEndpoint(nowhere, Client("c", Secret(SECRET)), Patience(1, 1, 10, 100), sleep=waits.append)

    with pytest.raises(NoToken, match=r"http://127.0.0.1:1/token: .*refused") as failure:
        ask()

    assert "k3y" not in str(failure.value)
    assert [round(wait) for wait in waits] == [10, 20, 40, 30]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            (401, '{"error": "denied", "error_description": "no such\\n client"}'),
            " answers 401 (denied: no such client)",
        ),
        ((400, json.dumps({"error": "invalid_client", "error_description": f"not {SECRET}"})), " answers 400"),
        ((403, f"<html>{SECRET}"), " answers 403"),
        ((200, json.dumps({"token": SECRET})), " answers 200 without an access_token"),
        ((200, "[1]"), " answers 200 without an access_token"),
        ((200, "[" * 100_000), " answers 200 without an access_token"),
        ((200, json.dumps({"access_token": SECRET})), "the token is no JSON Web Token (DecodeError)"),
        (
            (200, json.dumps({"access_token": signed(1)})),
            "has expired already; compare the clocks of this host and the identity provider",
        ),
        ((200, json.dumps({"access_token": signed(1e20)})), "does not say when it expires (exp)"),
        ((200, json.dumps({"access_token": signed(1e10, sub=" ")})), "does not name its owner (sub)"),
    ],
)
def test_why_there_is_no_token_is_said_without_secrets(provider: Provider, answer: tuple[int, str], says: str) -> None:
    provider.answers = [answer]

    failure = refusal(asking(provider))

    assert failure.reason.startswith("no token for the broker: ")
    assert failure.reason.endswith(says)


def test_who_is_refused_is_not_asked_again_at_once(provider: Provider) -> None:
    provider.answers = [(401, "{}")]
    asked = asking(provider)

    assert {refusal(asked).reason for _ in range(3)} == {f"no token for the broker: {provider.url} answers 401"}
    assert len(provider.asked) == 1


def test_a_provider_that_never_answers_is_not_waited_for_longer_than_is_set(provider: Provider) -> None:
    provider.may_answer.clear()
    asked = asking(provider, **{"sasl.login.read.timeout.ms": "50", "sasl.login.retry.backoff.max.ms": "1"})

    assert "timed out" in refusal(asked).reason


def test_a_provider_with_tls_is_trusted_by_the_store_of_the_login_module(tmp_path: Path) -> None:
    identity = make_identity(tmp_path / "identity.pem")
    trusting = f'{BY_ID} ssl.truststore.type=PEM ssl.truststore.location="{identity}"'
    with serving(identity) as provider:
        provider.gives(signed(time.time() + 600))

        assert asking(provider, trusting)()[0]
        assert "certificate verify failed" in refusal(asking(provider)).reason


def test_a_file_has_the_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f" {signed(time.time() + 600)}\n")
    asked = source("", {HANDLER: ENDPOINT, URL: f"file://{file}"})

    assert asked() == (file.read_text().strip(), {})


class Fetches:
    """Tokens that last an hour; a failure if one is set."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.count = clock, 0
        self.failure: Exception | None = None

    def __call__(self) -> OwnToken:
        self.count += 1
        if self.failure is not None:
            raise self.failure
        return OwnToken(Secret(f"token {self.count}"), self.clock.ms + 3_600_000)


@pytest.fixture
def kept() -> tuple[Clock, Fetches, BearerTokens, list[str]]:
    clock, said = Clock(), list[str]()
    fetches = Fetches(clock)
    return clock, fetches, BearerTokens(fetches, Refresh(), clock, lambda _, why: said.append(why)), said


def test_the_next_token_is_there_before_this_one_ends(kept: tuple[Clock, Fetches, BearerTokens, list[str]]) -> None:
    clock, fetches, tokens, _ = kept
    assert tokens() == tokens() == "token 1"

    waits_s = tokens.renew()
    assert 2880 <= waits_s <= 3060
    clock.ms += round(waits_s * 1000) - 1
    tokens.renew()
    assert tokens() == "token 1"
    clock.ms += 1
    tokens.renew()

    assert tokens() == "token 2"
    assert fetches.count == 2


def test_while_none_can_be_fetched_the_last_one_counts_until_it_ends(
    kept: tuple[Clock, Fetches, BearerTokens, list[str]],
) -> None:
    clock, fetches, tokens, said = kept
    assert tokens() == "token 1"
    fetches.failure = NoToken("the provider is down")
    clock.ms += 3_599_999

    assert [tokens.renew() for _ in range(3)] == [10.0] * 3
    assert tokens() == "token 1"
    assert said == ["no token for the broker: the provider is down"]

    clock.ms += 1
    with pytest.raises(NoToken, match="the provider is down"):
        tokens()

    fetches.failure = None
    assert tokens().startswith("token ")


def test_a_refusal_is_tried_again_after_ten_seconds(kept: tuple[Clock, Fetches, BearerTokens, list[str]]) -> None:
    clock, fetches, tokens, _ = kept
    fetches.failure = NoToken("wrong secret", is_final=True)
    for _ in range(3):
        with pytest.raises(NoToken, match="wrong secret"):
            tokens()
    assert fetches.count == 1

    fetches.failure = None
    clock.ms += 10_000

    assert tokens() == "token 2"


def test_whatever_goes_wrong_no_caller_waits_for_ever(kept: tuple[Clock, Fetches, BearerTokens, list[str]]) -> None:
    _, fetches, tokens, _ = kept
    fetches.failure = RuntimeError(SECRET)

    for _ in range(2):
        with pytest.raises(NoToken) as failure:
            tokens()
        assert failure.value.reason == "no token for the broker: RuntimeError"


def test_a_thread_keeps_the_token_fresh() -> None:
    has_two, clock = threading.Event(), Clock()

    def fetch() -> OwnToken:
        if clock.ms > NOW_MS:
            has_two.set()
        clock.ms += 3_000_000  # the next one is due at once
        return OwnToken(Secret("t"), clock.ms + 100_000)

    tokens = BearerTokens(fetch, Refresh(), clock, lambda *_: None)
    assert tokens() == "t"
    clock.ms += 90_000
    tokens.keep()
    tokens.keep()

    assert has_two.wait(5)


def test_unsigned_tokens_are_taken_by_kafkas_own_validator() -> None:
    options = (
        'unsecuredLoginStringClaim_sub="ann" unsecuredLoginNumberClaim_level="2.5" '
        'unsecuredLoginListClaim_scope=",read,write" unsecuredLoginLifetimeSeconds="60"'
    )
    clock = Clock()
    made = unsigned_tokens(parse_jaas(Secret(f"x required {options};")), clock)()

    claims = json.loads(urlsafe_b64decode(made.text.reveal().split(".")[1] + "=="))
    times = {"iat": NOW_MS / 1000, "exp": NOW_MS / 1000 + 60}
    assert claims == {"sub": "ann", "level": 2.5, "scope": ["read", "write"], **times}
    validate = unsecured_tokens(parse_jaas(Secret('x required unsecuredValidatorRequiredScope="read write";')), clock)
    assert validate(made.text.reveal()).user == "ann"
    assert made.expires_at_ms == NOW_MS + 60_000
    extended = source('unsecuredLoginStringClaim_sub="ann" unsecuredLoginExtension_traceId="7"', {})
    assert extended()[1] == {"traceId": "7"}


@pytest.mark.parametrize(
    ("options", "beside", "says"),
    [
        ("", {}, "unsecuredLoginStringClaim_sub is missing"),
        ('unsecuredLoginStringClaim_sub=" "', {}, "unsecuredLoginStringClaim_sub is missing"),
        ('unsecuredLoginStringClaim_exp="1"', {}, "the claim exp cannot be set"),
        ('unsecuredLoginNumberClaim_n="NaN"', {}, "unsecuredLoginNumberClaim_n must be a number"),
        ('unsecuredLoginStringClaim_sub="a" unsecuredLoginLifetimeSeconds="x"', {}, "LifetimeSeconds must be a number"),
        ('unsecuredLoginStringClaim_sub="a" unsecuredLoginExtension_auth="x"', {}, "and not be auth"),
        (BY_ID, {HANDLER: "x.Y"}, f"{HANDLER}: x.Y is a Java class"),
        (BY_ID, {HANDLER: ENDPOINT}, f"{URL} is missing"),
        (BY_ID, {HANDLER: ENDPOINT, URL: f"ftp://{SECRET}@h/t"}, f"{URL} must be a URL with http, https or file"),
        (BY_ID, {HANDLER: ENDPOINT, URL: "http://h:x/t"}, f"{URL} must be a URL"),
        (BY_ID, {HANDLER: ENDPOINT, URL: "file:///no/such"}, "/no/such is not a readable file"),
        ('clientId="c"', {HANDLER: ENDPOINT, URL: "http://h/t"}, "option clientSecret is missing"),
        (f'{BY_ID} extension_a1="x"', {HANDLER: ENDPOINT, URL: "http://h/t"}, "must consist of letters"),
        (f'{BY_ID} ssl.truststore.location="/no"', {HANDLER: ENDPOINT, URL: "https://h/t"}, "ssl.truststore.location"),
        (BY_ID, {"sasl.oauthbearer.header.urlencode": "yes"}, "must be true or false"),
        (BY_ID, {"sasl.login.refresh.window.factor": "0.4"}, "must be a number from 0.5 to 1.0"),
        (BY_ID, {"sasl.login.refresh.buffer.seconds": SECRET}, "must be a number from 0 to 3600"),
        (BY_ID, {"sasl.login.retry.backoff.ms": "20000"}, "retry.backoff.max.ms is less than"),
        (BY_ID, {"sasl.login.read.timeout.ms": "0"}, "must be a number from 1 to"),
    ],
)
def test_settings_that_cannot_be_used_are_named(options: str, beside: dict[str, str], says: str) -> None:
    usual = {HANDLER: ENDPOINT, URL: "http://h/t"} if beside and not {HANDLER, URL} & set(beside) else {}

    with pytest.raises(UnusableSecurity) as failure:
        source(options, {**usual, **beside})

    assert says in str(failure.value)
    assert SECRET not in str(failure.value)


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c.d", "...", "\0.\0.\0", f"{signed(1e10)}\x01auth=Bearer"])
def test_what_is_no_token_is_never_sent(text: str) -> None:
    with pytest.raises(NoToken):
        read_token(text)


def test_another_claim_may_say_whose_a_token_is() -> None:
    named: Any = partial(read_token, signed(1e10, sub="", name="c"))

    assert named(user_claim="name").expires_at_ms == 10**13
    with pytest.raises(NoToken, match=r"name its owner \(sub\)"):
        named()

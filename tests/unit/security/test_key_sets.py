"""Where are the keys for tokens fetched from, and from where never?"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from controller.security.identity_providers import encrypting
from controller.security.tokens.key_sets import URL, KeySource
from tests.unit.connections.certificates import make_identity
from tests.unit.security.identity_provider import Provider, serving

GOOD, FORGED = {"kid": "good"}, {"kid": "forged"}


def gives(provider: Provider, *keys: Mapping[str, str]) -> None:
    """Give these keys from now on."""
    provider.answers = [(200, json.dumps({"keys": keys}))]


def fetched(url: str, identity: Path | None = None) -> tuple[tuple[Mapping[str, str], ...], str]:
    """The keys, once there are some, or the report instead."""
    said: list[str] = []
    trusting = {} if identity is None else {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(identity)}
    source = KeySource({URL: url}, lambda _, why: said.append(why), encrypting(trusting))
    end = time.monotonic() + 10
    while not source(None) and not said:
        assert time.monotonic() < end
        time.sleep(0.005)
    return tuple(source(None)), "".join(said)


def test_a_key_set_with_tls_is_trusted_by_the_store_of_the_login_module(tmp_path: Path) -> None:
    identity = make_identity(tmp_path / "identity.pem")
    with serving(identity) as provider:
        gives(provider, GOOD)

        assert fetched(provider.url, identity) == ((GOOD,), "")
        assert "certificate verify failed" in fetched(provider.url)[1]


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_a_redirection_to_another_scheme_is_not_followed(tmp_path: Path, is_encrypted: bool) -> None:
    identity = make_identity(tmp_path / "identity.pem")
    with serving(identity if is_encrypted else None) as provider, serving(None if is_encrypted else identity) as other:
        provider.answers = [(302, other.url)]
        gives(other, FORGED)

        keys, said = fetched(provider.url, identity)

    assert (keys, other.asked) == ((), [])
    assert f"is redirected to {other.url}, which is not followed" in said


def test_a_redirection_within_a_scheme_is_followed(tmp_path: Path) -> None:
    identity = make_identity(tmp_path / "identity.pem")
    with serving(identity) as provider, serving(identity) as other:
        provider.answers = [(302, other.url)]
        gives(other, GOOD)

        assert fetched(provider.url, identity)[0] == (GOOD,)

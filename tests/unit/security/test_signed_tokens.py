"""Which signed tokens are good?"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given as drawn
from hypothesis import strategies as st

from controller.security.failures import UnusableSecurity
from controller.security.oauthbearer import BearerToken, TokenRefused
from controller.security.signed_tokens import expectations, signed_tokens
from tests.unit.security.given import NOW_MS

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
KEYS = [
    json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key())) | {"kid": "r", "use": "sig"},
    json.loads(jwt.algorithms.ECAlgorithm.to_jwk(CURVE.public_key())) | {"kid": "e"},
]
NOW_S = NOW_MS // 1000
CLAIMS: dict[str, Any] = {"sub": "ann", "iat": NOW_S, "exp": NOW_S + 60, "aud": ["kafka"], "iss": "https://idp"}
EXPECTED = {"sasl.oauthbearer.expected.audience": "kafka, other", "sasl.oauthbearer.expected.issuer": "https://idp"}


def confused() -> str:
    """Our public key, which everybody knows, taken for a shared secret."""
    public = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    parts = [urlsafe_b64encode(json.dumps(part).encode()) for part in ({"alg": "HS256", "kid": "r"}, CLAIMS)]
    signature = urlsafe_b64encode(hmac.digest(public, b".".join(parts), "sha256"))
    return b".".join([*parts, signature]).replace(b"=", b"").decode()


def judged(token: str, **options: str) -> BearerToken:
    return signed_tokens(expectations(EXPECTED | options), lambda _: KEYS, lambda: NOW_MS)(token)


def signed(key: Any = RSA, algorithm: str = "RS256", kid: str = "r", **claims: Any) -> str:
    kept = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    return jwt.encode(kept, key, algorithm, headers={"kid": kid})


@pytest.mark.parametrize(
    "token", [signed(), signed(algorithm="PS512"), signed(CURVE, "ES256", "e"), signed(exp=NOW_S - 29, aud="kafka")]
)
def test_a_good_token_names_its_user(token: str) -> None:
    assert judged(token).user == "ann"


def test_another_claim_can_name_the_user() -> None:
    found = judged(signed(azp=" app "), **{"sasl.oauthbearer.sub.claim.name": "azp"})

    assert found == BearerToken("app", (NOW_S + 60) * 1000)


@pytest.mark.parametrize(
    "token",
    [
        signed(exp=NOW_S - 30),
        signed(exp=None),
        signed(iat=None),
        signed(nbf=NOW_S + 31),
        signed(aud="somebody"),
        signed(aud=None),
        signed(iss="https://other"),
        signed(sub=""),
        signed(sub=5),
        signed(scope=["a", "a"]),
        signed(scope=[""]),
        signed(kid="unknown"),
        signed(kid="e"),
        signed(rsa.generate_private_key(public_exponent=65537, key_size=2048)),
        confused(),
        jwt.encode(CLAIMS, RSA, "RS256", headers={"kid": "r", "crit": ["odd"], "odd": 1}),
        jwt.encode(CLAIMS, "", "none"),
        signed()[:-4] + "AAAA",
        "",
        "a.b.c",
    ],
)
def test_a_bad_token_is_refused(token: str) -> None:
    with pytest.raises(TokenRefused):
        judged(token)


@drawn(st.text(max_size=60))
def test_whatever_the_token_is_it_is_refused(token: str) -> None:
    with pytest.raises(TokenRefused):
        judged(token)


def test_a_token_for_somebody_is_refused_where_nobody_is_expected() -> None:
    with pytest.raises(TokenRefused, match="audience"):
        judged(signed(), **{"sasl.oauthbearer.expected.audience": ""})


def test_a_skew_that_is_no_number_is_named() -> None:
    with pytest.raises(UnusableSecurity, match=r"clock\.skew\.seconds"):
        expectations({"sasl.oauthbearer.clock.skew.seconds": "soon"})

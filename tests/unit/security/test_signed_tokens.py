"""Which signed tokens are valid?"""

from __future__ import annotations

import hmac
import json
import warnings
from base64 import urlsafe_b64encode
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given as drawn
from hypothesis import strategies as st
from jwt import InsecureKeyLengthWarning

from controller.security.failures import UnusableSecurity
from controller.security.tokens.oauthbearer import BearerToken, TokenRefused
from controller.security.tokens.signed_tokens import expectations, signed_tokens
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
    """Our public key, which is public, used as a shared secret."""
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


def weakly(key: Any, jwk: str, algorithm: str, **more: Any) -> tuple[str, dict[str, Any]]:
    """A token signed with a key whose algorithm the key set does not allow."""
    with warnings.catch_warnings(action="ignore", category=InsecureKeyLengthWarning):
        return jwt.encode(CLAIMS, key, algorithm, headers={"kid": "w"}), json.loads(jwk) | {"kid": "w", **more}


def short_rsa(bits: int, algorithm: str, **more: Any) -> tuple[str, dict[str, Any]]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    return weakly(key, jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()), algorithm, **more)


def shared_secret(size: int, algorithm: str) -> tuple[str, dict[str, Any]]:
    return weakly(b"k" * size, jwt.algorithms.HMACAlgorithm.to_jwk(b"k" * size), algorithm)


def on_another_curve() -> tuple[str, dict[str, Any]]:
    """Signed with P-384 and SHA-256; ES256 is P-256."""
    key = ec.generate_private_key(ec.SECP384R1())
    parts = [urlsafe_b64encode(json.dumps(part).encode()) for part in ({"alg": "ES256", "kid": "w"}, CLAIMS)]
    text = b".".join(part.rstrip(b"=") for part in parts)
    r, s = decode_dss_signature(key.sign(text, ec.ECDSA(SHA256())))
    signature = urlsafe_b64encode(r.to_bytes(48, "big") + s.to_bytes(48, "big")).rstrip(b"=")
    jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key())) | {"kid": "w"}
    return f"{text.decode()}.{signature.decode()}", jwk


def judged_by(token: str, jwk: dict[str, Any]) -> BearerToken:
    return signed_tokens(expectations(EXPECTED), lambda _: [jwk], lambda: NOW_MS)(token)


@pytest.mark.parametrize(
    ("token", "jwk"),
    [
        short_rsa(1024, "RS256"),
        short_rsa(2040, "PS256"),
        short_rsa(2048, "RS256", key_ops=["sign"]),
        shared_secret(31, "HS256"),
        shared_secret(47, "HS384"),
        shared_secret(63, "HS512"),
        on_another_curve(),
    ],
)
def test_a_key_that_kafkas_library_would_not_use_is_not_used_here(token: str, jwk: dict[str, Any]) -> None:
    with pytest.raises(TokenRefused):
        judged_by(token, jwk)


@pytest.mark.parametrize(
    ("token", "jwk"),
    [short_rsa(2048, "RS256", key_ops=["verify"]), shared_secret(32, "HS256"), shared_secret(64, "HS512")],
)
def test_a_key_of_the_least_size_is_good(token: str, jwk: dict[str, Any]) -> None:
    assert judged_by(token, jwk).user == "ann"


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


def test_a_token_with_an_audience_is_refused_where_none_is_expected() -> None:
    with pytest.raises(TokenRefused, match="audience"):
        judged(signed(), **{"sasl.oauthbearer.expected.audience": ""})


def test_a_skew_that_is_no_number_is_named() -> None:
    with pytest.raises(UnusableSecurity, match=r"clock\.skew\.seconds"):
        expectations({"sasl.oauthbearer.clock.skew.seconds": "soon"})

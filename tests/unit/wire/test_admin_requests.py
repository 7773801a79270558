"""What is asked about users' credentials and features, and which bytes answer it?"""

from __future__ import annotations

import hashlib
from base64 import b64decode

import pytest

from controller.core.messages.errors import ErrorCode
from controller.core.messages.replies import FeaturesUpdated, FeatureUpdated, ScramCredentialsAltered, UserAltered
from controller.core.messages.requests import (
    AlterScramCredentials,
    FeatureUpdate,
    Request,
    ScramDeletion,
    ScramUpsertion,
    UpdateFeatures,
)
from controller.wire.frames import RequestHeader
from controller.wire.replies import encode_reply
from controller.wire.requests import MalformedRequest, decode_request
from tests.equipment.admin_client_side import Password, encode_passwords
from tests.equipment.client_side import decode_reply, encode_request

# RFC 7677, section 3: the password "pencil".
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
SALTED_PASSWORD = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
CREDENTIAL = (
    "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
    "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
)


def read(*passwords: Password, deletions: tuple[ScramDeletion, ...] = ()) -> Request:
    header, request = decode_request(encode_passwords(7, passwords, deletions)[4:])
    assert header == RequestHeader(51, 0, 7, "lab")
    assert isinstance(request, AlterScramCredentials)
    return request


def test_a_password_becomes_a_credential_at_once() -> None:
    read_ = read(Password("user", 1, 4096, SALT, SALTED_PASSWORD), deletions=(ScramDeletion("ann", 2),))

    assert read_ == AlterScramCredentials((ScramUpsertion("user", 1, 4096, CREDENTIAL),), (ScramDeletion("ann", 2),))


@pytest.mark.parametrize("password", [Password("user", 1, 4096, SALT, b""), Password("user", 3, 4096, SALT, b"x")])
def test_nothing_is_made_of_an_empty_password_or_an_unknown_mechanism(password: Password) -> None:
    assert read(password) == AlterScramCredentials((ScramUpsertion("user", password.mechanism, 4096, None),))


def test_a_broken_request_is_refused_without_a_word_of_its_password() -> None:
    frame = encode_passwords(7, (Password("user", 1, 4096, SALT, b"secret" * 20),))[4:]

    with pytest.raises(MalformedRequest, match=r"upsertions\[0\].salted_password needs 120 bytes") as refused:
        decode_request(frame[:-10])

    assert "secret" not in str(refused.value)
    with pytest.raises(MalformedRequest, match=r"salted_password must not be null"):
        decode_request(encode_passwords(7, (Password("user", 1, 4096, SALT, b""),))[4:-3] + b"\0\0\0")


@pytest.mark.parametrize(
    ("version", "update", "means"),
    [
        (0, FeatureUpdate("some", 1, 1), FeatureUpdate("some", 1, 1)),
        (0, FeatureUpdate("some", -1, 3), FeatureUpdate("some", -1, 2)),
        (1, FeatureUpdate("some", 2, 3), FeatureUpdate("some", 2, 3)),
    ],
)
def test_features_are_read_in_every_version(version: int, update: FeatureUpdate, means: FeatureUpdate) -> None:
    header = RequestHeader(57, version, 7, "me")
    asked = UpdateFeatures((update,), 5, is_validation_only=version == 1)

    assert decode_request(encode_request(header, asked)[4:]) == (
        header,
        UpdateFeatures((means,), 5, is_validation_only=version == 1),
    )


def test_answers_come_back_as_they_were() -> None:
    users = ScramCredentialsAltered((UserAltered("ann"), UserAltered("bob", ErrorCode.DUPLICATE_RESOURCE, "twice")))
    features = FeaturesUpdated((FeatureUpdated("some", ErrorCode.INVALID_REQUEST, "no"),), ErrorCode.NONE, None)

    assert decode_reply(RequestHeader(51, 0, 7), encode_reply(RequestHeader(51, 0, 7), users)[4:]) == users
    for version in (0, 1):
        header = RequestHeader(57, version, 7)
        assert decode_reply(header, encode_reply(header, features)[4:]) == features

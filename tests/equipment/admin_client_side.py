"""How are requests for credentials and features encoded and their answers decoded, by kio?

Source: Kafka's AlterUserScramCredentialsRequest.json, UpdateFeaturesRequest.json and their responses.
"""

from __future__ import annotations

import datetime
from typing import Any

from msgspec import Struct

from controller.core.messages.replies import FeaturesUpdated, FeatureUpdated, ScramCredentialsAltered, UserAltered
from controller.core.messages.requests import AlterScramCredentials, ScramDeletion, UpdateFeatures
from controller.core.single_znodes.features import UPGRADE
from controller.wire.apis import ApiKey
from controller.wire.cursor import Cursor
from controller.wire.frames import RequestHeader, encode_request_header, framed
from controller.wire.schema import MessageSchema, encode_entity, request_schema


class Password(Struct, frozen=True):
    """A user's password as a client sends it, by Kafka's number of the mechanism."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


def encode_passwords(
    correlation_id: int, upsertions: tuple[Password, ...], deletions: tuple[ScramDeletion, ...] = ()
) -> bytes:
    """AlterUserScramCredentials (51), with its size. `AlterScramCredentials` no longer has the passwords."""
    schema = request_schema(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
    entity = schema.make(
        "AlterUserScramCredentialsRequest",
        deletions=tuple(schema.make("ScramCredentialDeletion", name=d.user, mechanism=d.mechanism) for d in deletions),
        upsertions=tuple(
            schema.make(
                "ScramCredentialUpsertion",
                name=u.user,
                mechanism=u.mechanism,
                iterations=u.iterations,
                salt=u.salt,
                salted_password=u.salted_password,
            )
            for u in upsertions
        ),
    )
    header = RequestHeader(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, correlation_id, "lab")
    return framed(encode_request_header(header), encode_entity(entity))


def admin_request_entity(schema: MessageSchema, request: UpdateFeatures | AlterScramCredentials) -> Any:
    """UpdateFeatures (57).

    Raises:
        ValueError: the passwords of `AlterScramCredentials` are gone.
    """
    if isinstance(request, AlterScramCredentials):
        raise ValueError("its passwords are gone; encode them with `encode_passwords`")
    updates = tuple(
        schema.make(
            "FeatureUpdateKey",
            feature=update.feature,
            max_version_level=update.level,
            upgrade_type=update.kind,
            allow_downgrade=update.kind != UPGRADE,
        )
        for update in request.updates
    )
    return schema.make(
        "UpdateFeaturesRequest",
        timeout=datetime.timedelta(milliseconds=request.timeout_ms),
        feature_updates=updates,
        validate_only=request.is_validation_only,
    )


def scram_credentials_altered(cursor: Cursor, _version: int) -> ScramCredentialsAltered:
    """The results for users."""
    cursor.int32("throttle_time_ms")
    return ScramCredentialsAltered(tuple(_user(cursor) for _ in cursor.array("results", 5)))


def _user(cursor: Cursor) -> UserAltered:
    user = UserAltered(cursor.string("user"), cursor.error(), cursor.nullable_string("error_message"))
    cursor.tags()
    return user


def features_updated(cursor: Cursor, _version: int) -> FeaturesUpdated:
    """The results for features."""
    cursor.int32("throttle_time_ms")
    error, message = cursor.error(), cursor.nullable_string("error_message")
    return FeaturesUpdated(tuple(_feature(cursor) for _ in cursor.array("results", 5)), error, message)


def _feature(cursor: Cursor) -> FeatureUpdated:
    feature = FeatureUpdated(cursor.string("feature"), cursor.error(), cursor.nullable_string("error_message"))
    cursor.tags()
    return feature

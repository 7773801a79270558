"""Which kio value answers a request about users' credentials or features?

Source: Kafka's AlterUserScramCredentialsResponse.json and UpdateFeaturesResponse.json.
"""

from __future__ import annotations

from typing import Any

from controller.core.messages.replies import FeaturesUpdated, ScramCredentialsAltered
from controller.wire.schema import UNTHROTTLED, MessageSchema


def admin_reply(schema: MessageSchema, reply: ScramCredentialsAltered | FeaturesUpdated) -> Any:
    """The answer to one of these requests."""
    match reply:
        case ScramCredentialsAltered():
            return _scram_credentials_altered(schema, reply)
        case FeaturesUpdated():
            return _features_updated(schema, reply)


def _scram_credentials_altered(schema: MessageSchema, reply: ScramCredentialsAltered) -> Any:
    results = tuple(
        schema.make("AlterUserScramCredentialsResult", user=r.user, error_code=r.error, error_message=r.message)
        for r in reply.results
    )
    return schema.make("AlterUserScramCredentialsResponse", throttle_time=UNTHROTTLED, results=results)


def _features_updated(schema: MessageSchema, reply: FeaturesUpdated) -> Any:
    results = tuple(
        schema.make("UpdatableFeatureResult", feature=r.feature, error_code=r.error, error_message=r.message)
        for r in reply.results
    )
    return schema.make(
        "UpdateFeaturesResponse",
        throttle_time=UNTHROTTLED,
        error_code=reply.error,
        error_message=reply.message,
        results=results,
    )

"""Which kio value answers a request about users' credentials or features?

Source: Kafka's AlterUserScramCredentialsResponse.json and UpdateFeaturesResponse.json.
"""

from __future__ import annotations

from typing import Any

from controller.core.messages.replies import FeaturesUpdated, ScramCredentialsAltered
from controller.wire.schema import MessageSchema


def scram_credentials_altered(schema: MessageSchema, _version: int, reply: ScramCredentialsAltered) -> Any:
    """AlterUserScramCredentials (51)."""
    results = tuple(schema.outcome("AlterUserScramCredentialsResult", r, user=r.user) for r in reply.results)
    return schema.make("AlterUserScramCredentialsResponse", results=results)


def features_updated(schema: MessageSchema, _version: int, reply: FeaturesUpdated) -> Any:
    """UpdateFeatures (57)."""
    results = tuple(schema.outcome("UpdatableFeatureResult", r, feature=r.feature) for r in reply.results)
    return schema.outcome("UpdateFeaturesResponse", reply, results=results)

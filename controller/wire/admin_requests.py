"""What is asked about users' credentials, and about features, in this message?

Source: Kafka's AlterUserScramCredentialsRequest.json and UpdateFeaturesRequest.json.
"""

from __future__ import annotations

from controller.core.messages import requests
from controller.core.single_znodes.features import SAFE_DOWNGRADE, UPGRADE
from controller.wire.cursor import Cursor
from zk_layout.znodes.scram import MECHANISMS, credential


def alter_scram_credentials(cursor: Cursor, _version: int) -> requests.AlterScramCredentials:
    """AlterUserScramCredentials (51), version 0. The passwords in it go no further than here."""
    deletions = tuple(_deletion(cursor) for _ in cursor.array("deletions", 3))
    return requests.AlterScramCredentials(tuple(_upsertion(cursor) for _ in cursor.array("upsertions", 9)), deletions)


def _deletion(cursor: Cursor) -> requests.ScramDeletion:
    deletion = requests.ScramDeletion(cursor.string("name"), cursor.int8("mechanism"))
    cursor.tags()
    return deletion


def _upsertion(cursor: Cursor) -> requests.ScramUpsertion:
    user, number, iterations = cursor.string("name"), cursor.int8("mechanism"), cursor.int32("iterations")
    salt, salted_password = cursor.bytes_with_length("salt"), cursor.bytes_with_length("salted_password")
    cursor.tags()
    mechanism = MECHANISMS.get(number)
    if mechanism is None or not salted_password:
        return requests.ScramUpsertion(user, number, iterations, None)
    return requests.ScramUpsertion(user, number, iterations, credential(mechanism, salt, salted_password, iterations))


def update_features(cursor: Cursor, version: int) -> requests.UpdateFeatures:
    """UpdateFeatures (57), versions 0 and 1."""
    timeout_ms = cursor.int32("timeout_ms")
    updates = tuple(_feature_update(cursor, version) for _ in cursor.array("feature_updates", 5))
    return requests.UpdateFeatures(updates, timeout_ms, cursor.boolean("validate_only") if version >= 1 else False)


def _feature_update(cursor: Cursor, version: int) -> requests.FeatureUpdate:
    feature, level = cursor.string("feature"), cursor.int16("max_version_level")
    if version >= 1:
        kind = cursor.int8("upgrade_type")
    else:
        kind = SAFE_DOWNGRADE if cursor.boolean("allow_downgrade") else UPGRADE
    cursor.tags()
    return requests.FeatureUpdate(feature, level, kind)

"""Which cluster features are finalized: `/feature`?

Source: Kafka's FeatureZNode. A standalone controller keeps the map empty: a broker that finds a finalized feature
it does not support ends its process.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from zk_layout.bounds import INT32_MAX
from zk_layout.codec import decode_json, encode_json, json_decoder


class FeatureAddress(Struct, frozen=True, gc=False):
    """The finalized features of the cluster."""

    @property
    def path(self) -> str:
        """Where ZooKeeper keeps it."""
        return "/feature"


class Features(Struct, frozen=True):
    """Whether feature versioning is on, and the finalized levels."""

    is_enabled: bool
    features: dict[str, Any] = {}


class _Json(Struct):
    status: Annotated[int, Meta(ge=0, le=INT32_MAX)]
    features: dict[str, Any] = {}


_decoder = json_decoder(_Json)


def decode(data: bytes) -> Features:
    """Versions 1 and 2.

    Raises:
        Undecodable: not a feature znode's JSON.
    """
    json = decode_json(_decoder, data)
    return Features(json.status == 1, json.features)


def encode(features: Features) -> bytes:
    """Version 2, whose empty map is the same as version 1's."""
    return encode_json({"version": 2, "features": features.features, "status": int(features.is_enabled)})

"""Which cluster features are finalized: `/feature`?

Source: Kafka's FeatureZNode. A standalone controller keeps the map empty: a broker that finds a finalized feature
it does not support ends its process.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from zk_layout.bounds import INT32_MAX
from zk_layout.codec import encode_json, json_decoder


class FeatureAddress(Struct, frozen=True, gc=False):
    """The finalized features of the cluster."""

    path: ClassVar[str] = "/feature"


class Features(Struct, frozen=True):
    """Whether feature versioning is on, and the finalized levels.

    Shape:
        A level is `{"max_version_level": n}`; before version 2 there is a minimum beside it.
    """

    is_enabled: bool
    features: dict[str, Any] = {}
    version: int = 2

    def level(self, feature: str) -> int | None:
        """The finalized level of a feature; None where it has none.

        >>> held = Features(is_enabled=True, features={"a": {"max_version_level": 3}})
        >>> held.level("a"), held.level("b")
        (3, None)
        """
        held = self.features.get(feature)
        found = held.get("max_version_level") if isinstance(held, dict) else held
        return found if isinstance(found, int) else None


class _Json(Struct):
    status: Annotated[int, Meta(ge=0, le=INT32_MAX)]
    version: Annotated[int, Meta(ge=1, le=INT32_MAX)] = 1
    features: dict[str, Any] = {}


_decoder = json_decoder(_Json)


def decode(data: bytes) -> Features:
    """Versions 1 and 2.

    Raises:
        Undecodable: not a feature znode's JSON.
    """
    json = _decoder(data)
    return Features(json.status == 1, json.features, json.version)


def encode(features: Features) -> bytes:
    """In the version in which the levels are; an empty map is the same in all."""
    return encode_json({"version": features.version, "features": features.features, "status": int(features.is_enabled)})

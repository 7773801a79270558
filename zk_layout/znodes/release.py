"""Should the cluster be left to Kafka's own controllers?

A znode of our own, `/kafka_zk_controller/released`. As long as it exists, whatever it holds, no replica of ours claims
`/controller`, and one that leads hands it back. Brokers never look at it.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from zk_layout.codec import encode_version_1, json_decoder


class ReleaseAddress(Struct, frozen=True, gc=False):
    """The request that a native controller must rule."""

    path: ClassVar[str] = "/kafka_zk_controller/released"


class Release(Struct, frozen=True):
    """Who asked for it, when and why, for people to read.

    Units:
        `at_ms` is in milliseconds since 1970.
    """

    by: str
    at_ms: int
    reason: str = ""


decode = json_decoder(Release)
"""Who released the cluster; what is not this znode's JSON counts all the same."""


def encode(release: Release) -> bytes:
    """Who released the cluster.

    >>> encode(Release("ann@host", 1700000000000, "upgrade"))
    b'{"version":1,"by":"ann@host","at_ms":1700000000000,"reason":"upgrade"}'
    """
    return encode_version_1(release)

"""Which ids are those of controllers?

A znode of our own, `/kafka_zk_controller/controller_ids`. A controller's id hosts nothing, whatever assignments say; a
successor has another id, and could not tell this one from a broker that is down.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from zk_layout.bounds import Brokers
from zk_layout.codec import encode_version_1, json_decoder


class ControllerIdsAddress(Struct, frozen=True, gc=False):
    """The ids of controllers."""

    path: ClassVar[str] = "/kafka_zk_controller/controller_ids"


class ControllerIds(Struct, frozen=True):
    """The ids of controllers that have led, and of those that assignments name.

    Shape:
        Ascending, without duplicates.
    """

    ids: Brokers


decode = json_decoder(ControllerIds)
"""The ids of controllers."""


def encode(controllers: ControllerIds) -> bytes:
    """The ids of controllers.

    >>> encode(ControllerIds((100, 101)))
    b'{"version":1,"ids":[100,101]}'
    """
    return encode_version_1(controllers)

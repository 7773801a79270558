"""Which ids are those of controllers?

Our own znode `/kafka_zk_controller/controller_ids`. A controller's id hosts nothing, even if assignments name it; a
successor has another id, and could not distinguish this one from a broker that is down.
"""

from __future__ import annotations

from msgspec import Struct

from zk_layout.bounds import Brokers
from zk_layout.codec import decode_json, encode_json, json_decoder


class ControllerIdsAddress(Struct, frozen=True, gc=False):
    """The ids of controllers."""

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return "/kafka_zk_controller/controller_ids"


class ControllerIds(Struct, frozen=True):
    """The ids of controllers that have led, and of those that assignments name.

    Shape:
        Ascending, without duplicates.
    """

    ids: Brokers


_decoder = json_decoder(ControllerIds)


def decode(data: bytes) -> ControllerIds:
    """The ids of controllers.

    Raises:
        Undecodable: not this znode's JSON.
    """
    return decode_json(_decoder, data)


def encode(controllers: ControllerIds) -> bytes:
    """The ids of controllers.

    >>> encode(ControllerIds((100, 101)))
    b'{"version":1,"ids":[100,101]}'
    """
    return encode_json({"version": 1, "ids": controllers.ids})

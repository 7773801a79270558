"""Who is the controller, and in which epoch: `/controller` and `/controller_epoch`?

Source: Kafka's ControllerZNode and ControllerEpochZNode.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from msgspec import Struct, field

from zk_layout.bounds import INT32_MAX, Broker
from zk_layout.codec import Undecodable, encode_json, excerpt, json_decoder
from zk_layout.ids import BrokerId, ControllerEpoch

PRODUCT = "kafka-zk-controller"


class ControllerAddress(Struct, frozen=True, gc=False):
    """The claim on controllership."""

    path: ClassVar[str] = "/controller"


class ControllerEpochAddress(Struct, frozen=True, gc=False):
    """The controller epoch; its version fences every write of a controller."""

    path: ClassVar[str] = "/controller_epoch"


class ControllerClaim(Struct, frozen=True):
    """The id in `/controller`, and whether one of our processes holds it or a broker's native controller.

    Shape:
        `kraft_epoch` is the epoch of a KRaft controller that leads while the cluster migrates; None for any other.
    """

    broker: BrokerId
    is_ours: bool = False
    timestamp_ms: int = 0
    kraft_epoch: int | None = None


class _Json(Struct):
    brokerid: Broker
    timestamp: Any = None
    product: str | None = None
    kraft_epoch: Any = field(default=None, name="kraftControllerEpoch")


_decoder = json_decoder(_Json)
_DECIMAL = re.compile(r"[0-9]{1,18}")


def decode_claim(data: bytes) -> ControllerClaim:
    """The holder; extra keys distinguish ours, and KRaft's, from a native controller.

    Raises:
        Undecodable: not a controller's JSON.
    """
    json = _decoder(data)
    timestamp = str(json.timestamp or 0)
    since_ms = int(timestamp) if _DECIMAL.fullmatch(timestamp) else 0
    epoch = json.kraft_epoch if type(json.kraft_epoch) is int and 0 <= json.kraft_epoch <= INT32_MAX else None
    return ControllerClaim(json.brokerid, json.product == PRODUCT, since_ms, epoch)


def encode_claim(claim: ControllerClaim) -> bytes:
    """Version 2 (brokers from 3.4 on read `kraftControllerEpoch`), with a key of our own that brokers ignore."""
    json: dict[str, object] = {
        "version": 2,
        "brokerid": claim.broker,
        "timestamp": str(claim.timestamp_ms),
        "kraftControllerEpoch": -1 if claim.kraft_epoch is None else claim.kraft_epoch,
    }
    if claim.is_ours:
        json["product"] = PRODUCT
    return encode_json(json)


def decode_epoch(data: bytes) -> ControllerEpoch:
    """Plain decimal text.

    Raises:
        Undecodable: not a number, or one that no broker accepts.
    """
    # The next one must fit too: the winner of the next election raises it.
    if not data.isdigit() or len(data) > 10 or int(data) >= INT32_MAX:
        raise Undecodable(f"controller epoch is not a number from 0 to {INT32_MAX - 1}: {excerpt(data)}")
    return ControllerEpoch(int(data))


def encode_epoch(epoch: ControllerEpoch) -> bytes:
    """Plain decimal text."""
    return str(epoch).encode()

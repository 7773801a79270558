"""Which throttled replicas and rates have we put into the settings of topics and brokers, and what was there before?

Our own znodes, below `/kafka_zk_controller`: `throttled_topics/<topic>` and `throttled_brokers/<id>`. They exist as
long as a move, or a request for one, needs the throttle. Brokers, and their own controllers, ignore them.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from zk_layout.codec import encode_version_1, json_decoder
from zk_layout.ids import BrokerId, TopicName

TOPICS: Final = "/kafka_zk_controller/throttled_topics"
BROKERS: Final = "/kafka_zk_controller/throttled_brokers"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"

Rate = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
Entry = Annotated[str, Meta(pattern=r"\A[0-9]{1,10}:[0-9]{1,10}\Z")]


class ThrottledTopicAddress(Struct, frozen=True, gc=False):
    """What this controller has put into one topic's list."""

    topic: TopicName

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{TOPICS}/{self.topic}"


class ThrottledBrokerAddress(Struct, frozen=True, gc=False):
    """The rate that this controller has given one broker."""

    broker: BrokerId

    @property
    def path(self) -> str:
        """Its path in ZooKeeper."""
        return f"{BROKERS}/{self.broker}"


class ThrottledTopic(Struct, frozen=True):
    """The replicas that we put into a topic's `follower.replication.throttled.replicas`.

    Shape:
        `ours` are these replicas, as "partition:broker", with the rate of their moves. `prior` is the literal
        list that was there before; None if there was none.
    Units:
        Rates are in bytes a second.
    """

    prior: str | None
    ours: dict[Entry, Rate]


class ThrottledBroker(Struct, frozen=True):
    """The rate that we gave a broker.

    Shape:
        `ours` is the literal value written; None if someone has changed it since, who then decides until a request
        gives another rate. `prior` is the literal value that was there before; None if there was none.
    """

    prior: str | None
    ours: str | None


decode_topic = json_decoder(ThrottledTopic)
"""What we put into a topic's list."""

decode_broker = json_decoder(ThrottledBroker)
"""The rate that we gave a broker."""


def encode_topic(throttled: ThrottledTopic) -> bytes:
    """What we put into a topic's list.

    >>> encode_topic(ThrottledTopic(None, {"0:4": 1000000}))
    b'{"version":1,"prior":null,"ours":{"0:4":1000000}}'
    """
    return encode_version_1(throttled)


def encode_broker(throttled: ThrottledBroker) -> bytes:
    """The rate that we gave a broker.

    >>> encode_broker(ThrottledBroker("5", "1000000"))
    b'{"version":1,"prior":"5","ours":"1000000"}'
    """
    return encode_version_1(throttled)

"""Which numbers and ids of a znode can be sent on to brokers?

Kafka's protocol carries them in fixed widths. The decoder refuses a number that does not fit, with its place in the
JSON, so that no later code has to check. This is part of decoding and costs no measurable time.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from zk_layout.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionId, RequestId, TopicId

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
# Ids are given one by one: a higher one would leave no room for the next.
HIGHEST_REQUEST_ID: Final = INT32_MAX - 2**20
LEADER_DURING_DELETION: Final = -2
# A claim rises above epochs up to this one, which no count of elections reaches. A higher one is a mistake, and a claim
# above it would leave little room for those to come.
HIGHEST_SURPASSED_EPOCH: Final = 2**30

Broker = Annotated[BrokerId, Meta(ge=0, le=INT32_MAX)]
Brokers = tuple[Broker, ...]
Leader = Annotated[BrokerId, Meta(ge=LEADER_DURING_DELETION, le=INT32_MAX)]
Partition = Annotated[PartitionId, Meta(ge=0, le=INT32_MAX)]
# The next one must fit too: the controller may have to raise it.
RaisableEpoch = Annotated[LeaderEpoch, Meta(ge=0, le=INT32_MAX - 1)]
WriterEpoch = Annotated[ControllerEpoch, Meta(ge=-1, le=INT32_MAX)]
Count = Annotated[int, Meta(ge=0, le=INT64_MAX)]
Millis = Annotated[int, Meta(ge=-INT64_MAX, le=INT64_MAX)]
Request = Annotated[RequestId, Meta(ge=0, le=INT32_MAX)]
LastRequest = Annotated[int, Meta(ge=0, le=HIGHEST_REQUEST_ID)]
# 16 bytes in URL-safe base64 without padding, as Kafka's Uuid prints them.
Id = Annotated[TopicId, Meta(pattern=r"^[A-Za-z0-9_-]{22}\Z")]

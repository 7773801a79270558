"""Which version of each command do brokers get?

Like Kafka's own controller, this one does not ask brokers for their versions but follows one inter-broker protocol
version (IBP), so that all brokers get the same versions.

Source: Kafka's MetadataVersion and ApiVersion (2.4), ControllerChannelManager's choice of request versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from controller.wire.apis import ApiKey, VersionRange

_RELEASES = {
    (2, 4): 2,
    (2, 5): 1,
    (2, 6): 1,
    (2, 7): 3,
    (2, 8): 2,
    (3, 0): 2,
    (3, 1): 1,
    (3, 2): 1,
    (3, 3): 4,
    (3, 4): 1,
    (3, 5): 3,
    (3, 6): 3,
    (3, 7): 5,
    (3, 8): 1,
    (3, 9): 1,
}  # the number of internal versions (IV0, IV1 ...) of each release
_SPELLING = re.compile(r"^(\d+)\.(\d+)(?:\.\d+)*(?:-IV(\d+))?$")


class InterBrokerProtocol(Struct, frozen=True, order=True):
    """One value of `inter.broker.protocol.version`; later ones are greater.

    >>> parse_protocol("2.8-IV0") < parse_protocol("2.8") < parse_protocol("3.0")
    True
    """

    major: int
    minor: int
    internal: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}-IV{self.internal}"

    @property
    def leader_and_isr(self) -> int:
        """The version of LeaderAndIsr."""
        return _newest(self, {(3, 4, 0): 7, (3, 2, 0): 6, (2, 8, 1): 5, (2, 4, 1): 4}, 3)

    @property
    def stop_replica(self) -> int:
        """The version of StopReplica."""
        return _newest(self, {(3, 4, 0): 4, (2, 6, 0): 3, (2, 4, 1): 2}, 1)

    @property
    def update_metadata(self) -> int:
        """The version of UpdateMetadata."""
        return _newest(self, {(3, 4, 0): 8, (2, 8, 1): 7, (2, 4, 1): 6}, 5)

    @property
    def commands(self) -> dict[ApiKey, int]:
        """The version of each command to brokers."""
        return {
            ApiKey.LEADER_AND_ISR: self.leader_and_isr,
            ApiKey.UPDATE_METADATA: self.update_metadata,
            ApiKey.STOP_REPLICA: self.stop_replica,
        }

    @property
    def manner(self) -> tuple[object, ...]:
        """Everything about a protocol that matters to a controller; it leads brokers alike under two protocols with
        equal values."""
        return (
            *self.commands.values(),
            self.describe_log_dirs,
            self.leaders_use_alter_partition,
            self.has_feature_versioning,
            self.has_topic_ids,
            self.has_leader_recovery_state,
        )

    @property
    def describe_log_dirs(self) -> int:
        """The version of DescribeLogDirs; from 3 on the refusal of a whole request has an error."""
        return _newest(self, {(3, 2, 0): 3, (2, 6, 0): 2}, 1)

    @property
    def leaders_use_alter_partition(self) -> bool:
        """Whether leaders ask the controller to change an ISR; in older versions they write the state znode
        themselves."""
        return self >= InterBrokerProtocol(2, 7, 2)

    @property
    def has_feature_versioning(self) -> bool:
        """Whether brokers read `/feature`: from 2.7-IV0 on."""
        return self >= InterBrokerProtocol(2, 7, 0)

    @property
    def has_topic_ids(self) -> bool:
        """Whether new topics get an id (KIP-516)."""
        return self >= InterBrokerProtocol(2, 8, 0)

    @property
    def has_leader_recovery_state(self) -> bool:
        """Whether an unclean election marks the partition as recovering (KIP-704)."""
        return self >= InterBrokerProtocol(3, 2, 0)


def newest_within(ranges: Mapping[int, VersionRange]) -> InterBrokerProtocol | None:
    """The newest protocol whose commands a broker with these versions understands; None if the versions do not tell.

    >>> str(newest_within({ApiKey.LEADER_AND_ISR: VersionRange(0, 5), ApiKey.UPDATE_METADATA: VersionRange(0, 7)}))
    '3.1-IV0'
    """
    known = (InterBrokerProtocol(*release, count - 1) for release, count in _RELEASES.items())
    understood = [
        protocol
        for protocol in known
        if all(version in ranges[api] for api, version in protocol.commands.items() if api in ranges)
    ]
    return max(understood, default=None)


def _newest(protocol: InterBrokerProtocol, since: dict[tuple[int, int, int], int], otherwise: int) -> int:
    now = (protocol.major, protocol.minor, protocol.internal)
    return next((version for first, version in since.items() if now >= first), otherwise)


def parse_protocol(text: str) -> InterBrokerProtocol:
    """Parse any spelling a broker accepts from 2.4 on; a release alone means its last internal version.

    >>> str(parse_protocol("2.7")), str(parse_protocol("3.9.1")), str(parse_protocol("2.8-IV0"))
    ('2.7-IV2', '3.9-IV0', '2.8-IV0')

    Raises:
        ValueError: not a version, or an unsupported one; names the supported ones.
    """
    match = _SPELLING.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an inter-broker protocol version; choose one of {_choices()}")
    major, minor, internal = match.groups()
    release = (int(major), int(minor))
    if release < (2, 4):
        raise ValueError(
            f"inter-broker protocol {text} is unsupported because it lacks adding and removing replicas; "
            f"raise inter.broker.protocol.version on the brokers to one of {_choices()}"
        )
    internals = _RELEASES.get(release, 0)
    chosen = internals - 1 if internal is None else int(internal)
    if not 0 <= chosen < internals:
        raise ValueError(f"there is no inter-broker protocol {text} with ZooKeeper; choose one of {_choices()}")
    return InterBrokerProtocol(*release, chosen)


def parse_reported(text: str) -> InterBrokerProtocol | None:
    """What a broker reports; None if that is nothing, or no protocol that this controller knows.

    >>> str(parse_reported("3.9-IV0")), parse_reported(""), parse_reported("4.0-IV1")
    ('3.9-IV0', None, None)
    """
    try:
        return parse_protocol(text)
    except ValueError:
        return None


def is_of_a_later_kafka(text: str) -> bool:
    """Whether this is a protocol of a Kafka release without ZooKeeper.

    >>> is_of_a_later_kafka("4.0-IV1"), is_of_a_later_kafka("2.3"), is_of_a_later_kafka("0.10.2-IV0")
    (True, False, False)
    """
    match = _SPELLING.match(text.strip())
    return match is not None and (int(match[1]), int(match[2])) > max(_RELEASES)


AUTO = "auto"
OLDEST = InterBrokerProtocol(2, 4, 1)
"""Commands that every broker from 2.4 to 3.9 understands."""


def parse_wanted(text: str) -> InterBrokerProtocol | None:
    """What an operator may set: a protocol, or `auto`, which is None.

    >>> parse_wanted("auto"), str(parse_wanted("3.9"))
    (None, '3.9-IV0')

    Raises:
        ValueError: as `parse_protocol`.
    """
    return None if text.strip().lower() == AUTO else parse_protocol(text)


def _choices() -> str:
    releases = (
        f"{major}.{minor}" + (f" (-IV0 to -IV{count - 1})" if count > 1 else " (-IV0)")
        for (major, minor), count in _RELEASES.items()
    )
    return ", ".join(releases)

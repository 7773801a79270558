"""Which writes make the settings of a topic or a broker, and our record of them, say what is wished?"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.messages.effects import Create, Delete, Set, Write
from controller.core.reassignment.throttle_rules import Wish
from controller.core.state.throttles import Kept, Throttled
from controller.core.transactions.proposal import Subject
from zk_layout.facts import Fact
from zk_layout.ids import BrokerId
from zk_layout.znodes.configs import BrokerConfigAddress, Config, TopicConfigAddress
from zk_layout.znodes.notifications import ConfigChange, ConfigChangeAddress
from zk_layout.znodes.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    ThrottledBroker,
    ThrottledBrokerAddress,
    ThrottledTopic,
    ThrottledTopicAddress,
)

_CHANGE = ConfigChangeAddress("config_change_")


def settings_writes(of: Throttled, settings: Fact, wish: Wish) -> Iterator[Write]:
    """The settings with what is wished, and the notification for brokers; nothing if they are so already."""
    key = FOLLOWER_REPLICAS if isinstance(of, str) else FOLLOWER_RATE
    config = settings.value.config if isinstance(settings.value, Config) else {}
    if config.get(key) == wish.value:
        return
    wished = {name: value for name, value in config.items() if name != key}
    if wish.value is not None:
        wished = {**config, key: wish.value}
    if settings.stat is None:
        yield Create(settings.address, Config(wished))
    else:
        yield Set(settings.address, Config(wished), settings.stat.version)
    path = f"topics/{of}" if isinstance(of, str) else f"brokers/{of}"
    yield Create(_CHANGE, ConfigChange(path), is_sequential=True)


def record_writes(of: Throttled, wish: Wish, kept: Kept | None) -> Iterator[Write]:
    """What changes our record of it; nothing if it is so already."""
    address = record_of(of)
    if kept is None:
        if wish.record is not None:
            yield Create(address, wish.record)
    elif wish.record is None:
        yield Delete(address, kept.version)
    elif wish.record != kept.value:
        yield Set(address, wish.record, kept.version)


def reason(of: Throttled, wish: Wish, why: str) -> str:
    """What the writes do, in a sentence; `why` a rate is lower than its moves allow."""
    if isinstance(wish.record, ThrottledTopic):
        return f"{len(wish.record.ours)} receiving replicas of topic {of} are throttled"
    if isinstance(wish.record, ThrottledBroker):
        return f"broker {of} copies throttled replicas at {wish.value} bytes/s{why and f': {why}'}"
    return f"{named(of)} is as before its throttled moves"


def subject_of(of: Throttled) -> Subject:
    """The subject of the writes about one topic or broker."""
    return Subject("throttle of", named(of))


def named(of: Throttled) -> str:
    """A topic or a broker in a sentence."""
    return f"topic {of}" if isinstance(of, str) else f"broker {of}"


def settings_of(of: Throttled) -> TopicConfigAddress | BrokerConfigAddress:
    """Where its settings are."""
    return TopicConfigAddress(of) if isinstance(of, str) else BrokerConfigAddress(of)


def record_of(of: Throttled) -> ThrottledTopicAddress | ThrottledBrokerAddress:
    """Where our record of it is."""
    return ThrottledTopicAddress(of) if isinstance(of, str) else ThrottledBrokerAddress(of)


def broker_of(entry: str) -> BrokerId:
    """The receiving broker of an entry of a list."""
    return BrokerId(int(entry.partition(":")[2]))

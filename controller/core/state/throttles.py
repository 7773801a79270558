"""What have moves' throttles changed in the settings of topics and brokers, and what do these settings say?

Our own records are known from the beginning of a term. Settings are read on demand and forgotten afterwards: there may
be very many, and they matter for nothing else.
"""

from __future__ import annotations

from msgspec import Struct

from controller.core.state.sightings import NEVER
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, is_newer
from zk_layout.ids import BrokerId, TopicName, ZnodeVersion
from zk_layout.znodes.configs import BrokerConfigAddress, TopicConfigAddress
from zk_layout.znodes.throttles import ThrottledBroker, ThrottledBrokerAddress, ThrottledTopic, ThrottledTopicAddress

Throttled = TopicName | BrokerId
"""A topic that has a list of throttled replicas, or a broker that has a rate."""


class Kept(Struct, frozen=True):
    """One of our records; `value` is None if it cannot be read."""

    value: ThrottledTopic | ThrottledBroker | None
    version: ZnodeVersion


class ThrottleZnodes:
    """The records, as folded from facts, and the settings in demand."""

    def __init__(self) -> None:
        self.records: dict[Throttled, Kept] = {}
        self._wanted: dict[TopicConfigAddress | BrokerConfigAddress, Fact | None] = {}
        # What was read or written last of settings that were in demand: answers to reads may come after later writes.
        self._newest: dict[TopicConfigAddress | BrokerConfigAddress, Fact] = {}
        self._changed: dict[Throttled, None] = {}

    def take_changed(self) -> dict[Throttled, None]:
        """Take the topics and brokers about which something was read or written since the last call."""
        changed, self._changed = self._changed, {}
        return changed

    def want(self, address: TopicConfigAddress | BrokerConfigAddress) -> None:
        """Keep facts about these settings from now on."""
        self._wanted.setdefault(address, None)

    def forget(self, address: TopicConfigAddress | BrokerConfigAddress) -> None:
        """Forget settings no longer in demand."""
        self._wanted.pop(address, None)

    def settings(self, address: TopicConfigAddress | BrokerConfigAddress) -> Fact | None:
        """The last fact about settings in demand; None before the first."""
        return self._wanted.get(address)

    def apply_record(self, address: ThrottledTopicAddress | ThrottledBrokerAddress, fact: Fact) -> None:
        """Fold in a fact newer than what is held of the same record."""
        of = address.topic if isinstance(address, ThrottledTopicAddress) else address.broker
        self._changed[of] = None
        if fact.stat is None:
            self.records.pop(of, None)
            return
        value = fact.value if isinstance(fact.value, ThrottledTopic | ThrottledBroker) else None
        self.records[of] = Kept(value, fact.stat.version)

    def apply_settings(self, address: TopicConfigAddress | BrokerConfigAddress, fact: Fact) -> None:
        """Take in settings that were read or written, unless they have been written since."""
        newest = self._newest.get(address)
        if newest is None and address not in self._wanted:
            return
        if newest is not None and is_newer(newest, fact.as_of, is_held_present=fact.is_present):
            return
        self._newest[address] = fact
        if address in self._wanted:
            self._wanted[address] = fact
            self._changed[_of(address)] = None

    def refuse(self, address: TopicConfigAddress | BrokerConfigAddress, reason: str) -> None:
        """Note that ZooKeeper refused the read."""
        if address in self._wanted:
            self._wanted[address] = Fact(address, Malformed(reason, 0), None, NEVER)
            self._changed[_of(address)] = None


def _of(address: TopicConfigAddress | BrokerConfigAddress) -> Throttled:
    return address.topic if isinstance(address, TopicConfigAddress) else address.broker

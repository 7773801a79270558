"""Are settings that throttle moves as they were before, once the moves are over, and never other ones touched?"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from controller.core.messages.effects import DescribeBrokerConfig, DescribeLogEnds
from controller.core.messages.events import BrokerConfigDescribed, Event, LogEndsDescribed
from controller.core.reassignment.throttle_rules import entries
from tests.simulation.broken import hold
from tests.simulation.refusals import Concern
from tests.simulation.zookeeper import MakeNode, SetData
from zk_layout import catalog
from zk_layout.ids import BrokerId, PartitionId, SessionId, TopicName, TopicPartition
from zk_layout.znodes.configs import BrokerConfigAddress, Config, TopicConfigAddress
from zk_layout.znodes.throttles import (
    BROKERS,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    TOPICS,
    decode_broker,
    decode_topic,
)
from zk_layout.znodes.topics import TopicAddress

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import World

ONE_WORLD_IN = 5
# How often a broker shows no rate, how often it answers at all, and within which time.
SHOWS_NOTHING, ANSWERS, ANSWERS_WITHIN_S = 0.2, 0.95, 2.0
IS_BEHIND, BEHIND_S = 0.1, 60.0
RATES = (1_000_000, 2_000_000, 5_000_000)
LEAST_RATES = (300_000, 1_500_000)
# Of partitions that no topic has, and rates that no request asks for: they tell another client's settings from ours.
FOREIGN_LISTS = (None, "", "*", "77:1", "77:1, 78:2")
FOREIGN_RATES = (None, "7", "3000000", "9000000", "-1")


def is_throttled(seed: int) -> bool:
    """Whether requests to move throttle their moves in a seed's world."""
    return seed % ONE_WORLD_IN == 4


class Throttles:
    """The settings of one world's topics and brokers that throttle moves."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.are_used = is_throttled(world.seed)
        self.random = Random(f"{world.seed}/throttles")
        self.default = self.random.choice((None, *RATES)) if self.are_used else None  # of the settings
        self.least = self.random.choice((None, *LEAST_RATES)) if self.are_used else None  # of the settings
        self._most = self.default or 0  # the highest rate that anyone has asked for
        self.released = 0  # settings that are again as they were
        self._held: dict[str, dict[str, str]] = {}
        self._theirs: dict[str, str | None] = {}  # what someone else has written last

    def rate(self) -> int | None:
        """The throttle of a request, in bytes a second."""
        random = self.world.random
        asked = random.choice(RATES) if self.are_used and random.random() < 0.7 else None
        self._most = max(self._most, asked or 0)
        return asked

    def describe(self, asked: DescribeBrokerConfig, emit: Callable[[Event], None]) -> None:
        """A broker shows its rate a moment later: mostly what is written by then, or nothing, or it does not answer."""
        at_random = self.random.random()

        def answer() -> None:
            broker, held = self.world.brokers.get(asked.broker), self._held.get(BrokerConfigAddress(asked.broker).path)
            if broker is None or broker.model is None or broker.is_cut_off or at_random > ANSWERS:
                emit(BrokerConfigDescribed(asked.broker, asked.broker_epoch, {}, "no answer"))
                return
            shown = {} if held is None or at_random < SHOWS_NOTHING else held
            values = {key: shown[key] for key in asked.keys if key in shown}
            emit(BrokerConfigDescribed(asked.broker, asked.broker_epoch, values))

        self.world.clock.after(ANSWERS_WITHIN_S * at_random, answer)

    def ends(self, asked: DescribeLogEnds, emit: Callable[[Event], None]) -> None:
        """A broker says where its logs end, which grow all the time; now and then it is behind in all, or silent."""
        at_random = self.random.random()

        def answer() -> None:
            broker = self.world.brokers.get(asked.broker)
            if broker is None or broker.model is None or broker.is_cut_off or at_random > ANSWERS:
                emit(LogEndsDescribed(asked.broker, asked.broker_epoch, {}, "no answer"))
                return
            end = round(self.world.clock.now - (BEHIND_S if at_random < IS_BEHIND else 0))
            emit(LogEndsDescribed(asked.broker, asked.broker_epoch, dict.fromkeys(asked.partitions, end)))

        self.world.clock.after(ANSWERS_WITHIN_S * at_random, answer)

    def act(self) -> None:
        """Someone else throttles a topic or a broker, or ends that."""
        random, names = self.world.random, sorted(self.world.checker.topics)
        if names and random.random() < 0.5:
            self._change(TopicConfigAddress(random.choice(names)), FOREIGN_LISTS)
        else:
            self._change(BrokerConfigAddress(random.choice(list(self.world.brokers))), FOREIGN_RATES)

    def _change(self, address: TopicConfigAddress | BrokerConfigAddress, values: tuple[str | None, ...]) -> None:
        value, key = self.world.random.choice(values), _key(address)
        if isinstance(address, TopicConfigAddress) and address.topic in self.world.checker.unwanted:
            return  # who writes settings of a topic that is being deleted may leave them behind
        config = {name: held for name, held in self._held.get(address.path, {}).items() if name != key}
        if value is not None:
            config[key] = value
        self.world.say("client", f"sets {key}={value} in {address.path}")
        data, is_there = catalog.encode(Config(config)), address.path in self.world.zookeeper.nodes
        self.world.write(SetData(address.path, data) if is_there else MakeNode(address.path, data))

    # ---- what is written ------------------------------------------------------------------------------------

    def wrote(self, touched: dict[str, SessionId]) -> None:
        """Judge the settings that a transaction changes."""
        if not self.are_used:
            return
        for path, session in touched.items():
            address = catalog.address_of(path)
            if isinstance(address, TopicConfigAddress | BrokerConfigAddress):
                is_new = isinstance(address, TopicConfigAddress) and TopicAddress(address.topic).path in touched
                self._changed(address, is_ours=self.world.checker.is_ours(session) and not is_new)

    def _changed(self, address: TopicConfigAddress | BrokerConfigAddress, *, is_ours: bool) -> None:
        before, node, key = (
            self._held.pop(address.path, None),
            self.world.zookeeper.nodes.get(address.path),
            _key(address),
        )
        if node is None:
            self._theirs.pop(address.path, None)
            return
        value = catalog.decode(address, node.data)
        assert isinstance(value, Config)
        after = self._held[address.path] = value.config
        if not is_ours:
            self._theirs[address.path] = after.get(key)
            return
        others = [{n: v for n, v in config.items() if n != key} for config in (before or {}, after)]
        if others[0] != others[1]:
            hold(f"{address.path}: {others[0]} became {others[1]}, to throttle moves")
        self.released += after.get(key) == self._theirs.get(address.path)
        if isinstance(address, BrokerConfigAddress):
            self._judge_rate(address, after.get(key))
        if isinstance(address, TopicConfigAddress):
            lost = [e for e in entries(self._theirs.get(address.path)) if e not in entries(after.get(key))]
            if lost:
                hold(f"{address.path}: {lost} were taken out, which someone else put in")

    def _judge_rate(self, address: BrokerConfigAddress, rate: str | None) -> None:
        """A rate that no one else has set is never above all that were asked for, nor halved below the least."""
        if rate is None or rate == self._theirs.get(address.path):
            return
        least = min(self.least or RATES[0], *RATES)
        if not least <= int(rate) <= self._most:
            hold(f"{address.path}: {rate} is not between {least} and {self._most}")

    # ---- what is left ---------------------------------------------------------------------------------------

    def outcome(self) -> str | None:
        """What is left over in the end, or not as it was."""
        nodes, receiving = self.world.zookeeper.nodes, set[BrokerId]()
        for name in nodes[TOPICS].children:
            topic, record = TopicName(name), decode_topic(nodes[f"{TOPICS}/{name}"].data)
            number_and_broker = [tuple(map(int, entry.split(":"))) for entry in record.ours]
            receiving |= {BrokerId(broker) for _, broker in number_and_broker}
            over = [(n, b) for n, b in number_and_broker if not self._may_receive(topic, PartitionId(n), BrokerId(b))]
            if over and not self.world.refusals.excuse(topic) & (Concern.MOVING | Concern.THROTTLING):
                return f"still throttled, though nothing is copied: {over} of {name}"
        for name in nodes[BROKERS].children:
            if BrokerId(int(name)) not in receiving:
                return f"broker {name} is still throttled: {decode_broker(nodes[f'{BROKERS}/{name}'].data)}"
        for path, config in self._held.items():
            address = catalog.address_of(path)
            assert isinstance(address, TopicConfigAddress | BrokerConfigAddress)
            name = path.rpartition("/")[2]
            is_over = name not in nodes[TOPICS if isinstance(address, TopicConfigAddress) else BROKERS].children
            if is_over and config.get(_key(address)) != self._theirs.get(path):
                return f"{path} says {config}, but someone else wrote {self._theirs.get(path)!r}"
        return None

    def _may_receive(self, topic: TopicName, number: PartitionId, broker: BrokerId) -> bool:
        at, held = TopicPartition(topic, number), self.world.checker.topics.get(topic)
        assignment, state = (None if held is None else held.partitions.get(number)), self.world.checker.states.get(at)
        is_adding = (
            assignment is not None and broker in assignment.adding and (state is None or broker not in state.isr)
        )
        return is_adding or broker in (self.world.limits.waits_for(at) or ())


def _key(address: TopicConfigAddress | BrokerConfigAddress) -> str:
    return FOLLOWER_REPLICAS if isinstance(address, TopicConfigAddress) else FOLLOWER_RATE

"""Are the rates that were written in force at their brokers? Asks brokers, and never waits for one for good.

A broker takes in changed settings in the order in which they were written, so one that shows its new rate throttles
the replicas that were listed before. Brokers below 2.8 do not show it, and others may not answer us: those get a fixed
time.

Source: Kafka's ZkNodeChangeNotificationListener, and DescribeConfigs of a broker.
"""

from __future__ import annotations

from math import inf

from msgspec import Struct

from controller.core.messages.effects import DescribeBrokerConfig
from controller.core.messages.events import BrokerConfigDescribed
from controller.core.messages.outbox import Outbox
from controller.core.state.view import Cluster
from zk_layout.ids import BrokerId
from zk_layout.znodes.throttles import FOLLOWER_RATE

UNSHOWN = "unseen throttle"
FIXED_S = 5.0
"""For brokers that do not show their rate: they read changed settings within a second, unless they are overloaded."""
PATIENCE_S = 15.0
"""For brokers that show another rate."""
PACE_S = 0.2
PACE_AFTER_ERRORS_S = 1.0


class _Awaited(Struct):
    """A rate that a broker does not show yet; `asked` while a question is open."""

    value: str
    written_at: float
    until: float
    next_at: float
    is_asked: bool = False


class Barrier:
    """The rates of one term that were written and are not shown yet."""

    def __init__(self, cluster: Cluster, *, do_brokers_show: bool) -> None:
        """`do_brokers_show`: every broker is known to be of a version that shows its rate."""
        self._cluster = cluster
        self._do_brokers_show = do_brokers_show
        self._awaited: dict[BrokerId, _Awaited] = {}

    def expect(self, broker: BrokerId, value: str, now: float) -> None:
        """A rate has just been written that a request waits for."""
        until = now + (PATIENCE_S if self._do_brokers_show else FIXED_S)
        self._awaited[broker] = _Awaited(value, now, until, now)

    def rewritten(self, broker: BrokerId, value: str) -> None:
        """Another rate has been written since: the broker may never show the first."""
        awaited = self._awaited.get(broker)
        if awaited is not None:
            awaited.value = value

    def until(self, broker: BrokerId) -> float:
        """How long a broker is waited for; not at all if it shows its rate, or is down and reads it when it starts."""
        awaited = self._awaited.get(broker)
        return -inf if awaited is None or not self._cluster.is_registered(broker) else awaited.until

    def hear(self, described: BrokerConfigDescribed, now: float) -> None:
        """Take in what a broker shows, or why it does not."""
        awaited, held = self._awaited.get(described.broker), self._cluster.brokers.get(described.broker)
        if awaited is None or held is None or held.epoch != described.broker_epoch:
            return
        awaited.is_asked = False
        if described.error is not None:
            awaited.until = min(awaited.until, awaited.written_at + FIXED_S)
            awaited.next_at = now + PACE_AFTER_ERRORS_S
        elif described.values.get(FOLLOWER_RATE) == awaited.value:
            del self._awaited[described.broker]
        else:
            awaited.next_at = now + PACE_S

    def ask(self, out: Outbox) -> float:
        """Ask the brokers whose turn it is, and give up on those that were waited for long enough; when to go on."""
        next_at = inf
        for broker, awaited in tuple(self._awaited.items()):
            if self.until(broker) <= out.now:
                del self._awaited[broker]
                self._give_up(broker, awaited, out)
                continue
            if not awaited.is_asked and awaited.next_at <= out.now:
                held = self._cluster.brokers[broker]
                awaited.is_asked = True
                out.add(DescribeBrokerConfig(broker, held.epoch, held.registration, (FOLLOWER_RATE,)))
            next_at = min(next_at, awaited.until, inf if awaited.is_asked else awaited.next_at)
        return next_at

    def _give_up(self, broker: BrokerId, awaited: _Awaited, out: Outbox) -> None:
        if self._do_brokers_show and self._cluster.is_registered(broker):
            waited_s = round(out.now - awaited.written_at)
            text = f"broker {broker} has not shown its new rate of {awaited.value} bytes/s within {waited_s} s"
            out.notice(UNSHOWN, f"{text}: moves to it begin, and may copy faster at first")

"""What leaves the controller in one turn? The effects of all duties, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from controller.core.messages import commands, effects, events, replies, requests
from zk_layout.catalog import Address
from zk_layout.ids import BrokerEpoch, BrokerId, ControllerEpoch

MOST_LINES = 5


class Outbox:
    """The effects of one turn. A request is answered once: later answers are dropped."""

    def __init__(self, now: float, unanswered: dict[events.CallId, requests.Request]) -> None:
        """Begin without effects. `now` is in monotonic seconds; `unanswered` are the requests of the term."""
        self.now = now
        self.effects: list[effects.Effect] = []
        self.sent: list[effects.Tell] = []
        self.is_over = False
        self._unanswered = unanswered
        self._recorded: dict[effects.Record, list[str]] = {}
        self._counts: Counter[effects.Record] = Counter()

    def add(self, effect: effects.Effect) -> None:
        """Add an effect that has no method of its own here."""
        self.effects.append(effect)

    def notice(self, kind: str, text: str) -> None:
        """Add a notice for operators."""
        self.effects.append(effects.Notice(kind, text))

    def measured(self, measure: str, value: float = 1.0, *labels: str) -> None:
        """Add a figure for the metrics."""
        self.effects.append(effects.Measured(measure, value, labels))

    def record(self, record: effects.Record, *why: str) -> None:
        """Add to the audit trail; all of a kind are counted, but only the first few are shown."""
        self._counts[record] += 1
        lines = self._recorded.setdefault(record, [])
        if len(lines) < MOST_LINES:
            lines.append("; ".join(why))

    def decided(self, decisions: Iterable[effects.Decided]) -> None:
        """Add the decisions about a request's rights to the authorizer's log."""
        self.effects.extend(decisions)

    def close(self) -> list[effects.Effect]:
        """End the turn; return all effects."""
        for record, lines in self._recorded.items():
            self.effects.append(effects.Recorded(record, tuple(lines), self._counts[record]))
        return self.effects

    def wake(self, alarm: events.Alarm, at: float) -> None:
        """Ring at this time, in monotonic seconds."""
        self.effects.append(effects.Wake(alarm, at))

    def read(self, addresses: Iterable[Address], *, watch: bool = False) -> None:
        """Read these znodes, each once."""
        self.effects.append(effects.Read(tuple(dict.fromkeys(addresses)), watch))

    def send(
        self, broker: BrokerId, broker_epoch: BrokerEpoch, controller_epoch: ControllerEpoch, command: commands.Command
    ) -> None:
        """Send a command to a broker."""
        tell = effects.Tell(broker, broker_epoch, controller_epoch, command)
        self.sent.append(tell)
        self.effects.append(tell)

    def answer(self, call: events.CallId, reply: replies.Reply) -> None:
        """Answer a request that has no answer yet."""
        if self._unanswered.pop(call, None) is not None:
            self.effects.append(effects.Answer(call, reply))

    def step_down(self, reason: str, *, is_outranked: bool = False) -> None:
        """End this process' leadership; nothing is decided afterwards."""
        self.effects.append(effects.StepDown(reason, is_outranked))
        self.is_over = True

    def claim_above(self, epoch: ControllerEpoch, reason: str) -> None:
        """End this term for one with an epoch above this one; nothing is decided afterwards."""
        self.effects.append(effects.StepDown(reason, surpass=epoch))
        self.is_over = True

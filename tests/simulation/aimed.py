"""Which faults are aimed at a phase? A fault waits for a phase, and the phase is provoked."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from controller.core.messages.requests import AlterReassignments, PartitionReassignment
from tests.simulation.phases import Phase
from zk_layout.ids import Replicas, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.world import World

SHARE = 0.5
WAITS_S = 8.0
A_WORLD = 8


class Aimed:
    """Half of the worlds have such faults. The seed determines which strikes in which phase: consecutive seeds go
    through all pairs of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.is_in_use = Random(f"{world.seed}/aimed").random() < SHARE
        self.kinds: tuple[Callable[[], None], ...] = (*world.faults.all_kinds, *world.plots.kinds)
        self._waiting: dict[int, tuple[Phase, Callable[[], None], float, Random]] = {}
        self._numbers = 0
        self._provoke = {
            Phase.CLAIM: self._fail_over,
            Phase.LOAD: self._fail_over,
            Phase.BEGINNING: self._move,
            Phase.CATCHING_UP: self._move,
            Phase.HANDING_OVER: self._move,
            Phase.LETTING_GO: self._move,
            Phase.CREATION: world.clients.create_topic,
            Phase.DELETION: world.clients.delete_topic,
            Phase.SHUTDOWN: world.faults.shut_broker_down,
            Phase.HAND_OVER: self._hand_over,
            Phase.UPGRADE: world.faults.renew_term,
        }

    def act(self) -> str:
        """Start the next pair: the fault strikes as soon as the phase begins."""
        kinds = (
            self.world.ensemble.kinds if self.world.ensemble.has_followers and self._numbers % 3 == 2 else self.kinds
        )
        pair = (self.world.seed * A_WORLD + self._numbers) % (len(kinds) * len(Phase))
        self._numbers += 1
        phase, kind = tuple(Phase)[pair % len(Phase)], kinds[pair // len(Phase)]
        self._waiting[self._numbers] = phase, kind, self.world.clock.now + WAITS_S, self.world.clock.source
        self.look()
        if self._numbers in self._waiting and self.world.has_partitions:
            self._provoke[phase]()
        return f"{kind.__name__} in {phase}"

    def look(self) -> None:
        """Strike with the faults that wait for the current phase."""
        if not self._waiting or self.world.is_peaceful:
            return
        present = self.world.phases.present()
        for number, (phase, kind, until, source) in list(self._waiting.items()):
            if phase in present or self.world.clock.now > until:
                del self._waiting[number]
            if phase in present:
                self.world.clock.source = source
                self.world.faults.carry_out(kind, present)

    # how a phase is provoked

    def _fail_over(self) -> None:
        if (leader := self.world.leading()) is not None:
            self.world.say("client", "deletes /controller")
            leader.usurp()

    def _move(self) -> None:
        checker = self.world.checker
        still = [
            at
            for at, state in checker.states.items()
            if at.topic not in checker.unwanted and state.leader in self.world.brokers
        ]
        if still:
            at = self.random.choice(still)
            self.world.clients.ask(
                AlterReassignments((PartitionReassignment(at, self._elsewhere(at)),)), f"move {at} elsewhere"
            )

    def _elsewhere(self, at: TopicPartition) -> Replicas:
        held = self.world.checker.topics[at.topic].partitions[at.partition].replicas
        up = [b for b, broker in self.world.brokers.items() if broker.is_up]
        free = [b for b in up if b not in held]
        stay = [b for b in up if b in held]
        some = self.random.sample(free, min(len(free), self.random.randint(1, 2)))
        return tuple([*some, *stay[: self.random.randint(0, 1)]]) or tuple(stay[:1])

    def _hand_over(self) -> None:
        faults = self.world.faults
        self.random.choice((faults.release_cluster, faults.stop_controller, faults.ask_for_a_switchover))()

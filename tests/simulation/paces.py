"""Do no more moves begin than racks, rates and the znodes of topics allow, and do they give up in time?"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from controller.core.messages.effects import Commit
from controller.core.state.cluster import ClusterState
from controller.core.state.topics import Partition
from controller.core.transactions.sizes import ALARMING_SHARE
from tests.simulation.broken import hold
from tests.simulation.decided import is_put_right, topics_written
from tests.simulation.reassignment_folder import IN_FLIGHT_S
from zk_layout.ids import BrokerId, ControllerEpoch, TopicPartition
from zk_layout.znodes.topics import Assignment, Topic, encode
from zk_layout.znodes.waiting_moves import WaitingMove

if TYPE_CHECKING:
    from tests.simulation.controllers import Controller
    from tests.simulation.world import World

RACKS = ("east", "west")
WINDOW_S = 5.0
LATE_S = 120.0


class Paces:
    """The racks of one world, and what moves may do to racks, brokers and topics in it."""

    def __init__(self, world: World, *, may_be_set: bool) -> None:
        self.world = world
        random = Random(f"{world.seed}/paces")
        self.into_rack = random.choice((None, None, 1, 2)) if may_be_set else None
        self.changes_a_second = random.choice((None, None, 1, 3)) if may_be_set else None
        self.wait_for_znodes = may_be_set and random.random() < 0.5
        self.give_up_s = random.choice((None, None, 20.0, 60.0)) if may_be_set else None
        self._requests_say = random.choice(((None,), (None, 0, 15_000, 40_000))) if may_be_set else (None,)
        self._random, self._is_random = random, may_be_set
        # By term, when it began moves that copy nothing.
        self._changes: dict[tuple[BrokerId, ControllerEpoch], list[float]] = {}

    @property
    def are_set(self) -> bool:
        """Whether any of it is limited here."""
        return self.wait_for_znodes or (self.into_rack, self.changes_a_second) != (None, None)

    def rack_of(self, broker: BrokerId) -> str | None:
        """Where a broker is, in worlds in which it matters."""
        return None if self.into_rack is None else RACKS[broker % len(RACKS)]

    def every_rack(self) -> dict[BrokerId, str]:
        """The racks of all brokers: a term remembers where one was that is away."""
        every = ((b, self.rack_of(b)) for b in self.world.brokers)
        return {broker: rack for broker, rack in every if rack is not None}

    def racks(self) -> dict[BrokerId, str]:
        """The racks of registered brokers."""
        return {b: rack for b, rack in self.every_rack().items() if self.world.brokers[b].is_registered}

    def sure_racks(self) -> dict[BrokerId, str]:
        """The racks that every controller must know by now: a new one does not know where an absent broker was."""
        since = self.world.clock.now - IN_FLIGHT_S
        return {broker: rack for broker, rack in self.racks().items() if self.world.brokers[broker].is_known(since)}

    def give_up_of_request(self) -> int | None:
        """After how many milliseconds the next request lets its moves give up."""
        return self._random.choice(self._requests_say)

    def weight(self) -> int:
        """The weight of the next move that is asked for."""
        return self._random.choice((0, 0, 5, -5)) if self._is_random else 0

    def _limit_s(self, move: WaitingMove) -> float | None:
        if move.give_up_ms is not None:
            return move.give_up_ms / 1000 or None
        return self.give_up_s

    def may_give_up(self, move: WaitingMove, waited_s: float) -> bool:
        """Whether a move may give up that was seen to wait for so long."""
        limit_s = self._limit_s(move)
        if limit_s is None:
            return False
        return not self.world.wall_clocks.were_right or waited_s >= limit_s - IN_FLIGHT_S

    def must_have_given_up(self, move: WaitingMove, waited_s: float) -> bool:
        """Whether a move that has waited for so long must be gone by now."""
        limit_s = self._limit_s(move)
        if limit_s is None or not self.world.wall_clocks.were_right:
            return False
        return waited_s > limit_s + LATE_S

    # ---- what is decided ------------------------------------------------------------------------------------

    def decided(self, controller: Controller, commits: list[Commit], state: ClusterState) -> None:
        """A turn of a term is over: the term knows what `state` holds."""
        if not self.are_set:
            return
        for view, value in topics_written(commits, state):
            pairs = [
                (TopicPartition(view.name, n), view.partitions[n], to)
                for n, to in value.partitions.items()
                if n in view.partitions and view.partitions[n].assignment.replicas
            ]
            self._count(controller, sum(1 for pair in pairs if self._is_change(*pair)))
            if self.wait_for_znodes and value.partitions.keys() == view.partitions.keys():
                self._measure(controller, value, pairs)

    def _is_change(self, at: TopicPartition, held: Partition, to: Assignment) -> bool:
        """Whether a move begins that copies nothing, and is neither a repair nor the end of another one."""
        before = held.assignment
        is_new = not before.is_moving and not to.adding and to.target != before.target
        return (
            is_new
            and not is_put_right(held.assignment, held.state, self.world.controllers)
            and at not in self.world.checker.edited
        )

    def _count(self, controller: Controller, count: int) -> None:
        rate = self.changes_a_second
        if rate is None or not count:
            return
        now, begun = self.world.clock.now, self._changes.setdefault((controller.own_id, controller.epoch), [])
        begun += [now] * count
        begun[:] = [when for when in begun if now - when <= WINDOW_S]
        if len(begun) > rate * (WINDOW_S + 1) + 1:
            hold(
                f"{controller.name} begins {len(begun)} moves in {WINDOW_S} s that copy nothing, limit {rate} a second"
            )

    def _measure(
        self, controller: Controller, value: Topic, pairs: list[tuple[TopicPartition, Partition, Assignment]]
    ) -> None:
        begun = [at for at, held, to in pairs if to.is_moving and not held.assignment.is_moving]
        moving = [at for at, _, to in pairs if to.is_moving]
        is_excused = any(
            is_put_right(held.assignment, held.state, self.world.controllers)
            or at in self.world.checker.edited
            or _is_redirected(held.assignment, to)
            for at, held, to in pairs
        )
        size_bytes, most_bytes = len(encode(value)), ALARMING_SHARE * self.world.sizes.believed_bytes
        if begun and len(moving) > 1 and size_bytes > most_bytes and not is_excused:
            hold(f"{controller.name} begins {begun} of {len(moving)}: {size_bytes} bytes in a znode of {most_bytes}")


def _is_redirected(before: Assignment, after: Assignment) -> bool:
    return before.is_moving and after.is_moving and before != after

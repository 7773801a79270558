"""What is each controller's wall-clock time, and does anything depend on it that must not?

The clock of a machine outlives its processes. It jumps, by minutes or hours; the time that only goes forward does not.
Delegation tokens must depend on it: expired ones are deleted, and no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.zookeeper import MakeNode
from zk_layout.ids import BrokerId
from zk_layout.znodes import delegation_tokens
from zk_layout.znodes.delegation_tokens import DelegationTokenAddress, TokenTimes

if TYPE_CHECKING:
    from tests.simulation.world import World

ZERO_S = 1_700_000_000.0
JUMPS_S = (90.0, 900.0, 3_600.0, 86_400.0)
TOKEN_LIVES_S = (5.0, 40.0, 1_800.0, 200_000.0)
TOKENS = 4
TOKENS_READ_EVERY_S = 20.0
PUT_RIGHT = 0.5


class WallClocks:
    """The error of each controller machine's clock."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self._off_s: dict[BrokerId, float] = {}
        self._most_off_s = 0.0
        self._were_set = False
        self._tokens: dict[str, int] = {}
        for path in (delegation_tokens.ROOT, delegation_tokens.CHANGES):
            world.zookeeper.make_path(path)

    def now(self, own_id: BrokerId) -> float:
        """The Unix time on its machine, in seconds."""
        return ZERO_S + self.world.clock.now + self._off_s.get(own_id, 0.0)

    def zero_ms(self, own_id: BrokerId) -> int:
        """The world's start by that clock."""
        return round((ZERO_S + self._off_s.get(own_id, 0.0)) * 1000)

    @property
    def were_right(self) -> bool:
        """Whether no machine's clock was ever set."""
        return not self._were_set

    def begin(self) -> None:
        """Brokers write some tokens."""
        for number in range(TOKENS):
            self.world.clock.after(self.random.uniform(1.0, self.world.plan.busy_s), self._write_token(number))

    def _write_token(self, number: int) -> Any:
        path = DelegationTokenAddress(f"token{number}").path

        def write() -> None:
            expires = round((ZERO_S + self.world.clock.now + self.random.choice(TOKEN_LIVES_S)) * 1000)
            self._tokens[path] = expires
            self.world.write(MakeNode(path, delegation_tokens.encode(TokenTimes(expires, expires))))

        return write

    def jump(self) -> None:
        """One machine's clock jumps forward or back; now and then it is corrected."""
        own_id = self.random.choice(list(self.world.controllers))
        off_s = self.random.choice((-1, 1)) * self.random.choice(JUMPS_S) * self.random.random()
        self._off_s[own_id] = 0.0 if self.random.random() < 0.2 else off_s
        self._most_off_s, self._were_set = max(self._most_off_s, off_s), True
        self.world.say(f"controller {own_id}", f"finds its clock wrong by {self._off_s[own_id]:.0f}s")

    def heal(self) -> None:
        """In half of the worlds the clocks are corrected."""
        if self.random.random() < PUT_RIGHT:
            self._off_s.clear()

    # what is promised

    def wrote(self, touched: dict[str, Any]) -> str | None:
        """The error in the deletion of a token."""
        for path in touched:
            if path in self._tokens and path not in self.world.zookeeper.nodes:
                left_s = self._tokens.pop(path) / 1000 - (ZERO_S + self.world.clock.now + self._most_off_s)
                if left_s > 0:
                    return f"{path} was deleted {left_s:.0f}s before its time, whatever clock one looks at"
        return None

    def outcome(self, leader: BrokerId) -> str | None:
        """The errors in the final tokens."""
        due_ms = (self.now(leader) - 4 * TOKENS_READ_EVERY_S) * 1000
        late = [
            path for path, expires in self._tokens.items() if expires < due_ms and path in self.world.zookeeper.nodes
        ]
        return f"tokens were not deleted though their time is over: {late}" if late else None

"""What are the settings of the users whose SCRAM credentials are being changed?

They are read on demand and forgotten afterwards: there may be very many, and they matter for nothing else. A failed
read is reported to the request that needed it; it is not retried until it succeeds.
"""

from __future__ import annotations

from controller.core.state.changes import OpenChanges
from controller.core.state.topics import NEVER
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, is_newer
from zk_layout.znodes.configs import UserConfigAddress


class UserConfigs:
    """The newest facts about users in demand."""

    def __init__(self) -> None:
        self._wanted: dict[UserConfigAddress, Fact | None] = {}

    def want(self, address: UserConfigAddress) -> None:
        """Keep facts about this user from now on."""
        self._wanted[address] = None

    def forget(self, address: UserConfigAddress) -> None:
        """Forget a user no longer in demand."""
        self._wanted.pop(address, None)

    def held(self, address: UserConfigAddress) -> Fact | None:
        """The last fact about a user in demand; None before the first."""
        return self._wanted.get(address)

    def apply(self, address: UserConfigAddress, fact: Fact, changes: OpenChanges) -> None:
        """Take in a user's settings that were read or written."""
        if address not in self._wanted:
            return
        held = self._wanted[address]
        if held is None or is_newer(fact, held.as_of, is_held_present=held.is_present):
            self._wanted[address] = fact
        changes.users[address] = None

    def refuse(self, address: UserConfigAddress, reason: str, changes: OpenChanges) -> None:
        """Note that ZooKeeper refused the read."""
        if address in self._wanted:
            self._wanted[address] = Fact(address, Malformed(reason, 0), None, NEVER)
            changes.users[address] = None

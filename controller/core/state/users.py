"""What do the settings of users say whose SCRAM credentials are being changed?

They are read when they are wanted and forgotten afterwards: there may be very many, and none matters otherwise. That
one cannot be read is the business of whoever asked, who is told; it is not read again and again until it can be.
"""

from __future__ import annotations

from controller.core.state.changes import OpenChanges
from controller.core.state.topics import NEVER
from zk_layout.codec import Malformed
from zk_layout.facts import Fact, is_newer
from zk_layout.znodes.configs import UserConfigAddress


class UserConfigs:
    """The newest facts about the users that are wanted."""

    def __init__(self) -> None:
        self._wanted: dict[UserConfigAddress, Fact | None] = {}

    def want(self, address: UserConfigAddress) -> None:
        """Keep what is read of this user from now on."""
        self._wanted[address] = None

    def forget(self, address: UserConfigAddress) -> None:
        """Nobody wants it any more."""
        self._wanted.pop(address, None)

    def held(self, address: UserConfigAddress) -> Fact | None:
        """What was read of a wanted user; None before."""
        return self._wanted.get(address)

    def apply(self, address: UserConfigAddress, fact: Fact, changes: OpenChanges) -> None:
        """A user's settings were read, or written."""
        if address not in self._wanted:
            return
        held = self._wanted[address]
        if held is None or is_newer(fact, held.as_of, is_held_present=held.is_present):
            self._wanted[address] = fact
        changes.users[address] = None

    def refuse(self, address: UserConfigAddress, reason: str, changes: OpenChanges) -> None:
        """ZooKeeper does not let us read it."""
        if address in self._wanted:
            self._wanted[address] = Fact(address, Malformed(reason, 0), None, NEVER)
            changes.users[address] = None

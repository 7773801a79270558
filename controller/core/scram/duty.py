"""Which users' SCRAM credentials are to be changed, and may they be written now?

They are among a user's settings, beside the quotas that brokers write there: the settings are read first, and written
only if they are still the same. A notification written with them informs the brokers.

Source: Kafka's ZkAdminManager.alterUserScramCredentials and AdminZkClient.changeUserOrUserClientIdConfig; KIP-554.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from controller.core.messages.effects import Create, Set, Write
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.events import Asked, CallId
from controller.core.messages.outbox import Outbox
from controller.core.messages.replies import ScramCredentialsAltered, UserAltered
from controller.core.messages.requests import AlterScramCredentials
from controller.core.scram import rules
from controller.core.scram.rules import UserChange
from controller.core.state.changes import Changes
from controller.core.transactions.back_off import AT_ONCE
from controller.core.transactions.proposal import Accepted, Atom, Outcome, Proposal, Refused, Subject, Unwritable
from controller.core.transactions.ready import propose_ready
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.codec import one_line
from zk_layout.facts import Fact
from zk_layout.znodes.configs import Config, UserConfigAddress, sanitized
from zk_layout.znodes.notifications import ConfigChange, ConfigChangeAddress

CHANGE = ConfigChangeAddress("config_change_")
AT_ONCE_USERS = 1_000


class _Part(Struct, frozen=True, eq=False):
    call: CallId
    change: UserChange


class _Open(Struct, eq=False):
    results: dict[str, UserAltered | None]
    missing: int


class ScramCredentials(Duty):
    """Changes of one user are made one after the other, those of different users concurrently."""

    requests = (AlterScramCredentials,)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._users = shared.state.users
        self._open: dict[CallId, _Open] = {}
        self._waiting: dict[UserConfigAddress, list[_Part]] = {}
        self._ready: dict[UserConfigAddress, None] = {}

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Refuse senseless changes, and read the settings of the other users."""
        request = asked.request
        if not isinstance(request, AlterScramCredentials):
            raise TypeError(f"{type(request).__name__} is not served here")
        wanted = rules.changes(request)
        self._open[asked.call] = _Open(dict.fromkeys(wanted), len(wanted))
        refused = {user: rules.refuse(change) for user, change in wanted.items()}
        to_read = []
        for user, change in wanted.items():
            if refused[user] is None:
                address = UserConfigAddress(sanitized(user))
                self._waiting.setdefault(address, []).append(_Part(asked.call, change))
                if len(self._waiting[address]) == 1:
                    self._users.want(address)
                    to_read.append(address)
        if to_read:
            out.read(to_read)
        for user, refusal in refused.items():
            if refusal is not None:
                self._settle(asked.call, user, refusal, out)
        self._close_if_done(asked.call, out)

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Continue with users whose settings have been read."""
        self._ready.update(changes.users)

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Write the settings with the requested changes, for a limited number of users a turn."""
        return propose_ready(self._ready, AT_ONCE_USERS, self._proposal, out)

    def _proposal(self, address: UserConfigAddress, out: Outbox) -> Proposal | None:
        subject = Subject("znode", address.path)
        while (waiting := self._waiting.get(address)) and not self._shared.transactions.is_busy(subject):
            held = self._users.held(address)
            if held is None:
                return None
            is_waiting = self._shared.transactions.is_waiting(subject)
            outcome = _too_often(address) if is_waiting else rules.changed(waiting[0].change, held)
            if isinstance(outcome, Config):
                notification = Create(CHANGE, ConfigChange(f"users/{address.user}"), is_sequential=True)
                why = f"SCRAM credentials of user {one_line(address.user)} are changed"
                return Proposal(subject, (Atom((_write(held, outcome), notification), (why,)),), memo=outcome)
            self._end(address, outcome, out)
        return None

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """Finish a written change; if the settings have changed, apply it to the present ones."""
        written = proposal.atoms[0].writes[0].address
        assert isinstance(written, UserConfigAddress)
        held = self._users.held(written)
        match outcome:
            case Accepted():
                self._end(written, None, out)
            case Refused() if held is not None and held.value == proposal.memo:
                self._end(written, None, out)  # it was written, and only the answer was lost
            case Refused():
                self._ready[written] = None
            case Unwritable(message):
                self._end(written, Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, one_line(message)), out)

    def _end(self, address: UserConfigAddress, refusal: Refusal | None, out: Outbox) -> None:
        """Record the result of the first change waiting for a user, and continue with the next."""
        waiting = self._waiting[address]
        part = waiting.pop(0)
        if waiting:
            self._ready[address] = None
        else:
            del self._waiting[address]
            self._ready.pop(address, None)
            self._users.forget(address)
        self._settle(part.call, part.change.user, refusal, out)
        self._close_if_done(part.call, out)

    def _settle(self, call: CallId, user: str, refusal: Refusal | None, out: Outbox) -> None:
        held = self._open[call]
        held.missing -= 1
        held.results[user] = UserAltered(user) if refusal is None else UserAltered(user, refusal.error, refusal.message)

    def _close_if_done(self, call: CallId, out: Outbox) -> None:
        held = self._open[call]
        if not held.missing:
            del self._open[call]
            out.answer(call, ScramCredentialsAltered(tuple(filter(None, held.results.values()))))


def _write(held: Fact, config: Config) -> Write:
    assert isinstance(held.address, UserConfigAddress)
    if held.stat is None:
        return Create(held.address, config)
    return Set(held.address, config, held.stat.version)


def _too_often(address: UserConfigAddress) -> Refusal:
    reason = f"ZooKeeper refused {AT_ONCE + 1} consecutive writes of {one_line(address.path)}"
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, reason)

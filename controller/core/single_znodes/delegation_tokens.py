"""Which delegation tokens have expired and must be deleted and announced to the brokers?

Brokers create, renew and describe tokens themselves; only expiry is the controller's duty. It needs no secret: a
token's znode holds none.

Source: KIP-48; Kafka's DelegationTokenManager.expireTokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.messages.effects import Create, Delete, ReadChildren
from controller.core.messages.events import Alarm, ClockShown
from controller.core.messages.outbox import Outbox
from controller.core.settings import MachineSettings
from controller.core.state.changes import Changes
from controller.core.transactions.proposal import Accepted, Atom, Outcome, Proposal, Subject
from controller.core.turn.duty import Duty, Report
from controller.core.turn.shared import Shared
from zk_layout.znodes.delegation_tokens import (
    ROOT,
    DelegationTokenAddress,
    DelegationTokenChangeAddress,
    TokenChange,
    is_expired,
)

SUBJECT = Subject("znodes in", ROOT)
AT_ONCE = 100


class LookForExpiredTokens(Alarm, frozen=True):
    """It is time to read the tokens again."""


class DelegationTokens(Duty):
    """Reads tokens periodically rather than watching them: brokers renew them all the time."""

    alarms = (LookForExpiredTokens,)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._is_due = False
        self._clock_zero_ms = shared.settings.clock_zero_ms

    def hear(self, report: Report, out: Outbox) -> None:
        """Note the wall clock, by which tokens expire; it comes with every reading of them."""
        if isinstance(report, ClockShown):
            self._clock_zero_ms = report.unix_ms - round(out.now * 1000)

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Start the checks when everything is loaded; examine tokens whenever they were read."""
        if changes.is_beginning and self._shared.settings.token_expiry_check_s is not None:
            self.woke(LookForExpiredTokens(), out)
        self._is_due = self._is_due or changes.tokens

    def adjust(self, before: MachineSettings, out: Outbox) -> None:
        """Check now, and at the new interval from now on."""
        if self._shared.settings.token_expiry_check_s != before.token_expiry_check_s:
            self.woke(LookForExpiredTokens(), out)

    def woke(self, alarm: Alarm, out: Outbox) -> None:
        """Examine the known tokens, read all of them again, and set the next alarm."""
        self._is_due = True
        every_s = self._shared.settings.token_expiry_check_s
        if every_s is not None:
            out.add(ReadChildren(ROOT))
            out.wake(LookForExpiredTokens(), out.now + every_s)

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Delete expired tokens, each together with the znode that notifies the brokers."""
        if not self._is_due or not self._shared.transactions.may_propose(SUBJECT):
            return ()
        now_ms = self._clock_zero_ms + round(out.now * 1000)
        expired = [
            (name, token)
            for name, token in sorted(self._shared.state.tokens.items())
            if token.times is not None and is_expired(token.times, now_ms)
        ]
        self._is_due = len(expired) > AT_ONCE
        atoms = tuple(
            Atom(
                (
                    Delete(DelegationTokenAddress(name), token.version),
                    Create(DelegationTokenChangeAddress(), TokenChange(name), is_sequential=True),
                ),
                (f"delegation token {name} has expired",),
            )
            for name, token in expired[:AT_ONCE]
        )
        return (Proposal(SUBJECT, atoms, memo=len(atoms)),) if atoms else ()

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """Count deleted tokens; a token that was renewed meanwhile has been read again."""
        if isinstance(outcome, Accepted):
            assert isinstance(proposal.memo, int)
            out.measured("delegation_tokens_expired", proposal.memo)
        else:
            self._is_due = True

"""How are rights described, added and deleted on request?

A pattern's entries are written back only if they are still those last seen. Notifications written with them inform the
brokers, in the format of every version.

Source: Kafka's AclAuthorizer: createAcls, deleteAcls, acls and updateResourceAcls; KIP-4, KIP-140, KIP-290.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from controller.core.acls import rules
from controller.core.acls.filters import matches_entry, matches_resource, named
from controller.core.clients.refusal import refusal
from controller.core.messages import replies
from controller.core.messages.effects import Create, Delete, Set, Write
from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.events import Asked, CallId
from controller.core.messages.outbox import Outbox
from controller.core.messages.requests import AclFilter, CreateAcls, DeleteAcls, DescribeAcls
from controller.core.state.changes import Changes
from controller.core.transactions.proposal import Accepted, Atom, Outcome, Proposal, Refused, Subject, Unwritable
from controller.core.transactions.ready import propose_ready
from controller.core.turn.duty import Duty
from controller.core.turn.shared import Shared
from zk_layout.codec import one_line
from zk_layout.facts import Fact
from zk_layout.znodes.acls import (
    AclAddress,
    AclEntry,
    AclOperation,
    Acls,
    PermissionType,
    ResourcePattern,
    change_address,
    changes,
)

DISABLED = "No Authorizer is configured."
DISABLED_TO_DESCRIBE = "No Authorizer is configured on the broker"
AT_ONCE_PATTERNS = 1_000
MOST_TRIES = 6


class _Creation(Struct, eq=False):
    results: list[replies.AclCreated]
    missing: int


class _Deletion(Struct, eq=False):
    deleted: list[list[replies.AclBinding]]
    errors: list[Refusal | None]
    missing: int


class _Part(Struct, frozen=True, eq=False):
    """One request's changes of one pattern: entries to add, or filters for deletions, by index."""

    call: CallId
    added: dict[int, AclEntry] = field(default_factory=dict)
    filters: dict[int, AclFilter] = field(default_factory=dict)


class _Attempt(Struct, frozen=True, eq=False):
    wanted: tuple[AclEntry, ...]
    deleted: tuple[tuple[int, AclEntry], ...]


class AclRequests(Duty):
    """Changes of one pattern are made one after the other, those of different patterns concurrently."""

    requests = (DescribeAcls, CreateAcls, DeleteAcls)

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._rights = shared.state.rights
        self._open: dict[CallId, _Creation | _Deletion] = {}
        self._waiting: dict[AclAddress, list[_Part]] = {}
        self._unread: set[AclAddress] = set()
        self._ready: dict[AclAddress, None] = {}

    # ---- arrival --------------------------------------------------------------------------------------------

    def admit(self, asked: Asked, out: Outbox) -> None:
        """Answer descriptions, refuse senseless requests, and queue the others by pattern."""
        request = asked.request
        if self._shared.settings.authorizer is None:
            text = DISABLED_TO_DESCRIBE if isinstance(request, DescribeAcls) else DISABLED
            out.answer(asked.call, refusal(request, ErrorCode.SECURITY_DISABLED, text))
            return
        match request:
            case DescribeAcls(wanted):
                out.answer(asked.call, self._described(wanted))
            case CreateAcls() if rules.is_senseless(request):
                out.answer(asked.call, refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR))
            case CreateAcls():
                self._admit_creation(asked.call, request)
            case DeleteAcls():
                self._admit_deletion(asked.call, request, out)
            case _:
                raise TypeError(f"{type(request).__name__} is not served here")
        self._close_if_done(asked.call, out)

    def _described(self, wanted: AclFilter) -> replies.AclsDescribed:
        found = self._rights.known.bindings(lambda resource: matches_resource(wanted, resource))
        bindings = tuple(
            replies.AclBinding(resource, entry) for resource, entry in found if matches_entry(wanted, entry)
        )
        if any(map(_is_unknown, bindings)):
            return replies.AclsDescribed((), ErrorCode.UNKNOWN_SERVER_ERROR)
        return replies.AclsDescribed(bindings)

    def _admit_creation(self, call: CallId, request: CreateAcls) -> None:
        refused = [rules.refuse(creation) for creation in request.creations]
        parts: dict[ResourcePattern, dict[int, AclEntry]] = {}
        for place, creation in enumerate(request.creations):
            if refused[place] is None:
                parts.setdefault(rules.resource_of(creation), {})[place] = rules.entry_of(creation)
        for resource, added in tuple(parts.items()):
            if not all(rules.is_principal(entry.principal) for entry in added.values()):
                del parts[resource]
                for place in added:
                    refused[place] = rules.UNEXPECTED
        self._open[call] = _Creation([_created(why) for why in refused], len(parts))
        for resource, added in parts.items():
            self._enqueue(AclAddress(resource), _Part(call, added=added))

    def _admit_deletion(self, call: CallId, request: DeleteAcls, out: Outbox) -> None:
        parts: dict[ResourcePattern, dict[int, AclFilter]] = {}
        for place, wanted in enumerate(request.filters):
            found = named(wanted)
            if found is None:
                found = tuple(resource for resource in self._rights.resources() if matches_resource(wanted, resource))
            for resource in found:
                if rules.is_znode_name(resource.name):
                    parts.setdefault(resource, {})[place] = wanted
        count = len(request.filters)
        self._open[call] = _Deletion([[] for _ in range(count)], [None] * count, len(parts))
        to_read = []
        for resource, filters in parts.items():
            address = AclAddress(resource)
            if self._rights.held(resource) is None:
                self._unread.add(address)  # another process may have written it a moment ago
                to_read.append(address)
            self._enqueue(address, _Part(call, filters=filters))
        if to_read:
            out.read(to_read)

    def _enqueue(self, address: AclAddress, part: _Part) -> None:
        self._waiting.setdefault(address, []).append(part)
        self._ready[address] = None

    # ---- writing --------------------------------------------------------------------------------------------

    def follow(self, changes: Changes, out: Outbox) -> None:
        """Continue with patterns whose entries have been read."""
        if self._unread:
            for address in changes.rights:
                if address in self._unread:
                    self._unread.discard(address)
                    self._ready[address] = None

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Write the known entries with the requested changes, for a limited number of patterns a turn."""
        return propose_ready(self._ready, AT_ONCE_PATTERNS, self._proposal, out)

    def _proposal(self, address: AclAddress, out: Outbox) -> Proposal | None:
        subject = Subject("znode", address.path)
        transactions = self._shared.transactions
        while waiting := self._waiting.get(address):
            if address in self._unread or transactions.is_busy(subject):
                return None
            if transactions.is_waiting(subject):
                refusals = transactions.refusals(subject)
                if refusals <= MOST_TRIES:
                    return None  # `retry` comes
                self._end(address, _too_often(address, refusals), out)
                continue
            if not self._rights.is_readable(address.resource):
                self._end(address, _unreadable(address), out)
                continue
            held = self._rights.held(address.resource)
            attempt = _attempt(waiting[0], _entries(held))
            write = _write(address, held, attempt.wanted)
            if write is not None:
                return Proposal(subject, (_atom(address, held, attempt, write),), memo=attempt)
            self._end(address, None, out, attempt)
        return None

    def settled(self, proposal: Proposal, outcome: Outcome, out: Outbox) -> None:
        """Finish a written change; if the entries have changed, apply it to the present ones."""
        written, attempt = proposal.atoms[0].writes[0].address, proposal.memo
        assert isinstance(written, AclAddress)
        assert isinstance(attempt, _Attempt)
        match outcome:
            case Accepted():
                self._end(written, None, out, attempt)
            case Refused() if self._is_there(written.resource, attempt):
                self._end(written, None, out, attempt)  # it was written, and only the answer was lost
            case Refused():
                self._ready[written] = None
            case Unwritable(message):
                self._end(written, Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, one_line(message)), out, attempt)

    def _is_there(self, resource: ResourcePattern, attempt: _Attempt) -> bool:
        return self._rights.is_readable(resource) and _entries(self._rights.held(resource)) == attempt.wanted

    def retry(self, proposal: Proposal, out: Outbox) -> None:
        """The wait after too many refusals is over."""
        address = proposal.atoms[0].writes[0].address
        assert isinstance(address, AclAddress)
        self._ready[address] = None

    # ---- outcome --------------------------------------------------------------------------------------------

    def _end(self, address: AclAddress, refused: Refusal | None, out: Outbox, attempt: _Attempt | None = None) -> None:
        """Record the result of the first change waiting for a pattern, and continue with the next."""
        waiting = self._waiting[address]
        part = waiting.pop(0)
        if waiting:
            self._ready[address] = None
        else:
            del self._waiting[address]
            self._ready.pop(address, None)
        held = self._open[part.call]
        held.missing -= 1
        if isinstance(held, _Creation):
            for place in part.added:
                held.results[place] = _created(refused)
        elif attempt is None or (refused is not None and not attempt.deleted):
            for place in part.filters:
                held.errors[place] = held.errors[place] or refused
        else:
            why = refused or Refusal(ErrorCode.NONE)
            for place, entry in attempt.deleted:
                held.deleted[place].append(replies.AclBinding(address.resource, entry, why.error, why.message))
        self._close_if_done(part.call, out)

    def _close_if_done(self, call: CallId, out: Outbox) -> None:
        held = self._open.get(call)
        if held is None or held.missing:
            return
        del self._open[call]
        if isinstance(held, _Creation):
            out.answer(call, replies.AclsCreated(tuple(held.results)))
            return
        unknown = any(_is_unknown(binding) for deleted in held.deleted for binding in deleted)
        out.answer(
            call,
            replies.AclsDeleted(
                tuple(
                    _filtered(() if unknown else tuple(deleted), rules.UNEXPECTED if unknown else why)
                    for deleted, why in zip(held.deleted, held.errors, strict=True)
                )
            ),
        )


def _filtered(deleted: tuple[replies.AclBinding, ...], why: Refusal | None) -> replies.AclsFiltered:
    return replies.AclsFiltered(deleted) if why is None else replies.AclsFiltered(deleted, why.error, why.message)


def _created(why: Refusal | None) -> replies.AclCreated:
    return replies.AclCreated() if why is None else replies.AclCreated(why.error, why.message)


def _is_unknown(binding: replies.AclBinding) -> bool:
    """Whether no client could be sent the entry; brokers fail here, too."""
    entry = binding.entry
    return entry.operation is AclOperation.UNKNOWN or entry.permission is PermissionType.UNKNOWN


def _entries(held: Fact | None) -> tuple[AclEntry, ...]:
    return held.value.entries if held is not None and isinstance(held.value, Acls) else ()


def _attempt(part: _Part, entries: tuple[AclEntry, ...]) -> _Attempt:
    """The entries after a change; each deleted one is reported for the first filter that matches it."""
    if part.added:
        return _Attempt(tuple(dict.fromkeys((*entries, *part.added.values()))), ())
    deleted: dict[AclEntry, int] = {}
    for entry in entries:
        place = next((place for place, wanted in part.filters.items() if matches_entry(wanted, entry)), None)
        if place is not None:
            deleted[entry] = place
    kept = tuple(entry for entry in entries if entry not in deleted)
    return _Attempt(kept, tuple((place, entry) for entry, place in deleted.items()))


def _write(address: AclAddress, held: Fact | None, wanted: tuple[AclEntry, ...]) -> Write | None:
    """The write, even if nothing changes: only ZooKeeper knows whether the last seen entries are still there."""
    if held is None or held.stat is None:
        return Create(address, Acls(wanted)) if wanted else None
    version, life = held.stat.version, held.stat.czxid
    return Set(address, Acls(wanted), version, life) if wanted else Delete(address, version, life)


def _atom(address: AclAddress, held: Fact | None, attempt: _Attempt, write: Write) -> Atom:
    resource, before = address.resource, _entries(held)
    if attempt.wanted == before:
        return Atom((write,), (f"rights to {_text(resource)} are as they were",))
    notifications = tuple(Create(change_address(change), change, is_sequential=True) for change in changes(resource))
    count = abs(len(attempt.wanted) - len(before))
    what = "lose" if attempt.deleted else "get"
    why = f"rights to {_text(resource)} {what} {count} {'entry' if count == 1 else 'entries'}"
    return Atom((write, *notifications), (why,))


def _text(resource: ResourcePattern) -> str:
    prefixed = "" if resource.pattern_type == "LITERAL" else "prefixed "
    return f"{prefixed}{resource.resource_type} {one_line(resource.name)}"


def _too_often(address: AclAddress, refusals: int) -> Refusal:
    reason = f"ZooKeeper refused {refusals} consecutive writes of {one_line(address.path)}"
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, reason)


def _unreadable(address: AclAddress) -> Refusal:
    reason = f"{one_line(address.path)} cannot be read; repair it or delete it"
    return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, reason)

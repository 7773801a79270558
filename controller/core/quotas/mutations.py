"""May a request still change topics, and how long must its client wait after it?

Each partition that is created or deleted is one change. A strict quota refuses changes while there is a debt, and lets
one topic make it, however large; a permissive one, for clients that do not know the error, refuses nothing.

Source: KIP-599; Kafka's StrictControllerMutationQuota, PermissiveControllerMutationQuota and ZkAdminManager.
"""

from __future__ import annotations

from msgspec import Struct, field

from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.events import CallId
from controller.core.messages.requests import Caller
from controller.core.quotas.buckets import Buckets
from controller.core.quotas.token_bucket import throttle_ms
from controller.core.state.quotas import Quotas
from zk_layout.znodes.configs import sanitized

QUOTA_EXCEEDED = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED)


class _Open(Struct, eq=False):
    """A request that is being decided.

    Shape:
        `charged` are the places of those of its parts that have been counted: a part that is decided again is not
        counted again.

    Units:
        `throttle_ms` is as of `as_of_ms`.
    """

    user: str
    client: str
    is_strict: bool
    charged: set[int] = field(default_factory=set)
    throttle_ms: int = 0
    as_of_ms: int = 0


class MutationQuotas:
    """Counts what requests change, by the quotas now in force.

    Units:
        `window_s` is Kafka's controller.quota.window.num times controller.quota.window.size.seconds. `now` is in
        monotonic seconds.
    """

    def __init__(self, quotas: Quotas, window_s: float) -> None:
        """Nothing was changed; what was before this term is forgotten, as by a Kafka controller that fails over."""
        self._quotas = quotas
        self._buckets = Buckets(window_s)
        self._open: dict[CallId, _Open] = {}

    def open(self, call: CallId, caller: Caller, *, is_strict: bool) -> None:
        """A request is going to be decided, part by part, until it is closed."""
        if self._quotas or self._buckets:
            name = caller.principal.partition(":")[2]  # whatever type it has
            self._open[call] = _Open(sanitized(name), sanitized(caller.client_id), is_strict)

    def charge(self, call: CallId, part: int, changes: int, now: float) -> Refusal | None:
        """Count what a part of a request is about to change; the refusal where it may not."""
        held = self._open.get(call)
        if held is None or part in held.charged:
            return None
        limit, now_ms = self._quotas.limit(held.user, held.client), _ms(now)
        if limit is None:
            self._buckets.forget(held.user, held.client)
            return None
        left = self._buckets.tokens(limit, now_ms)
        is_refused = held.is_strict and left < 0
        if not is_refused:
            held.charged.add(part)
            left = self._buckets.take(limit, changes, now_ms)
        if left < 0 and (is_refused or not held.is_strict):
            held.throttle_ms, held.as_of_ms = throttle_ms(left, limit.rate), now_ms
        return QUOTA_EXCEEDED if is_refused else None

    def drop(self, call: CallId) -> None:
        """A request is answered by somebody else."""
        self._open.pop(call, None)

    def close(self, call: CallId, now: float) -> int:
        """A request is answered: how many milliseconds its client has still to wait."""
        held = self._open.pop(call, None)
        return 0 if held is None else max(0, held.throttle_ms - (_ms(now) - held.as_of_ms))


def _ms(now: float) -> int:
    return int(now * 1000)

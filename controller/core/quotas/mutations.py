"""May a request still change topics, and how long must its client wait afterwards?

Each partition created or deleted is one change. A strict quota refuses changes during a debt, and lets one topic cause
a debt of any size; a permissive one, for clients that do not know the error, refuses nothing.

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
        `charged` are the indexes of parts already counted: a part decided again is not counted twice.
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
    """Counts the changes of requests against the current quotas.

    Units:
        `window_s` is Kafka's controller.quota.window.num times controller.quota.window.size.seconds. `now` is in
        monotonic seconds.
    """

    def __init__(self, quotas: Quotas, window_s: float) -> None:
        """Begin without debts; earlier terms are forgotten, as by a Kafka controller that fails over."""
        self._quotas = quotas
        self._buckets = Buckets(window_s)
        self._open: dict[CallId, _Open] = {}

    def adjust(self, window_s: float) -> None:
        """From now on, this many seconds' worth of a quota may be used at once."""
        self._buckets.window_s = window_s

    def open(self, call: CallId, caller: Caller, *, is_strict: bool) -> None:
        """Begin to count for a request, until `close` or `drop`."""
        if self._quotas or self._buckets:
            name = caller.principal.partition(":")[2]  # without the type of the principal
            self._open[call] = _Open(sanitized(name), sanitized(caller.client_id), is_strict)

    def charge(self, call: CallId, part: int, changes: int, now: float) -> Refusal | None:
        """Count the changes of one part; return a refusal if the quota forbids them."""
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
        """Forget a request that was answered elsewhere."""
        self._open.pop(call, None)

    def close(self, call: CallId, now: float) -> int:
        """End a request; return how many milliseconds its client must still wait."""
        held = self._open.pop(call, None)
        return 0 if held is None else max(0, held.throttle_ms - (_ms(now) - held.as_of_ms))


def _ms(now: float) -> int:
    return int(now * 1000)

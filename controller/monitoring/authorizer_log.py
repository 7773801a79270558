"""Who was allowed, or denied, what, and why? A log of its own, under the name that Kafka's authorizer has for it.

What is denied is logged at info, what is allowed at debug, as Kafka does. So many lines of a kind are written a second;
of the others their number is, by principal.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import Final

import structlog

from controller.core.acl_authorizer import host_of
from controller.core.clients.authorization import Reasons
from controller.core.messages.effects import Decided, Decision
from controller.core.messages.requests import Caller
from controller.monitoring.audit_trail import Ring, Timer
from controller.wire.apis import ApiKey
from zk_layout.znodes.acls import AclOperation, ResourcePattern

LOGGER: Final = "kafka.authorizer.logger"
MOST_A_SECOND: Final = 50
MOST_PRINCIPALS: Final = 20
_OTHERS: Final = "others"
_NAMES: Final = {key.row.request.__name__: key.api_name for key in ApiKey if key.row.request}
"""What the core is asked, with Kafka's name for it; of two that ask the same, DescribeCluster has the later row."""

# The level is that of the logger, which may be another than that of the rest of the log.
_logger = logging.getLogger(LOGGER)
_log = structlog.wrap_logger(_logger, wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET))


def no_reason(_caller: Caller, _operation: AclOperation, _resource: ResourcePattern) -> str:
    """Nobody judges."""
    return ""


class AccessLog:
    """The log of decisions of one process."""

    def __init__(self, ring: Ring, reasons: Reasons) -> None:
        """Nothing said yet. `ring` calls back after so many seconds: `loop.call_later`. `reasons` says why something
        is decided as it is now."""
        self._ring = ring
        self._reasons = reasons
        self._said: Counter[bool] = Counter()
        self._unsaid: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        self._timer: Timer | None = None

    def judged(
        self, caller: Caller, request: str, operation: AclOperation, resource: ResourcePattern, is_allowed: bool
    ) -> None:
        """One thing was decided a moment ago."""
        if _logger.isEnabledFor(_level(is_allowed=is_allowed)):
            why = self._reasons(caller, operation, resource)
            self.tell(Decided(caller, request, (Decision(operation, resource, is_allowed, why),)))

    def tell(self, decided: Decided) -> None:
        """What was decided about one request: all of it allowed, or all denied."""
        is_allowed = decided.decisions[0].is_allowed
        if not _logger.isEnabledFor(_level(is_allowed=is_allowed)):
            return
        for decision in decided.decisions:
            if self._said[is_allowed] < MOST_A_SECOND:
                self._said[is_allowed] += 1
                _write(decided.caller, decided.request, decision)
            else:
                self._leave_out(decided.caller.principal, 1, is_allowed=is_allowed)
        self._leave_out(decided.caller.principal, decided.untold, is_allowed=is_allowed)
        if self._timer is None:
            self._timer = self._ring(1.0, self._sum_up)

    def close(self) -> None:
        """The process ends: say what is left."""
        if self._timer is not None:
            self._timer.cancel()
        self._sum_up()

    def _leave_out(self, principal: str, count: int, *, is_allowed: bool) -> None:
        unsaid = self._unsaid[is_allowed]
        unsaid[principal if principal in unsaid or len(unsaid) < MOST_PRINCIPALS else _OTHERS] += count

    def _sum_up(self) -> None:
        self._timer = None
        self._said.clear()
        for is_allowed, unsaid in self._unsaid.items():
            if count := unsaid.total():
                by_principal = {principal: number for principal, number in unsaid.most_common() if number}
                word = _word(is_allowed=is_allowed).lower()
                _log.log(_level(is_allowed=is_allowed), f"{count} more {word} within a second", principals=by_principal)
            unsaid.clear()


def decision_line(caller: Caller, request: str, decision: Decision) -> str:
    """As Kafka words it, with the reason behind that."""
    resource = decision.resource
    return (
        f"Principal = {caller.principal} is {_word(is_allowed=decision.is_allowed)} operation = {decision.operation} "
        f"from host = {host_of(caller.address)} on resource = {resource.resource_type}:{resource.pattern_type}:"
        f"{resource.name} for request = {kafkas_name(request)} with resourceRefCount = 1 based on rule {decision.why}"
    )


def kafkas_name(request: str) -> str:
    """A request as Kafka's logs name it.

    >>> kafkas_name("CreateTopics"), kafkas_name("AlterReassignments")
    ('CREATE_TOPICS', 'ALTER_PARTITION_REASSIGNMENTS')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", _NAMES.get(request, request)).upper()


def _write(caller: Caller, request: str, decision: Decision) -> None:
    resource = decision.resource
    _log.log(
        _level(is_allowed=decision.is_allowed),
        decision_line(caller, request, decision),
        principal=caller.principal,
        host=host_of(caller.address),
        operation=decision.operation.value,
        resource=f"{resource.resource_type}:{resource.pattern_type}:{resource.name}",
        request=kafkas_name(request),
        decision=_word(is_allowed=decision.is_allowed),
        why=decision.why,
        client_id=caller.client_id,
    )


def _level(*, is_allowed: bool) -> int:
    return logging.DEBUG if is_allowed else logging.INFO


def _word(*, is_allowed: bool) -> str:
    return "Allowed" if is_allowed else "Denied"

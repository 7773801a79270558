"""Who was allowed or denied what, and why? A log of its own, named like the one of Kafka's authorizer.

Denials are logged at info and permissions at debug, as in Kafka. Lines of a kind are limited per second; the rest are
counted by principal.
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
"""Our request types by Kafka's names; where two have the same name, DescribeCluster comes later and wins."""

# This logger's level may differ from that of the rest of the log.
_logger = logging.getLogger(LOGGER)
_log = structlog.wrap_logger(_logger, wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET))


def no_reason(_caller: Caller, _operation: AclOperation, _resource: ResourcePattern) -> str:
    """For a process without an authorizer."""
    return ""


class AccessLog:
    """The log of one process's decisions."""

    def __init__(self, ring: Ring, reasons: Reasons) -> None:
        """`ring` calls back after the given seconds: `loop.call_later`. `reasons` explains a decision by the ACLs now
        in force."""
        self._ring = ring
        self._reasons = reasons
        self._said: Counter[bool] = Counter()
        self._unsaid: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        self._timer: Timer | None = None

    def judged(
        self, caller: Caller, request: str, operation: AclOperation, resource: ResourcePattern, is_allowed: bool
    ) -> None:
        """Log one decision just taken."""
        if _logger.isEnabledFor(_level(is_allowed=is_allowed)):
            why = self._reasons(caller, operation, resource)
            self.tell(Decided(caller, request, (Decision(operation, resource, is_allowed, why),)))

    def tell(self, decided: Decided) -> None:
        """Log the decisions about one request: all allowed, or all denied."""
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
        """The process ends: log the remainder."""
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
    """The line in Kafka's wording, with the reason at its end."""
    resource = decision.resource
    return (
        f"Principal = {caller.principal} is {_word(is_allowed=decision.is_allowed)} operation = {decision.operation} "
        f"from host = {host_of(caller.address)} on resource = {resource.resource_type}:{resource.pattern_type}:"
        f"{resource.name} for request = {kafkas_name(request)} with resourceRefCount = 1 based on rule {decision.why}"
    )


def kafkas_name(request: str) -> str:
    """The request's name in Kafka's logs.

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

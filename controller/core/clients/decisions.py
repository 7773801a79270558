"""What was decided about the rights of one request, and why? For a log of decisions like that of Kafka's authorizer.

Source: Kafka's AclAuthorizer.logAuditMessage, AuthHelper.authorize and filterByAuthorized.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.core.clients.authorization import Authorizer, Reasons
from controller.core.messages.effects import Decided, Decision
from controller.core.messages.events import Asked
from zk_layout.znodes.acls import AclOperation, ResourcePattern

MOST_LOGGED = 20


class Decisions:
    """Authorizes one request, and records the first decisions of each kind and the number of the others."""

    def __init__(self, asked: Asked, is_allowed: Authorizer, reasons: Reasons | None) -> None:
        """Begin without decisions. Without `reasons` there is no authorizer, and nothing is recorded."""
        self._asked = asked
        self._is_allowed = is_allowed
        self._reasons = reasons
        self._logged: dict[bool, list[Decision]] = {True: [], False: []}
        self._unlogged = {True: 0, False: 0}

    def may(self, operation: AclOperation, resource: ResourcePattern, *, is_logged_if_denied: bool = True) -> bool:
        """Whether the caller may do this. A denial that takes nothing from the answer need not be logged."""
        is_allowed = self._is_allowed(self._asked.caller, operation, resource)
        if self._reasons is None or not (is_allowed or is_logged_if_denied):
            return is_allowed
        logged = self._logged[is_allowed]
        if len(logged) < MOST_LOGGED:
            why = self._reasons(self._asked.caller, operation, resource)
            logged.append(Decision(operation, resource, is_allowed, why))
        else:
            self._unlogged[is_allowed] += 1
        return is_allowed

    def logged(self) -> Iterator[Decided]:
        """The recorded decisions; none without an authorizer."""
        for is_allowed, logged in self._logged.items():
            if logged:
                name = type(self._asked.request).__name__
                yield Decided(self._asked.caller, name, tuple(logged), self._unlogged[is_allowed])

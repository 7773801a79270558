"""Mistakes about rights that clients ask for."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, story, unit

DUTY = "controller/core/acls/duty.py"
FILTERS = "controller/core/acls/filters.py"
RULES = "controller/core/acls/rules.py"
UNSEEN = "no world has an authorizer"

MUTANTS = (
    Mutant(
        "notifies brokers of a pattern in one spelling only",
        DUTY,
        "for change in changes(resource))",
        "for change in changes(resource)[:1])",
        (story("acls"),),
        unseen=UNSEEN,
    ),
    Mutant(
        "writes rights over those that cannot be read",
        DUTY,
        "if not self._rights.is_readable(address.resource):",
        "if False:",
        (story("acls"),),
        unseen=UNSEEN,
    ),
    Mutant(
        "deletes nothing from rights that it does not know",
        DUTY,
        "self._unread.add(address)  # another process may have written it a moment ago",
        "pass",
        (unit("acl_requests"),),
        unseen=UNSEEN,
    ),
    Mutant(
        "does not know its own deletion again",
        DUTY,
        "return self._rights.is_readable(resource) and _entries(self._rights.held(resource)) == attempt.wanted",
        "return False",
        (unit("acl_requests"),),
        unseen=UNSEEN,
    ),
    Mutant(
        "takes MATCH for what is named only",
        FILTERS,
        "return wanted.name.startswith(resource.name)",
        "return wanted.name == resource.name",
        (unit("acl_filters"),),
        unseen=UNSEEN,
    ),
    Mutant(
        "shows rights without an authorizer",
        DUTY,
        "if self._shared.settings.authorizer is None:",
        "if False:",
        (story("acls_without_authorizer"),),
        unseen=UNSEEN,
    ),
    Mutant(
        "gives rights to any cluster",
        RULES,
        "is ResourceType.CLUSTER and creation.name != CLUSTER.name:",
        "is ResourceType.CLUSTER and False:",
        (story("acls"),),
        unseen=UNSEEN,
    ),
)

"""Features: does `/feature` say what the inter-broker protocol asks for?

From 2.7-IV0 on feature versioning is enabled, and an enabled znode is left as it is; below it is disabled and emptied.

Source: Kafka's KafkaController.maybeSetupFeatureVersioning (KIP-584).
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.duty import Duty
from controller.core.effects import Create, Set, Write
from controller.core.outbox import Outbox
from controller.core.shared import Shared
from controller.core.transactions.proposal import Atom, Proposal, Subject
from zk_layout.facts import Malformed
from zk_layout.znodes.features import FeatureAddress, Features

ADDRESS = FeatureAddress()
SUBJECT = Subject("znode", ADDRESS.path)


class FeatureVersioning(Duty):
    """Settled when a term begins, and again whenever somebody else changes it."""

    def __init__(self, shared: Shared) -> None:
        """The znode as it is, is a fact."""
        self._shared = shared

    def propose(self, out: Outbox) -> Sequence[Proposal]:
        """Enable or disable feature versioning where the znode says otherwise."""
        fact, is_enabled = self._shared.state.features, self._shared.settings.has_feature_versioning
        is_right = isinstance(fact.value, Features) and fact.value.is_enabled == is_enabled
        is_hidden = fact.stat is None and isinstance(fact.value, Malformed)
        if is_right or is_hidden or not self._shared.transactions.may_propose(SUBJECT):
            return ()
        wanted = Features(is_enabled=is_enabled)
        write: Write = Create(ADDRESS, wanted) if fact.stat is None else Set(ADDRESS, wanted, fact.stat.version)
        why = f"feature versioning is {'enabled' if is_enabled else 'disabled'}"
        return (Proposal(SUBJECT, (Atom((write,), (why,)),)),)

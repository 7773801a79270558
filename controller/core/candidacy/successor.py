"""Which standby is asked to lead when the leader stops?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.core.candidacy.phases import Phase
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerId
from zk_layout.znodes.replicas import Replica

WAIT_S: Final = 1.0
"""How long the leader waits to be replaced before it gives `/controller` up."""


def successor(replicas: Mapping[BrokerId, Replica | Malformed | None], own_id: BrokerId) -> BrokerId | None:
    """The lowest id among the other replicas that stand by and are ready; None if there is none.

    The lowest, because a rolling restart on Kubernetes begins at the highest: it is restarted last.

    >>> standby, leader = Replica("standby", True, 0), Replica("active", True, 0)
    >>> successor({901: leader, 903: standby, 902: standby}, own_id=901)
    902
    """
    return min(
        (
            replica
            for replica, shown in replicas.items()
            if replica != own_id and isinstance(shown, Replica) and shown.is_ready and shown.phase == Phase.STANDBY
        ),
        default=None,
    )

"""Is this term's epoch high enough for what the partitions' states carry?

A native controller elects no leader of a partition whose state carries a higher controller epoch than its own, and says
that a soft failure was the cause. A KRaft controller leaves such states behind when a migration is rolled back
(KAFKA-20488). The native controller that follows ours continues from our epoch, so ours must be the highest.

Source: Kafka's ZkPartitionStateMachine.doElectLeaderForPartitions.
"""

from __future__ import annotations

from controller.core.messages.outbox import Outbox
from controller.core.state.writer_epochs import WriterEpochs
from zk_layout.bounds import HIGHEST_SURPASSED_EPOCH
from zk_layout.ids import ControllerEpoch


def surpass(written: WriterEpochs, own: ControllerEpoch, out: Outbox) -> None:
    """End a term that has just loaded, before it decides anything, if a state carries a higher epoch than its own.

    An epoch that is too high to rise above is named instead; states that this controller writes no longer have it.
    """
    if written.highest <= own:
        return
    found = f"{written.path} carries controller epoch {written.highest}"
    if written.highest <= HIGHEST_SURPASSED_EPOCH:
        out.claim_above(written.highest, f"{found}, and this term has {own}")
        return
    why = f"too high to lead above it ({own} here): a native controller would elect no leader of this partition"
    out.notice("epoch out of reach", f"{found}, {why} until this controller has")

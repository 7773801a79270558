"""How do brokers of other versions than the newest behave? `controller.lab.broker_model` says what each trait means."""

from __future__ import annotations

from controller.lab.broker_model import Traits

KAFKA_3_3 = Traits(refuses_equal_stop_epoch=True)
KAFKA_2_8 = Traits(
    notes_topic_id_at_once=False,
    refuses_equal_stop_epoch=True,
    checks_partition_epoch=False,
    notes_epoch_before_log=False,
    offline_without_zookeeper=True,
    proposes_by_id=False,
    knows_refusals=False,
)
KAFKA_2_6 = Traits(
    uses_alter_partition=False,
    knows_topic_ids=False,
    refuses_equal_stop_epoch=True,
    checks_partition_epoch=False,
    notes_epoch_before_log=False,
)
KAFKA_2_4 = Traits(
    uses_alter_partition=False,
    knows_topic_ids=False,
    stop_replica_has_epochs=False,
    refuses_newer_broker_epoch=True,
    checks_partition_epoch=False,
    notes_epoch_before_log=False,
)

"""Values that do not fit into Kafka's protocol are malformed, with the place of the mistake."""

from __future__ import annotations

import pytest

from zk_layout import catalog
from zk_layout.codec import Malformed
from zk_layout.znodes.admin import LegacyReassignment

TOO_LARGE = 2**31

STATE = '{{"controller_epoch":{controller},"leader":{leader},"version":1,"leader_epoch":{epoch},"isr":{isr}{more}}}'


def state(controller: int = 1, leader: int = 1, epoch: int = 0, isr: str = "[1]", more: str = "") -> str:
    return STATE.format(controller=controller, leader=leader, epoch=epoch, isr=isr, more=more)


def block(broker: int = 1, start: object = '"0"', end: object = '"999"') -> str:
    return f'{{"version":1,"broker":{broker},"block_start":{start},"block_end":{end}}}'


P = "/latest_producer_id_block"
T = "/brokers/topics/t"
S = f"{T}/partitions/0/state"
D = "/kafka_zk_controller/replica_deletions/t"
ISR = "/isr_change_notification/isr_change_0000000000"
ID = "AAAAAAAAQACAAAAAAAAAAQ"

BAD = {
    "a replica below zero": (T, '{"version":1,"partitions":{"0":[-1]}}', "$.partitions[...][0]"),
    "a replica beyond 32 bits": (T, f'{{"version":1,"partitions":{{"0":[1,{TOO_LARGE}]}}}}', "$.partitions[...][1]"),
    "a partition below zero": (T, '{"version":1,"partitions":{"-1":[1]}}', "`key` in `$.partitions`"),
    "a partition beyond 32 bits": (T, f'{{"version":1,"partitions":{{"{TOO_LARGE}":[1]}}}}', "`key` in `$.partitions`"),
    "an adding replica below zero": (
        T,
        '{"version":2,"partitions":{"0":[1]},"adding_replicas":{"0":[-3]}}',
        "$.adding_replicas[...][0]",
    ),
    "a short topic id": (T, '{"version":3,"topic_id":"abc","partitions":{}}', "$.topic_id"),
    "a topic id with a line's end": (T, f'{{"version":3,"topic_id":"{ID}\\n","partitions":{{}}}}', "$.topic_id"),
    "a topic id in ordinary base64": (
        T,
        '{"version":3,"topic_id":"AAAAAAAAQAC+/AAAAAAAAQ","partitions":{}}',
        "$.topic_id",
    ),
    "a leader below the deletion mark": (S, state(leader=-3), "$.leader"),
    "a leader beyond 32 bits": (S, state(leader=TOO_LARGE), "$.leader"),
    "a leader epoch that cannot be raised": (S, state(epoch=TOO_LARGE - 1), "$.leader_epoch"),
    "a leader epoch below zero": (S, state(epoch=-1), "$.leader_epoch"),
    "a controller epoch beyond 32 bits": (S, state(controller=TOO_LARGE), "$.controller_epoch"),
    "an ISR below zero": (S, state(isr="[1,-2]"), "$.isr[1]"),
    "an unknown recovery state": (S, state(more=',"leader_recovery_state":2'), "$.leader_recovery_state"),
    "an endless host": ("/brokers/ids/1", f'{{"endpoints":["PLAINTEXT://{"h" * 40000}:1"]}}', "is not an endpoint"),
    "an endless old host": ("/brokers/ids/1", f'{{"host":"{"h" * 40000}","port":1}}', "$.host"),
    "an endless listener": ("/brokers/ids/1", f'{{"endpoints":["{"L" * 40000}://h:1"]}}', "is not an endpoint"),
    "a port beyond 16 bits": ("/brokers/ids/1", '{"endpoints":["PLAINTEXT://h:65536"]}', "port above 65535"),
    "a port of hundreds of digits": ("/brokers/ids/1", f'{{"endpoints":["PLAINTEXT://h:{"9" * 5000}"]}}', "port above"),
    "an old port beyond 16 bits": ("/brokers/ids/1", '{"version":1,"host":"h","port":70000}', "$.port"),
    "an endless rack": ("/brokers/ids/1", f'{{"host":"h","port":1,"rack":"{"r" * 2000}"}}', "$.rack"),
    "a claim below zero": ("/controller", '{"version":1,"brokerid":-1}', "$.brokerid"),
    "an epoch beyond 32 bits": ("/controller_epoch", str(TOO_LARGE), "0 to 2147483646"),
    "an epoch of thousands of digits": ("/controller_epoch", "9" * 5000, "0 to 2147483646"),
    "a producer id block of numbers": (P, block(start=0, end=999), "$.block_start"),
    "a producer id block below zero": (P, block(start='"-1000"', end='"-1"'), "must be decimal numbers"),
    "a producer id block in Arabic digits": (P, block(start='"٠"'), "must be decimal numbers"),
    "a producer id block that ends before it starts": (P, block(start='"1000"'), "1000 to 999 is no range"),
    "a producer id beyond 64 bits": (P, block(end=f'"{2**63}"'), "is no range"),
    "a producer id of thousands of digits": (P, block(end=f'"{"9" * 5000}"'), "$.block_end"),
    "a producer id block of a broker that cannot be": (P, block(broker=-2), "$.broker"),
    "an ISR notification beyond 32 bits": (
        ISR,
        f'{{"version":1,"partitions":[{{"topic":"t","partition":{TOO_LARGE}}}]}}',
        "$.partitions[0].partition",
    ),
    "a log directory event of nobody": (
        "/log_dir_event_notification/log_dir_event_0000000000",
        '{"version":1,"broker":-1,"event":1}',
        "$.broker",
    ),
    "a deletion owed by nobody": (D, '{"version":1,"replicas":{"0":[-1]}}', "$.replicas[...][0]"),
    "a deletion of a short topic id": (D, '{"version":1,"topic_id":"x","replicas":{}}', "$.topic_id"),
}

GOOD = {
    "a leader that is being deleted": (S, state(leader=-2)),
    "the highest broker id": (T, '{"version":1,"partitions":{"0":[2147483647]}}'),
    "a claim whose timestamp is no number": ("/controller", '{"version":1,"brokerid":1,"timestamp":"²"}'),
    "a claim of thousands of digits' age": (
        "/controller",
        f'{{"version":1,"brokerid":1,"timestamp":"{"9" * 5000}"}}',
    ),
}


@pytest.mark.parametrize(("path", "text", "place"), BAD.values(), ids=BAD)
def test_is_malformed(path: str, text: str, place: str) -> None:
    address = catalog.address_of(path)
    assert address is not None

    value = catalog.decode(address, text.encode())

    assert isinstance(value, Malformed)
    assert place in value.reason


@pytest.mark.parametrize(("path", "text"), GOOD.values(), ids=GOOD)
def test_is_understood(path: str, text: str) -> None:
    address = catalog.address_of(path)
    assert address is not None

    assert not isinstance(catalog.decode(address, text.encode()), Malformed)


def test_a_bad_entry_of_the_legacy_znode_is_rejected_alone() -> None:
    text = b'{"partitions":[{"topic":"t","partition":0,"replicas":[-1]},{"topic":"t","partition":1,"replicas":[2]}]}'
    address = catalog.address_of("/admin/reassign_partitions")
    assert address is not None

    value = catalog.decode(address, text)

    assert isinstance(value, LegacyReassignment)
    assert [m.partition for m in value.moves] == [1]
    assert "entry 0" in value.rejected[0]


@pytest.mark.parametrize(
    "path",
    [
        "/brokers/ids/007",
        "/brokers/ids/2147483648",
        "/brokers/ids/٣",
        "/brokers/ids/1\n",
        f"{T}/partitions/99999999999/state",
        f"/brokers/topics/{'t' * 256}",
    ],
)
def test_a_name_that_kafka_does_not_give_names_nothing(path: str) -> None:
    assert catalog.address_of(path) is None

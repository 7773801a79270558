"""Every family that KRaft writes during a migration is readable after a roll-back.

Source: Kafka's ZkMigrationClient and the clients for topics, configurations and ACLs beside it, 3.4 to 3.9.
"""

from __future__ import annotations

import pytest

from zk_layout import catalog
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerId
from zk_layout.znodes.configs import Config
from zk_layout.znodes.controller import ControllerClaim
from zk_layout.znodes.partition_state import PartitionState
from zk_layout.znodes.producer_ids import ProducerIdBlock
from zk_layout.znodes.quotas import rate_of

TOPIC = "/brokers/topics/orders"


def read(path: str, data: str) -> object:
    address = catalog.address_of(path)
    assert address is not None
    return catalog.decode(address, data.encode())


def test_a_block_of_producer_ids_belongs_to_no_broker() -> None:
    block = read("/latest_producer_id_block", '{"version":1,"broker":-1,"block_start":"4000","block_end":"4999"}')

    assert block == ProducerIdBlock(BrokerId(-1), 4000, 4999)


def test_a_claim_names_a_node_of_the_quorum() -> None:
    claim = read("/controller", '{"version":2,"brokerid":3000,"timestamp":"1700000000000","kraftControllerEpoch":5}')

    assert isinstance(claim, ControllerClaim)
    assert (claim.broker, claim.kraft_epoch, claim.is_ours) == (3000, 5, False)


@pytest.mark.parametrize("epoch", ["-1", '"5"', "true", "2147483648", "null"])
def test_what_is_no_epoch_of_a_quorum_names_no_quorum(epoch: str) -> None:
    claim = read("/controller", f'{{"version":2,"brokerid":3,"timestamp":"17","kraftControllerEpoch":{epoch}}}')

    assert claim == ControllerClaim(BrokerId(3), timestamp_ms=17)


@pytest.mark.parametrize(("isr", "recovery"), [("[1,2]", 0), ("[2]", 1)])
def test_a_state_has_the_epoch_of_the_quorum_and_may_be_recovering(isr: str, recovery: int) -> None:
    more = f',"leader_recovery_state":{recovery}' if recovery else ""
    found = read(
        f"{TOPIC}/partitions/0/state",
        f'{{"controller_epoch":12,"leader":-1,"version":1,"leader_epoch":7,"isr":{isr}{more}}}',
    )

    assert isinstance(found, PartitionState)
    assert (found.controller_epoch, found.leader_recovery_state) == (12, recovery)


@pytest.mark.parametrize("path", ["/config/topics/orders", "/config/brokers/<default>", "/config/users/ann"])
def test_what_has_no_settings_left_is_written_with_none(path: str) -> None:
    assert read(path, '{"version":1,"config":{}}') == Config({})


@pytest.mark.parametrize(("written", "rate"), [("1.0E7", 1.0e7), ("2.5", 2.5), ("1.0E-4", 1.0e-4)])
def test_quotas_are_written_as_java_prints_doubles(written: str, rate: float) -> None:
    path = "/config/users/%3Cdefault%3E/clients/%3Cdefault%3E"
    config = read(path, f'{{"version":1,"config":{{"controller_mutation_rate":"{written}"}}}}')

    assert isinstance(config, Config)
    assert rate_of(config) == rate


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (TOPIC, '{"removing_replicas":{},"partitions":{"0":[1,2]},"topic_id":"cba61b98891f37fa1fa3ea",'
                '"adding_replicas":{"0":[2]},"version":3}'),
        ("/controller_epoch", "12"),
        ("/kafka-acl/Topic/orders", '{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow",'
                                    '"operation":"All","host":"*"}]}'),
        ("/kafka-acl-extended/prefixed/Group/a", '{"version":1,"acls":[]}'),
    ],
)  # fmt: skip
def test_the_rest_is_as_brokers_write_it(path: str, data: str) -> None:
    assert not isinstance(read(path, data), Malformed)

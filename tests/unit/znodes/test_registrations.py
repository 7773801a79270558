"""Which registrations of brokers are readable, and what is the error of an unreadable one?"""

from __future__ import annotations

import pytest

from zk_layout import catalog
from zk_layout.codec import Malformed
from zk_layout.ids import BrokerId
from zk_layout.znodes.brokers import BrokerAddress, Endpoint, Registration, encode

ADDRESS = BrokerAddress(BrokerId(1))


def test_version_1_is_a_host_and_a_port() -> None:
    data = b'{"version":1,"host":"kafka1","port":9092,"jmx_port":-1,"timestamp":"0"}'

    assert catalog.decode(ADDRESS, data) == Registration((Endpoint("PLAINTEXT", "kafka1", 9092),))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"version":5,"host":null,"port":-1,"endpoints":[]}', "names no endpoint"),
        (b'{"version":5,"endpoints":["kafka1:9092"]}', "is not an endpoint"),
        (b'{"version":5,"endpoints":["INSIDE://kafka1:9092"]}', "INSIDE has no security protocol"),
        (b'{"version":5,"endpoints":["PLAINTEXT://kafka1:65536"]}', "above 65535"),
    ],
)
def test_what_cannot_be_reached_is_malformed_and_says_why(data: bytes, reason: str) -> None:
    value = catalog.decode(ADDRESS, data)

    assert isinstance(value, Malformed)
    assert reason in value.reason


def test_rack_and_features_are_kept_and_a_controller_is_told_from_a_broker() -> None:
    registration = Registration((Endpoint("PLAINTEXT", "kafka1", 9092),), rack="a", is_ours=True)

    assert catalog.decode(ADDRESS, encode(registration)) == registration
    assert catalog.decode(ADDRESS, encode(Registration(registration.endpoints))) != registration

"""The names in warnings are those of the numbers."""

import pytest

from controller.server.api_names import api_name
from controller.wire.versions import ApiKey


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_a_number_has_kafkas_name(key: ApiKey) -> None:
    name, _, number = api_name(key).partition(" ")

    assert name.lower() == key.name.replace("_", "").lower()
    assert number == f"({key.value})"


def test_the_last_name_has_the_last_number() -> None:
    assert api_name(75) == "DescribeTopicPartitions (75)"
    assert api_name(76) == "api key 76"

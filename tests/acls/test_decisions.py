"""Does our authorizer decide like Kafka's own? A few sets; `make acls` compares 20,000 with each."""

from __future__ import annotations

import pytest

from controller.core import acl_authorizer
from controller.lab.errors import JarsUnavailable, JavaUnavailable
from tests.acls.authorizers import IMPLEMENTATIONS, Implementation
from tests.acls.comparing import Comparison, compare
from zk_layout.znodes.acls import AclOperation

SETS = 100
NEWEST = IMPLEMENTATIONS[-1]


def compared(implementation: Implementation, zookeeper: str, sets: int) -> Comparison:
    try:
        return compare(implementation, zookeeper, sets, 12, lambda _: None)
    except (JavaUnavailable, JarsUnavailable) as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=lambda implementation: implementation.name)
def test_every_decision_is_that_of_kafkas_own_authorizer(implementation: Implementation, zookeeper: str) -> None:
    found = compared(implementation, zookeeper, SETS)

    assert found.differences == []
    assert found.sets == SETS
    assert 0.2 < found.allowed / found.decisions < 0.8


def test_a_mistake_is_noticed(zookeeper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forgetful = {AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE)}
    monkeypatch.setattr(acl_authorizer, "IMPLIED_BY", forgetful)

    assert compared(NEWEST, zookeeper, SETS).differences

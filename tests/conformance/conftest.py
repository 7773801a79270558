"""Which ZooKeepers must behave alike? Each test that asks for one runs on all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.zookeeper_backends import Backend, Lagging, Real, Served, Simulated


@pytest.fixture(params=["simulated", "served", "lagging", "real"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "simulated":
        yield Simulated()
        return
    real = reach(request)
    yield real
    real.close()


def reach(request: pytest.FixtureRequest) -> Served | Real:
    """The server that the parameter names."""
    match request.param:
        case "served":
            return Served()
        case "lagging":
            return Lagging()
        case _:
            return Real(request.getfixturevalue("zookeeper"))


@pytest.fixture(params=["served", "lagging", "real"])
def reached(request: pytest.FixtureRequest) -> Iterator[Served | Real]:
    """A server with which clients speak ZooKeeper's protocol."""
    backend = reach(request)
    yield backend
    backend.close()

"""A chroot without a cluster is reported, with the place of the cluster."""

from __future__ import annotations

from controller.zk import inspection
from tests.simulation.zookeeper import MakeNode
from tests.unit.zk.simulated import Ensemble, Process


def found(connect: str, *znodes: str) -> str | None:
    """The report on a chroot, in an ensemble with these znodes."""
    ensemble = Ensemble()
    for path in znodes:
        ensemble.zookeeper.make_path(path.rpartition("/")[0])
        ensemble.write(MakeNode(path, b""))
    process = Process(ensemble, connect)
    try:
        return process.do(inspection.nothing_here(process.bridge))
    finally:
        process.end()


def test_a_chroot_that_is_not_there_is_named_with_the_cluster_that_is() -> None:
    said = found("simulated:2181/kafak", "/kafka/cluster/id")

    assert said == "the chroot does not exist; a cluster is at /kafka"


def test_where_a_cluster_is_or_only_this_controller_has_been_nothing_is_said() -> None:
    assert found("simulated:2181/kafka", "/kafka/cluster/id") is None
    assert found("simulated:2181/new", "/new/kafka_zk_controller/replicas") is None


def test_a_place_that_something_else_uses_holds_no_cluster() -> None:
    said = found("simulated:2181/other", "/other/solr/live_nodes")

    assert said is not None
    assert said.startswith("none of a cluster's znodes exist")

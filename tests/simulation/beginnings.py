"""Does a term begin with all that was written before its claim, whether it read everything or was given most of it?

Znode by znode: each topic and each state of a listed partition that was last written before the claim is held as it is,
and no topic that was deleted before the claim is held at all.
"""

from __future__ import annotations

from controller.core.state.cluster import ClusterState
from tests.simulation.broken import Broken
from tests.simulation.zookeeper import MakeNode, Operation, RemoveNode, Znode
from zk_layout import catalog
from zk_layout.ids import SessionId, TopicName, Zxid
from zk_layout.znodes.controller import ControllerAddress
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import TopicAddress


class Beginnings:
    """What was claimed and deleted when."""

    def __init__(self) -> None:
        self._claimed: dict[SessionId, Zxid] = {}
        self._deleted: dict[str, Zxid] = {}
        self.warm = self.cold = 0

    def wrote(self, session: SessionId, operation: Operation, zxid: Zxid) -> None:
        """Note a write."""
        match operation:
            case MakeNode(ControllerAddress.path):
                self._claimed[session] = zxid
            case RemoveNode(path) if isinstance(catalog.address_of(path), TopicAddress):
                self._deleted[path] = zxid

    def began(self, who: str, session: SessionId, state: ClusterState, nodes: dict[str, Znode]) -> None:
        """A term has read everything: compare what it holds with what there is.

        Raises:
            Broken: it lacks something that was there when its claim was accepted, or holds what was gone by then.
        """
        claimed = self._claimed[session]
        self.warm, self.cold = self.warm + state.was_followed, self.cold + (not state.was_followed)
        for path, node in nodes.items():
            address = catalog.address_of(path)
            if node.mzxid <= claimed and path not in state.unreadable.refusals:
                if isinstance(address, TopicAddress):
                    self._compare_topic(who, address.topic, node, state)
                elif isinstance(address, StateAddress):
                    self._compare_state(who, address, node, state)
        for name in state.topics.views:
            path = TopicAddress(name).path
            if path not in nodes and self._deleted[path] <= claimed:
                raise Broken(
                    f"{who} begins with topic {name}, deleted at {self._deleted[path]}; it claimed at {claimed}"
                )

    @staticmethod
    def _compare_topic(who: str, name: TopicName, node: Znode, state: ClusterState) -> None:
        view = state.topics.views.get(name)
        if view is None or (view.czxid, view.as_of) != (node.czxid, node.mzxid):
            raise Broken(f"{who} begins with topic {name} as of {view and view.as_of}, written at {node.mzxid}")

    @staticmethod
    def _compare_state(who: str, address: StateAddress, node: Znode, state: ClusterState) -> None:
        view = state.topics.views.get(address.topic)
        held = None if view is None else view.partitions.get(address.partition)
        if held is not None and held.assignment.replicas and held.as_of != node.mzxid:
            raise Broken(f"{who} begins with {address.path} as of {held.as_of}, written at {node.mzxid}")

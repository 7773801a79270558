"""Is a request that was made again under the same name taken for its predecessor, which a controller was shown?

Both have version 0, and no transaction can ask for a czxid. So a controller that deletes or writes one must not meet
the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from controller.core.messages.effects import Commit, Create, Write
from tests.simulation.zookeeper import MakeNode, Operation, RemoveNode, parent_of
from zk_layout import catalog
from zk_layout.ids import ControllerEpoch, TopicPartition, Zxid
from zk_layout.znodes.admin import LegacyReassignmentAddress, PreferredElectionAddress, TopicDeletionAddress
from zk_layout.znodes.reassignments import ReassignmentAddress
from zk_layout.znodes.topics import TopicAddress

if TYPE_CHECKING:
    from tests.simulation.controllers import Controller
    from tests.simulation.world import World

Asked = ReassignmentAddress | LegacyReassignmentAddress | PreferredElectionAddress | TopicDeletionAddress


class Namesakes:
    """When each znode was created last, and which one each decision was about."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.at_next_decision: Callable[[str], None] | None = None
        self._born: dict[str, Zxid] = {}
        self._meant: dict[tuple[ControllerEpoch, str], Zxid] = {}  # as of the last decision about each path

    def wrote(self, operation: Operation, zxid: Zxid) -> None:
        """Note one change of the tree."""
        if isinstance(operation, MakeNode):
            self._born[operation.path] = zxid

    def decided(self, controller: Controller, commit: Commit) -> None:
        """Note a transaction about to be sent: it concerns what the controller's server has shown by now."""
        shown = self.world.ensemble.shown_to(controller.session)
        paths = [write.address.path for write in commit.writes if _is_answer(write)]
        for path in paths:
            if path in shown:
                self._meant[controller.epoch, path] = Zxid(shown[path].czxid)
        act = self.at_next_decision
        if act is not None and paths:
            self.at_next_decision = None
            act(paths[0])

    def replace(self, path: str) -> None:
        """A client withdraws this request, and makes another, while a decision about it is in flight."""
        node, address = self.world.zookeeper.nodes.get(path), catalog.address_of(path)
        if node is None or node.version:
            return
        data = node.data
        if isinstance(address, ReassignmentAddress):
            data = self.world.folder.two_wishes(TopicPartition(address.topic, address.partition))[0]
        self.world.say("client", f"withdraws {path} and writes it again: {data!r}")
        self.world.write_at_once(RemoveNode(path))
        self.world.write_at_once(MakeNode(path, data))

    def committed(self, controller: Controller, commit: Commit) -> str | None:
        """The fault of a transaction that ZooKeeper accepted, if any."""
        gone = {w.address.topic for w in commit.writes if isinstance(w.address, TopicAddress)}
        for address in [write.address for write in commit.writes if _is_answer(write)]:
            path, refusals = address.path, self.world.refusals
            meant = self._meant.get((controller.epoch, path))
            # A topic that goes takes every request with it; and where nothing may be created, versions have to do.
            is_over = isinstance(address, TopicDeletionAddress) and address.topic in gone
            is_unguarded = refusals.ever_took(path) or refusals.ever_took(parent_of(path)) or self.world.sizes.is_tight
            if meant is not None and self._born.get(path, meant) > meant and not (is_over or is_unguarded):
                return f"{controller.name} wrote {path}, which is another than the one it was shown"
        return None


def _is_answer(write: Write) -> bool:
    """Whether it removes a request, or corrects it."""
    return not isinstance(write, Create) and isinstance(write.address, Asked)

"""What do the changes of a transaction mean to Kafka? Each changed znode becomes a fact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zk_layout.catalog import address_of, decode
from zk_layout.facts import Fact, Stat, absent, present
from zk_layout.ids import SessionId, ZnodeVersion, Zxid
from zk_layout.storage.operations import is_session_owner
from zk_layout.storage.tree import Change, Node, Tree


def facts(changes: Iterable[Change], zxid: int, chroot: str = "") -> Iterator[Fact]:
    """One fact for each changed znode that Kafka's controller knows, in order.

    >>> root = Node(b"7", 3, 9, 0, 0, 4, 0, 0, 0, 3, b"")
    >>> [f.value for f in facts([Change("/kafka/controller_epoch", None, root)], 9, chroot="/kafka")]
    [7]
    """
    for change in changes:
        fact = fact_of(change.path, change.now, zxid, chroot)
        if fact is not None:
            yield fact


def facts_of(tree: Tree, chroot: str = "") -> Iterator[Fact]:
    """One fact for each znode of a state that Kafka's controller knows."""
    for path, node in tree.nodes.items():
        fact = fact_of(path, node, tree.last_zxid, chroot)
        if fact is not None:
            yield fact


def fact_of(path: str, node: Node | None, zxid: int, chroot: str = "") -> Fact | None:
    """The fact about one znode; None for one that is not Kafka's, or of no concern to its controller."""
    if chroot:
        if not path.startswith(chroot + "/"):
            return None
        path = path[len(chroot) :]
    address = address_of(path)
    if address is None:
        return None
    if node is None:
        return absent(address, Zxid(zxid))
    owner = node.owner if is_session_owner(node.owner) else 0
    stat = Stat(Zxid(node.czxid), Zxid(node.mzxid), ZnodeVersion(node.version), SessionId(owner))
    return present(address, decode(address, node.data or b""), stat)

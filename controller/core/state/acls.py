"""Who may do what, as far as ZooKeeper has said so?

What cannot be read is closed until it can be: a znode that is refused or malformed, a folder that may not be listed.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from controller.core.acl_authorizer import KnownAcls
from zk_layout.facts import Fact
from zk_layout.znodes.acls import ROOTS, AclAddress, Acls, PatternType, ResourcePattern, ResourceType

_FOLDERS: MappingProxyType[str, tuple[ResourceType, PatternType]] = MappingProxyType(
    {
        f"{root}/{resource_type}": (resource_type, pattern_type)
        for pattern_type, root in ROOTS.items()
        for resource_type in ResourceType
    }
)
_NO_ACLS: Final = Acls(())


class Rights:
    """The rights, folded from facts. `known` is what they come to; before `begin` everything is closed."""

    def __init__(self) -> None:
        self.known = KnownAcls()
        self._held: dict[ResourcePattern, Fact] = {}
        self._refused: set[ResourcePattern] = set()
        self._refused_folders: set[str] = set()

    def begin(self) -> None:
        """Everything has been read that may be read."""
        for path, folder in _FOLDERS.items():
            if path not in self._refused_folders:
                self.known.open_folder(*folder)

    def apply(self, address: AclAddress, fact: Fact) -> None:
        """Fold one fact in that is newer than all that was seen of its path."""
        resource = address.resource
        if fact.is_present:
            self._held[resource] = fact
        else:
            self._held.pop(resource, None)
            self._refused.discard(resource)
        self._show(resource)

    def refuse(self, path: str, address: AclAddress | None) -> None:
        """ZooKeeper did not let us read a znode, or list a folder."""
        if address is not None:
            self._refused.add(address.resource)
            self._show(address.resource)
        elif path in _FOLDERS:
            self._refused_folders.add(path)
            self.known.close_folder(*_FOLDERS[path])

    def allow(self, path: str, address: AclAddress | None) -> None:
        """What was refused has been read, and told."""
        if address is not None:
            self._refused.discard(address.resource)
            self._show(address.resource)
        elif path in self._refused_folders:
            self._refused_folders.discard(path)
            self.known.open_folder(*_FOLDERS[path])

    def held(self, resource: ResourcePattern) -> Fact | None:
        """The znode of a pattern as it was seen last; None where there is none."""
        return self._held.get(resource)

    def resources(self) -> tuple[ResourcePattern, ...]:
        """All patterns that have a znode."""
        return tuple(self._held)

    def is_readable(self, resource: ResourcePattern) -> bool:
        """Whether the entries of a pattern are known, be it that there are none."""
        fact = self._held.get(resource)
        return resource not in self._refused and (fact is None or isinstance(fact.value, Acls))

    def _show(self, resource: ResourcePattern) -> None:
        fact = self._held.get(resource)
        value = _NO_ACLS if fact is None else fact.value
        if resource in self._refused or not isinstance(value, Acls):
            self.known.close(resource)
        else:
            self.known.put(resource, value)

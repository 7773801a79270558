"""What does the duty for elections remember of this term?"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from zk_layout.ids import PartitionId, TopicName, TopicPartition


class ElectionsMemory(Struct, frozen=True, eq=False):
    """Written only by `Elections`."""

    # Partitions whose preferred replica should lead, after a request or because of an imbalance.
    preferring: dict[TopicPartition, None] = field(default_factory=dict)
    # Those of them that only an imbalance asks for.
    for_balance: dict[TopicPartition, None] = field(default_factory=dict)
    # Topics whose settings were read for current decisions, and the partitions still to be decided with them.
    fresh_configs: dict[TopicName, dict[PartitionId, None]] = field(default_factory=dict)

    def forget_preferences(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """Clear preferences that have been decided, or whose partitions are gone."""
        for number in numbers if self.preferring else ():
            at = TopicPartition(name, number)
            self.preferring.pop(at, None)
            self.for_balance.pop(at, None)

    def prefer(self, at: TopicPartition, *, is_asked: bool) -> None:
        """Let the preferred replica lead; `is_asked` by a client, not because of an imbalance."""
        if is_asked:
            self.for_balance.pop(at, None)
        elif at not in self.preferring:
            self.for_balance[at] = None
        self.preferring[at] = None

    def forget_balance(self) -> None:
        """Clear the preferences that no client asked for."""
        for at in self.for_balance:
            self.preferring.pop(at, None)
        self.for_balance.clear()

    def use_up_config(self, name: TopicName, numbers: Iterable[PartitionId]) -> None:
        """Forget settings after their decision; the next one has them read again."""
        left = self.fresh_configs.pop(name, {})
        for number in numbers if left else ():
            left.pop(number, None)
        if left:
            self.fresh_configs[name] = left

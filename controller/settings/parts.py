"""What is in force? The parts that the product is made from, each with only what one part of it uses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from controller.core.candidacy.candidacy import CandidacySettings
from controller.settings.claiming import ClaimSettings
from controller.settings.http import HttpSettings
from controller.settings.kinds import Value
from controller.settings.limits import Limits
from controller.settings.listening import Listening
from controller.settings.logs import LogSettings
from controller.settings.preflight import PreflightSettings
from controller.settings.term import TermSettings, term_of
from controller.settings.values import Values
from controller.settings.zookeeper import ZooKeeperSettings


class Settings(Struct, frozen=True):
    """The whole configuration; parts receive only what they use.

    `ignored` are keys that do not concern a controller.
    """

    in_force: Values
    http: HttpSettings
    logs: LogSettings
    zookeeper: ZooKeeperSettings
    limits: Limits
    listening: Listening
    candidacy: CandidacySettings
    claim: ClaimSettings
    term: TermSettings
    preflight: PreflightSettings
    ignored: tuple[str, ...] = ()

    def text(self, key: str) -> str:
        """A value as text."""
        return str(self.values[key])

    def number(self, key: str) -> int:
        """A value that the table declares a number."""
        value = self.values[key]
        assert isinstance(value, int)
        return value

    def seconds(self, key: str) -> float:
        """A value that the table declares in milliseconds."""
        return self.number(key) / 1000

    def flag(self, key: str) -> bool:
        """A value that the table declares a truth."""
        return self.values[key] is True

    def overridden(self, values: Mapping[str, Value]) -> Settings:
        """The same, where these values of the brokers are in force: only `term` goes by them."""
        in_force = replace(self.in_force, by_key=MappingProxyType({**self.values, **values}))
        return replace(self, in_force=in_force, term=term_of(in_force, self.listening, self.zookeeper))

    @property
    def values(self) -> Mapping[str, Value | None]:
        """Each key's value."""
        return self.in_force.by_key

    @property
    def given(self) -> frozenset[str]:
        """The keys that the operator has set."""
        return self.in_force.given

    def shown(self) -> dict[str, str]:
        """Every setting in force as it may be printed."""
        return self.in_force.shown()

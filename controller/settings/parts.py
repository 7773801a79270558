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
    """The whole configuration, for those who put a process together; each of its parts receives one of these.

    Shape:
        `values` are for those who show them. `ignored` are keys that do not concern a controller.
    """

    values: Values
    http: HttpSettings
    logs: LogSettings
    zookeeper: ZooKeeperSettings
    limits: Limits
    listening: Listening
    candidacy: CandidacySettings
    claim: ClaimSettings
    term: TermSettings
    preflight: PreflightSettings
    ignored: tuple[str, ...]

    def overridden(self, by_key: Mapping[str, Value]) -> Settings:
        """The same, where these values of the brokers are in force: only `term` goes by them."""
        values = replace(self.values, by_key=MappingProxyType({**self.values.by_key, **by_key}))
        return replace(self, values=values, term=term_of(values, self.listening, self.zookeeper))

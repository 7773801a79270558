"""Which settings are in force? One part for each part of the product, with only what that uses."""

from __future__ import annotations

from msgspec import Struct

from controller.core.candidacy.candidacy import CandidacySettings
from controller.settings.claiming import ClaimSettings
from controller.settings.http import HttpSettings
from controller.settings.limits import Limits
from controller.settings.listening import Listening
from controller.settings.logs import LogSettings
from controller.settings.preflight import PreflightSettings
from controller.settings.term import TermSettings
from controller.settings.values import Values
from controller.settings.zookeeper import ZooKeeperSettings


class Settings(Struct, frozen=True):
    """The whole configuration, for the code that assembles a process; each of its parts receives one of these.

    Shape:
        `values` are for printing. `ignored` are keys that do not concern a controller.
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

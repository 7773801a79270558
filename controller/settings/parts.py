"""Which settings are in force? One part for each part of the product, with only what that uses."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from controller.core.candidacy.candidacy import CandidacySettings
from controller.settings.claiming import ClaimSettings, candidacy_of, claim_of
from controller.settings.http import HttpSettings, http_of
from controller.settings.limits import Limits, limits_of
from controller.settings.listening import Listening
from controller.settings.logs import LogSettings, logs_of
from controller.settings.preflight import PreflightSettings, preflight_of
from controller.settings.term import TermSettings, term_of
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


def settings_of(
    values: Values,
    listening: Listening,
    zookeeper: ZooKeeperSettings,
    most_per_listener: Mapping[str, int],
    ignored: tuple[str, ...],
) -> Settings:
    """All parts of valid values. `most_per_listener` are limits on connections, by listener name."""
    return Settings(
        values,
        http_of(values),
        logs_of(values),
        zookeeper,
        limits_of(values, most_per_listener),
        listening,
        candidacy_of(values, zookeeper),
        claim_of(values, listening, zookeeper),
        term_of(values, listening, zookeeper),
        preflight_of(values),
        ignored,
    )

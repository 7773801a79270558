"""What is compared with the cluster before the first claim, and which failures only warn?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from controller.settings.table import SETTINGS
from controller.settings.values import Values

GRANTS = ("super.users", "allow.everyone.if.no.acl.found")
"""What an authorizer allows without an ACL. Brokers report whether they have these, but not their values."""
PROTECTING = MappingProxyType({one.key: one.protecting for one in SETTINGS if one.protecting is not None})
"""What a native controller takes from its broker's configuration: which of several values is most protective?"""


class PreflightSettings(Struct, frozen=True):
    """Settings that brokers may have set differently.

    Shape:
        Failures of the checks named in `tolerated` are only warnings. If `authorizer` is empty, every client may do
        everything. `grants` are those of `GRANTS` that are set. `decided_by` are the texts of the settings by which a
        controller decides, as they are here, before brokers have answered.
    """

    tolerated: frozenset[str]
    authorizer: str
    grants: frozenset[str]
    decided_by: Mapping[str, str]


def preflight_of(values: Values) -> PreflightSettings:
    """Build it from the keys that brokers have, too."""
    return PreflightSettings(
        tolerated=frozenset(filter(None, values.text("controller.preflight.tolerate").split(","))),
        authorizer=values.text("authorizer.class.name"),
        grants=frozenset(key for key in GRANTS if values.by_key[key]),
        decided_by=MappingProxyType({key: text for key, text in values.shown().items() if key in PROTECTING}),
    )

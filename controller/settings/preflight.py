"""What is compared with the cluster before the first claim, and what of that only warns?"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from controller.settings.table import SETTINGS
from controller.settings.values import Values

GRANTS = ("super.users", "allow.everyone.if.no.acl.found")
"""What an authorizer allows without an ACL. Brokers tell whether they have it, and not what it is."""
PROTECTING = MappingProxyType({one.key: one.protecting for one in SETTINGS if one.protecting is not None})
"""What a native controller takes from its broker's configuration: of several values, which protects most?"""


class PreflightSettings(Struct, frozen=True):
    """What the operator has set, as far as brokers may have it otherwise.

    Shape:
        What fails of the checks `tolerated` is only warned about; they are names. Where `authorizer` is empty,
        everybody may do everything. `grants` are those of `GRANTS` that are set. `decided_by` are the texts of those
        settings by which a controller decides, as they are here, before brokers are heard.
    """

    tolerated: frozenset[str]
    authorizer: str
    grants: frozenset[str]
    decided_by: Mapping[str, str]


def preflight_of(values: Values) -> PreflightSettings:
    """What the keys that brokers have, too, come to."""
    return PreflightSettings(
        tolerated=frozenset(filter(None, values.text("controller.preflight.tolerate").split(","))),
        authorizer=values.text("authorizer.class.name"),
        grants=frozenset(key for key in GRANTS if values.by_key[key]),
        decided_by=MappingProxyType({key: text for key, text in values.shown().items() if key in PROTECTING}),
    )

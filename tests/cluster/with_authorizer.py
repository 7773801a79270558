"""The daemon with an AclAuthorizer that lets everyone do what nobody has rights for.

`authorizer.class.name` is refused by the settings as long as not all that a listener lets through is judged: this
program alone gives the term an authorizer. Otherwise it is `python -m controller`.
"""

from __future__ import annotations

from msgspec import structs

from controller import leading
from controller.__main__ import main
from controller.core.settings import AuthorizerSettings, MachineSettings
from controller.machine_settings import machine_settings
from controller.settings import Settings
from controller.wire.versions import InterBrokerProtocol

AUTHORIZER = AuthorizerSettings(allows_everyone_if_no_acl_is_found=True)


def _with_authorizer(settings: Settings, protocol: InterBrokerProtocol, cluster_id: str | None) -> MachineSettings:
    return structs.replace(machine_settings(settings, protocol, cluster_id), authorizer=AUTHORIZER)


if __name__ == "__main__":
    setattr(leading, "machine_settings", _with_authorizer)  # noqa: B010 (a module exports no name that it imports)
    main()

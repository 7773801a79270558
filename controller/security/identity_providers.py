"""How does this process encrypt connections to an identity provider? By the options `ssl.…` of the login module.

Source: KIP-768; Kafka's JaasOptionsUtils.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import structs

from controller.security.failures import UnusableSecurity
from controller.security.tls.client_tls import client_tls
from controller.security.tls.stores import UnusableStore
from controller.security.tls.tls import client_context


def encrypting(options: Mapping[str, str]) -> Callable[[], ssl.SSLContext]:
    """The TLS context for the next connection, from the options of a login module; reads stores again each time.

    Raises:
        UnusableSecurity: names the option to change.
    """
    try:
        tls = structs.replace(client_tls(options), endpoint_identification_algorithm="https")
        client_context(tls)  # reports unusable settings at the start
    except UnusableStore as error:
        raise UnusableSecurity(f"sasl.jaas.config: {error}") from None
    return partial(client_context, tls)

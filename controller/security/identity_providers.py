"""How does this process encrypt towards an identity provider? As the options `ssl.…` of the login module say.

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


def encrypting(told: Mapping[str, str]) -> Callable[[], ssl.SSLContext]:
    """What encrypts the next connection, by the options of a login module; stores are read again for each.

    Raises:
        UnusableSecurity: with the option to be changed.
    """
    try:
        tls = structs.replace(client_tls(told), endpoint_identification_algorithm="https")
        client_context(tls)  # what cannot be used is told at the start
    except UnusableStore as error:
        raise UnusableSecurity(f"sasl.jaas.config: {error}") from None
    return partial(client_context, tls)

"""How does Prometheus read the measures?"""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """The values in the format that an Accept header asks for, and its content type."""
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type

"""How do users read what becomes of each request that a node of a cluster can be sent?

`as_markdown` is docs/requests.md.
"""

from __future__ import annotations

from controller.wire.apis import ANSWERED, COMMANDS, SERVED, Api, ApiKey

_SHOWN = SERVED.keys() | ANSWERED.keys() | COMMANDS.keys()  # whose versions; the others have those of the broker
_INTRODUCTION = """# Requests

<!-- Made by `tests.unit.server.requests_page`; a test compares, another finds requests of brokers that are missing. -->

What becomes of each request of the Kafka protocol that this node is sent, by the leader of the controllers:

- *served*: by the controller, in the versions shown. What a native controller refuses is refused with the same error.
- *relayed*: to a live broker, byte for byte, in the versions of that broker; see `listeners` for when.
- *answered*: by this node, which has no replicas.
- *acknowledged*, and nothing else; CLUSTER_AUTHORIZATION_FAILED for who has not the right.
- *closed*: the connection is closed with a warning, as a broker closes it over a request that it does not know.

*Right* is what the client's own principal needs where there is an authorizer, whoever answers. What is relayed is
judged here first, and passed on only to whom all of it is allowed; otherwise the connection is closed, so that the
client asks a broker, which sees who it is and answers with Kafka's error, or with the part that it may see.
"""


def as_markdown() -> str:
    """The whole page."""
    head = ["| key | request | is | versions | right | why |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join([_INTRODUCTION, *head, *map(_line, sorted(ApiKey)), ""])


def _line(key: ApiKey) -> str:
    row = key.row
    versions = row.versions if key in _SHOWN else ""
    return f"| {key.value} | {key.api_name} | {row.treatment} | {versions} | {_right(row)} | {row.why} |"


def _right(row: Api) -> str:
    return row.right if row.on_cluster is None else f"{row.on_cluster} on the cluster"

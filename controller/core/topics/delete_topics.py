"""May this topic be deleted?

The rules decide what follows once the request is written to `/admin/delete_topics`.

Source: Kafka's KafkaApis.handleDeleteTopicsRequest and ZkAdminManager.deleteTopics; KIP-516 for ids.
"""

from __future__ import annotations

from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.requests import DeleteTopics, TopicReference
from controller.core.state.view import Cluster
from zk_layout.ids import TopicName

FORBIDDEN = Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def refuse_within(request: DeleteTopics, *, is_enabled: bool | None) -> Refusal | None:
    """Refuse all deletions if they are disabled. While that is unknown, clients are asked to retry."""
    if is_enabled:
        return None
    if is_enabled is None:
        return Refusal(ErrorCode.NOT_CONTROLLER, "It is not known yet whether brokers allow topics to be deleted.")
    error = ErrorCode.TOPIC_DELETION_DISABLED if request.knows_deletion_disabled else ErrorCode.INVALID_REQUEST
    return Refusal(error, "Topic deletion is disabled.")


def find(reference: TopicReference, cluster: Cluster) -> TopicName | Refusal:
    """The name of the referenced topic, which may not exist."""
    if reference.topic_id is not None:
        if reference.name is not None:
            text = "Topic name and topic ID can not both be specified."
            return Refusal(ErrorCode.INVALID_REQUEST, text)
        name = cluster.topic_names.get(reference.topic_id)
        return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, None) if name is None else name
    if reference.name is None:
        return Refusal(ErrorCode.INVALID_REQUEST, "Neither a topic's name nor its id was given.")
    return reference.name

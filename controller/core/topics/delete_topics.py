"""May this topic be deleted?

What follows once the request is written to `/admin/delete_topics` is a matter of the rules.

Source: Kafka's KafkaApis.handleDeleteTopicsRequest and ZkAdminManager.deleteTopics; KIP-516 for ids.
"""

from __future__ import annotations

from controller.core.messages.errors import ErrorCode, Refusal
from controller.core.messages.requests import DeleteTopics, TopicReference
from controller.core.state.view import Cluster
from zk_layout.ids import TopicName

FORBIDDEN = Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def refuse_within(request: DeleteTopics, *, is_enabled: bool | None) -> Refusal | None:
    """Why no topic is deleted at all. While it is not known whether any may be, clients are to ask again."""
    if is_enabled:
        return None
    if is_enabled is None:
        return Refusal(ErrorCode.NOT_CONTROLLER, "No broker has told yet whether topics may be deleted.")
    error = ErrorCode.TOPIC_DELETION_DISABLED if request.knows_deletion_disabled else ErrorCode.INVALID_REQUEST
    return Refusal(error, "Topic deletion is disabled.")


def find(reference: TopicReference, cluster: Cluster) -> TopicName | Refusal:
    """The name of the topic that is meant; whether there is one of that name is not asked here."""
    if reference.topic_id is not None:
        if reference.name is not None:
            text = "Topic name and topic ID can not both be specified."
            return Refusal(ErrorCode.INVALID_REQUEST, text)
        name = cluster.topic_names.get(reference.topic_id)
        return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, None) if name is None else name
    if reference.name is None:
        return Refusal(ErrorCode.INVALID_REQUEST, "Neither a topic's name nor its id was given.")
    return reference.name

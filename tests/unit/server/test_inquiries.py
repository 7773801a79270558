"""What happens to a request when this process does not lead, or no longer?"""

from __future__ import annotations

import asyncio

import pytest

from controller.core.messages.errors import ErrorCode
from controller.core.messages.events import Asked
from controller.core.messages.replies import ReassignmentsListed
from controller.core.messages.requests import (
    AclFilter,
    Caller,
    CreateAcls,
    DeleteAcls,
    DescribeAcls,
    DescribeCluster,
    ListReassignments,
    Request,
)
from controller.server.inquiries import Inquiries, NotLeading

CALLER = Caller("PLAINTEXT", "127.0.0.1")
OF_ANY_NODE: list[Request] = [
    DescribeCluster(None),
    DescribeAcls(AclFilter(1, None, 1, None, None, 1, 1)),
    CreateAcls(()),
    DeleteAcls(()),
]


@pytest.mark.parametrize("request_", OF_ANY_NODE)
def test_what_any_node_answers_is_left_to_a_broker(request_: Request) -> None:
    """Clients that get NOT_CONTROLLER would give up, because they did not look for the controller."""

    async def story() -> None:
        inquiries = Inquiries()
        with pytest.raises(NotLeading):
            await inquiries.ask(request_, CALLER)

        asked: list[Asked] = []
        inquiries.begin_term(asked.append)
        asking = asyncio.ensure_future(inquiries.ask(request_, CALLER))
        await asyncio.sleep(0)
        inquiries.refuse_all()
        with pytest.raises(NotLeading):
            await asking
        assert [one.request for one in asked] == [request_]

    asyncio.run(story())


def test_what_is_asked_of_the_controller_is_refused() -> None:
    answer = asyncio.run(Inquiries().ask(ListReassignments(None), CALLER))

    assert isinstance(answer, ReassignmentsListed)
    assert answer.error is ErrorCode.NOT_CONTROLLER

"""Is every request answered once, in time, and correctly?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.core.messages.effects import Answer
from controller.core.messages.events import CallId
from controller.core.messages.replies import (
    PartitionsAltered,
    ProducerIdsAllocated,
    ReassignmentsAltered,
    ShutdownPermitted,
)
from controller.core.messages.requests import (
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    ElectLeaders,
    Mode,
    Request,
)
from tests.simulation.broken import Broken, hold
from tests.simulation.brokers import SOON_S
from tests.simulation.refusals import Concern
from tests.simulation.topic_answers import unfit
from zk_layout.ids import TopicPartition
from zk_layout.znodes.brokers import BrokerAddress
from zk_layout.znodes.partition_state import StateAddress
from zk_layout.znodes.topics import TopicAddress

if TYPE_CHECKING:
    from tests.simulation.checker import Checker
    from tests.simulation.controllers import Controller

# The last requests of a world are still in flight when it ends.
ANSWERED_WITHIN_S = 5.0


class Answers:
    """The requests that reached leading controllers."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._world = checker.world
        self.forced: dict[TopicPartition, None] = {}
        self._open: dict[CallId, Request] = {}
        self._asked_at: dict[CallId, float] = {}
        self._stale: dict[CallId, None] = {}

    def term_ended(self, controller: Controller) -> None:
        """Its requests will not be answered any more."""
        for ask in controller.asks:
            self._open.pop(ask, None)

    def asked(self, ask: CallId, request: Request, controller: Controller) -> None:
        """A request reached a leading controller."""
        self._open[ask], self._asked_at[ask] = request, self._world.clock.now
        if isinstance(request, AlterPartition) and self._is_of_a_former_life(request, controller):
            self._stale[ask] = None
        if isinstance(request, AlterReassignments) and request.mode == Mode.FORCED:
            self.forced.update(dict.fromkeys(wanted.topic_partition for wanted in request.reassignments))
        if isinstance(request, ElectLeaders) and request.is_unclean:
            topics = self._checker.topics
            everywhere = (TopicPartition(name, n) for name, topic in topics.items() for n in topic.partitions)
            self.forced.update(dict.fromkeys(everywhere if request.partitions is None else request.partitions))

    def _is_of_a_former_life(self, request: AlterPartition, controller: Controller) -> bool:
        """Whether a broker sent it before the registration that the controller has long known."""
        broker = self._world.brokers[request.broker]
        node = self._world.zookeeper.nodes.get(BrokerAddress(request.broker).path)
        since = self._world.ensemble.shown_in_time_since(controller.session)
        return node is not None and node.czxid > request.broker_epoch and broker.is_known(since)

    def answered(self, controller: Controller, answer: Answer) -> None:
        """A controller has answered."""
        ask, reply = answer.call, answer.reply
        request = self._open.pop(ask, None)
        if request is None:
            raise Broken(f"{controller.name} answered {ask} twice, or without having been asked")
        self._answer_fits(request, reply)
        if ask in self._stale and isinstance(reply, PartitionsAltered) and not reply.error:
            raise Broken(f"{controller.name} listened to a former life of a broker: {request}")
        if isinstance(request, ControlledShutdown) and reply == ShutdownPermitted():
            self._leads_nothing(controller, request)
        if isinstance(reply, ReassignmentsAltered):
            hold(self._world.move_requests.answered(reply))
        if isinstance(reply, ProducerIdsAllocated):
            self._world.producer_ids.answered(reply, controller.name)

    def _leads_nothing(self, controller: Controller, request: ControlledShutdown) -> None:
        """A broker that may leave has handed over every leadership that another broker could take."""
        checker, refusals, broker = self._checker, self._world.refusals, self._world.brokers[request.broker]
        if controller.epoch != checker.current_epoch() or not broker.is_leaving:
            return
        for at, state in checker.states.items():
            topic = checker.topics.get(at.topic)
            is_alone = topic is None or len(topic.partitions[at.partition].replicas) == 1
            is_left_alone = at.topic in checker.unwanted or at in checker.edited or at in checker.unheard
            is_left_alone |= checker.was_unreadable_lately(at) or refusals.excuses(at, Concern.LEADING)
            is_known = not is_left_alone and self._is_shown(controller, at)
            if state.leader == request.broker and is_known and not is_alone:
                raise Broken(f"broker {request.broker} may leave, though it leads {at}: {state}")

    def _is_shown(self, controller: Controller, at: TopicPartition) -> bool:
        """Whether a controller has had any answer since the partition was last written, and time to read and to fold.

        The answer to a later write comes before those to what it reads again after a lost answer. What has arrived
        and is left to a later turn is not known yet (decision 30); Kafka's controller knows nothing of events that
        are still queued either. A broker that leaves is answered over several turns (decision 110): what is written
        meanwhile may be missing in the answer.
        """
        nodes, world = self._world.zookeeper.nodes, self._world
        paths = (TopicAddress(at.topic).path, StateAddress(at.topic, at.partition).path)
        shown_for = world.clock.now - world.ensemble.shown_in_time_since(controller.session)
        was_written_lately = any(
            world.clock.now - self._checker.touched_at.get(path, -SOON_S) < SOON_S for path in paths
        )
        if was_written_lately or any(map(controller.is_behind_on, paths)):
            return False
        return shown_for > SOON_S and all(nodes[path].mzxid <= controller.seen_zxid for path in paths)

    def _answer_fits(self, request: Request, reply: object) -> None:
        wrong = unfit(self._checker, request, reply)
        if wrong is not None:
            raise Broken(f"{reply} is no answer to {request}: {wrong}")
        if isinstance(request, AlterReassignments) and isinstance(reply, ReassignmentsAltered) and not reply.error:
            asked_for = [w.topic_partition for w in request.reassignments]
            if [r.topic_partition for r in reply.results] != asked_for:
                raise Broken(f"the answer to {request} does not cover it: {reply}")
        if isinstance(request, AlterPartition) and isinstance(reply, PartitionsAltered) and not reply.error:
            asked, answered = [p.partition for p in request.proposals], [r.partition for r in reply.results]
            # Partitions named by id are answered; a leader requests others again if they were left out.
            if answered != asked and (request.names_topics_by_id or set(answered) - set(asked)):
                raise Broken(f"the answer to {request} does not cover it: {reply}")

    @property
    def unanswered(self) -> dict[CallId, Request]:
        """Requests that a controller should have answered by now, and has not."""
        now = self._world.clock.now
        return {ask: request for ask, request in self._open.items() if now - self._asked_at[ask] > ANSWERED_WITHIN_S}

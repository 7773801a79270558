"""Which settings say when moves begin?"""

from __future__ import annotations

from controller.core.settings import MOVE_ORDERS
from controller.settings.kinds import TRUTH, WINDOWS, choice, names, number
from controller.settings.setting import Setting, ours

WAIT, BEGIN = "wait", "begin"
MOVES: tuple[Setting, ...] = (
    ours(
        "reassignment.moves.at.once",
        number(0),
        0,
        "How many moves that copy may be in flight in the cluster; others wait. 0: no limit, as in Kafka. Set the same "
        "limits on all replicas of the controller.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.into.broker",
        number(0),
        0,
        "How many moves may copy to one broker at once. 0: no limit, as in Kafka.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.out.of.broker",
        number(0),
        0,
        "How many moves may copy from one broker, which leads their partitions, at once. 0: no limit, as in Kafka.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.into.rack",
        number(0),
        0,
        "How many moves may copy to the brokers of one rack at once; racks are those of the brokers' registrations. 0: "
        "no limit, as in Kafka.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.changes.per.second",
        number(0),
        0,
        "How many moves may begin in a second that copy nothing: they reorder replicas, or only remove some. Others "
        "wait. 0: no limit, as in Kafka.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.wait.for.znodes",
        TRUTH,
        False,
        "Whether a move waits for others of its topic if with all of them the topic's znode would take more than four "
        "fifths of what ZooKeeper accepts. Otherwise it begins, or is refused if the znode becomes too large.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.give.up.ms",
        number(0),
        0,
        "How long a move that a client asked for may wait before it begins; then it is dropped, and the request's "
        "status says that it gave up. What a znode asks for waits as long as the znode does. 0: however long.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.throttle",
        number(0),
        0,
        "How many bytes a second each receiving broker may copy for moves without a throttle of their own: those of "
        "any tool's requests, and those that a znode asks for; they begin once it is in force. 0: none, as in Kafka.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.throttle.min",
        number(0),
        0,
        "Down to how many bytes a second a receiving broker's rate for throttled moves is halved while other replicas "
        "beside them fall behind or leave the ISR; it climbs again to the rate asked for. 0: never, as in Kafka.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.order",
        names(*MOVE_ORDERS),
        None,
        "Which of the moves that wait begin first: those of partitions that are offline or below min.insync.replicas "
        "(min-isr), those that copy fewer bytes (small) or more (large), as their leaders say, those of a higher "
        "weight (weight), topics in turn (round-robin). The first that tells two apart decides, at last which was "
        "accepted first; each tenth is the one that has waited longest.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.windows",
        WINDOWS,
        None,
        "When moves that copy may begin, such as Mon-Fri 22:00-06:00 Europe/Berlin, Sat-Sun 00:00-24:00 Europe/Berlin; "
        "without a time zone in UTC. A window belongs to the day on which it begins. Those that have begun go on.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.wait.for.min.isr",
        TRUTH,
        False,
        "Whether moves that copy begin only while no partition is offline or has fewer in-sync replicas than its "
        "min.insync.replicas. A move that cures its own partition does not wait.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.wait.for.brokers",
        TRUTH,
        False,
        "Whether moves that copy begin only while every broker that has replicas is alive. A move that takes a replica "
        "off a broker that is not does not wait.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.wait.for.brokers.after.ms",
        number(0),
        0,
        "How long a broker must have been away before moves wait for it, if they wait for brokers. For one that was "
        "away when the leader's term began they wait at once, since it does not know since when. 0: at once.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.wait.for.receivers.ms",
        number(0),
        0,
        "How long each broker that would receive a replica must have been registered before a move begins that copies. "
        "The time begins when the leader sees the registration: again when the broker restarts, and with each leader. "
        "0: they do not wait, as in Kafka.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.wait.for.disks.percent",
        number(0, 99),
        0,
        "What percentage of each of its log directories every receiving broker must have left, after the move and all "
        "else that is on its way there, before a move begins that copies. Brokers tell it from 3.3 on. 0: the "
        "controller does not ask, as in Kafka.",
        counts_at_once=True,
    ),
    ours(
        "reassignment.moves.wait.for.disks.unknown",
        choice(WAIT, BEGIN),
        WAIT,
        "Whether a move waits or begins where reassignment.moves.wait.for.disks.percent is set and it is not known how "
        "much room a receiving broker has, or how much the move copies: with brokers before 3.3, for one.",
        counts_at_once=True,
    ),
)

"""Shall this process lead? The life of one replica of the controller, as a table.

    standby → contending → loading → active → resigning → ended
                                      active → handing back → standby

It stands by while somebody else rules, contends when it may, loads what ZooKeeper holds when it has won, and stands by
again, by itself, after anything that ends its reign but a wish to stop.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Phase(StrEnum):
    """Where this process stands."""

    STANDBY = "standby"
    CONTENDING = "contending"
    LOADING = "loading"
    ACTIVE = "active"
    RESIGNING = "resigning"
    HANDING_BACK = "handing back"
    ENDED = "ended"


class Signal(StrEnum):
    """What can happen to it."""

    VACANT = "nobody holds /controller"
    NATIVE = "a broker's native controller holds /controller"
    OURS = "another process of ours holds /controller"
    WON = "the claim was accepted"
    LOST = "the claim was refused"
    LOADED = "everything is loaded"
    RELEASED = "the cluster is released to native controllers"
    DEPOSED = "the reign is over"
    SESSION_LOST = "the ZooKeeper session expired"
    STOP = "the process shall end"
    DRAINED = "nothing is in flight any more"


class Order(StrEnum):
    """What is to be done about it."""

    NOTHING = "nothing"
    CLAIM = "claim /controller"
    LOAD = "begin a reign and load"
    SERVE = "answer requests"
    DRAIN = "finish what is in flight"
    RELEASE = "end the reign and give /controller and the registration up"
    ABANDON = "end the reign; what is still ours goes with it"
    EXIT = "end the process"


class TakeOver(StrEnum):
    """Whether to replace a native Kafka controller that rules."""

    ALWAYS = "always"
    WHEN_VACANT = "when-vacant"


class Transition(Struct, frozen=True):
    """The next phase, and what to do on the way."""

    phase: Phase
    order: Order = Order.NOTHING


_TABLE: dict[tuple[Phase, Signal], Transition] = {
    (Phase.STANDBY, Signal.VACANT): Transition(Phase.CONTENDING, Order.CLAIM),
    (Phase.STANDBY, Signal.STOP): Transition(Phase.ENDED, Order.EXIT),
    (Phase.CONTENDING, Signal.WON): Transition(Phase.LOADING, Order.LOAD),
    (Phase.CONTENDING, Signal.LOST): Transition(Phase.STANDBY),
    (Phase.CONTENDING, Signal.SESSION_LOST): Transition(Phase.STANDBY),
    (Phase.CONTENDING, Signal.STOP): Transition(Phase.ENDED, Order.RELEASE),
    (Phase.LOADING, Signal.LOADED): Transition(Phase.ACTIVE, Order.SERVE),
    (Phase.LOADING, Signal.DEPOSED): Transition(Phase.STANDBY, Order.ABANDON),
    (Phase.LOADING, Signal.SESSION_LOST): Transition(Phase.STANDBY, Order.ABANDON),
    (Phase.LOADING, Signal.STOP): Transition(Phase.ENDED, Order.RELEASE),
    (Phase.LOADING, Signal.RELEASED): Transition(Phase.STANDBY, Order.RELEASE),
    (Phase.ACTIVE, Signal.DEPOSED): Transition(Phase.STANDBY, Order.ABANDON),
    (Phase.ACTIVE, Signal.SESSION_LOST): Transition(Phase.STANDBY, Order.ABANDON),
    (Phase.ACTIVE, Signal.STOP): Transition(Phase.RESIGNING, Order.DRAIN),
    (Phase.ACTIVE, Signal.RELEASED): Transition(Phase.HANDING_BACK, Order.DRAIN),
    (Phase.HANDING_BACK, Signal.DRAINED): Transition(Phase.STANDBY, Order.RELEASE),
    (Phase.HANDING_BACK, Signal.DEPOSED): Transition(Phase.STANDBY, Order.ABANDON),
    (Phase.HANDING_BACK, Signal.SESSION_LOST): Transition(Phase.STANDBY, Order.ABANDON),
    (Phase.HANDING_BACK, Signal.STOP): Transition(Phase.RESIGNING),
    (Phase.RESIGNING, Signal.DRAINED): Transition(Phase.ENDED, Order.RELEASE),
    (Phase.RESIGNING, Signal.DEPOSED): Transition(Phase.ENDED, Order.RELEASE),
    (Phase.RESIGNING, Signal.SESSION_LOST): Transition(Phase.ENDED, Order.ABANDON),
}


def next_transition(phase: Phase, signal: Signal, take_over: TakeOver) -> Transition:
    """What a signal means in a phase; signals that mean nothing there change nothing.

    >>> next_transition(Phase.STANDBY, Signal.NATIVE, TakeOver.ALWAYS).order.value
    'claim /controller'
    >>> next_transition(Phase.STANDBY, Signal.NATIVE, TakeOver.WHEN_VACANT).order.value
    'nothing'
    """
    if (phase, signal, take_over) == (Phase.STANDBY, Signal.NATIVE, TakeOver.ALWAYS):
        return Transition(Phase.CONTENDING, Order.CLAIM)
    return _TABLE.get((phase, signal), Transition(phase))


def diagram() -> str:
    """The table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", "    [*] --> standby"]
    lines += [f"    {phase} --> {t.phase}: {signal.value}" for (phase, signal), t in _TABLE.items()]
    lines.append(f"    {Phase.STANDBY} --> {Phase.CONTENDING}: {Signal.NATIVE.value} (controller.takeover=always)")
    return "\n".join(lines)

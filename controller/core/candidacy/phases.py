"""Where can a replica stand, and why does it stand there?

    standby → contending → loading → active → resigning → ended
                                      active → handing back → standby
                                      active → renewing → standby

It stands by while somebody else is the controller, contends when it may, loads what ZooKeeper holds when it has won,
and stands by again, by itself, after anything that ends its term but a stop.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Where this process stands."""

    STANDBY = "standby"
    CONTENDING = "contending"
    LOADING = "loading"
    ACTIVE = "active"
    RESIGNING = "resigning"
    HANDING_BACK = "handing back"
    RENEWING = "renewing"
    ENDED = "ended"


class Why(StrEnum):
    """What moved it from one phase to the next."""

    VACANT = "nobody holds /controller"
    NATIVE = "a broker's native controller holds /controller"
    SWITCHOVER = "this replica is asked to lead instead of another"
    LEFT_OVER = "/controller holds a claim of ours that no term uses"
    WON = "the claim was accepted"
    LOST = "the claim was refused"
    LOADED = "the state in ZooKeeper is loaded"
    RELEASED = "the cluster is released to native controllers"
    PROTOCOL = "brokers are to be led in another manner"
    UNSOUND = "this replica must not lead this cluster"
    DEPOSED = "the term is over"
    SESSION_LOST = "the ZooKeeper session expired"
    STOPPED = "the process was told to stop"
    FAILED = "the process cannot become a controller"
    DRAINED = "nothing is in flight"
    NOT_DRAINED = "what is in flight is not waited for any longer"


class TakeOver(StrEnum):
    """When a replica claims `/controller`."""

    ALWAYS = "always"  # also instead of a native Kafka controller
    WHEN_VACANT = "when-vacant"
    NEVER = "never"  # it stands by whatever happens, also when it is asked to lead; no value of a setting yet

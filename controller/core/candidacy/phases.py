"""Where can a replica stand, and why does it stand there?

    standby → contending → loading → active → resigning → ended
                                      active → handing back → standby
                                      active → renewing → standby

A replica is in standby while another controller leads, contends when it may claim, loads ZooKeeper's state when it
has won, and returns to standby after anything but a stop that ends its term.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """The phases of a replica."""

    STANDBY = "standby"
    CONTENDING = "contending"
    LOADING = "loading"
    ACTIVE = "active"
    RESIGNING = "resigning"
    HANDING_BACK = "handing back"
    RENEWING = "renewing"
    ENDED = "ended"


IN_TERM = (Phase.LOADING, Phase.ACTIVE, Phase.HANDING_BACK, Phase.RENEWING, Phase.RESIGNING)
STARTING = "starting"
WATCHING = "watching /controller"
GONE = "the ZooKeeper session expired, and this process' claim and registration with it"
NO_CLAIM = "this process no longer holds /controller"
SILENT = "ZooKeeper has been silent for longer than a session lasts"


class Why(StrEnum):
    """Why a replica changes its phase."""

    VACANT = "/controller is vacant"
    NATIVE = "a broker's native controller holds /controller"
    SWITCHOVER = "this replica is asked to lead instead of another"
    SILENT = "the leader has not answered a challenge"
    LEFT_OVER = "/controller holds a claim of ours that no term uses"
    WON = "the claim was accepted"
    LOST = "the claim was refused"
    LOADED = "the state in ZooKeeper is loaded"
    RELEASED = "the cluster is released to native controllers"
    PROTOCOL = "brokers require another protocol"
    SURPASSED = "partitions carry a higher controller epoch"
    UNSOUND = "this replica must not lead this cluster"
    DEPOSED = "the term is over"
    SESSION_LOST = "the ZooKeeper session expired"
    STOPPED = "the process was asked to stop"
    FAILED = "the process cannot become a controller"
    DRAINED = "nothing is in flight"
    NOT_DRAINED = "transactions in flight are no longer waited for"


class TakeOver(StrEnum):
    """When a replica claims `/controller`."""

    ALWAYS = "always"  # also instead of a native Kafka controller
    WHEN_VACANT = "when-vacant"
    NEVER = "never"  # it stands by whatever happens, also when it is asked to lead; no value of a setting yet

"""Mistakes about how commands reach brokers, and what their answers set going."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, law, unit

JOINING = "controller/brokers/joining.py"
PUMP = "controller/runtime/pump.py"
ROUNDS = "controller/brokers/rounds.py"
LINK = "controller/brokers/link.py"
MACHINE = "controller/core/machine.py"
ENCODER = "controller/wire/commands.py"
PARTITIONS = "controller/wire/partition_bytes.py"
LINKS_OF_WORLDS = "worlds have links of their own"

MUTANTS = (
    Mutant(
        "packs a partition with offline replicas like one without",
        PARTITIONS,
        "if view.adding or view.removing or view.leader_recovery_state or view.offline:",
        "if view.adding or view.removing or view.leader_recovery_state:",
        ("tests/unit/wire/test_partition_bytes.py", law("wire_commands")),
        unseen="brokers of worlds get values",
    ),
    Mutant(
        "keeps what a partition is encoded as where the other kind of version looks for it",
        PARTITIONS,
        '"compact_head" if self._more else "legacy_head", head)',
        '"legacy_head" if self._more else "compact_head", head)',
        ("tests/unit/wire/test_partition_bytes.py",),
        unseen="brokers of worlds get values",
    ),
    Mutant(
        "joins metadata across the end of a topic",
        JOINING,
        "if seen.leader == DELETED or ids",
        "if ids",
        (law("joined_metadata"),),
        unseen=LINKS_OF_WORLDS,
    ),
    Mutant(
        "joins metadata of two lives of a topic",
        JOINING,
        "ids.setdefault(seen.topic, seen.topic_id) != seen.topic_id",
        "ids.setdefault(seen.topic, seen.topic_id) is ids",
        (law("joined_metadata"),),
        unseen=LINKS_OF_WORLDS,
    ),
    Mutant(
        "joins metadata that list other brokers",
        JOINING,
        "command.brokers == first.command.brokers and ",
        "",
        (law("joined_metadata"),),
        unseen=LINKS_OF_WORLDS,
    ),
    Mutant(
        "tells the first of several views of a partition, joined",
        JOINING,
        "for command in commands:",
        "for command in reversed(commands):",
        (law("joined_metadata"), "tests/unit/brokers/test_links.py"),
        unseen=LINKS_OF_WORLDS,
    ),
    Mutant(
        "takes metadata that were joined for one command",
        LINK,
        "for one in told:",
        "for one in told[:1]:",
        ("tests/unit/brokers/test_links.py",),
        unseen=LINKS_OF_WORLDS,
    ),
    Mutant(
        "blames each joined command for what one of them lists",
        LINK,
        "unsendable = tuple(at for at in unsendable if at in listed)",
        "unsendable = tuple(at for at in unsendable if at in listed or listed)",
        ("tests/unit/brokers/test_links.py",),
        unseen=LINKS_OF_WORLDS,
    ),
    Mutant(
        "lets small commands overtake a large one",
        ROUNDS,
        "if self._waiting or not self._fits(size):",
        "if not self._fits(size):",
        ("tests/unit/brokers/test_rounds.py",),
        unseen=LINKS_OF_WORLDS,
    ),
    Mutant(
        "leaves brokers no time between long turns",
        PUMP,
        "await asyncio.sleep(share_s if share_s >= LEAST_SHARE_S and self._are_commands_queued() else 0)",
        "await asyncio.sleep(0)",
        ("tests/unit/runtime/test_pump.py",),
        unseen=LINKS_OF_WORLDS,
    ),
    Mutant(
        "gives what all brokers are sent alike a round for each of them",
        ROUNDS,
        "                return 0\n",
        "                pass\n",
        ("tests/unit/brokers/test_rounds.py",),
        unseen=LINKS_OF_WORLDS,
    ),
    Mutant(
        "gives a round to a link that is closed",
        ROUNDS,
        "if not turn.done():  # its link may have been closed meanwhile\n                turn.set_result(None)\n",
        "if True:\n                turn.set_result(None)\n",
        ("tests/unit/brokers/test_rounds.py",),
        unseen=LINKS_OF_WORLDS,
    ),
    Mutant(
        "lists the brokers of the first command in every one",
        ENCODER,
        "if known != brokers:",
        "if not known:",
        ("tests/unit/wire/test_commands.py",),
        unseen=LINKS_OF_WORLDS,
    ),
    Mutant(
        "decides nothing after any answer without an error",
        MACHINE,
        "and isinstance(event.command, commands.UpdateMetadata)",
        "and isinstance(event.command, commands.Command)",
        (unit("confirmed_metadata"),),
        unseen="other events soon cause the same decisions",
    ),
    Mutant(
        "decides nothing after metadata were confirmed, whatever a duty says to that",
        MACHINE,
        "and (is_cause or out.effects)",
        "and is_cause",
        (unit("confirmed_metadata"),),
        unseen="a client that waited for brokers is answered all the same",
    ),
)

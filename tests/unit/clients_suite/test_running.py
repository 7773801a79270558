"""How are client programs judged that hang, die, or print other lines?"""

from __future__ import annotations

import sys

from tests.clients.running import Plan, carry_out, hangs

PLAN = Plan("127.0.0.1:1", "x", ("first", "second"), (3, 2), timeout_s=0.2)


def run(program: str) -> dict[str, object]:
    return carry_out([sys.executable, "-c", program], {}, PLAN)


def test_each_operation_has_the_result_of_its_line() -> None:
    told = run(
        "import json, sys\n"
        "for name in json.load(sys.stdin)['operations']: print(json.dumps({'operation': name, 'result': len(name)}))"
    )

    assert told == {"first": 5, "second": 6}


def test_a_program_that_dies_half_way_has_told_of_what_it_did() -> None:
    told = run("""print('{"operation": "first", "result": 1}'); raise SystemExit('no more')""")

    assert told == {"first": 1, "second": {"error": "the program ended before", "message": "no more"}}


def test_only_what_ended_with_its_time_hangs() -> None:
    assert hangs({"error": "nothing within 20 s"})
    assert not hangs({"error": "TimeoutException", "message": "nothing within"})
    assert not hangs("–")

"""Does a process surely end, and is its failure reported in one clear error?"""

import signal
import sys
import threading
from pathlib import Path

import pytest

from controller.lab.errors import ServerFailed
from controller.lab.process import Process

SLEEP = "import time; time.sleep(60)"


def python(code: str, tmp_path: Path, **env: str) -> Process:
    return Process("python", [sys.executable, "-c", code], tmp_path / "log" / "python.log", env=env)


def test_a_failed_start_is_one_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    process = python("import sys; print('before'); sys.exit('no such thing')", tmp_path)
    process.start()

    with pytest.raises(ServerFailed, match=r"python ended with exit code 1 before it was ready\n(?s:.*)\nno such"):
        process.wait_until(lambda: False, 30, waiting_for="it was ready")


def test_a_silent_process_is_an_error_after_the_timeout(tmp_path: Path) -> None:
    process = python(SLEEP, tmp_path)
    process.start()

    with pytest.raises(ServerFailed, match=r"took more than 0\.2 s before it was ready\n.*\n\(its log is empty\)"):
        process.wait_until(lambda: False, 0.2, waiting_for="it was ready")

    process.kill()


def test_an_executable_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    process = Process("ghost", ["/no/such/program"], tmp_path / "ghost.log")

    process.start()

    with pytest.raises(ServerFailed, match=r"(?s)ghost ended.*/no/such/program"):
        process.wait_until(lambda: False, 30, waiting_for="it was ready")


def test_stop_ends_a_process_that_ignores_the_request(tmp_path: Path) -> None:
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); "
    process = python(ignore + "time.sleep(60)", tmp_path)
    process.start()
    process.wait_until(lambda: b"on" in process.output_since_start(), 30, waiting_for="it ignores")

    process.stop(timeout_s=0.2)

    assert process.exit_code == -signal.SIGKILL


def test_it_can_be_started_again_and_its_log_goes_on(tmp_path: Path) -> None:
    process = python("import os; print('run', os.environ['RUN'])", tmp_path, RUN="x")
    for _ in range(2):
        process.start()
        while process.is_alive:
            pass

    assert process.log_file.read_text() == "run x\nrun x\n"
    assert process.output_since_start() == b"run x\n"


def test_two_starts_at_once_are_refused(tmp_path: Path) -> None:
    process = python(SLEEP, tmp_path)
    process.start()

    with pytest.raises(ServerFailed, match="is already running"):
        process.start()

    process.kill()


def test_it_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    process = python("import time; print('on', flush=True); time.sleep(60)", tmp_path)
    starter = threading.Thread(target=process.start)
    starter.start()
    starter.join()

    process.wait_until(lambda: b"on" in process.output_since_start(), 30, waiting_for="it runs")

    assert process.is_alive
    process.kill()

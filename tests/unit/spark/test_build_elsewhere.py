"""The same bytes from a Connect session, and from a cluster that loses an executor in the middle of a job."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deltaic.spark.java import java_home
from tests.unit.spark.build_chains import blobs, embedded_blobs

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("spark"),
    pytest.mark.usefixtures("spark_is_here"),
]

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = [sys.executable, "-m", "tests.unit.spark.build_program"]


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def test_a_connect_session_builds_the_same_bytes(tmp_path):
    (tmp_path / "rows").mkdir()
    done = subprocess.run(
        [*PROGRAM, "connect", str(tmp_path / "rows"), str(tmp_path / "built"), "2"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert "published" in done.stdout, done.stderr[-4000:]
    assert "pyspark.sql.connect" in done.stdout
    assert blobs(tmp_path / "built") == embedded_blobs(tmp_path / "embedded", 2)


def test_a_cluster_that_loses_an_executor_builds_the_same_bytes(tmp_path):
    (tmp_path / "rows").mkdir()
    gate = tmp_path / "gate"
    gate.mkdir()
    with cluster(tmp_path) as master:
        program = subprocess.Popen(
            [*PROGRAM, master, str(tmp_path / "rows"), str(tmp_path / "built"), "2", str(gate)],
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            waiting = _wait_for(lambda: sorted(gate.glob("waiting-*")), 300, program)
            # The parent of the waiting process is Python's fork daemon, whose parent is the executor.
            daemon = int(waiting[0].name.split("-")[2])
            executor = _parent_of(daemon)
            assert "CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_text()
            os.kill(executor, signal.SIGKILL)
            time.sleep(1)
            (gate / "go").touch()
            out, error = program.communicate(timeout=600)
        finally:
            program.kill()
        assert "published" in out, error[-4000:]
        assert not Path(f"/proc/{executor}").exists()
    assert blobs(tmp_path / "built") == embedded_blobs(tmp_path / "embedded", 2)


@contextmanager
def cluster(folder):
    """A master and two workers of one core each, on this machine."""
    import pyspark

    port = _free_port()
    launcher = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    url = f"spark://127.0.0.1:{port}"
    started = []
    with java_home() as home:
        around = {**environment(), "JAVA_HOME": home, "SPARK_HOME": str(Path(pyspark.__file__).parent)}

        def start(name, *arguments):
            log = (folder / f"{name}.log").open("w")
            started.append(
                subprocess.Popen(
                    [launcher, *arguments], env=around, stdout=log, stderr=log, cwd=folder, start_new_session=True
                )
            )

        try:
            start(
                "master",
                "org.apache.spark.deploy.master.Master",
                *("--host", "127.0.0.1", "--port", str(port), "--webui-port", str(_free_port())),
            )
            _wait_for(lambda: _listens(port), 120)
            for number in (1, 2):
                start(
                    f"worker{number}",
                    "org.apache.spark.deploy.worker.Worker",
                    *("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", str(_free_port())),
                    *("--work-dir", str(folder / f"work{number}"), url),
                )
            _wait_for(lambda: (folder / "master.log").read_text().count("Registering worker") >= 2, 120)
            yield url
        finally:
            for process in started:
                # The executors are children of the workers, in the same session.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait_for(found, seconds, program=None):
    until = time.monotonic() + seconds
    while not (result := found()):
        if program is not None and program.poll() is not None:
            pytest.fail(f"the program ended early: {program.stderr.read()[-4000:]}")
        if time.monotonic() > until:
            pytest.fail("it took too long")
        time.sleep(0.1)
    return result


def _parent_of(process):
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("PPid:"):
            return int(line.split()[1])
    raise AssertionError(process)


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _listens(port):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0

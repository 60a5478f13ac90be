"""Starts the real binary on free ports and a fresh data folder, and stops it again.

The binary is the one in PLIMSOLL_BIN, else the one that `make build` leaves in the cache.
"""

import os
import pathlib
import signal
import subprocess
import threading
import time

import pytest
import redis
from ports import free_ports

READY_SECONDS = 30
DEFAULT_BINARY = "~/.cache/plimsoll/target/release/plimsoll"
NOTES = []


def binary():
    target = os.environ.get("CARGO_TARGET_DIR")
    path = os.environ.get("PLIMSOLL_BIN") or (target and f"{target}/release/plimsoll")
    path = pathlib.Path(path or DEFAULT_BINARY).expanduser()
    assert path.exists(), f"{path} is missing: run `make build`"
    return str(path)


class Node:
    """One process of `plimsoll serve`; can be killed and started again on the same folder."""

    def __init__(self, data, settings=(), env=None, host="127.0.0.1", port=None):
        self.data = pathlib.Path(data)
        self.settings = list(settings)
        self.env = {**os.environ, **(env or {})}
        self.host = host
        self.port, self.http = free_ports(2)
        self.port = port or self.port
        self.process = None
        self.output = []
        self.before = None  # called in the new process before it becomes the node

    def command(self):
        command = [binary(), "serve", "--data", str(self.data)]
        command += ["--resp", f"{self.host}:{self.port}", "--http", f"127.0.0.1:{self.http}"]
        for setting in self.settings:
            command += ["--set", setting]
        return command

    def spawn(self):
        """Starts the process without waiting for it to be ready."""
        self.output = []
        self.ready = threading.Event()
        self.process = subprocess.Popen(
            self.command(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.env,
            text=True,
            preexec_fn=self.before,
        )
        # Its own: the thread of the process before may still read the `ready` of a node that is dead.
        reads = (self.process.stdout, self.output, self.ready)
        self.reader = threading.Thread(target=self._read, args=reads, daemon=True)
        self.reader.start()
        return self

    def start(self):
        self.spawn()
        deadline = time.monotonic() + READY_SECONDS
        while not self.ready.wait(0.01):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the node did not get ready:\n{self.text()}")
        return self

    @staticmethod
    def _read(lines, output, ready):
        for line in lines:
            output.append(line)
            if line.startswith("ready "):
                ready.set()

    def text(self):
        self.reader.join(1)
        return "".join(self.output)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def kill_while_stopping(self, after_seconds):
        """Asks for a drained stop, which flushes rows and trims the log, and kills in the middle of it."""
        self.process.send_signal(signal.SIGTERM)
        time.sleep(after_seconds)
        self.kill()

    def terminate(self, timeout_seconds=20):
        """Asks for a drained stop and returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_seconds)

    def exit_code(self, timeout_seconds=10):
        """Waits for a node that is expected to give up by itself."""
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the node still runs:\n{self.text()}") from None

    def client(self, **options):
        return redis.Redis(port=self.port, **options)

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as lines:
            line = next(line for line in lines if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024


@pytest.fixture
def new_node(tmp_path):
    """Makes nodes; whatever still runs at the end of the test is killed."""
    made = []

    def make(data=None, **options):
        folder = pathlib.Path(data or tmp_path / "data")
        folder.mkdir(exist_ok=True)
        made.append(Node(folder, **options))
        return made[-1]

    yield make
    for node in made:
        if node.process and node.process.poll() is None:
            node.kill()


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("data")).start()
    yield node
    assert node.process.poll() is None, f"the node died:\n{node.text()}"
    assert node.terminate() == 0


@pytest.fixture
def node(shared_node):
    """A running node with no rows, shared by the tests of a file."""
    shared_node.client().flushall()
    return shared_node


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three nodes, on three log servers, that the tests of one file share."""
    # The harness needs what stands here.
    from cluster_harness import Cluster

    cluster = Cluster(tmp_path_factory.mktemp("cluster")).start()
    yield cluster
    cluster.close()


@pytest.fixture
def note():
    """Keeps a line of figures for the end of the run."""
    return NOTES.append


def pytest_sessionfinish(session):
    """What one process of several noted goes to the one that prints it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["notes"] = NOTES


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    NOTES.extend(getattr(node, "workeroutput", {}).get("notes", []))


def pytest_terminal_summary(terminalreporter):
    for line in NOTES:
        terminalreporter.write_line(line)

"""Concurrent clients of a cluster, the history of all that they asked, and whether it is linearizable.

A history keeps of every operation when it was called, when it was answered and what with. Where no
answer came the outcome stays unknown for good; what was refused did not run. One line of JSON an
operation, as tests/linearizable/history.go reads them. Keys come in generations of a few: a key is
contended for a while and read ever after, which keeps the search for an order short.
"""

import collections
import functools
import json
import pathlib
import random
import subprocess
import threading
import time

import pytest
from resp import Closed, Connection, bulk, number

ROOT = pathlib.Path(__file__).resolve().parent.parent
REGISTERS = 6
COUNTERS = 2
GENERATION_SECONDS = 2.0
# Longer than a node takes until it says that an outcome is unknown.
ANSWER_SECONDS = 15
CHECK_SECONDS = 60
# A node that refuses or is away is left alone for this long.
PAUSE_SECONDS = 0.05


class Violation(AssertionError):
    """A promise that was not kept."""


class Refused(Exception):
    """The operation did not run."""


class Unknown(Exception):
    """The operation may have run."""


class History:
    """What was asked and answered, of all clients; any thread may add to it."""

    def __init__(self):
        self.operations = []
        self.unlisted = collections.Counter()

    def add(self, client, node, key, op, call_ns, outcome, reply=None, value=None, expected=None):
        line = {"client": client, "node": node, "key": key, "op": op, "call_ns": call_ns, "outcome": outcome}
        if outcome != "unknown":
            line["return_ns"] = time.monotonic_ns()
        line |= {"value": value, "expected": expected, "reply": reply}
        self.operations.append(line)

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            for line in list(self.operations):
                file.write(json.dumps(line) + "\n")
        return path

    def counts(self):
        return collections.Counter(line["outcome"] for line in list(self.operations))

    def keys(self):
        return sorted({line["key"] for line in list(self.operations)})

    def acknowledged_once(self):
        """What must stand for good: keys that are written a single time, by one acknowledged SET."""
        return {
            line["key"]: line["value"]
            for line in list(self.operations)
            if "once:" in line["key"] and line["op"] == "set" and line["outcome"] == "ok"
        }


@functools.cache
def checker():
    built = subprocess.run([ROOT / "scripts/linearizable.sh"], stdout=subprocess.PIPE, text=True)
    if built.returncode != 0:
        # Its library comes from Go's module proxy.
        pytest.skip("scripts/linearizable.sh cannot build the checker here")
    return built.stdout.strip()


def judge(path, timeout_seconds=CHECK_SECONDS):
    """The checker's verdict on a written history."""
    command = [checker(), "-timeout", f"{timeout_seconds}s", str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1, 3):
        raise AssertionError(f"the checker fails: {run.stderr}")
    return json.loads(run.stdout)


def demand_linearizable(path):
    """Raises `Violation` with the earliest answer that cannot be where the history has no order."""
    verdict = judge(path)
    if verdict["result"] == "ok":
        return verdict
    if verdict["result"] == "unknown":
        raise AssertionError(f"no verdict within {CHECK_SECONDS} s on {verdict['timed_out']} of {path}")
    texts = [f"{len(verdict['failures'])} keys are not linearizable; the history is {path}"]
    for failure in verdict["failures"][:5]:
        texts += [f"key {failure['key']}: no order explains", f"  {failure['wrong']}", "after"]
        texts += [f"  {line}" for line in failure["before"]]
    raise Violation("\n".join(texts))


class Client:
    """One client: one operation at a time, over one connection to one node, until that fails.

    `nodes` are pairs of a name and a RESP port.
    """

    def __init__(self, number, nodes, history, seed, begin_ns, pace_seconds, prefix=""):
        self.number, self.nodes, self.history, self.prefix = number, nodes, history, prefix
        self.random = random.Random(seed * 1000 + number)
        self.begin_ns, self.pace_seconds = begin_ns, pace_seconds
        self.connection = None
        self.node = number % len(nodes)
        self.given = 0
        self.seen = {}

    def run(self, stop):
        while not stop.is_set():
            if not self.connect():
                stop.wait(PAUSE_SECONDS)
                continue
            if not self.step():
                stop.wait(PAUSE_SECONDS)
            elif self.pace_seconds:
                stop.wait(self.random.expovariate(1 / self.pace_seconds))
        self.disconnect()

    def connect(self):
        if self.connection is None:
            try:
                self.connection = Connection(self.nodes[self.node][1], ANSWER_SECONDS)
            except OSError:
                self.move()
        return self.connection is not None

    def disconnect(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def move(self):
        """Leaves a connection for one to another node."""
        self.disconnect()
        self.node = (self.node + self.random.randrange(1, max(2, len(self.nodes)))) % len(self.nodes)

    def fresh(self):
        """A value that nobody else gives."""
        self.given += 1
        return f"{self.number}.{self.given}"

    def keys_of(self, generation):
        registers = [f"{self.prefix}r:{generation}:{n}" for n in range(REGISTERS)]
        return registers + [f"{self.prefix}c:{generation}:{n}" for n in range(COUNTERS)]

    def step(self):
        """One operation; whether it was answered."""
        generation = int((time.monotonic_ns() - self.begin_ns) / 1e9 / GENERATION_SECONDS)
        chance = self.random.random()
        if chance < 0.12:
            return self.ask(f"{self.prefix}once:{self.number}:{self.given}", "set", self.fresh())
        if chance < 0.2 and generation:
            old = self.random.randrange(generation)
            return self.ask(self.random.choice(self.keys_of(old)), "get")
        key = self.random.choice(self.keys_of(generation))
        if key.startswith(f"{self.prefix}c:"):
            return self.ask(key, self.random.choice(("incr", "incr", "incr", "get")))
        op = self.random.choice(("get", "get", "get", "set", "set", "setnx", "del", "swap", "cas", "cas"))
        if op == "cas":
            return self.compare_and_set(key)
        return self.ask(key, op, self.fresh() if op in ("set", "setnx", "swap") else None)

    def ask(self, key, op, value=None):
        asked = {
            "get": [("GET", key)],
            "set": [("SET", key, value)],
            "setnx": [("SETNX", key, value)],
            "del": [("DEL", key)],
            "incr": [("INCR", key)],
            "swap": [("MULTI",), ("GET", key), ("SET", key, value), ("EXEC",)],
        }[op]
        return self.record(key, op, asked, value=value)

    def compare_and_set(self, key):
        """WATCH, GET, and a transaction on what was read. One that was not run is no operation.

        The key is read before WATCH too, and what it held then must be what it holds after: WATCH of
        an absent key does not notice one that was made and deleted again (test_linearizable.py).
        """
        if not self.ask(key, "get"):
            return False
        expected = self.seen[key]
        call_ns = time.monotonic_ns()
        try:
            self.expect_ok(self.connection.ask("WATCH", key))
        except (Closed, Refused, Unknown):
            self.move()
            return False
        if not self.ask(key, "get"):
            return False
        asked = [("MULTI",), ("SET", key, self.fresh()), ("EXEC",)]
        if self.seen[key] != expected:
            # Another connection watches nothing.
            self.move()
            return True
        return self.record(key, "cas", asked, value=asked[1][2], expected=expected, call_ns=call_ns)

    def record(self, key, op, asked, value=None, expected=None, call_ns=None):
        name = self.nodes[self.node][0]
        call_ns = call_ns or time.monotonic_ns()
        add = functools.partial(
            self.history.add, self.number, name, key, op, call_ns, value=value, expected=expected
        )
        try:
            reply = self.connection.ask_many(asked)[-1]
            found = self.read(op, reply)
        except Refused:
            add(outcome="refused")
            self.move()
            return False
        except (Closed, Unknown):
            add(outcome="unknown")
            self.move()
            return False
        if op == "cas" and not found:
            return True
        self.seen[key] = found
        add(outcome="ok", reply=found)
        return True

    def expect_ok(self, reply):
        self.refuse(reply)
        if reply != b"+OK\r\n":
            self.history.unlisted[reply.decode(errors="replace").strip()] += 1
            raise Unknown

    def refuse(self, reply):
        """Errors become exceptions; one that nobody promised counts as unknown, and is reported."""
        if reply[:1] not in b"-!":
            return
        text = reply.decode(errors="replace").lstrip("-!0123456789\r\n").strip()
        if text.startswith("TRYAGAIN"):
            raise Refused
        if not text.startswith("TIMEOUT"):
            self.history.unlisted[text] += 1
        raise Unknown

    def read(self, op, reply):
        """The answer as the history has it; for `cas` whether it was done."""
        self.refuse(reply)
        if op == "get":
            return text_of(reply)
        if op in ("setnx", "del", "incr"):
            return number(reply)
        if op == "set":
            return self.expect_ok(reply)
        if reply in (b"*-1\r\n", b"_\r\n"):
            return False
        head, body = reply.split(b"\r\n", 1)
        if head == b"*1" and op == "cas":
            self.expect_ok(body)
            return True
        # What each of the two commands of a swap answered.
        if head == b"*2" and body.endswith(b"+OK\r\n"):
            return text_of(body[: -len(b"+OK\r\n")])
        self.refuse(body)
        raise AssertionError(f"{op} answered {reply!r}")


def text_of(reply):
    found = bulk(reply)
    return None if found is None else found.decode()


class Clients:
    """Clients on threads of their own that ask until they are stopped; their keys have `prefix`."""

    def __init__(self, nodes, count, seed, prefix="", pace_seconds=0.002):
        self.history = History()
        self.stopping, self.failed = threading.Event(), []
        begin_ns = time.monotonic_ns()
        self.all = [
            Client(n, nodes, self.history, seed, begin_ns, pace_seconds, prefix) for n in range(count)
        ]
        self.threads = [threading.Thread(target=self.run, args=(client,), daemon=True) for client in self.all]

    def run(self, client):
        try:
            client.run(self.stopping)
        except Exception as error:  # noqa: BLE001  shown by `stop`, in the test's own thread
            self.failed.append(error)

    def start(self):
        for thread in self.threads:
            thread.start()
        return self

    def await_more(self, count, bound_seconds):
        """Waits until this many more operations were answered."""
        begin = self.history.counts()["ok"]
        deadline = time.monotonic() + bound_seconds
        while self.history.counts()["ok"] < begin + count:
            if self.failed:
                raise self.failed[0]
            if time.monotonic() > deadline:
                done = self.history.counts()
                raise Violation(f"{done['ok'] - begin} of {count} operations within {bound_seconds} s: {done}")
            time.sleep(0.05)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(2 * ANSWER_SECONDS)
            if thread.is_alive():
                raise Violation("a node gives an answer bit by bit, or a client hangs")
        if self.failed:
            raise self.failed[0]
        return self.history


def read_everywhere(nodes, history, bound_seconds=60):
    """Reads every key of a history through every node, into the history. What was acknowledged and
    never overwritten is looked at directly, which says more than that there is no order."""
    once = history.acknowledged_once()
    for name, port in nodes:
        reader = Client(1_000_000, [(name, port)], history, 0, 0, 0)
        deadline = time.monotonic() + bound_seconds
        for key in history.keys():
            while not (reader.connect() and reader.ask(key, "get")):
                if time.monotonic() > deadline:
                    raise Violation(f"{key} cannot be read at {name} within {bound_seconds} s")
                time.sleep(PAUSE_SECONDS)
            if key in once and reader.seen[key] != once[key]:
                raise Violation(
                    f"{key} was acknowledged with {once[key]!r}, and {name} reads {reader.seen[key]!r}"
                )
        reader.disconnect()

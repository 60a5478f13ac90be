#!/usr/bin/env python3
"""What clients notice when a node of three goes bad, or the server that orders the log's writes.

    scripts/failover.py [--faults kill,freeze,slow,log-kill,log-freeze] [--seconds 20] [--clients 24]
                        [--rate 1200] [--seed 1] [--reads strong] [--log-version current]
                        [--json FILE]

A cluster of three nodes and three log servers runs under a steady load: clients spread over the
nodes, four reads by key to one write, each client paced so that all of them together ask at the rate.
A client that gets no answer within its timeout, or an error, goes on at the next node. Each fault is
injected once into the running cluster and stays for the given time; then the cluster is made whole.

Printed for each fault: p99 before, that of the worst two seconds, after how long p99 was within 1.5
of before and stayed there for five seconds, and every error that clients saw, by kind. Clients of
the nodes that stay well are told apart from those that were connected to the bad one.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

from cluster_harness import Cluster  # noqa: E402
from cluster_processes import Direct, await_true  # noqa: E402
from resp import Closed, Connection  # noqa: E402

KEYS = 2_000
VALUE = b"v" * 200
READS = 0.8
TIMEOUT_SECONDS = 2
BEFORE_SECONDS = 10
WINDOW_SECONDS = 2
FACTOR = 1.5
# How long it must stay within that.
STEADY_SECONDS = 5
# A node that is slow gets this part of every tenth of a second.
DUTY = 0.2
FAULTS = ("kill", "freeze", "slow", "log-kill", "log-freeze")

# begin and end in seconds, whether a read, the node first asked, what went wrong.
Sample = collections.namedtuple("Sample", "begin end is_read node error")


class Load:
    def __init__(self, nodes, clients, rate, seed, reads):
        self.nodes, self.samples, self.reads = nodes, [], reads
        self.stopping = threading.Event()
        pace = clients / rate
        self.threads = [
            threading.Thread(target=self.run, args=(n, random.Random(seed * 1000 + n), pace), daemon=True)
            for n in range(clients)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, number, chance, pace):
        node, connection = number % len(self.nodes), None
        due = time.monotonic() + chance.random() * pace
        while not self.stopping.is_set():
            # What could not be asked in time is not asked late: the load is steady, not a flood.
            due = max(due + pace, time.monotonic() - pace)
            self.stopping.wait(max(0, due - time.monotonic()))
            is_read = chance.random() < READS
            key = f"k:{chance.randrange(KEYS)}"
            begin = time.monotonic()
            try:
                connection = connection or self.connect(node)
            except (OSError, Closed):
                self.add(begin, is_read, node, "connect")
                node = (node + 1) % len(self.nodes)
                continue
            try:
                reply = connection.ask(*(("GET", key) if is_read else ("SET", key, VALUE)))
                error = kind(reply)
            except Closed as closed:
                error = "timeout" if isinstance(closed.__cause__, TimeoutError) else "closed"
            self.add(begin, is_read, node, error)
            if error:
                connection.close()
                connection, node = None, (node + 1) % len(self.nodes)

    def connect(self, node):
        connection = Connection(self.nodes[node].port, TIMEOUT_SECONDS)
        # How fresh its reads are is a connection's own.
        if self.reads != "strong" and connection.ask("PLIMSOLL.READS", self.reads) != b"+OK\r\n":
            raise Closed
        return connection

    def add(self, begin, is_read, node, error):
        self.samples.append(Sample(begin, time.monotonic(), is_read, node, error))

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(2 * TIMEOUT_SECONDS)


def kind(reply):
    if reply[:1] != b"-":
        return None
    word = reply[1:].split()[0].decode()
    return {"TRYAGAIN": "refused", "TIMEOUT": "unknown"}.get(word, word)


def p99_ms(samples):
    if len(samples) < 1000:
        return None
    return statistics.quantiles(((s.end - s.begin) * 1000 for s in samples), n=100)[98]


def windows(samples, begin, end):
    """p99 of each window, by the begin of its operations; those without any are left out."""
    found = []
    at = begin
    while at + WINDOW_SECONDS <= end:
        times = sorted((s.end - s.begin) * 1000 for s in samples if at <= s.begin < at + WINDOW_SECONDS)
        if times:
            found.append((at - begin, times[int(len(times) * 0.99)], len(times)))
        at += WINDOW_SECONDS / 4
    return found


def recovered_seconds(found, limit_ms):
    """The first time from which no window above the limit begins for a while; None where there is none."""
    for first, _, _ in found:
        follow = [p99 for at, p99, _ in found if first <= at < first + STEADY_SECONDS]
        if max(follow) <= limit_ms and first + STEADY_SECONDS <= found[-1][0] + WINDOW_SECONDS:
            return first
    return None


def figures(samples, nodes, bad, begin, end):
    """What clients saw, those of nodes that stayed well and those of the bad one."""
    groups = {"well": [n for n in range(len(nodes)) if n != bad]}
    if bad is not None:
        groups["bad"] = [bad]
    result = {}
    for name, members in groups.items():
        own = [s for s in samples if s.node in members]
        before = p99_ms([s for s in own if begin - BEFORE_SECONDS <= s.begin < begin])
        during = windows(own, begin, end)
        errors = collections.Counter(
            f"{'read' if s.is_read else 'write'} {s.error}" for s in own if s.error and begin <= s.begin < end
        )
        result[name] = {
            "operations": sum(begin <= s.begin < end for s in own),
            "p99_before_ms": before,
            "p99_worst_ms": max((p99 for _, p99, _ in during), default=None),
            "recovered_s": recovered_seconds(during, FACTOR * before) if before else None,
            "p99_windows_ms": [[round(at, 2), round(p99, 3), count] for at, p99, count in during],
            "errors": dict(sorted(errors.items())),
        }
    return result


class Fault:
    """One fault while it lasts; `bad` is the node's number where it is a node's."""

    def __init__(self, cluster, name, chance):
        self.name, self.stopping = name, threading.Event()
        self.bad = None if name.startswith("log-") else chance.randrange(len(cluster.nodes))
        if self.bad is None:
            self.target = cluster.logs.leader(self.busiest(cluster))
        else:
            self.target = cluster.nodes[self.bad]

    @staticmethod
    def busiest(cluster):
        """The number of the group that takes most records."""

        def positions():
            return {n: stream["state"]["last_seq"] for n, stream in cluster.logs.all[0].streams().items()}

        before = await_true("a log server tells of its streams", positions, 30)
        time.sleep(1)
        after = positions()
        return max(before, key=lambda n: after.get(n, 0) - before[n])

    def inject(self, seconds):
        if self.name.endswith("kill"):
            self.target.kill()
        elif self.name.endswith("freeze"):
            self.target.freeze()
        else:
            return self.slow(seconds)
        return time.sleep(seconds)

    def slow(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.target.freeze()
            time.sleep(0.1 * (1 - DUTY))
            self.target.thaw()
            time.sleep(0.1 * DUTY)


def measure(cluster, name, args):
    load = Load(cluster.nodes, args.clients, args.rate, args.seed, args.reads)
    time.sleep(2 + BEFORE_SECONDS)
    fault = Fault(cluster, name, random.Random(args.seed))
    begin = time.monotonic()
    fault.inject(args.seconds)
    end = time.monotonic()
    load.stop()
    cluster.heal()
    cluster.logs.await_well(120)
    cluster.await_green()
    found = figures(load.samples, cluster.nodes, fault.bad, begin, end)
    return {"fault": name, "target": fault.target.name} | found


def fill(cluster):
    with Connection(cluster.nodes[0].port, 30) as connection:
        for first in range(0, KEYS, 500):
            replies = connection.ask_many([("SET", f"k:{n}", VALUE) for n in range(first, first + 500)])
            assert all(reply == b"+OK\r\n" for reply in replies), replies[0]


def show(results):
    row = "{:<11} {:<10} {:<8} {:>7} {:>11} {:>11} {:>11}  {}"
    print(row.format("fault", "target", "clients", "asked", "p99 before", "worst 2 s", "within 1.5", "errors"))
    for result in results:
        for group in ("well", "bad"):
            if group in result:
                found = result[group]
                errors = ", ".join(f"{count} {what}" for what, count in found["errors"].items()) or "none"
                times = (milliseconds(found[what]) for what in ("p99_before_ms", "p99_worst_ms"))
                after = "not" if found["recovered_s"] is None else f"{found['recovered_s']:.1f} s"
                asked = (f"of {group}", found["operations"])
                print(row.format(result["fault"], result["target"], *asked, *times, after, errors))


def milliseconds(value):
    return "n/a" if value is None else f"{value:,.1f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--rate", type=float, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reads", default="strong", choices=("strong", "session", "eventual"))
    parser.add_argument("--log-version", default="current", choices=("current", "oldest"))
    parser.add_argument("--json")
    args = parser.parse_args()
    faults = args.faults.split(",")
    if unknown := set(faults) - set(FAULTS):
        parser.error(f"no fault is called {', '.join(sorted(unknown))}; there are {', '.join(FAULTS)}")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder, version=args.log_version, network=Direct())
        try:
            cluster.start()
            fill(cluster)
            for name in faults:
                results.append(measure(cluster, name, args))
                print(f"{name}: done", file=sys.stderr, flush=True)
        except AssertionError:
            print("\n".join(cluster.texts()), file=sys.stderr)
            raise
        finally:
            cluster.close()
    show(results)
    if args.json:
        about = {"seconds": args.seconds, "clients": args.clients, "rate_s": args.rate, "seed": args.seed}
        host = {"cores": os.cpu_count(), "log_version": args.log_version}
        text = json.dumps({"settings": about, "host": host, "results": results}, indent=1)
        pathlib.Path(args.json).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What a write costs where more nodes are there than its partition has copies: three of them, and nine.

    scripts/bench_growth.py [--laps 5] [--seconds 4] [--partitions 1] [--json FILE]

Two clusters in one run, each with three log servers (R3, sync_interval always) of its own. One table in
two copies; values of 1 KB, at random keys; 24 clients, a third each at the two nodes with copies and at
one without. Laps take turns in an order that rotates; the cluster that is not written to idles. The
figure is processor time of all processes of a cluster for one write, log servers included and the
clients excluded: all share this machine's processors, so the total is fixed. With --partitions 64 every
group of the log is written to, and every node holds copies.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

import bench_redis  # noqa: E402
from cluster_harness import Cluster  # noqa: E402
from cluster_processes import Direct, await_true  # noqa: E402
from resp import Connection  # noqa: E402

SIZES = (3, 9)
CLIENTS = 24
TARGETS = 3
KEYS = 20_000
VALUE_BYTES = 1000
# What groups of the log are given up after, and more.
SETTLE_SECONDS = 15
IDLE_SECONDS = 3
RUN_SECONDS_MAX = 120
AIM = 1.15


def processes(cluster):
    return {it.name: it.process.pid for it in (*cluster.nodes, *cluster.logs.all)}


def cpu_seconds(cluster):
    return {name: bench_redis.cpu_seconds(pid) for name, pid in processes(cluster).items()}


def threads_of_apply(node):
    """How many groups of the log a node reads."""
    tasks = pathlib.Path(f"/proc/{node.process.pid}/task").iterdir()
    return sum((task / "comm").read_text().startswith("apply") for task in tasks)


def targets(cluster):
    """The nodes that clients are at: those with copies of the first partition, and one more."""
    holders = next(iter(await_true("copies are known", cluster.copies, 60).values()))
    nodes = sorted(cluster.nodes, key=lambda node: node.name not in holders)
    return nodes[:TARGETS]


def prepare(cluster):
    with Connection(cluster.nodes[0].port, 60) as rows:
        assert rows.ask("SET", "first", 1) == b"+OK\r\n"
    cluster.await_green()


def write(nodes, count):
    """Writes through each of the nodes at once; the seconds that took."""

    def run(node):
        command = ["redis-benchmark", "-p", str(node.port), "-t", "set", "-q", "-r", str(KEYS), "-d", str(VALUE_BYTES)]
        command += ["-c", str(CLIENTS // TARGETS), "-n", str(count // TARGETS)]
        subprocess.run(command, check=True, capture_output=True, timeout=RUN_SECONDS_MAX)

    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(TARGETS) as pool:
        list(pool.map(run, nodes))
    return time.monotonic() - begun


def measure(args, clusters):
    at = {size: targets(cluster) for size, cluster in clusters.items()}
    counts = {}
    for size, nodes in at.items():
        # The first run warms up and says how many writes a lap takes.
        probe = 3000
        counts[size] = max(int(probe * args.seconds / write(nodes, probe)), probe) // TARGETS * TARGETS
    laps = []
    for lap in range(args.laps):
        sizes = list(clusters)
        for size in sizes[lap % len(sizes) :] + sizes[: lap % len(sizes)]:
            before = cpu_seconds(clusters[size])
            seconds = write(at[size], counts[size])
            after = cpu_seconds(clusters[size])
            used = {name: 1e6 * (after[name] - before[name]) / counts[size] for name in after}
            figures = {"us_per_write": sum(used.values()), "writes_s": counts[size] / seconds}
            laps.append({"lap": lap, "nodes": size, "us_by_process": used} | figures)
        print(f"lap {lap + 1} of {args.laps} done", file=sys.stderr, flush=True)
    return at, laps


def idle(clusters):
    """Processor time a second of each cluster where nobody asks anything, in thousandths of a processor."""
    before = {size: sum(cpu_seconds(cluster).values()) for size, cluster in clusters.items()}
    time.sleep(IDLE_SECONDS)
    after = {size: sum(cpu_seconds(cluster).values()) for size, cluster in clusters.items()}
    return {size: 1000 * (after[size] - before[size]) / IDLE_SECONDS for size in clusters}


def show(args, clusters, at, laps, idled):
    def got(size, what):
        return [lap[what] for lap in laps if lap["nodes"] == size]

    print(f"\nOne table of {args.partitions} partition(s) in two copies, {CLIENTS} clients. Processor time a write, all")
    print("processes; of which the nodes that clients are at (two with copies, one without), the other nodes")
    print("together, the log servers; writes a second; at rest, thousandths of a processor; groups read:")
    for size, cluster in clusters.items():
        named = {node.name for node in at[size]}
        logs = {server.name for server in cluster.logs.all}

        def part(of):
            return statistics.median(sum(us for name, us in used.items() if of(name)) for used in got(size, "us_by_process"))

        parts = [part(lambda name: name in named), part(lambda name: name not in named | logs), part(lambda name: name in logs)]
        total, rate = (statistics.median(got(size, what)) for what in ("us_per_write", "writes_s"))
        read = " ".join(str(threads_of_apply(node)) for node in cluster.nodes)
        print(f"{size} nodes {total:6.0f} us  ({' + '.join(f'{us:.0f}' for us in parts)})  {rate:6,.0f}/s  {idled[size]:4.0f}  {read}")
    few, many = SIZES
    ratios = sorted(b / a for a, b in zip(got(few, "us_per_write"), got(many, "us_per_write")))
    print(f"{many} nodes to {few}, paired by lap: {statistics.median(ratios):.2f}  ({ratios[0]:.2f} to {ratios[-1]:.2f}; aim: at most {AIM})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--json")
    args = parser.parse_args()
    settings = [f"resp.number_of_shards={args.partitions}"]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        clusters = {size: Cluster(folder / str(size), nodes=size, settings=settings, network=Direct()) for size in SIZES}
        try:
            for cluster in clusters.values():
                prepare(cluster.start())
            time.sleep(SETTLE_SECONDS)
            at, laps = measure(args, clusters)
            idled = idle(clusters)
            show(args, clusters, at, laps, idled)
        finally:
            for cluster in clusters.values():
                cluster.close()
    if args.json:
        about = {name: getattr(args, name) for name in ("laps", "seconds", "partitions")}
        host = {"cores": os.cpu_count(), "kernel": platform.release()}
        text = json.dumps({"settings": about | {"value_bytes": VALUE_BYTES, "clients": CLIENTS}, "host": host, "idle": idled, "laps": laps}, indent=1)
        pathlib.Path(args.json).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

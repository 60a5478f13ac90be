#!/usr/bin/env python3
"""Reads and writes by key in YCSB's mixes: three nodes, one node and redis-server, in one run.

    scripts/bench_mixes.py ROW_LOAD [--laps 5] [--seconds 3] [--clients 24] [--keys 20000] [--json FILE]

Arms: three nodes with three log servers (R3, sync_interval always, two copies of each row) with strong,
session and eventual reads, one node (embedded log, synced before the answer), redis-server
(appendfsync always). Values of 1 KB, keys drawn as YCSB draws them (zipfian, 0.99). Every lap runs
each arm once per mix, in an order that rotates; an arm that is not asked idles meanwhile. The figure
that is compared is operations per CPU second of all server processes of an arm, log servers included
and the clients excluded: all arms share this machine's processors. ROW_LOAD is the example of that name of plimsoll-lab.
"""

import argparse
import itertools
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

import bench_redis  # noqa: E402
from cluster_harness import Cluster  # noqa: E402
from cluster_processes import Direct  # noqa: E402

VALUE_BYTES = 1024
MIXES = ("1:0", "0:1", "1:1", "3:1", "30:1", "1:30")
RUN_SECONDS_MAX = 120
# Apache Pegasus' own figures, operations a second: 5 replica nodes of 2 x Xeon Silver 4210 (20
# cores), 128 GB, 10 GbE; YCSB, zipfian, 64 partitions, 1 KB, 3 replicas; version 2.4.0.
# Source: https://pegasus.apache.org/docs/benchmark/ (incubator-pegasus-website 0b2b591).
PEGASUS = {"1:0": (360_642, 0), "0:1": (0, 56_953), "1:1": (62_572, 62_561), "3:1": (140_484, 46_822), "30:1": (336_106, 11_203)}
PEGASUS_CORES = 100


class Single:
    """One process that serves alone."""

    level = None

    def __init__(self, arm, folder):
        self.server = bench_redis.Server(arm, folder)
        self.targets = f"127.0.0.1:{self.server.port}"

    def cpu_seconds(self):
        return self.server.cpu_seconds()

    def stop(self):
        self.server.stop()


class Three:
    """Three nodes and their log servers, read at one level."""

    def __init__(self, cluster, level):
        self.cluster, self.level = cluster, level
        self.targets = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)

    def cpu_seconds(self):
        processes = [it.process for it in (*self.cluster.nodes, *self.cluster.logs.all)]
        return sum(bench_redis.cpu_seconds(process.pid) for process in processes)

    def stop(self):
        self.cluster.close()


def row_load(args, *words):
    command = [args.row_load, *map(str, words)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def run_laps(args, arms):
    for targets in {arm.targets for arm in arms.values()}:
        row_load(args, "load", targets, args.keys, VALUE_BYTES)
    laps = []
    for lap, mix in itertools.product(range(-1, args.laps), MIXES):
        names = list(arms)
        for name in names[lap % len(names) :] + names[: lap % len(names)]:
            arm, seconds = arms[name], args.seconds if lap >= 0 else 1
            before = arm.cpu_seconds()
            told = row_load(args, "run", arm.targets, args.keys, VALUE_BYTES, mix, args.clients, seconds, args.seed + lap, *filter(None, [arm.level]))
            cpu = arm.cpu_seconds() - before
            count = told["reads_us"]["n"] + told["writes_us"]["n"]
            if told["errors"]:
                print(f"{name}, {mix}: {told['errors']} errors, the last {told['last_error']}", file=sys.stderr)
            if lap >= 0:
                figures = {"operations_per_s": count / told["seconds"], "operations_per_cpu_s": count / cpu}
                laps.append({"lap": lap, "arm": name, "mix": mix, "cpu_s": cpu} | figures | told)
        if mix == MIXES[-1] and lap >= 0:
            print(f"lap {lap + 1} of {args.laps} done", file=sys.stderr, flush=True)
    return laps


def show(arms, laps):
    def got(arm, mix, what, part=None):
        chosen = (lap for lap in laps if lap["arm"] == arm and lap["mix"] == mix)
        values = [lap[part].get(what) if part else lap[what] for lap in chosen]
        return [value for value in values if value is not None]

    def milliseconds(arm, mix):
        cells = []
        for part in ("reads_us", "writes_us"):
            p99 = got(arm, mix, "p99", part)
            cells.append(f"{statistics.median(p99) / 1000:.1f}" if p99 else "-")
        return "/".join(cells)

    print("\nOperations per CPU second of all server processes (median of laps), then operations a second")
    print("and p99 of reads/writes in ms; reads to writes on the left:")
    print(f"{'':7}" + "".join(f"{arm:>32}" for arm in arms) + f"{'Pegasus per core':>20}")
    for mix in MIXES:
        cells = ""
        for arm in arms:
            per_cpu, per_s = (statistics.median(got(arm, mix, what)) for what in ("operations_per_cpu_s", "operations_per_s"))
            cells += f"{per_cpu:,.0f}  ({per_s:,.0f}/s, {milliseconds(arm, mix)})".rjust(32)
        pegasus = f"{sum(PEGASUS[mix]) / PEGASUS_CORES:,.0f}" if mix in PEGASUS else "n/a"
        print(f"{mix:<7}" + cells + pegasus.rjust(20))
    first, *others = arms
    print(f"\nratio of {first} to the others, paired by lap:")
    for mix, other in itertools.product(MIXES, others):
        pairs = zip(got(first, mix, "operations_per_cpu_s"), got(other, mix, "operations_per_cpu_s"))
        ratios = sorted(a / b for a, b in pairs)
        print(f"{mix:<7}{other:<16}{statistics.median(ratios):.2f}  ({ratios[0]:.2f} to {ratios[-1]:.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("row_load")
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log-version", default="current", choices=("current", "oldest"), help="oldest: servers that sync every 2 minutes, and not before each answer")
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(pathlib.Path(folder) / "three", version=args.log_version, network=Direct()).start()
        arms = {f"three, {level}": Three(cluster, level) for level in ("strong", "session", "eventual")}
        arms |= {"one node": Single("plimsoll", folder), "redis always": Single("redis always", folder)}
        try:
            laps = run_laps(args, arms)
        finally:
            for arm in arms.values():
                arm.stop()
    show(arms, laps)
    if args.json:
        about = {name: getattr(args, name) for name in ("seconds", "clients", "keys", "seed", "log_version")}
        host = {"cores": os.cpu_count(), "kernel": platform.release()}
        text = json.dumps({"settings": about | {"value_bytes": VALUE_BYTES}, "host": host, "laps": laps}, indent=1)
        pathlib.Path(args.json).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Reads through RESP at pipeline 16 beside the same reads in-process on a bare RocksDB.

    scripts/bench_rows.py RAW_READS [--laps 5] [--seconds 3] [--json FILE]

RAW_READS is the built example `raw_reads` of the package xtask. Each lap runs redis-benchmark's GET
(50 clients, pipeline 16, 100,000 keys of 100 B) on one node and then the raw reads on one thread and
on every core; redis-benchmark itself needs about a core beside the node, the raw reads need none.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from bench_redis import KEYS, Server, benchmark, plimsoll

SIZE_BYTES = 100
PIPELINE = 16


def raw_reads(program, folder, seconds, threads):
    with tempfile.TemporaryDirectory(dir=folder) as data:
        words = [program, data, KEYS, SIZE_BYTES, seconds, threads]
        return float(subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw_reads")
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--json")
    args = parser.parse_args()
    cores, laps = os.cpu_count(), []
    with tempfile.TemporaryDirectory() as folder:
        node = Server("plimsoll", plimsoll, folder)
        benchmark(node.port, "set", PIPELINE, SIZE_BYTES, 10 * KEYS)
        rate, _ = benchmark(node.port, "get", PIPELINE, SIZE_BYTES, KEYS)
        for lap in range(args.laps):
            resp, _ = benchmark(node.port, "get", PIPELINE, SIZE_BYTES, int(rate * args.seconds))
            one, all_cores = (raw_reads(args.raw_reads, folder, args.seconds, n) for n in (1, cores))
            laps.append({"resp": resp, "raw_one_thread": one, "raw_all_cores": all_cores})
            print(f"lap {lap + 1}: RESP {resp:,.0f}/s, raw {one:,.0f}/s on one thread, {all_cores:,.0f}/s on {cores}", flush=True)
        node.stop()
    for what in ("raw_one_thread", "raw_all_cores"):
        ratio = statistics.median(lap["resp"] / lap[what] for lap in laps)
        print(f"RESP to {what.replace('_', ' ')}: {ratio:.2f} (median of {len(laps)} paired laps)")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(laps, indent=1) + "\n")


if __name__ == "__main__":
    main()

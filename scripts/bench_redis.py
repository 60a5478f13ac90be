#!/usr/bin/env python3
"""GET and SET through redis-benchmark, Plimsoll beside Debian's redis-server, in interleaved laps.

    scripts/bench_redis.py [--bare BARE] [--laps 5] [--seconds 2] [--json FILE] [--folder DIR]

Arms: Plimsoll (log.durability=request), redis-server with appendfsync everysec and always, and with BARE
(the example `bare_rows`) what has to be done in any design, rows in memory and in RocksDB. Every lap
runs each arm once per workload, in an order that rotates, so that a slow minute hits all of them.
Printed: medians with their spread, ratios of Plimsoll to each Redis arm paired by lap, CPU seconds
per million operations of the whole server process, idle memory, fsyncs per second (counted by
strace in laps of their own, which are not timed) and the disk's own fdatasync time.
Needs nothing but Python, redis-tools and redis-server; the fsync counts need strace.
"""

import argparse
import contextlib
import csv
import io
import itertools
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

CLIENTS = 50
KEYS = 100_000
PIPELINES = (1, 16)
SIZES = (100, 1024)
COMMANDS = ("set", "get")
READY_SECONDS = 30
IDLE_SECONDS = 2
RUN_SECONDS_MAX = 120
TICKS = os.sysconf("SC_CLK_TCK")


def plimsoll_binary():
    target = os.environ.get("CARGO_TARGET_DIR") or "~/.cache/plimsoll/target"
    return os.environ.get("PLIMSOLL_BIN") or str(pathlib.Path(target).expanduser() / "release/plimsoll")


def plimsoll(port, data):
    (http,) = free_ports(1)
    return [plimsoll_binary(), "serve", "--data", data, "--resp", f"127.0.0.1:{port}", "--http", f"127.0.0.1:{http}"]


def redis(sync):
    def command(port, data):
        return ["redis-server", "--port", str(port), "--dir", data, "--save", "", "--appendonly", "yes", "--appendfsync", sync]

    return command


ARMS = {"plimsoll": plimsoll, "redis everysec": redis("everysec"), "redis always": redis("always")}


def bare_arms(bare):
    """The example `bare_rows` with rows in memory and with rows in RocksDB."""
    return {
        "bare": lambda port, data: [bare, str(port), f"{data}/log"],
        "bare rocksdb": lambda port, data: [bare, str(port), f"{data}/log", f"{data}/rows"],
    }



def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def ask(port, request):
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(request + b"\r\n")
        return connection.recv(1 << 20)


def cpu_seconds(pid):
    """What a process and its children have used of the processors, in user and in system mode. Redis rewrites its log
    in a child, as others compact in a thread."""
    process = pathlib.Path("/proc", str(pid))
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        children = (process / "task" / str(pid) / "children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        # A child that ended meanwhile: its time is its parent's.
        return 0.0
    # Its own time, and that of children that have ended.
    return sum(map(int, fields[11:15])) / TICKS + sum(map(cpu_seconds, children))


class Server:
    """One arm's process on a folder of its own; with `trace`, under strace counting syncs."""

    def __init__(self, arm, command_of, folder, trace=None):
        (self.port,) = free_ports(1)
        self.data = tempfile.mkdtemp(prefix=arm.replace(" ", "-") + "-", dir=folder)
        command = command_of(self.port, self.data)
        self.traced = trace is not None
        if self.traced:
            command = ["strace", "-f", "--seccomp-bpf", "-c", "-e", "trace=fsync,fdatasync", "-o", str(trace), *command]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with contextlib.suppress(OSError):
                if ask(self.port, b"PING").startswith(b"+PONG"):
                    break
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{arm} does not start: {' '.join(command)}")
            time.sleep(0.02)

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def resident_mib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def stop(self):
        pid = self.process.pid
        if self.traced:
            # strace passes no signal on, so its child is told itself; strace then prints and ends.
            pid = int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        os.kill(pid, signal.SIGTERM)
        self.process.wait(60)


def benchmark(port, command, pipeline, size, requests):
    """Runs redis-benchmark once and returns operations per second and p99 in milliseconds."""
    words = ["redis-benchmark", "-p", port, "-t", command, "-c", CLIENTS, "-P", pipeline, "-d", size]
    words += ["-r", KEYS, "-n", requests, "--csv"]
    # The tool spins for good when its server dies; no run should take this long.
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True, timeout=RUN_SECONDS_MAX)
    rows = list(csv.DictReader(line for line in io.StringIO(result.stdout) if line.startswith('"')))
    return float(rows[0]["rps"]), float(rows[0]["p99_latency_ms"])


def fdatasync_ms(folder):
    """Median time that the disk takes to keep one more 4 KiB page of a file."""
    times = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(200):
            os.write(file.fileno(), b"x" * 4096)
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1000


def count_syncs(arm, folder):
    """Durable SETs at pipeline 1 under strace: syncs per second and operations per sync."""
    if not shutil.which("strace"):
        return None
    trace = pathlib.Path(folder) / "strace.out"
    server = Server(arm, ARMS[arm], folder, trace)
    benchmark(server.port, "set", 1, 100, 2000)
    before = time.monotonic()
    rate, _ = benchmark(server.port, "set", 1, 100, 20000)
    seconds = time.monotonic() - before
    server.stop()
    calls = sum(int(m[1]) for m in re.finditer(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?f(?:data)?sync", trace.read_text(), re.M))
    # The warming run and the stop add a few; they are counted in with their operations.
    return {"per_second": calls * (20000 / 22000) / seconds, "operations_per_sync": 22000 / calls if calls else None, "set_per_second_traced": rate}


def run_laps(args, folder):
    servers = {arm: Server(arm, command_of, folder) for arm, command_of in ARMS.items()}
    time.sleep(IDLE_SECONDS)
    idle = {arm: server.resident_mib() for arm, server in servers.items()}
    workloads = list(itertools.product(SIZES, PIPELINES, COMMANDS))
    requests, laps, syncs = {}, [], []
    for (size, pipeline, command), (arm, server) in itertools.product(workloads, servers.items()):
        # A short run warms the arm and says how many requests fill a lap's seconds.
        rate, _ = benchmark(server.port, command, pipeline, size, 10_000)
        requests[size, pipeline, command, arm] = max(10_000, int(rate * args.seconds))
    for lap in range(args.laps):
        syncs.append(fdatasync_ms(folder))
        for size, pipeline, command in workloads:
            arms = list(servers)
            for arm in arms[lap % len(arms) :] + arms[: lap % len(arms)]:
                count = requests[size, pipeline, command, arm]
                before = servers[arm].cpu_seconds()
                rate, p99 = benchmark(servers[arm].port, command, pipeline, size, count)
                cpu = (servers[arm].cpu_seconds() - before) / count * 1e6
                laps.append({"lap": lap, "arm": arm, "command": command, "pipeline": pipeline, "size_bytes": size, "operations_per_second": rate, "p99_ms": p99, "cpu_s_per_million": cpu})
        print(f"lap {lap + 1} of {args.laps} done", flush=True)
    for server in servers.values():
        server.stop()
    return {"idle_mib": idle, "laps": laps, "fdatasync_ms": syncs}


def table(result):
    def rates(command, pipeline, size, arm, what="operations_per_second"):
        chosen = [x for x in result["laps"] if (x["command"], x["pipeline"], x["size_bytes"], x["arm"]) == (command, pipeline, size, arm)]
        return [x[what] for x in chosen]

    print(f"\n{'':26}" + "".join(f"{arm:>26}" for arm in ARMS) + f"{'to everysec':>13}{'to always':>11}")
    for size, pipeline, command in itertools.product(SIZES, PIPELINES, COMMANDS):
        key = (command, pipeline, size)
        cells = ""
        for arm in ARMS:
            got = rates(*key, arm)
            cells += f"{statistics.median(got):>13,.0f} ({min(got) / 1000:.0f}-{max(got) / 1000:.0f}k)".rjust(26)
        ours = rates(*key, "plimsoll")
        ratios = [statistics.median(a / b for a, b in zip(ours, rates(*key, f"redis {sync}"))) for sync in ("everysec", "always")]
        print(f"{command.upper()} {size} B, pipeline {pipeline:<6}".ljust(26) + cells + f"{ratios[0]:>13.2f}{ratios[1]:>11.2f}")
    print("\nCPU seconds per million operations (whole server) and p99 in ms, 100 B:")
    for pipeline, command in itertools.product(PIPELINES, COMMANDS):
        cells = ""
        for arm in ARMS:
            cpu, p99 = (statistics.median(rates(command, pipeline, 100, arm, what)) for what in ("cpu_s_per_million", "p99_ms"))
            cells += f"{cpu:.1f} s, {p99:.2f} ms".rjust(26)
        print(f"{command.upper()} pipeline {pipeline}".ljust(26) + cells)
    print("\nidle resident MiB".ljust(27) + "".join(f"{result['idle_mib'][arm]:>26.1f}" for arm in ARMS))
    for title, what in (("syncs per second, SET", "per_second"), ("operations per sync", "operations_per_sync")):
        counted = [result["syncs"][arm] and result["syncs"][arm][what] for arm in ARMS]
        print(title.ljust(26) + "".join(f"{n:>26.1f}" if n else f"{'n/a':>26}" for n in counted))
    print(f"the disk's own fdatasync: {statistics.median(result['fdatasync_ms']):.2f} ms (median)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="how long one run should take")
    parser.add_argument("--json", help="also write everything measured to this file")
    parser.add_argument("--folder", help="where the servers keep their data (default: the system's temporary folder)")
    parser.add_argument("--bare", help="the example bare_rows: two more arms")
    args = parser.parse_args()
    if args.bare:
        ARMS.update(bare_arms(args.bare))
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        result = run_laps(args, folder)
        result["syncs"] = {arm: count_syncs(arm, folder) for arm in ARMS}
    result["host"] = {"cores": os.cpu_count(), "kernel": platform.release()}
    table(result)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What the memory breakers cost: `breaker-overhead`.

    bench_breakers.py PLIMSOLL [--layerless BINARY] [--quick] [--laps N] [--docs N] [--out DIR] [--seed N]

The figures of 2014 that this stands beside are of Elasticsearch (Lee Hinman, "Circuit Breaker
Overhead", 2014-10-21): 2,000,000 documents with an incrementing long, two partitions, no replicas,
a terms aggregation for the top 25 without hits, 100 queries a thread after 100 for warming up.

Three arms: `on` and `noop`, drawn at random for every request by one server
(`indices.breaker.request.type: drawn`), and `layerless`, a second server whose binary was built
without the allocator's layer (`--features layerless`), on a copy of the same files; left out where no such
binary is given. Each thread's queries come in rounds of ten, and the two servers take turns in random order, so that what the machine does
besides falls on all arms. Processor time of a query is what the server measures for its
request (the threads' clocks where it runs on search threads); `took` is the answer's. Intervals are
95 %, from a bootstrap over whole laps.
"""

import argparse
import http.client
import json
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import tempfile
import threading
import time

PORT_FIRST = 23100
QUERY = json.dumps({"size": 0, "aggs": {"numbers": {"terms": {"field": "n", "size": 25}}}})
SEARCH = "/numbers/_search?request_cache=false"
ARMS = ["on", "noop", "layerless"]
# Contender and baseline.
PAIRS = [("on", "layerless"), ("noop", "layerless"), ("on", "noop")]
# Average `took` in ms by threads; several runs of one thread.
PUBLISHED = {
    "laptop": {
        "on": {1: [436, 476], 5: [1770], 10: [3432]},
        "noop": {1: [440, 465], 5: [1757], 10: [3450]},
    },
    "desktop": {
        "on": {1: [192, 205, 199, 187], 5: [398], 10: [664], 20: [1356], 30: [1939]},
        "noop": {1: [192, 207, 201, 189], 5: [396], 10: [663], 20: [1368], 30: [1972]},
    },
}
PUBLISHED_BYTES = 29.213 * (1 << 20)
RESAMPLES = 10_000
ROUND_QUERIES = 10


class Server:
    def __init__(self, binary, data, port):
        self.port = port
        command = [binary, "serve", "--data", str(data), "--http", f"127.0.0.1:{port}"]
        command += ["--resp", f"127.0.0.1:{port + 1}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("ready "), f"{binary} did not get ready"

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        kind = "application/x-ndjson" if path.startswith("/_bulk") or "/_bulk" in path else "application/json"
        connection.request(method, path, body, {"content-type": kind})
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < 300, (method, path, answer.status, text[:500])
        connection.close()
        return json.loads(text) if text else None

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as lines:
            fields = lines.read().rsplit(") ", 1)[1].split(" ")
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as lines:
            return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def load(binary, data, docs, port):
    server = Server(binary, data, port)
    settings = {"number_of_shards": 2, "number_of_replicas": 0, "refresh_interval": "-1"}
    mappings = {"properties": {"n": {"type": "long"}}}
    server.ask("PUT", "/numbers", json.dumps({"settings": settings, "mappings": mappings}))
    step = 20_000
    for first in range(0, docs, step):
        lines = "".join(f'{{"index":{{}}}}\n{{"n":{n}}}\n' for n in range(first, min(first + step, docs)))
        answer = server.ask("POST", "/numbers/_bulk", lines)
        assert not answer["errors"]
    server.ask("POST", "/numbers/_refresh")
    server.ask("POST", "/numbers/_forcemerge?max_num_segments=1")
    server.ask("POST", "/numbers/_flush")
    count = server.ask("GET", "/numbers/_count")["count"]
    assert count == docs, count
    server.stop()


def client(port, queries, into):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    for _ in range(queries):
        began = time.monotonic()
        connection.request("POST", SEARCH, QUERY, {"content-type": "application/json"})
        answer = connection.getresponse()
        body = json.loads(answer.read())
        ended = time.monotonic()
        assert answer.status == 200, body
        assert len(body["aggregations"]["numbers"]["buckets"]) == 25
        into.append(
            {
                "took_ms": body["took"],
                "wall_ms": (ended - began) * 1000,
                # A binary from before there was a layer says none of it.
                "cpu_ms": int(answer.headers.get("x-plimsoll-cpu-micros", 0)) / 1000,
                "arm": answer.headers.get("x-plimsoll-breaker", "noop"),
                "peak_bytes": int(answer.headers.get("x-plimsoll-peak-bytes", 0)),
            }
        )
    connection.close()


def lap(server, threads, queries):
    """Every thread's queries, a list for each thread, with the server's processor time."""
    samples = [[] for _ in range(threads)]
    workers = [threading.Thread(target=client, args=(server.port, queries, into)) for into in samples]
    cpu, began = server.cpu_s(), time.monotonic()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(len(it) == queries for it in samples), "a client failed"
    return samples, server.cpu_s() - cpu, time.monotonic() - began


def quantiles(values):
    values, known = sorted(values), {"mean": statistics.fmean(values)}
    known["min"], known["p100"] = values[0], values[-1]
    for name, share in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999)]:
        beyond = len(values) * (1 - share)
        known[name] = values[min(int(len(values) * share), len(values) - 1)] if beyond >= 10 else None
    return known


def result_lap(samples, seconds, peak):
    rate = len(samples) / seconds
    return {
        "valid": True,
        "reason": None,
        "n": len(samples),
        "throughput_ops_s": {"min": rate, "median": rate, "mean": rate, "max": rate},
        "latency_ms": quantiles([it["wall_ms"] for it in samples]),
        "service_time_ms": quantiles([it["took_ms"] for it in samples]),
        "error_rate": 0.0,
        "refused_rate": 0.0,
        "cpu_s": sum(it["cpu_ms"] for it in samples) / 1000,
        "rss_peak_bytes": peak,
        "segment_count": 2,
        "memory": {"request_peak_bytes": statistics.fmean(it["peak_bytes"] for it in samples)},
        "nodes": [],
    }


def change(rng, contender, baseline):
    """Percent by which the mean over laps differs, with its interval; laps are pairs."""
    pairs = list(zip(contender, baseline))
    ratio = lambda some: (sum(a for a, _ in some) / (sum(b for _, b in some) or 1e-9) - 1) * 100
    drawn = sorted(ratio([rng.choice(pairs) for _ in pairs]) for _ in range(RESAMPLES))
    return ratio(pairs), [drawn[int(RESAMPLES * 0.025)], drawn[int(RESAMPLES * 0.975)]]


def measure(servers, threads, queries, warmups, laps, rng):
    """The laps of each arm."""
    found = {arm: [] for arm in ARMS if arm != "layerless" or "layerless" in servers}
    for server in servers.values():
        lap(server, threads, max(1, warmups // threads) if threads > 1 else warmups)
    for _ in range(laps):
        for name in rng.sample(sorted(servers), len(servers)):
            # One server answers for two arms, so twice as many are asked: of the other too, because
            # the first ones after a pause are the dearest.
            count = queries * 2
            samples, cpu, seconds = lap(servers[name], threads, count)
            process = cpu * 1000 / (threads * count)
            peak = servers[name].peak_bytes()
            for arm in found:
                if (arm == "layerless") != (name == "layerless"):
                    continue
                kind = "noop" if arm != "on" else "memory"
                per_thread = [[it for it in own if it["arm"] == kind] for own in samples]
                found[arm].append({"threads": per_thread, "seconds": seconds, "peak": peak, "process_ms": process})
    return found


def flat(lap_of_arm):
    return [sample for own in lap_of_arm["threads"] for sample in own]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("plimsoll")
    parser.add_argument("--layerless", help="a binary without the layer")
    parser.add_argument("--quick", action="store_true", help="1 and 10 threads, not the older form")
    parser.add_argument("--laps", type=int, help="rounds; 10 make the 100 queries a thread of 2014")
    parser.add_argument("--docs", type=int, default=2_000_000)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=20141021)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    counts = [1, 10] if options.quick else [1, 5, 10, 20, 30]
    laps = options.laps or 10
    forms = [("", options.docs, counts, 100)]
    if not options.quick:
        forms.append(("old-", 20_000, [1, 5, 10], 10))
    scenarios, comparisons, report = [], [], []
    for prefix, docs, counts, warmups in forms:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="breakers-bench-", dir="/tmp"))
        servers = {}
        try:
            load(options.plimsoll, folder / "layered", docs, PORT_FIRST)
            if options.layerless:
                shutil.copytree(folder / "layered", folder / "layerless")
                servers["layerless"] = Server(options.layerless, folder / "layerless", PORT_FIRST + 10)
            servers["layered"] = Server(options.plimsoll, folder / "layered", PORT_FIRST)
            for name, server in servers.items():
                kind = {"indices.breaker.request.type": "drawn" if name == "layered" else "noop"}
                server.ask("PUT", "/_cluster/settings", json.dumps({"transient": kind}))
            for threads in counts:
                found = measure(servers, threads, ROUND_QUERIES, warmups, laps, rng)
                name = f"{prefix}threads-{threads}"
                scenarios.append(scenario(name, threads, found, docs))
                comparisons += compare(rng, name, found)
                report += table(prefix, name, threads, found, comparisons)
                print("\n".join(table(prefix, name, threads, found, comparisons)), flush=True)
        finally:
            for server in servers.values():
                server.stop()
            shutil.rmtree(folder)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        result = {
            "schema_version": 1,
            "experiment": "breaker-overhead",
            "mode": "closed",
            "host": f"{platform.node()} {os.cpu_count()} processors",
            "seed": options.seed,
            "scenarios": scenarios,
            "comparisons": comparisons,
        }
        (options.out / "result.json").write_text(json.dumps(result, indent=1))
        (options.out / "report.md").write_text("\n".join(["# breaker-overhead", "", *report, ""]))


def scenario(name, threads, found, docs):
    variants = []
    for arm in found:
        settings = {"indices.breaker.request.type": "memory" if arm == "on" else "noop", "documents": docs}
        settings["layer"] = arm != "layerless"
        laps = [result_lap(flat(it), it["seconds"], it["peak"]) for it in found[arm]]
        variants.append({"name": arm, "settings": settings, "laps": laps})
    return {"name": name, "fault": {"kind": "none", "fit": {}}, "load": {"clients": threads}, "variants": variants}


def compare(rng, name, found):
    comparisons = []
    for contender, baseline in [pair for pair in PAIRS if set(pair) <= found.keys()]:
        for metric, field in [("cpu_s_per_op", "cpu_ms"), ("service_time_ms.mean", "took_ms")]:
            means = [[statistics.fmean(s[field] for s in flat(it)) for it in found[arm]] for arm in (contender, baseline)]
            if not any(means[1]):
                # `took` is in whole ms: of so short searches it says nothing.
                continue
            percent, interval = change(rng, *means)
            comparisons.append(
                {
                    "scenario": name,
                    "baseline": baseline,
                    "contender": contender,
                    "metric": metric,
                    "change_percent": percent,
                    "ci95": interval,
                    "resolved": interval[0] > 0 or interval[1] < 0,
                    "published_change_percent": None,
                    "published_as": None,
                }
            )
    if "layerless" not in found:
        return comparisons
    # The processor time of the whole process knows no arms: one server against the other.
    means = [[it["process_ms"] for it in found[arm]] for arm in ("on", "layerless")]
    percent, interval = change(rng, *means)
    comparisons.append({**comparisons[0], "metric": "process_cpu_s_per_op", "change_percent": percent, "ci95": interval})
    comparisons[-1]["resolved"] = interval[0] > 0 or interval[1] < 0
    return comparisons


def table(prefix, name, threads, found, comparisons):
    lines = [f"## {name}", "", "| arm | cpu ms a query | took ms: average | min | max | total a thread | charged MB | process cpu ms a query |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for arm in found:
        samples = [sample for it in found[arm] for sample in flat(it)]
        took = [it["took_ms"] for it in samples]
        # Of as many queries as a thread asked in each arm of 2014: the arms have not as many here.
        asked = ROUND_QUERIES * len(found[arm])
        totals = [
            statistics.fmean(s["took_ms"] for it in found[arm] for s in it["threads"][n]) * asked for n in range(threads)
        ]
        peak = statistics.fmean(it["peak_bytes"] for it in samples) / (1 << 20)
        process = statistics.fmean(it["process_ms"] for it in found[arm])
        lines.append(
            f"| {arm} | {statistics.fmean(it['cpu_ms'] for it in samples):.3f} | {statistics.fmean(took):.1f} | "
            f"{min(took)} | {max(took)} | {statistics.fmean(totals):.0f} | {peak:.3f} | {process:.3f} |"
        )
    for machine, arms in PUBLISHED.items():
        for arm, by_threads in arms.items():
            if not prefix and threads in by_threads:
                runs = ", ".join(str(ms) for ms in by_threads[threads])
                charged = f"{PUBLISHED_BYTES / (1 << 20):.3f}" if arm == "on" else "-"
                lines.append(f"| 2014 {machine}, {arm} | - | {runs} | - | - | - | {charged} | - |")
    lines.append("")
    for it in comparisons:
        if it["scenario"] == name:
            low, high = it["ci95"]
            lines.append(
                f"- {it['contender']} against {it['baseline']}, {it['metric']}: {it['change_percent']:+.2f} % "
                f"({low:+.2f} to {high:+.2f})"
            )
    return [*lines, ""]


if __name__ == "__main__":
    main()

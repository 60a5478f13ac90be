#!/usr/bin/env python3
"""What it costs a search that its partitions lie on several nodes: one, three and five of them.

    scripts/bench_distribution.py HTTP_LOAD [--laps 5] [--seconds 4] [--scale 10] [--json FILE]

The same documents in an index of 5 partitions without replicas, on clusters of one, three and five
nodes; searches are asked of the first node, which asks the others. All nodes share this machine's
processors, so the total is fixed, and the figure is CPU seconds of all nodes per 1,000 searches:
beside one node's it says what distribution costs. Laps take turns in an order that rotates; the
clusters that are not asked idle. The answers of all three are compared. Works and searches are those
of document_works.py; HTTP_LOAD is xtask's example of that name.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

import bench_redis  # noqa: E402
import document_works  # noqa: E402
from bench_documents import bulks, searches, write_requests  # noqa: E402
from cluster_harness import Cluster  # noqa: E402
from cluster_processes import Direct  # noqa: E402

SIZES = (1, 3, 5)
CLIENTS = 4
WORK = {"complex": ["complex"], "pmc": ["default", "term", "articles_monthly_agg_uncached"]}
AIM_PERCENT = 15


def ask(port, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read() or b"{}")


def run(generator, cluster, requests, seconds=None, answers=None):
    """One run of the generator, with the CPU seconds of the cluster's nodes."""
    command = [generator, "--target", f"127.0.0.1:{cluster.nodes[0].http}", "--requests", requests, "--clients", str(CLIENTS)]
    command += ["--seconds", str(seconds)] if seconds else []
    command += ["--answers", answers] if answers else []
    before = cpu_seconds(cluster)
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    report["cpu_s"] = cpu_seconds(cluster) - before
    if report["failures"] or set(report["statuses"]) != {"200"}:
        raise SystemExit(f"{report['failures']} failures, statuses {report['statuses']}")
    return report


def cpu_seconds(cluster):
    return sum(bench_redis.cpu_seconds(node.process.pid) for node in cluster.nodes)


def fill(generator, cluster, name, plan, requests):
    port = cluster.nodes[0].http
    settings = {"number_of_shards": plan["shards"], "number_of_replicas": 0}
    ask(port, "PUT", f"/{name}", {"settings": settings, "mappings": {"properties": plan["properties"]}})
    run(generator, cluster, requests)
    ask(port, "POST", f"/{name}/_refresh")
    ask(port, "POST", f"/{name}/_forcemerge?max_num_segments=1")
    count = ask(port, "GET", f"/{name}/_count")["count"]
    if count != plan["count"]:
        raise SystemExit(f"{name} has {count} documents of {plan['count']}")


def totals(path):
    """What each answer found; scores and order may differ, because partitions count terms apart."""
    found = []
    for line in pathlib.Path(path).read_text().splitlines():
        body = json.loads(line)
        found.append((body["hits"]["total"], len(body["hits"]["hits"]), body.get("aggregations")))
    return found


def measure(args, folder, clusters):
    planned, laps = {}, []
    for name in WORK:
        plan = document_works.plan(name, args.scale)
        # They are made as they are read: all clusters get the same ones.
        bulk = folder / f"{name}.bulk"
        write_requests(bulk, bulks(name, plan["documents"], plan["bulk_docs"]))
        for cluster in clusters.values():
            fill(args.http_load, cluster, name, plan, bulk)
        for search in WORK[name]:
            path = folder / f"{name}-{search}.requests"
            write_requests(path, searches(name, plan["searches"][search], None))
            planned[name, search] = path
    for (name, search), path in planned.items():
        found = []
        for size, cluster in clusters.items():
            answers = folder / f"answers-{size}"
            run(args.http_load, cluster, path, answers=answers)
            found.append(totals(answers))
        if any(it != found[0] for it in found):
            raise SystemExit(f"{name}, {search}: the clusters do not find the same")
    for lap, ((name, search), path) in itertools.product(range(args.laps), planned.items()):
        sizes = list(clusters)
        for size in sizes[lap % len(sizes) :] + sizes[: lap % len(sizes)]:
            report = run(args.http_load, clusters[size], path, args.seconds)
            figures = {"cpu_s_per_1000": 1000 * report["cpu_s"] / report["n"], "searches_s": report["throughput_ops_s"]}
            laps.append({"lap": lap, "work": f"{name} {search}", "nodes": size, "p99_ms": report["latency_ms"]["p99"]} | figures)
        print(f"lap {lap + 1} of {args.laps}: {name} {search}", file=sys.stderr, flush=True)
    return laps


def show(laps):
    def got(work, size, what):
        return [lap[what] for lap in laps if (lap["work"], lap["nodes"]) == (work, size)]

    print("CPU seconds of all nodes per 1,000 searches (median of laps), searches a second, and the")
    print(f"cost beside one node, paired by lap (aim: under {AIM_PERCENT} %):")
    for work in dict.fromkeys(lap["work"] for lap in laps):
        for size in SIZES:
            cpu, rate = (statistics.median(got(work, size, what)) for what in ("cpu_s_per_1000", "searches_s"))
            pairs = zip(got(work, size, "cpu_s_per_1000"), got(work, SIZES[0], "cpu_s_per_1000"))
            costs = sorted(100 * (a / b - 1) for a, b in pairs)
            cost = f"{statistics.median(costs):+.0f} %  ({costs[0]:+.0f} to {costs[-1]:+.0f})" if size != SIZES[0] else ""
            print(f"{work:<38}{size} nodes{cpu:>10.3f} s{rate:>10,.0f}/s   {cost}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("http_load")
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--scale", type=int, default=10, help="one part in so many of the works' documents")
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        clusters = {size: Cluster(folder / str(size), nodes=size, network=Direct()) for size in SIZES}
        try:
            for cluster in clusters.values():
                cluster.start()
            laps = measure(args, folder, clusters)
        finally:
            for cluster in clusters.values():
                cluster.close()
    show(laps)
    if args.json:
        about = {"seconds": args.seconds, "scale": args.scale, "clients": CLIENTS, "cores": os.cpu_count()}
        pathlib.Path(args.json).write_text(json.dumps({"settings": about, "laps": laps}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

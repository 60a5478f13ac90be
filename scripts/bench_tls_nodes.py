#!/usr/bin/env python3
"""What TLS between nodes costs: processor time of a search that asks three nodes, and of a copy of an index.

    scripts/bench_tls_nodes.py HTTP_LOAD [--laps 5] [--seconds 4] [--scale 10] [--megabytes 300] [--json FILE]

Two clusters of three nodes in one run, one with `rpc.tls.mode: required`; laps take turns in an order that
rotates, and the cluster that is not asked idles. The search is `complex` of document_works.py over five
partitions without replicas; the figure is the processor time of all three nodes. The copy is made anew in each
lap: a replica of an index of one partition is taken away and given back, and the figure is processor seconds a
gigabyte (10^9 bytes) of each side, what the node does beside that included. HTTP_LOAD is xtask's example of that
name.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

import bench_redis  # noqa: E402
import document_works  # noqa: E402
from bench_distribution import ask, fill, run  # noqa: E402
from bench_documents import bulks, searches, write_requests  # noqa: E402
from cluster_harness import Cluster  # noqa: E402
from cluster_processes import Direct, await_true  # noqa: E402
from remote_clusters import Certificates  # noqa: E402

ARMS = ("off", "on")
AIM_SEARCH, AIM_COPY_S = 1.05, 0.4
COPY_SECONDS = 300


def start(folder, certificates, has_tls):
    cluster = Cluster(folder, nodes=3, network=Direct())
    for node in cluster.nodes if has_tls else []:
        certificates.node(node.name, "--ip", "127.0.0.1")
        node.settings += [
            "rpc.tls.mode=required",
            f"rpc.tls.certificate={certificates.path(node.name)}.crt",
            f"rpc.tls.key={certificates.path(node.name)}.key",
            f"rpc.tls.certificate_authorities={certificates.path('ca.crt')}",
        ]
    cluster.start()
    return cluster


def fill_copied(cluster, megabytes):
    """An index of one partition on one node, of text that does not compress much."""
    port, chance = cluster.nodes[0].http, random.Random(9)
    # The log is trimmed soon: a copy is made of files then, and not of the log.
    ask(port, "PUT", "/_cluster/settings", {"persistent": {"log.flush_interval": "1s"}})
    settings = {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": "-1"}
    fields = {"text": {"type": "keyword", "index": False, "doc_values": False}}
    ask(port, "PUT", "/copied", {"settings": settings, "mappings": {"properties": fields}})
    for _ in range(megabytes // 4):
        lines = []
        for _ in range(1000):
            lines += ['{"index": {}}', json.dumps({"text": chance.randbytes(2000).hex()})]
        ask_bulk(port, "/copied/_bulk", "\n".join(lines) + "\n")
    ask(port, "POST", "/copied/_flush")
    await_true("a copy is made of files", lambda: copy(cluster)[2] > 0, COPY_SECONDS)


def ask_bulk(port, path, body):
    headers = {"content-type": "application/x-ndjson"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=body.encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert not json.loads(answer.read())["errors"]


def copies(cluster):
    found = ask(cluster.nodes[0].http, "GET", "/_cat/shards/copied?format=json")
    return {it["node"]: it["prirep"] for it in found if it["state"] == "STARTED"}


def copy(cluster):
    """Processor seconds of the source and of the target, and the bytes that went over."""
    port = cluster.nodes[0].http
    ask(port, "PUT", "/copied/_settings", {"index": {"number_of_replicas": 0}})
    await_true("the replica is gone", lambda: len(copies(cluster)) == 1, COPY_SECONDS)
    [source] = copies(cluster)
    before = {node.name: bench_redis.cpu_seconds(node.process.pid) for node in cluster.nodes}
    ask(port, "PUT", "/copied/_settings", {"index": {"number_of_replicas": 1}})
    await_true("the replica serves", lambda: len(copies(cluster)) == 2, COPY_SECONDS)
    [target] = copies(cluster).keys() - {source}
    taken = {node.name: bench_redis.cpu_seconds(node.process.pid) - before[node.name] for node in cluster.nodes}
    recoveries = ask(port, "GET", "/copied/_recovery")["copied"]["shards"]
    [size] = [it["index"]["size"]["recovered_in_bytes"] for it in recoveries if it["target"]["name"] == target]
    return taken[source], taken[target], size


def measure_searches(args, folder, clusters):
    plan = document_works.plan("complex", args.scale)
    bulk, path = folder / "complex.bulk", folder / "complex.requests"
    write_requests(bulk, bulks("complex", plan["documents"], plan["bulk_docs"]))
    write_requests(path, searches("complex", plan["searches"]["complex"], None))
    for cluster in clusters.values():
        fill(args.http_load, cluster, "complex", plan, bulk)
    taken = {name: [] for name in ARMS}
    for lap in range(args.laps + 1):
        for name in ARMS if lap % 2 else ARMS[::-1]:
            report = run(args.http_load, clusters[name], path, args.seconds)
            taken[name].append(1e6 * report["cpu_s"] / report["n"])
    # The first lap warms up.
    ratio = statistics.median(on / off for on, off in zip(taken["on"][1:], taken["off"][1:]))
    micros = {name: statistics.median(laps[1:]) for name, laps in taken.items()}
    shown = ", ".join(f"{name} {value:.0f} us" for name, value in micros.items())
    print(f"search: {shown}, ratio {ratio:.3f} (aim {AIM_SEARCH})", flush=True)
    return {"us": micros, "ratio": ratio}


def measure_copies(args, clusters):
    for cluster in clusters.values():
        fill_copied(cluster, args.megabytes)
    taken = {name: [] for name in ARMS}
    for lap in range(args.laps + 1):
        for name in ARMS if lap % 2 else ARMS[::-1]:
            source_s, target_s, size = copy(clusters[name])
            taken[name].append((1e9 * source_s / size, 1e9 * target_s / size, size))
    results = {}
    for at, side in enumerate(("source", "target")):
        off, on = ([lap[at] for lap in taken[name][1:]] for name in ARMS)
        more = statistics.median(b - a for a, b in zip(off, on))
        off, on = statistics.median(off), statistics.median(on)
        results[side] = {"off_s": off, "on_s": on, "more_s": more}
        print(f"copy of {taken['on'][0][2] / 1e6:.0f} MB, {side}: off {off:.2f} s a GB, on {on:.2f}, more {more:+.2f} (aim {AIM_COPY_S})")
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("http_load")
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--scale", type=int, default=10, help="one part in so many of the work's documents")
    parser.add_argument("--megabytes", type=int, default=300, help="of the index that is copied")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        certificates = Certificates(folder / "certificates")
        clusters = {}
        try:
            for name in ARMS:
                clusters[name] = start(folder / name, certificates, name == "on")
            results = {"search": measure_searches(args, folder, clusters), "copy": measure_copies(args, clusters)}
        finally:
            for cluster in clusters.values():
                cluster.close()
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

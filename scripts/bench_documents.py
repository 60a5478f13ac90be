#!/usr/bin/env python3
"""Documents and searches beside OpenSearch, in one interleaved run.

    make bench-documents ARGS="--quick"
    make bench-documents ARGS="--work longs,complex --json out.json"

Both servers run on this machine one after the other: the one that is not measured is stopped with
SIGSTOP, so that each has the machine to itself, and laps take turns. One native load generator
(xtask/examples/http_load.rs) drives both, the request cache is off, and the answers are compared.
Figures are ratios of this run; the absolute ones belong to this machine. A ratio is the median of
paired laps, with the least and the most of them; CPU is that of the server's process alone, and
depends least on what else the machine does. The works are in document_works.py.
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import document_works

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS, PEER = "plimsoll", "opensearch"


class Server:
    """A server process and what it is asked over HTTP."""

    def __init__(self, name, command, port, data):
        self.name, self.port, self.data = name, port, pathlib.Path(data)
        self.log = open(f"{data}.log", "w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        deadline = time.time() + 300
        while True:
            try:
                self.ask("GET", "/")
                return
            except OSError:
                if time.time() > deadline or self.process.poll() is not None:
                    said = pathlib.Path(self.log.name).read_text()[-2000:]
                    raise SystemExit(f"{name} did not start: {said}") from None
                time.sleep(0.2)

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=data, method=method,
            headers={"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            raise SystemExit(f"{self.name}: {method} {path}: {error.code} {said}") from None

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self):
        """Resident now, of that its own and of files, and the most that was."""
        names = {"VmRSS": "resident", "RssAnon": "own", "RssFile": "files", "VmHWM": "peak"}
        memory = {}
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            key, _, value = line.partition(":")
            if key in names:
                memory[names[key]] = round(int(value.split()[0]) / 1024)
        return memory

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        self.resume()
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.process.kill()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def load(generator, server, requests, clients, seconds=None, answers=None):
    """One run of the generator: its report, with the server's CPU seconds."""
    command = [generator, "--target", f"127.0.0.1:{server.port}", "--requests", requests,
               "--clients", str(clients)]
    if seconds:
        command += ["--seconds", str(seconds)]
    if answers:
        command += ["--answers", answers]
    before = server.cpu_s()
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    report["cpu_s"] = server.cpu_s() - before
    report["memory_mib"] = server.memory_mib()
    if report["failures"] or set(report["statuses"]) != {"200"}:
        raise SystemExit(f"{server.name}: {report['failures']} failures, statuses {report['statuses']}")
    return report


def write_requests(path, requests):
    with open(path, "w") as out:
        for request in requests:
            out.write(json.dumps(request) + "\n")


def bulks(index, documents, size):
    """Bulk requests of `size` documents each."""
    action = json.dumps({"index": {"_index": index}})
    batch = []

    def request():
        return {"method": "POST", "path": "/_bulk", "body": "".join(batch),
                "content_type": "application/x-ndjson"}

    for document in documents:
        batch.append(action + "\n" + json.dumps(document) + "\n")
        if len(batch) == size:
            yield request()
            batch = []
    if batch:
        yield request()


def searches(index, bodies, pages):
    path = f"/{index}/_search?request_cache=false"
    if pages:
        # A scroll's first page cannot be cached, and saying so is an error.
        path = f"/{index}/_search?scroll=1m"
    for body in bodies:
        yield {"method": "POST", "path": path, "body": json.dumps(body), "pages": pages or 1}


def folder_bytes(path):
    """What the files take on the disk: room that is only set aside does not count."""
    return sum(min(file.stat().st_size, file.stat().st_blocks * 512)
               for file in pathlib.Path(path).rglob("*") if file.is_file())


def on_turn(servers, server, work):
    """Runs `work` on one server while the others are stopped."""
    for other in servers:
        if other is not server:
            other.pause()
    try:
        return work()
    finally:
        for other in servers:
            if other is not server:
                other.resume()


def index(generator, server, name, plan, requests):
    """Creates and fills an index: documents a second, CPU, memory, and bytes a document on disk."""
    server.ask("PUT", f"/{name}", {
        "settings": {"number_of_shards": plan["shards"], "number_of_replicas": 0,
                     "refresh_interval": "1s", "requests.cache.enable": False},
        "mappings": {"dynamic": "strict", "properties": plan["properties"]}})
    before, cpu_s = folder_bytes(server.data), server.cpu_s()
    began = time.time()
    load(generator, server, requests, clients=4)
    server.ask("POST", f"/{name}/_refresh")
    took, cpu_indexed_s = time.time() - began, server.cpu_s() - cpu_s
    memory = server.memory_mib()
    began = time.time()
    server.ask("POST", f"/{name}/_forcemerge?max_num_segments=1")
    server.ask("POST", f"/{name}/_flush")
    merged_s = time.time() - began
    # What was flushed is given back within seconds.
    time.sleep(10)
    count = server.ask("GET", f"/{name}/_count")["count"]
    if count != plan["count"]:
        raise SystemExit(f"{server.name}: {name} has {count} documents of {plan['count']}")
    store = server.ask("GET", f"/{name}/_stats")["_all"]["primaries"]["store"]["size_in_bytes"]
    return {"docs_s": round(plan["count"] / took), "cpu_us_per_doc": 1e6 * cpu_indexed_s / count,
            "merge_s": merged_s, "cpu_us_per_doc_merged": 1e6 * (server.cpu_s() - cpu_s) / count,
            "store_bytes_per_doc": store / count, "memory_mib": memory,
            "folder_bytes_per_doc": (folder_bytes(server.data) - before) / count}


def compare(path_a, path_b, are_scores_compared):
    """How many answers agree: in the total, the aggregations, the number of hits, their sort values
    and scores, and, where those tell them apart, the documents. A text's scores count terms within
    a shard, and the servers spread documents otherwise: those are left to tests/golden."""

    def view(answer):
        hits = answer.get("hits", {})
        rows = hits.get("hits", [])
        ranks = [(hit.get("sort"), hit.get("_score")) for hit in rows]
        are_apart = len({json.dumps(rank) for rank in ranks}) == len(rows)
        exact = [hits.get("total"), answer.get("aggregations"), len(rows), [sort for sort, _ in ranks]]
        if are_scores_compared and are_apart:
            exact.append([hit["_source"] for hit in rows])
        return exact, [score for _, score in ranks] if are_scores_compared else []

    same, seen, first = 0, 0, None
    for a, b in zip(open(path_a), open(path_b), strict=True):
        (exact_a, scores_a), (exact_b, scores_b) = view(json.loads(a)), view(json.loads(b))
        seen += 1
        is_same = exact_a == exact_b and all(
            x == y or abs(x - y) <= 1e-5 * abs(x) for x, y in zip(scores_a, scores_b, strict=True))
        if is_same:
            same += 1
        elif first is None:
            first = [[exact_a, scores_a], [exact_b, scores_b]]
    return {"same": same, "of": seen, "first_difference": first}


def run_work(generator, servers, name, plan, folder, arguments):
    requests = f"{folder}/{name}.bulk"
    write_requests(requests, bulks(name, plan["documents"], plan["bulk_docs"]))
    result = {"aims": plan["aims"], "index": {}, "search": {}}
    for server in servers:
        result["index"][server.name] = on_turn(
            servers, server, lambda s=server: index(generator, s, name, plan, requests))
        print(f"{name}: indexed by {server.name}: {json.dumps(result['index'][server.name])}",
              file=sys.stderr)
    os.unlink(requests)
    for title, bodies in plan["searches"].items():
        path = f"{folder}/{name}.{title}"
        write_requests(path, searches(name, bodies, plan.get("pages", {}).get(title)))
        for server in servers:
            answers = f"{path}.{server.name}.answers"
            on_turn(servers, server, lambda s=server, a=answers: load(generator, s, path, 1, answers=a))
        for clients in plan["clients"]:
            laps = {server.name: [] for server in servers}
            # The first lap warms up.
            for lap in range(arguments.laps + 1):
                for server in servers if lap % 2 == 0 else servers[::-1]:
                    laps[server.name].append(on_turn(servers, server, lambda s=server: load(
                        generator, s, path, clients, arguments.seconds)))
            key = f"{title} x{clients}"
            figures = summary({name: runs[1:] for name, runs in laps.items()})
            if len(servers) == 2:
                figures["answers"] = compare(
                    *(f"{path}.{server.name}.answers" for server in servers),
                    plan.get("are_scores_compared", True))
            result["search"][key] = figures
            print(f"{name}: {key}: {json.dumps(figures)}", file=sys.stderr)
    for server in servers:
        server.ask("DELETE", f"/{name}")
    return result


def quantile(laps, share):
    """A latency over all laps together, in milliseconds."""
    counts = {}
    for lap in laps:
        for micros, count in lap["latency_histogram_us"]:
            counts[micros] = counts.get(micros, 0) + count
    left = share * sum(counts.values())
    for micros in sorted(counts):
        left -= counts[micros]
        if left <= 0:
            return micros / 1000
    return 0.0


def summary(laps):
    figures = {}
    for name, runs in laps.items():
        figures[name] = {
            "throughput_ops_s": round(statistics.median(run["throughput_ops_s"] for run in runs), 2),
            "p50_ms": quantile(runs, 0.5), "p99_ms": quantile(runs, 0.99),
            "n": sum(run["n"] for run in runs),
            "cpu_ms_per_op": sum(run["cpu_s"] for run in runs) * 1000 / sum(run["n"] for run in runs),
            "memory_mib": runs[-1]["memory_mib"],
        }
    if PEER in laps:
        pairs = zip(laps[OURS], laps[PEER], strict=True)
        ratios = sorted(a["throughput_ops_s"] / b["throughput_ops_s"] for a, b in pairs)
        figures["throughput_ratio"] = [ratios[0], statistics.median(ratios), ratios[-1]]
    return figures


def rows(results):
    """The lines of the table: what, the peer's figure, ours, ratio, aim, whether it is met, note."""
    for name, work in results.items():
        aims, ours, peer = work["aims"], work["index"][OURS], work["index"].get(PEER)
        if peer:
            cpu = f"CPU {peer['cpu_us_per_doc']:.1f}, {ours['cpu_us_per_doc']:.1f} us/doc; merged too " \
                  f"{peer['cpu_us_per_doc_merged']:.1f}, {ours['cpu_us_per_doc_merged']:.1f}; " \
                  f"resident {peer['memory_mib']['resident']}, {ours['memory_mib']['resident']} MiB"
            yield line(f"{name}: bulk, docs/s", peer["docs_s"], ours["docs_s"], aims.get("docs_s"), cpu)
            for figure in ("store", "folder"):
                key = f"{figure}_bytes_per_doc"
                yield line(f"{name}: {figure}, bytes/doc", peer[key], ours[key], aims.get("bytes"), "", less=True)
        for key, figures in work["search"].items():
            ours, peer = figures[OURS], figures.get(PEER)
            if not peer:
                continue
            answers = figures["answers"]
            least, ratio, most = figures["throughput_ratio"]
            note = f"laps {least:.2f}-{most:.2f}; CPU {peer['cpu_ms_per_op']:.3g}, {ours['cpu_ms_per_op']:.3g} ms/op " \
                   f"({peer['cpu_ms_per_op'] / max(1e-6, ours['cpu_ms_per_op']):.1f}x); " \
                   f"answers {answers['same']}/{answers['of']} the same"
            yield line(f"{name}: {key}, ops/s", peer["throughput_ops_s"], ours["throughput_ops_s"],
                       aims.get("throughput"), note, ratio=ratio)
            few = "" if min(ours["n"], peer["n"]) >= 1000 else f"of {peer['n']} and {ours['n']} requests"
            yield line(f"{name}: {key}, p99 ms", peer["p99_ms"], ours["p99_ms"], aims.get("p99"), few, less=True)
            if "resident" in aims:
                a, b = peer["memory_mib"], ours["memory_mib"]
                note = f"own {a['own']}, {b['own']}; of files {a['files']}, {b['files']}; peak {a['peak']}, {b['peak']}"
                yield line(f"{name}: {key}, resident MiB", a["resident"], b["resident"], aims["resident"], note, less=True)


def line(what, peer, ours, aim, note, less=False, ratio=None):
    ratio = ours / max(1e-9, peer) if ratio is None else ratio
    met = "" if aim is None else "met" if (ratio <= aim if less else ratio >= aim) else "MISSED"
    goal = "" if aim is None else f"{'<=' if less else '>='} {aim:.2f}"
    return [what, f"{peer:,.4g}" if peer < 1000 else f"{peer:,.0f}",
            f"{ours:,.4g}" if ours < 1000 else f"{ours:,.0f}", f"{ratio:.2f}", goal, met, note]


def table(results):
    lines = [["figure", "OpenSearch", "Plimsoll", "ratio", "aim", "", "besides"], *rows(results)]
    widths = [max(len(row[at]) for row in lines) for at in range(7)]
    for at, row in enumerate(lines):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")
        if at == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("binary", help="the plimsoll binary")
    parser.add_argument("generator", help="the load generator")
    parser.add_argument("--work", default=",".join(document_works.WORKS))
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the documents, 3 laps of 1 s")
    parser.add_argument("--alone", action="store_true", help="without OpenSearch: figures, no table")
    parser.add_argument("--json", help="where all figures go")
    arguments = parser.parse_args()
    scale = 1
    if arguments.quick:
        scale, arguments.laps, arguments.seconds = 20, 3, 1
    results, began = {}, time.time()
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as folder:
        port, peer_port = free_port(), free_port()
        servers = [Server(OURS, [
            arguments.binary, "serve", "--data", f"{folder}/plimsoll",
            "--http", f"127.0.0.1:{port}", "--resp", "127.0.0.1:0", "--rpc", "127.0.0.1:0",
            "--set", "logger.level=warn"], port, f"{folder}/plimsoll")]
        try:
            if not arguments.alone:
                servers.append(Server(PEER, [
                    str(ROOT / "scripts/opensearch.sh"), f"{folder}/opensearch", str(peer_port)],
                    peer_port, f"{folder}/opensearch"))
            for server in servers:
                print(f"{server.name}: idle {json.dumps(server.memory_mib())} MiB", file=sys.stderr)
            for name in arguments.work.split(","):
                plan = document_works.plan(name, scale)
                results[name] = run_work(arguments.generator, servers, name, plan, folder, arguments)
        finally:
            for server in servers:
                server.stop()
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    if not arguments.alone:
        table(results)
    print(f"{time.time() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()

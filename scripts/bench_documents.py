#!/usr/bin/env python3
"""Documents and searches beside OpenSearch, in one interleaved run.

    make bench-documents ARGS="--quick"
    make bench-documents ARGS="--work longs,complex --json out.json"

Both servers run on this machine one after the other: the one that is not measured is stopped with
SIGSTOP, so that each has the machine to itself, and laps take turns. One native load generator
(xtask/examples/http_load.rs) drives both, the request cache is off, and the answers are compared.
Figures are ratios of this run; the absolute ones belong to this machine.
"""

import argparse
import contextlib
import gzip
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
BULK_DOCS = 5000
WORKS = ["longs", "complex", "logs", "pmc"]


class Server:
    """A server process and what it is asked over HTTP."""

    def __init__(self, name, command, port, data):
        self.name, self.port, self.data = name, port, pathlib.Path(data)
        self.log = open(f"{data}.log", "w")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        deadline = time.time() + 120
        while True:
            try:
                self.ask("GET", "/")
                return
            except OSError:
                if time.time() > deadline or self.process.poll() is not None:
                    raise SystemExit(f"{name} did not start: see {data}.log") from None
                time.sleep(0.2)

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=data, method=method,
            headers={"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.loads(answer.read() or b"{}")

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mib(self, which="VmRSS"):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(which + ":"):
                return int(line.split()[1]) / 1024
        return 0.0

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
    report["rss_mib"] = server.resident_mib()
    return report


def write_requests(path, requests):
    with open(path, "w") as out:
        for method, target, body, content_type in requests:
            line = {"method": method, "path": target, "body": body, "content_type": content_type}
            out.write(json.dumps(line) + "\n")


def bulks(index, documents):
    """Bulk requests of BULK_DOCS documents each."""
    action = json.dumps({"index": {"_index": index}})
    batch = []
    for document in documents:
        batch.append(action + "\n" + json.dumps(document) + "\n")
        if len(batch) == BULK_DOCS:
            yield "POST", "/_bulk", "".join(batch), "application/x-ndjson"
            batch = []
    if batch:
        yield "POST", "/_bulk", "".join(batch), "application/x-ndjson"


def searches(index, bodies):
    for body in bodies:
        yield ("POST", f"/{index}/_search?request_cache=false", json.dumps(body),
               "application/json")


def sample(name):
    """The documents of a sample index: every second line of its bulk request."""
    with gzip.open(ROOT / "sample" / f"{name}.bulk.gz", "rt") as lines:
        return [json.loads(line) for line in list(lines)[1::2]]


def cities():
    return sample("cities")


def access_log():
    return [" ".join(str(value) for value in line.values()) for line in sample("logs")]


def longs(count):
    properties = {"n": {"type": "long"}}
    aggregation = {"size": 0, "aggs": {"top": {"terms": {"field": "n", "size": 25}}}}
    return {
        "shards": 2, "properties": properties, "documents": ({"n": n} for n in range(count)),
        "count": count, "searches": [aggregation], "clients": [1, 10],
    }


def complex_query(random_, ids, names):
    """A filter of 5,000 terms and a distance, three decays and an expression."""
    terms = random_.sample(range(ids), min(5000, ids))
    lat, lon = random_.uniform(-40, 60), random_.uniform(-120, 140)
    return {
        "size": 10,
        "query": {"function_score": {
            "query": {"bool": {
                "must": [{"match": {"name": random_.choice(names)}}] if names else [],
                "filter": [
                    {"terms": {"group": terms}},
                    {"geo_distance": {"distance": "3000km", "location": {"lat": lat, "lon": lon}}},
                ]}},
            "functions": [
                {"gauss": {"location": {"origin": {"lat": lat, "lon": lon}, "scale": "500km"}}},
                {"exp": {"population": {"origin": 100000, "scale": 50000}}},
                {"linear": {"at": {"origin": 1500000000000, "scale": "30d"}}},
                {"script_score": {"script": {
                    "lang": "expression", "source": "ln(1 + abs(doc['population']))"}}},
            ],
            "score_mode": "sum", "boost_mode": "replace"}},
    }


def complex_work(count):
    random_ = random.Random(7)
    base = cities()

    def documents():
        for n in range(count):
            city = base[n % len(base)]
            yield {
                "name": city["name"], "group": n % 100_000, "population": city["population"],
                "at": 1_500_000_000_000 + random_.randrange(10**10),
                "location": {
                    "lat": max(-89.9, min(89.9, city["location"]["lat"] + random_.uniform(-1, 1))),
                    "lon": max(-179.9, min(179.9, city["location"]["lon"] + random_.uniform(-1, 1))),
                },
            }

    return {
        "shards": 5, "count": count, "documents": documents(),
        "properties": {
            "name": {"type": "text"}, "group": {"type": "integer"},
            "population": {"type": "long"}, "at": {"type": "date", "format": "epoch_millis"},
            "location": {"type": "geo_point"},
        },
        "searches": [complex_query(random.Random(n), 100_000, []) for n in range(50)],
        "clients": [1, 8],
    }


def logs_work(count):
    lines = access_log()
    return {
        "shards": 5, "count": count,
        "documents": ({"n": n, "message": lines[n % len(lines)]} for n in range(count)),
        "properties": {"n": {"type": "long"}, "message": {"type": "text"}},
        "searches": [
            {"query": {"match": {"message": "googlebot"}}},
            {"query": {"match_phrase": {"message": "GET /presentations"}}},
            {"size": 10, "sort": [{"n": "desc"}], "query": {"match": {"message": "200"}}},
        ],
        "clients": [1, 8],
    }


def pmc_work(count):
    random_ = random.Random(3)
    words = sorted({word for line in access_log()[:3000] for word in line.split() if word.isalpha()})
    words += ["physician", "newspaper", "coverage"]

    def documents():
        for n in range(count):
            body = " ".join(random_.choices(words, k=300))
            if n % 40 == 0:
                body += " newspaper coverage"
            day = f"{1990 + n % 30}-{1 + n % 12:02}-{1 + n % 28:02} 12:00:00"
            yield {"name": f"PMC{n}", "journal": f"journal {n % 500}", "body": body,
                   "timestamp": day, "pmid": n}

    return {
        "shards": 5, "count": count, "documents": documents(),
        "properties": {
            "name": {"type": "keyword"}, "journal": {"type": "text"}, "body": {"type": "text"},
            "timestamp": {"type": "date", "format": "yyyy-MM-dd HH:mm:ss"},
            "pmid": {"type": "integer"},
        },
        "named": {
            "default": {"query": {"match_all": {}}},
            "term": {"query": {"term": {"body": "physician"}}},
            "phrase": {"query": {"match_phrase": {"body": "newspaper coverage"}}},
            "articles_monthly_agg_uncached": {"size": 0, "aggs": {"monthly": {
                "date_histogram": {"field": "timestamp", "calendar_interval": "month"}}}},
            "scroll_page": {"size": 100, "sort": ["_doc"], "query": {"match_all": {}}},
        },
        "clients": [1],
    }


def folder_bytes(path):
    return sum(file.stat().st_size for file in pathlib.Path(path).rglob("*") if file.is_file())


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
    """Creates and fills an index: documents a second, and bytes a document on disk."""
    server.ask("PUT", f"/{name}", {
        "settings": {"number_of_shards": plan["shards"], "number_of_replicas": 0,
                     "refresh_interval": "1s", "requests.cache.enable": False},
        "mappings": {"dynamic": "strict", "properties": plan["properties"]}})
    before = folder_bytes(server.data)
    began = time.time()
    report = load(generator, server, requests, clients=4)
    server.ask("POST", f"/{name}/_refresh")
    took = time.time() - began
    server.ask("POST", f"/{name}/_forcemerge?max_num_segments=1")
    server.ask("POST", f"/{name}/_flush")
    time.sleep(2)
    store = server.ask("GET", f"/{name}/_stats")["_all"]["primaries"]["store"]["size_in_bytes"]
    return {"docs_s": plan["count"] / took, "cpu_s": report["cpu_s"], "statuses": report["statuses"],
            "store_bytes_per_doc": store / plan["count"],
            "folder_bytes_per_doc": (folder_bytes(server.data) - before) / plan["count"]}


def compare(path_a, path_b):
    """How many answers agree in their totals and in their aggregations or first hits."""
    same, seen, first = 0, 0, None
    for a, b in zip(open(path_a), open(path_b), strict=True):
        a, b = json.loads(a), json.loads(b)

        def view(answer):
            hits = answer.get("hits", {})
            scores = [round(hit["_score"] or 0, 3) for hit in hits.get("hits", [])]
            return [hits.get("total"), scores, answer.get("aggregations")]

        seen += 1
        if view(a) == view(b):
            same += 1
        elif first is None:
            first = [view(a), view(b)]
    return {"same": same, "of": seen, "first_difference": first}


def run_work(generator, servers, name, plan, folder, arguments):
    requests = f"{folder}/{name}.bulk"
    write_requests(requests, bulks(name, plan["documents"]))
    result = {"index": {}, "search": {}}
    for server in servers:
        result["index"][server.name] = on_turn(
            servers, server, lambda s=server: index(generator, s, name, plan, requests))
        print(f"{name}: indexed by {server.name}: {json.dumps(result['index'][server.name])}",
              file=sys.stderr)
    os.unlink(requests)
    sets = plan.get("named") or {"searches": plan["searches"]}
    for title, bodies in sets.items():
        bodies = bodies if isinstance(bodies, list) else [bodies]
        path = f"{folder}/{name}.{title}"
        write_requests(path, searches(name, bodies))
        for clients in plan["clients"]:
            laps = {server.name: [] for server in servers}
            for lap in range(arguments.laps):
                order = servers if lap % 2 == 0 else servers[::-1]
                for server in order:
                    answers = f"{path}.{server.name}.answers" if lap == 0 else None
                    laps[server.name].append(on_turn(servers, server, lambda s=server, a=answers: load(
                        generator, s, path, clients, arguments.seconds, a)))
            key = f"{title} x{clients}"
            result["search"][key] = summary(servers, laps)
            if len(servers) == 2:
                result["search"][key]["answers"] = compare(
                    *(f"{path}.{server.name}.answers" for server in servers))
            print(f"{name}: {key}: {json.dumps(result['search'][key])}", file=sys.stderr)
    for server in servers:
        server.ask("DELETE", f"/{name}")
    return result


def summary(servers, laps):
    figures = {}
    for server in servers:
        runs = sorted(laps[server.name], key=lambda lap: lap["throughput_ops_s"])
        middle = runs[len(runs) // 2]
        figures[server.name] = {
            "throughput_ops_s": round(middle["throughput_ops_s"], 1),
            "p50_ms": middle["latency_ms"]["p50"], "p99_ms": middle["latency_ms"]["p99"],
            "cpu_ms_per_op": round(1000 * middle["cpu_s"] / max(1, middle["n"]), 3),
            "rss_mib": round(middle["rss_mib"]), "statuses": middle["statuses"],
        }
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("binary", help="the plimsoll binary")
    parser.add_argument("generator", help="the load generator")
    parser.add_argument("--work", default=",".join(WORKS))
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the documents, 3 laps of 2 s")
    parser.add_argument("--alone", action="store_true", help="without OpenSearch")
    parser.add_argument("--json", help="where the figures go")
    arguments = parser.parse_args()
    scale = 1
    if arguments.quick:
        scale, arguments.laps, arguments.seconds = 20, 3, 2
    plans = {
        "longs": lambda: longs(2_000_000 // scale),
        "complex": lambda: complex_work(1_000_000 // scale),
        "logs": lambda: logs_work(1_000_000 // scale),
        "pmc": lambda: pmc_work(50_000 // scale),
    }
    results = {}
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as folder:
        servers = [Server("plimsoll", [
            arguments.binary, "serve", "--data", f"{folder}/plimsoll", "--http", "127.0.0.1:9298",
            "--resp", "127.0.0.1:0", "--set", "logger.level=warn"], 9298, f"{folder}/plimsoll")]
        if not arguments.alone:
            servers.append(Server("opensearch", [
                str(ROOT / "scripts/opensearch.sh"), f"{folder}/opensearch", "9297"],
                9297, f"{folder}/opensearch"))
        try:
            for server in servers:
                print(f"{server.name}: idle {server.resident_mib():.0f} MiB", file=sys.stderr)
            for name in arguments.work.split(","):
                results[name] = run_work(
                    arguments.generator, servers, name, plans[name](), folder, arguments)
        finally:
            for server in servers:
                server.stop()
    text = json.dumps(results, indent=1)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(text)
    print(text)


if __name__ == "__main__":
    main()

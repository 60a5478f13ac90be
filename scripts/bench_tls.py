#!/usr/bin/env python3
"""What TLS costs a node: processor time a request, beside a node without it.

    scripts/bench_tls.py [--laps 5] [--json FILE]

Two nodes of one binary in one run, one with TLS on RESP and REST; laps take turns in an order that rotates.
Connections are kept: GET of 100 bytes by redis-benchmark, one command at a time and 16, and a search with a
query and aggregations. The figure is the node's own processor time; the clients' is not in it. Then full
handshakes and resumed ones, of TLS 1.3, each on a connection of its own with one question, without what that
costs where there is no TLS.
"""

import argparse
import http.client
import json
import pathlib
import random
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

from bench_redis import cpu_seconds  # noqa: E402
from conftest import Node  # noqa: E402
from remote_clusters import Certificates  # noqa: E402

ARMS = ("off", "on")
DOCUMENTS = 50_000
COUNTS = {"GET, 1 at a time": 150_000, "GET, 16 at a time": 1_600_000, "search": 400}
HANDSHAKES = 1500
AIMS = {"GET, 1 at a time": 1.25, "GET, 16 at a time": 1.35, "search": 1.03}
AIM_HANDSHAKE_MS, AIM_RESUMED = 1.0, 0.25
WORDS = [f"word{number}" for number in range(2000)]
QUERY = {
    "size": 10,
    "query": {
        "bool": {
            "should": [{"match": {"text": "word1 word2 word3 word5 word8"}}],
            "filter": [{"range": {"n": {"gte": 1000, "lt": 900_000}}}],
        }
    },
    "aggs": {
        "tags": {"terms": {"field": "tag", "size": 50}, "aggs": {"mean": {"avg": {"field": "n"}}}},
        "steps": {"histogram": {"field": "n", "interval": 50_000}},
    },
}


class Arm:
    def __init__(self, folder, certificates, has_tls):
        folder.mkdir()
        self.tls = certificates if has_tls else None
        words = ["enabled=true", f"certificate={certificates.path('node')}.crt", f"key={certificates.path('node')}.key"]
        settings = [f"{port}.tls.{word}" for port in ("http", "resp") for word in words] if has_tls else []
        self.node = Node(folder, settings).start()
        self.connection = None
        self.fill()

    def context(self):
        return ssl.create_default_context(cafile=self.tls.path("ca.crt"))

    def ask(self, method, path, body=None):
        if self.connection is None:
            if self.tls:
                self.connection = http.client.HTTPSConnection("localhost", self.node.http, context=self.context())
            else:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.node.http)
        kind = "application/x-ndjson" if path.endswith("_bulk") else "application/json"
        self.connection.request(method, path, body, {"content-type": kind})
        answer = self.connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        return text

    def fill(self):
        chance = random.Random(5)
        fields = {"text": {"type": "text"}, "tag": {"type": "keyword"}, "n": {"type": "long"}}
        settings = {"number_of_shards": 1, "number_of_replicas": 0}
        self.ask("PUT", "/docs", json.dumps({"settings": settings, "mappings": {"properties": fields}}))
        for start in range(0, DOCUMENTS, 5000):
            lines = []
            for number in range(start, start + 5000):
                text = " ".join(chance.choices(WORDS, k=30))
                document = {"text": text, "tag": f"t{number % 97}", "n": chance.randrange(1_000_000)}
                lines += ['{"index": {}}', json.dumps(document)]
            self.ask("POST", "/docs/_bulk", "\n".join(lines) + "\n")
        self.ask("POST", "/docs/_forcemerge?max_num_segments=1")
        self.ask("POST", "/docs/_refresh")
        # Every GET finds its key.
        self.redis("-t", "set", "-n", "20000", "-P", "16")

    def redis(self, *words):
        command = ["redis-benchmark", "-p", str(self.node.port), "-q", "-c", "50", "-d", "100", "-r", "1000", *words]
        if self.tls:
            command += ["--tls", "--cacert", self.tls.path("ca.crt")]
        subprocess.run(command, check=True, capture_output=True, timeout=600)

    def run(self, what, count):
        before = cpu_seconds(self.node.process.pid)
        if what == "search":
            for _ in range(count):
                self.ask("POST", "/docs/_search?request_cache=false", json.dumps(QUERY))
        else:
            self.redis("-t", "get", "-n", str(count), "-P", what.split()[1])
        return (cpu_seconds(self.node.process.pid) - before) / count

    def shake(self, count, is_resumed):
        """Processor seconds of the node a handshake, the connection's beginning and end included."""
        context, session = self.context(), None
        before = cpu_seconds(self.node.process.pid)
        for _ in range(count):
            with socket.create_connection(("127.0.0.1", self.node.port)) as plain:
                with context.wrap_socket(plain, server_hostname="localhost", session=session) as through:
                    assert through.session_reused == (session is not None)
                    # The ticket comes with the first answer.
                    through.sendall(b"PING\r\n")
                    assert through.recv(100) == b"+PONG\r\n"
                    session = through.session if is_resumed else None
        return (cpu_seconds(self.node.process.pid) - before) / count

    def connect(self, count):
        """The same of connections without TLS."""
        before = cpu_seconds(self.node.process.pid)
        for _ in range(count):
            with socket.create_connection(("127.0.0.1", self.node.port)) as plain:
                plain.sendall(b"PING\r\n")
                assert plain.recv(100) == b"+PONG\r\n"
        return (cpu_seconds(self.node.process.pid) - before) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--laps", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        certificates = Certificates(folder / "certificates").node("node", "--dns", "localhost", "--ip", "127.0.0.1")
        arms = {name: Arm(folder / name, certificates, name == "on") for name in ARMS}
        for what, count in COUNTS.items():
            taken = {name: [] for name in ARMS}
            for lap in range(args.laps + 1):
                for name in ARMS if lap % 2 else ARMS[::-1]:
                    taken[name].append(arms[name].run(what, count))
            # The first lap warms up.
            micros = {name: 1e6 * statistics.median(laps[1:]) for name, laps in taken.items()}
            ratio = statistics.median(on / off for on, off in zip(taken["on"][1:], taken["off"][1:]))
            results[what] = {"us": micros, "ratio": ratio, "aim": AIMS[what]}
            shown = ", ".join(f"{name} {value:.2f} us" for name, value in micros.items())
            print(f"{what}: {shown}, ratio {ratio:.3f} (aim {AIMS[what]})", flush=True)
        kinds = {
            "full": lambda: arms["on"].shake(HANDSHAKES, False),
            "resumed": lambda: arms["on"].shake(HANDSHAKES, True),
            "none": lambda: arms["off"].connect(HANDSHAKES),
        }
        taken = {kind: [] for kind in kinds}
        for _ in range(args.laps):
            for kind, run in kinds.items():
                taken[kind].append(1e3 * run())
        full, resumed, none = (statistics.median(taken[kind]) for kind in kinds)
        full, resumed = full - none, resumed - none
        results["handshake"] = {"full_ms": full, "resumed_ms": resumed, "connection_ms": none}
        print(
            f"handshake: full {full:.3f} ms (aim {AIM_HANDSHAKE_MS}), resumed {resumed:.3f} ms, "
            f"ratio {resumed / full:.2f} (aim {AIM_RESUMED}), beside {none:.3f} ms for the connection and its question"
        )
        for arm in arms.values():
            arm.node.terminate()
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

"""A load of documents that remembers what was acknowledged, and checks a restarted node against it.

Each writer owns the documents whose field `owner` is its name, so it knows what they must hold. A
request in flight when the node dies is unknown: each document of it is as before or as asked. After
a restart rows (GET), the index (searches by term and by range) and `_source` have to agree. The
class has the shape of `workload.Workload`, so that the same kills drive both.
"""

import http.client
import json
import random

from workload import Workload, Wrong

INDEX = "d"
SHARDS = 3


class Http:
    """One connection to a node's REST."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method, path, body=None):
        text = body if isinstance(body, str) or body is None else json.dumps(body)
        self.connection.request(method, path, text, {"content-type": "application/json"})
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")


class Writer:
    """One connection's worth of documents: id -> value, None where it is deleted."""

    def __init__(self, name, seed):
        self.name = name
        self.random = random.Random(seed)
        self.known = {}
        self.unknown = {}
        self.next = 0
        self.done = 0

    def run(self, port, stop):
        try:
            http_ = Http(port)
            while not stop.is_set():
                self.step(http_)
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            pass

    def document(self, value):
        return {"owner": self.name, "value": value, "text": f"word{value % 7} of {self.name}"}

    def step(self, http_):
        kind = self.random.choice(("create", "update", "delete", "bulk"))
        live = [name for name, value in self.known.items() if value is not None]
        if kind == "create" or not live:
            self.change(http_, {self.fresh(): self.random.randrange(1000)})
        elif kind == "update":
            self.change(http_, {self.random.choice(live): self.random.randrange(1000)})
        elif kind == "delete":
            self.change(http_, {self.random.choice(live): None})
        else:
            wanted = {self.fresh(): self.random.randrange(1000) for _ in range(5)}
            wanted[self.random.choice(live)] = self.random.randrange(1000)
            self.bulk(http_, wanted)

    def fresh(self):
        self.next += 1
        return f"{self.name}-{self.next}"

    def change(self, http_, wanted):
        self.unknown = wanted
        ((name, value),) = wanted.items()
        if value is None:
            status, answer = http_.ask("DELETE", f"/{INDEX}/_doc/{name}")
        else:
            status, answer = http_.ask("PUT", f"/{INDEX}/_doc/{name}", self.document(value))
        if status not in (200, 201):
            raise Wrong(f"{name}: {status} {answer}")
        self.acknowledge(wanted)

    def bulk(self, http_, wanted):
        self.unknown = wanted
        lines = []
        for name, value in wanted.items():
            lines += [json.dumps({"index": {"_id": name}}), json.dumps(self.document(value))]
        status, answer = http_.ask("POST", f"/{INDEX}/_bulk", "\n".join(lines) + "\n")
        if status != 200 or answer["errors"]:
            raise Wrong(f"bulk: {status} {answer}")
        self.acknowledge(wanted)

    def acknowledge(self, wanted):
        self.known.update(wanted)
        self.unknown = {}
        self.done += len(wanted)

    def check(self, http_, recent):
        """Compares rows and index with what was acknowledged; takes over what was in flight."""
        for name in list(self.known)[-recent:] + list(self.unknown):
            status, answer = http_.ask("GET", f"/{INDEX}/_doc/{name}")
            found = answer["_source"] if status == 200 else None
            allowed = [self.known.get(name)]
            if name in self.unknown:
                allowed.append(self.unknown[name])
            if found not in [None if value is None else self.document(value) for value in allowed]:
                raise Wrong(f"{name} holds {found}, allowed {allowed}")
            self.known[name] = None if found is None else found["value"]
        self.unknown = {}
        live = {name: value for name, value in self.known.items() if value is not None}
        found = {}
        while True:
            body = {
                "size": 1000, "from": len(found), "query": {"term": {"owner": self.name}},
                "sort": [{"value": "asc"}, "_doc"],
            }
            status, answer = http_.ask("POST", f"/{INDEX}/_search", body)
            if status != 200:
                raise Wrong(f"search: {status} {answer}")
            hits = answer["hits"]["hits"]
            for hit in hits:
                if hit["_id"] in found:
                    raise Wrong(f"{hit['_id']} is in the index twice")
                found[hit["_id"]] = hit
            if len(hits) < 1000:
                break
        if {name: hit["_source"]["value"] for name, hit in found.items()} != live:
            missing = sorted(set(live) - set(found))[:5]
            extra = sorted(set(found) - set(live))[:5]
            raise Wrong(f"{self.name}: rows and index differ: missing {missing}, too many {extra}")
        for name, hit in found.items():
            if hit["sort"][0] != live[name]:
                raise Wrong(f"{name}: indexed as {hit['sort'][0]}, its source says {live[name]}")


class DocumentWorkload(Workload):
    """Several writers of documents; they go to the node's REST, whatever port they are given."""

    def __init__(self, node, writers, seed):
        self.node = node
        self.writers = [Writer(f"w{n}", seed * 1000 + n) for n in range(writers)]

    def run_until(self, _, kill):
        super().run_until(self.node.http, kill)

    def check(self, _, recent=1_000_000):
        http_ = Http(self.node.http)
        status, answer = http_.ask("PUT", f"/{INDEX}", {
            "settings": {"number_of_shards": SHARDS},
            "mappings": {"properties": {
                "owner": {"type": "keyword"}, "value": {"type": "long"}, "text": {"type": "text"}}}})
        if status not in (200, 400):
            raise Wrong(f"create: {status} {answer}")
        http_.ask("POST", f"/{INDEX}/_refresh")
        for writer in self.writers:
            writer.check(http_, recent)

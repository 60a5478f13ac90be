"""A load of documents on a cluster that remembers what was acknowledged, and what every node must show.

Each writer owns its documents and writes one at a time, so it knows what each must hold. One whose write
has no outcome may be as before or as asked, and is not written again. Writers go to REST of any node and
move on when one does not answer.
"""

import http.client
import json
import random
import threading
import time

from cluster_history import PAUSE_SECONDS, Violation
from document_workload import Http

SHARDS = 2
HITS_MAX = 10_000
# Asked as often, so that each copy is asked with near certainty.
SEARCHES = 6
# What says that a write did not run.
REFUSALS = (429,)
# What says nothing: no answer in time, or none that could be had.
UNKNOWNS = (500, 502, 503, 504)


class Writer:
    def __init__(self, name, index, nodes, seed):
        self.name, self.index, self.nodes = name, index, nodes
        self.random = random.Random(seed)
        self.node, self.http = self.random.randrange(len(nodes)), None
        self.known, self.unknown, self.made = {}, {}, 0
        self.acknowledged = 0
        self.unlisted = []

    def document(self, value):
        return {"owner": self.name, "value": value, "text": f"word{value % 7} of {self.name}"}

    def run(self, stop):
        while not stop.is_set():
            self.step()
            stop.wait(self.random.expovariate(1 / 0.01))

    def step(self):
        live = [name for name, value in self.known.items() if value is not None]
        kind = self.random.choice(("create", "update", "delete")) if live else "create"
        if kind == "create":
            self.made += 1
        name = f"{self.name}-{self.made}" if kind == "create" else self.random.choice(live)
        value = None if kind == "delete" else self.random.randrange(1000)
        if kind == "create":
            self.known[name] = None
        before = self.known.pop(name)
        try:
            status = self.change(name, value)
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            status = 0
        if status in (200, 201) or (status == 404 and value is None):
            self.known[name] = value
            self.acknowledged += 1
        elif status in REFUSALS:
            self.known[name] = before
            self.move()
        else:
            self.unknown[name] = (before, value)
            self.move()

    def change(self, name, value):
        self.http = self.http or Http(self.nodes[self.node][1])
        path = f"/{self.index}/_doc/{name}"
        if value is None:
            status, answer = self.http.ask("DELETE", path)
            if status == 404:
                raise Violation(f"{name} was acknowledged, and is not there to be deleted: {answer}")
        else:
            status, answer = self.http.ask("PUT", path, self.document(value))
        if status not in (200, 201, *REFUSALS, *UNKNOWNS):
            self.unlisted.append(f"{status} {answer}")
        return status

    def move(self):
        if self.http is not None:
            self.http.connection.close()
        self.http = None
        self.node = self.random.randrange(len(self.nodes))
        time.sleep(PAUSE_SECONDS)

    def check(self, http_, at):
        """Holds rows and index as one node shows them against what was acknowledged."""
        for name, value in self.known.items():
            self.check_row(http_, at, name, [value])
        for name, values in self.unknown.items():
            self.check_row(http_, at, name, values)
        for _ in range(SEARCHES):
            try:
                self.check_search(http_, at)
            except Violation as violation:
                raise Violation(f"{violation}; {self.later(http_, at)}") from None

    def later(self, http_, at):
        """Whether what a search shows is wrong for good or was late."""
        time.sleep(2)
        http_.ask("POST", f"/{self.index}/_refresh")
        try:
            for _ in range(SEARCHES):
                self.check_search(http_, at)
        except Violation:
            return "it is so after another refresh too"
        return "after another refresh it is right"

    def check_row(self, http_, at, name, values):
        status, answer = http_.ask("GET", f"/{self.index}/_doc/{name}")
        found = answer.get("_source") if status in (200, 404) else f"{status} {answer}"
        if found not in [None if value is None else self.document(value) for value in values]:
            raise Violation(f"{at} reads {name} as {found}, it was given {values}")

    def check_search(self, http_, at):
        body = {"size": HITS_MAX, "query": {"term": {"owner": self.name}}}
        status, answer = http_.ask("POST", f"/{self.index}/_search", body)
        if status != 200 or answer["_shards"]["failed"]:
            raise Violation(f"a search at {at} answers {status} {answer}")
        found = {hit["_id"]: hit["_source"]["value"] for hit in answer["hits"]["hits"]}
        live = {name: value for name, value in self.known.items() if value is not None}
        certain = {name: value for name, value in found.items() if name not in self.unknown}
        if certain != live:
            wrong = sorted(name for name in certain.keys() | live.keys() if certain.get(name) != live.get(name))
            told = [(name, live.get(name), certain.get(name)) for name in wrong[:5]]
            raise Violation(f"a search at {at} differs from what was acknowledged (name, given, found): {told}")
        for name in found.keys() & self.unknown.keys():
            if found[name] not in self.unknown[name]:
                raise Violation(f"a search at {at} finds {name} as {found[name]}: {self.unknown[name]}")


class Documents:
    """Writers on threads of their own. `nodes` are pairs of a name and a port of REST."""

    def __init__(self, nodes, writers, seed, index):
        self.nodes, self.index = nodes, index
        self.stopping, self.failed = threading.Event(), []
        self.writers = [Writer(f"w{n}", index, nodes, seed * 1000 + n) for n in range(writers)]
        self.threads = [threading.Thread(target=self.run, args=(one,), daemon=True) for one in self.writers]

    def start(self):
        status, answer = Http(self.nodes[0][1]).ask("PUT", f"/{self.index}", {
            "settings": {"number_of_shards": SHARDS, "number_of_replicas": 1},
            "mappings": {"properties": {
                "owner": {"type": "keyword"}, "value": {"type": "long"}, "text": {"type": "text"}}}})
        if status != 200:
            raise Violation(f"index {self.index} is not made: {status} {answer}")
        for thread in self.threads:
            thread.start()
        return self

    def run(self, writer):
        try:
            writer.run(self.stopping)
        except Exception as error:  # noqa: BLE001  shown by `stop`, in the test's own thread
            self.failed.append(error)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(90)
            if thread.is_alive():
                raise Violation("a request for a document has no answer")
        if self.failed:
            raise self.failed[0]
        unlisted = [text for writer in self.writers for text in writer.unlisted]
        if unlisted:
            raise Violation(f"{len(unlisted)} answers that nobody promised, one is {unlisted[0]}")

    def check(self):
        """Every node shows what was acknowledged, in rows and in searches. Returns how many that were."""
        status, answer = Http(self.nodes[0][1]).ask("POST", f"/{self.index}/_refresh")
        if status != 200 or answer["_shards"]["failed"]:
            raise Violation(f"a refresh answers {status} {answer}")
        for name, port in self.nodes:
            connection = Http(port)
            for writer in self.writers:
                writer.check(connection, name)
        Http(self.nodes[0][1]).ask("DELETE", f"/{self.index}")
        return sum(writer.acknowledged for writer in self.writers)

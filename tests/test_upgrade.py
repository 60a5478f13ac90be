"""A rolling upgrade of three nodes while clients write rows and documents, back again, and for good.

The newer binary is this tree with the feature `next-version`: its sweeps of expired rows have a form
that this binary does not know, and it knows a newer version of the cluster (cluster/src/metadata/version.rs).
`make soak` also upgrades from the last version that is tagged.
"""

import os
import pathlib
import re
import shutil
import threading
import time

import pytest
from cluster_harness import Cluster, explained
from cluster_processes import await_true
from resp import Closed, Connection, bulk, number
from rest import get, try_ask

NEXT = os.environ.get("PLIMSOLL_NEXT_BIN", "")
VERSIONS = pathlib.Path(__file__).parent.parent / "crates/cluster/src/metadata/version.rs"
LAST = os.environ.get("PLIMSOLL_LAST_BIN", "")
SECONDS = 120


class Rows(threading.Thread):
    """Writes rows, most of which expire soon, at whatever node answers."""

    def __init__(self, nodes):
        super().__init__(daemon=True)
        self.nodes, self.halt, self.acknowledged = nodes, threading.Event(), {}
        self.may_go_on, self.tried = threading.Event(), 0
        self.may_go_on.set()

    def run(self):
        while not self.halt.is_set():
            self.may_go_on.wait()
            node = self.nodes[self.tried % len(self.nodes)]
            self.tried += 1
            key = self.tried
            try:
                with Connection(node.port) as rows:
                    for step in range(20):
                        rows.ask("SET", f"soon:{key}:{step}", "x", "PX", 200)
                    if rows.ask("SET", f"kept:{key}", key) == b"+OK\r\n":
                        self.acknowledged[f"kept:{key}"] = str(key).encode()
            except (OSError, Closed):
                pass
            time.sleep(0.02)

    def await_swept(self, node):
        """Writes nothing until all that expired is removed, which is what sweeps are for: DBSIZE counts
        what is expired and not removed yet."""
        self.may_go_on.clear()

        def left():
            with Connection(node.port) as rows:
                return number(rows.ask("DBSIZE"))

        await_true(lambda: f"{left()} keys are left of {self.tried}", lambda: left() <= self.tried, SECONDS)
        self.may_go_on.set()

    def stop(self):
        self.halt.set()
        self.join(60)
        return self.acknowledged


class Fields:
    """Documents with a field that no document had before: the mapping grows while binaries differ."""

    def __init__(self, nodes):
        self.nodes, self.fields = nodes, []

    def add(self):
        name = f"new_{len(self.fields)}"
        self.fields.append(name)
        for node in self.nodes:
            write = lambda node=node: try_ask(node, "PUT", f"/grown/_doc/{name}-{node.name}", {name: name})[0]
            await_true(f"{node.name} takes a new field", lambda: write() in (200, 201), SECONDS)

    def check(self):
        """Every node shows each field, by GET, by the mapping and by a search after a refresh."""
        assert len(self.fields) > 3
        assert try_ask(self.nodes[0], "POST", "/grown/_refresh")[0] == 200
        for node in self.nodes:
            mapping = get(node, "/grown/_mapping")["grown"]["mappings"]["properties"]
            for name in self.fields:
                assert name in mapping, (node.name, name)
                wanted = {f"{name}-{other.name}" for other in self.nodes}
                for document in wanted:
                    assert get(node, f"/grown/_doc/{document}")["_source"] == {name: name}, node.name
                hits = get(node, "/grown/_search", {"query": {"term": {f"{name}.keyword": name}}})["hits"]["hits"]
                assert {hit["_id"] for hit in hits} == wanted, (node.name, name)


class Upgraded:
    """Nodes whose binary can be changed."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.old = cluster.nodes[0].command()[0]

    def use(self, node, path):
        command = type(node).command
        node.command = lambda: [path, *command(node)[1:]]

    def run(self, node, path):
        assert node.terminate(60) == 0, f"{node.name} did not stop in order"
        self.use(node, path)
        node.spawn()

    def change(self, node, path):
        self.run(node, path)
        self.cluster.await_ready(node)
        self.cluster.await_green()

    def version(self):
        """The cluster's version as all nodes say."""
        answers = [try_ask(node, "GET", "/_plimsoll/version") for node in self.cluster.nodes]
        versions = {answer["version"] for status, answer in answers if status == 200}
        return versions.pop() if len(versions) == 1 else None


def known_version():
    """The newest version that this binary knows; the newer one knows one more."""
    return int(re.search(r"KNOWN: u32 = if .* else \{ (\d+) \}", VERSIONS.read_text()).group(1))


@pytest.mark.skipif(not pathlib.Path(NEXT).is_file(), reason="scripts/test.sh builds the newer binary")
def test_a_cluster_is_upgraded_and_goes_back_until_its_version_is_raised(tmp_path):
    newer = shutil.copy(NEXT, tmp_path / "plimsoll-next")
    cluster = Cluster(tmp_path / "cluster")
    try:
        with explained(cluster, "upgrade", 0):
            cluster.start()
            nodes, upgraded = cluster.nodes, Upgraded(cluster)
            await_true("the version is this binary's", lambda: upgraded.version() == known_version(), SECONDS)
            held = {"persistent": {"cluster.version.raise": "hold"}}
            assert try_ask(nodes[0], "PUT", "/_cluster/settings", held)[0] == 200
            rows, fields = Rows(nodes), Fields(nodes)
            rows.start()
            documents = cluster.documents(3, 0, "documents").start()
            fields.add()
            for node in nodes:
                upgraded.change(node, str(newer))
                assert upgraded.version() == known_version(), "it is held"
                fields.add()
            rows.await_swept(nodes[0])
            # Back: nothing of the newer form was appended, so the older binary reads all of it.
            upgraded.change(nodes[1], upgraded.old)
            fields.add()
            rows.await_swept(nodes[1])
            cluster.await_equal_copies()
            free = {"persistent": {"cluster.version.raise": "auto"}}
            assert try_ask(nodes[0], "PUT", "/_cluster/settings", free)[0] == 200
            time.sleep(3)
            assert upgraded.version() == known_version(), "one member does not know the newer one"
            upgraded.change(nodes[1], str(newer))
            await_true("the version is raised", lambda: upgraded.version() == known_version() + 1, SECONDS)
            fields.add()
            rows.await_swept(nodes[2])
            # For good: an older binary is refused by name.
            upgraded.run(nodes[1], upgraded.old)
            assert nodes[1].exit_code(SECONDS) == 1
            assert f"the cluster's version is {known_version() + 1}" in nodes[1].text()
            upgraded.use(nodes[1], str(newer))
            nodes[1].spawn()
            cluster.await_ready(nodes[1])
            cluster.await_green()
            documents.stop()
            fields.check()
            demand_all(cluster, rows.stop())
            assert documents.check() > 100
    finally:
        cluster.close()


def demand_all(cluster, acknowledged):
    """Every row is there at every node."""
    assert len(acknowledged) > 10
    for node in cluster.nodes:
        with Connection(node.port) as connection:
            for key, value in acknowledged.items():
                assert bulk(connection.ask("GET", key)) == value, (node.name, key)
    cluster.await_equal_copies()


@pytest.mark.skipif(not pathlib.Path(LAST).is_file(), reason="`make soak` builds the last tagged version")
def test_a_cluster_of_the_last_version_is_upgraded(tmp_path):
    last = shutil.copy(LAST, tmp_path / "plimsoll-last")
    cluster = Cluster(tmp_path / "cluster")
    try:
        with explained(cluster, "upgrade from the last version", 0):
            nodes, upgraded = cluster.nodes, Upgraded(cluster)
            for node in nodes:
                upgraded.use(node, str(last))
            cluster.start()
            rows = Rows(nodes)
            rows.start()
            time.sleep(2)
            for node in nodes:
                upgraded.change(node, upgraded.old)
                time.sleep(2)
            await_true("the version is raised", lambda: (upgraded.version() or 0) >= 2, SECONDS)
            rows.await_swept(nodes[0])
            demand_all(cluster, rows.stop())
    finally:
        cluster.close()

"""Copies of an index: its files come along, so that the node which gets a copy indexes what was written
meanwhile and nothing else. A node of a version that knows no such copies gives and takes rows alone."""

import os
import pathlib
import shutil
import threading

import pytest
from cluster_harness import Cluster, explained
from cluster_processes import await_true
from rest import ask, get, try_ask

LAST = os.environ.get("PLIMSOLL_LAST_BIN", "")
BOUND_SECONDS = 120
# A copy that lacks fewer records is brought through the log (cluster/src/recovery/making.rs).
RECORDS = 1_200
CAME = "the index came with the rows"
ALONE = "the rows came without an index"
BUILT = "built anew from the rows"
SHAPE = {
    "settings": {"number_of_shards": 1, "number_of_replicas": 0},
    "mappings": {"properties": {"n": {"type": "long"}, "round": {"type": "keyword"}}},
}


class Writer(threading.Thread):
    """Writes documents, and writes each third of the earlier ones anew, until it is stopped."""

    def __init__(self, node, first):
        super().__init__(daemon=True)
        self.node, self.halt, self.expected, self.next = node, threading.Event(), {}, first

    def put(self, number, text):
        status, answer = ask(self.node, "PUT", f"/kept/_doc/{number}", {"n": number, "round": text})
        assert status in (200, 201), answer
        self.expected[number] = text

    def run(self):
        while not self.halt.is_set():
            self.put(self.next, "late")
            self.put(self.next // 3, f"again {self.next}")
            self.next += 1

    def stop(self):
        self.halt.set()
        self.join(60)
        assert not self.is_alive()


def fill(node):
    """Documents that an index has durably, that it has not, and that no search shows yet; deletions."""
    assert try_ask(node, "PUT", "/kept", SHAPE)[0] == 200
    writer = Writer(node, RECORDS)
    for number in range(RECORDS):
        writer.put(number, "first")
        if number == RECORDS // 2:
            assert try_ask(node, "POST", "/kept/_flush")[0] == 200
    for number in range(0, 100, 2):
        assert try_ask(node, "DELETE", f"/kept/_doc/{number}")[0] == 200
        del writer.expected[number]
    return writer


def copies_on(cluster, replicas):
    body = {"index": {"number_of_replicas": replicas}}
    assert try_ask(cluster.nodes[0], "PUT", "/kept/_settings", body)[0] == 200
    await_true(f"{replicas} replicas are there", lambda: is_there(cluster, replicas), BOUND_SECONDS)


def is_there(cluster, replicas):
    status, answer = try_ask(cluster.nodes[0], "GET", "/_cat/shards/kept?format=json&h=state")
    return status == 200 and [it["state"] for it in answer] == ["STARTED"] * (replicas + 1)


def wanted(node, name):
    """Has new copies come to the node of this name alone."""
    settings = {"cluster.routing.allocation.require._name": name}
    assert try_ask(node, "PUT", "/_cluster/settings", {"persistent": settings})[0] == 200


def shown(node):
    """What a search of this node's own copy shows of all documents."""
    body = {"size": 10_000, "track_total_hits": True, "sort": [{"n": "asc"}]}
    answer = get(node, "/kept/_search?preference=_local", body)
    assert not answer["_shards"]["failed"], answer["_shards"]
    found = {hit["_source"]["n"]: hit["_source"]["round"] for hit in answer["hits"]["hits"]}
    assert len(found) == answer["hits"]["total"]["value"], "no document is shown twice"
    # What the index itself says of each, and not the rows.
    rounds = {"size": 0, "aggs": {"rounds": {"terms": {"field": "round", "size": 10_000}}}}
    buckets = get(node, "/kept/_search?preference=_local", rounds)["aggregations"]["rounds"]["buckets"]
    return found, {bucket["key"]: bucket["doc_count"] for bucket in buckets}


def demand_shown(cluster, nodes, expected):
    assert try_ask(cluster.nodes[0], "POST", "/kept/_refresh")[0] == 200
    counts = {}
    for text in expected.values():
        counts[text] = counts.get(text, 0) + 1
    for node in nodes:
        assert shown(node) == (expected, counts), node.name


def indexed(node):
    """Documents that this node's copies have taken into an index since it was started."""
    answer = get(node, "/_nodes/_local/stats/indices")
    (stats,) = answer["nodes"].values()
    return stats["indices"]["indexing"]["index_total"]


def said(node, text):
    return text in "".join(node.output)


def test_an_index_comes_with_its_rows_while_documents_are_written(tmp_path):
    cluster = Cluster(tmp_path)
    try:
        with explained(cluster, "an index comes along", 0):
            cluster.start()
            writer = fill(cluster.nodes[0])
            (first,) = [node for node in cluster.nodes if indexed(node) > 0]
            others = [node for node in cluster.nodes if node is not first]
            assert all(indexed(node) == 0 for node in others)
            before = len(writer.expected)
            writer.start()
            copies_on(cluster, 2)
            await_true("documents are written meanwhile", lambda: writer.next > RECORDS + 50, BOUND_SECONDS)
            writer.stop()
            demand_shown(cluster, cluster.nodes, writer.expected)
            for node in others:
                assert said(node, CAME) and not said(node, BUILT) and not said(node, ALONE), node.name
                recoveries = get(node, "/kept/_recovery")["kept"]["shards"]
                assert any(it["target"]["name"] == node.name and it["type"] == "PEER" for it in recoveries)
            # Each took in what came after the index that it was given, which was made durable then.
            late = 2 * (writer.next - RECORDS)
            for node in others:
                assert indexed(node) < before / 2 + late, (node.name, before, late)
            cluster.await_equal_copies()
            # And goes on from it after a start.
            restarted = others[0]
            assert restarted.terminate(60) == 0
            cluster.restart(restarted)
            cluster.await_green()
            demand_shown(cluster, cluster.nodes, writer.expected)
            assert not said(restarted, BUILT)
    finally:
        cluster.close()


@pytest.mark.skipif(not pathlib.Path(LAST).is_file(), reason="`make soak` builds the last tagged version")
@pytest.mark.parametrize("is_source_old", [True, False])
def test_copies_between_versions(tmp_path, is_source_old):
    last = shutil.copy(LAST, tmp_path / "plimsoll-last")
    cluster = Cluster(tmp_path / "cluster", nodes=2)
    try:
        with explained(cluster, "copies between versions", 0):
            old, new = cluster.nodes
            command = type(old).command
            old.command = lambda: [str(last), *command(old)[1:]]
            source, target = (old, new) if is_source_old else (new, old)
            cluster.start()
            wanted(source, source.name)
            writer = fill(source)
            assert get(source, "/_cat/shards/kept?format=json&h=node")[0]["node"] == source.name
            wanted(source, None)
            copies_on(cluster, 1)
            demand_shown(cluster, cluster.nodes, writer.expected)
            # By what the older of the two knows of.
            assert said(target, CAME) != said(target, BUILT), "the index came, or was built from the rows"
            cluster.await_equal_copies()
    finally:
        cluster.close()

"""Health and `_cat/shards` count a copy only while it serves, at every node, whoever was restarted."""

import contextlib
import shutil
import time

from cluster_harness import Cluster, explained
from cluster_processes import await_true
from resp import Connection
from rest import get, try_ask
from test_data_loss import await_trimmed, ends, group_that_grows, lacks, shape, write

DOCUMENTS = range(100)
DOCUMENT_BYTES = 100_000
# So slow that what was wiped is not copied in a minute.
COPIED_BYTES_S = 50_000
BOUND_SECONDS = 120
LOOKS = 10
PAUSE_SECONDS = 0.1
# The metadata's copy has this name.
METADATA = "0000000000000000-0"


def wipe(node):
    for folder in (node.data / "partitions").iterdir():
        if folder.name != METADATA:
            shutil.rmtree(folder)


def said(node):
    """The status, and where a copy is said to serve."""
    health = get(node, "/_cluster/health/kept")
    rows = get(node, "/_cat/shards/kept?format=json&h=state,node")
    started = sorted(row["node"] for row in rows if row["state"] == "STARTED")
    return health["status"], health["active_shards"], started


@contextlib.contextmanager
def one_good_copy(tmp_path, scenario):
    """A cluster where one of two nodes, which is down, lost its copy and gets it anew only slowly."""
    cluster = Cluster(tmp_path, nodes=2)
    wiped, good = cluster.nodes
    try:
        with explained(cluster, scenario, 0):
            cluster.start()
            settings = {"cluster.default_node_left_delayed_timeout": "1s", "log.flush_interval": "1s"}
            assert try_ask(good, "PUT", "/_cluster/settings", {"persistent": settings})[0] == 200
            assert try_ask(good, "PUT", "/kept", shape())[0] == 200
            cluster.await_green()
            before = ends(cluster)
            group = group_that_grows(cluster, lambda: write(good, DOCUMENTS, DOCUMENT_BYTES))
            await_trimmed(cluster, group, before[group])
            assert said(good) == said(wiped) == both(cluster)
            assert wiped.terminate(60) == 0
            await_true("one is said to serve", lambda: said(good) == one(good), BOUND_SECONDS)
            wipe(wiped)
            for origin, target in ((wiped, good), (good, wiped)):
                cluster.network.change(origin.name, target.name, "open", 0, COPIED_BYTES_S)
            yield cluster
    finally:
        cluster.close()


def one(node):
    return "yellow", 1, [node.name]


def both(cluster):
    return "green", 2, sorted(node.name for node in cluster.nodes)


def test_a_copy_that_is_being_made_counts_for_nothing(tmp_path):
    with one_good_copy(tmp_path, "a copy is made") as cluster:
        wiped, good = cluster.nodes
        wiped.spawn()
        # From its first beat on, before anybody can have heard of its copies.
        while not wiped.ready.is_set():
            assert said(good) == one(good)
        await_true("its node says so too", lambda: said(wiped) == one(good), BOUND_SECONDS)
        for _ in range(LOOKS):
            for node in cluster.nodes:
                assert said(node) == one(good), node.name
            time.sleep(PAUSE_SECONDS)
        # The node with the only good copy leaves for longer than it is waited for: the other copy does
        # not take its place, and when it comes back it has all.
        good.kill()
        await_true("nothing is said to serve", lambda: said(wiped) == ("red", 0, []), BOUND_SECONDS)
        for _ in range(LOOKS):
            assert said(wiped) == ("red", 0, [])
            time.sleep(PAUSE_SECONDS)
        cluster.heal()
        cluster.await_green()
        for node in cluster.nodes:
            assert lacks(node, DOCUMENTS, "kept") == []
            assert said(node) == both(cluster)
        assert cluster.await_equal_copies() >= 2


def test_who_waits_for_green_waits_for_the_copies_of_a_node_that_was_restarted(tmp_path):
    with one_good_copy(tmp_path, "wait for green") as cluster:
        wiped, good = cluster.nodes
        cluster.restart(wiped)
        for node in (wiped, good):
            status, health = try_ask(node, "GET", "/_cluster/health?wait_for_status=green&timeout=2s")
            assert (status, health["status"]) == (408, "yellow"), (node.name, health)


def test_databases_of_rows_alone_count_too(tmp_path):
    cluster = Cluster(tmp_path, nodes=2, settings=["resp.number_of_shards=3"]).start()
    try:
        first, last = cluster.nodes
        with Connection(first.port, 60) as rows:
            assert rows.ask("SET", "key", 1) == b"+OK\r\n"
        path = "/_cluster/health/db0?wait_for_status=green&timeout=60s&level=indices"
        status, health = try_ask(last, "GET", path)
        assert (status, health["active_shards"], health["active_primary_shards"]) == (200, 6, 3)
        assert health["indices"]["db0"]["number_of_replicas"] == 1
        await_true("all see them", lambda: get(first, "/_cluster/health")["active_shards"] == 6, BOUND_SECONDS)
        assert last.terminate(60) == 0
        await_true("copies are missed", lambda: get(first, "/_cluster/health")["status"] == "yellow", BOUND_SECONDS)
        assert get(first, "/_cluster/health/db0")["unassigned_shards"] == 3
        assert try_ask(first, "GET", "/_cluster/health/db0,none?timeout=10ms")[0] == 408
    finally:
        cluster.close()

"""A copy that lacks records which no log holds any more: it does not serve, says what it lacks, and
serves again only where an operator accepts the loss."""

import secrets

from cluster_harness import Cluster, explained
from cluster_processes import await_true
from rest import get, try_ask

EARLY, LATE, NEW = range(20), range(20, 60), range(60, 80)
# Of a late one: together they are more than the log may hold for a node that is away.
LATE_BYTES = 100_000
BOUND_SECONDS = 120
GROUPS = 16
SETTINGS = {
    "cluster.default_node_left_delayed_timeout": "2s",
    "log.flush_interval": "1s",
    "log.retention.max_bytes": "1mb",
}


def shape(replicas=1, shards=1):
    bulk = {"type": "object", "enabled": False}
    mappings = {"properties": {"n": {"type": "long"}, "bulk": bulk}}
    return {"settings": {"number_of_shards": shards, "number_of_replicas": replicas}, "mappings": mappings}


def write(node, numbers, bulk_bytes=0, index="kept"):
    for number in numbers:
        body = {"n": number, "bulk": {"it": secrets.token_hex(bulk_bytes // 2)}}
        status, answer = try_ask(node, "PUT", f"/{index}/_doc/{number}", body)
        assert status == 201, answer


def statuses(node, numbers, index="kept"):
    return {try_ask(node, "GET", f"/{index}/_doc/{number}")[0] for number in numbers}


def position(node, index="kept"):
    """Up to where the node's own copy holds the log of its group."""
    copies = get(node, f"/_plimsoll/digest?index={index}")
    return next(copy["lsn"] for copy in copies if copy["node"] == node.name)


def ends(cluster):
    """Where each of the log's groups ends; the metadata's is none of them."""
    streams = cluster.logs.all[0].streams()
    return {group: stream["state"]["last_seq"] for group, stream in streams.items() if group}


def group_that_grows(cluster, work):
    """The group of the log to which some work appends most."""
    before = ends(cluster)
    work()
    after = ends(cluster)
    return max(after, key=lambda group: after[group] - before[group])


def await_trimmed(cluster, group, past):
    """Waits until the log no longer has the record that follows a position."""

    def first():
        return cluster.logs.all[0].streams()[group]["state"]["first_seq"]

    await_true(lambda: f"the log begins after {past}: {first()}", lambda: first() > past + 1, BOUND_SECONDS)


def accept(node, on, index="kept", **options):
    """The error of a refusal, where the copy on a node is asked to serve whatever it lacks."""
    command = {"index": index, "shard": 0, "node": on.name, **options}
    body = {"commands": [{"allocate_stale_primary": command}]}
    status, answer = try_ask(node, "POST", "/_cluster/reroute", body)
    if status == 200:
        return None
    assert status == 400 and answer["error"]["type"] == "illegal_argument_exception", answer
    return answer["error"]["reason"]


def explanation(node):
    body = {"index": "kept", "shard": 0, "primary": True}
    answer = try_ask(node, "POST", "/_cluster/allocation/explain", body)[1]
    return answer.get("allocate_explanation", "")


def shown(node):
    body = {"size": 100, "sort": [{"n": "asc"}], "_source": ["n"]}
    status, answer = try_ask(node, "POST", "/kept/_search", body)
    assert status == 200 and not answer["_shards"]["failed"], answer
    return [hit["_source"]["n"] for hit in answer["hits"]["hits"]]


def test_a_copy_that_is_behind_serves_only_where_the_loss_is_accepted(tmp_path):
    cluster = Cluster(tmp_path, nodes=2)
    behind, ahead = cluster.nodes
    try:
        with explained(cluster, "data loss", 0):
            cluster.start()
            assert try_ask(behind, "PUT", "/_cluster/settings", {"persistent": SETTINGS})[0] == 200
            assert try_ask(behind, "PUT", "/kept", shape())[0] == 200
            # A partition in every group of the log, also in the other's.
            assert try_ask(behind, "PUT", "/idle", shape(shards=GROUPS))[0] == 200
            cluster.await_green()
            write(behind, EARLY)
            write(behind, EARLY, index="idle")
            for node in cluster.nodes:
                assert "nothing has to be lost" in accept(node, behind, accept_data_loss=True)
            held = position(behind)
            # In order: all that it was told is in its files.
            assert behind.terminate(60) == 0
            group = group_that_grows(cluster, lambda: write(ahead, LATE, LATE_BYTES))
            await_trimmed(cluster, group, held)
            ahead.kill()
            cluster.restart(behind)

            # What has no record among those that are gone is whole, though nobody else has it.
            await_true("the other index is there", lambda: statuses(behind, EARLY, "idle") == {200}, BOUND_SECONDS)
            assert "what was trimmed had nothing of this copy" in "".join(behind.output)
            assert "what the copy is missing was accepted" not in "".join(behind.output)

            # Behind, it shows nothing and takes nothing, and says what it lacks.
            await_true(
                lambda: f"it says what it lacks: {explanation(behind)}",
                lambda: f"holds its partition up to {held}, the log begins at" in explanation(behind),
                BOUND_SECONDS,
            )
            await_true("red", lambda: behind.health()["status"] == "red", BOUND_SECONDS)
            assert try_ask(behind, "POST", "/kept/_search", {})[0] == 503
            # Never acknowledged: nobody takes it, or nobody knows what the other node did with it.
            assert try_ask(behind, "PUT", "/kept/_doc/new", {"n": 0}, 60)[0] in (503, 504)
            for said in ({}, {"accept_data_loss": False}):
                assert "accept_data_loss" in accept(behind, behind, **said)
            assert try_ask(behind, "POST", "/kept/_search", {})[0] == 503
            assert "there is no node" in accept(behind, ahead, accept_data_loss=True)

            assert "nothing has to be lost" in accept(behind, behind, "idle", accept_data_loss=True)
            assert accept(behind, behind, accept_data_loss=True) is None
            await_true("it serves", lambda: statuses(behind, EARLY) == {200}, BOUND_SECONDS)
            assert "what the copy is missing was accepted as lost" in "".join(behind.output)
            assert statuses(behind, LATE) == {404}
            write(behind, NEW)
            assert "nothing has to be lost" in accept(behind, behind, accept_data_loss=True)

            # The other one has more than was accepted: that is given up.
            cluster.restart(ahead)
            cluster.await_green()
            for node in cluster.nodes:
                assert statuses(node, EARLY) == statuses(node, NEW) == {200}
                assert statuses(node, LATE) == {404}
                assert try_ask(node, "POST", "/kept/_refresh")[0] == 200
                assert shown(node) == [*EARLY, *NEW]
            assert cluster.await_equal_copies() >= 2
    finally:
        cluster.close()

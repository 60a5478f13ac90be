"""A copy that lacks records which no log holds any more: it does not serve, says what it lacks, and
serves again only where an operator accepts the loss."""

import secrets
import time

from cluster_harness import Cluster, explained
from cluster_processes import await_true
from rest import get, try_ask

EARLY, LATE, NEW = range(20), range(20, 60), range(60, 80)
MANY = range(20, 420)
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


def lacks(node, numbers, index):
    """The documents that a node does not show."""
    body = {"ids": [str(number) for number in numbers]}
    status, answer = try_ask(node, "POST", f"/{index}/_mget?_source=n", body)
    assert status == 200, answer
    return [it for it in answer["docs"] if it.get("_source") != {"n": int(it["_id"])}]


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


def test_the_log_is_held_up_to_its_budget_and_for_the_last_copies_beyond(tmp_path):
    """A node is away for less than it is waited for, and more is written than the log may hold for it."""
    cluster = Cluster(tmp_path, nodes=2)
    gone, stays = cluster.nodes
    try:
        with explained(cluster, "retention", 0):
            cluster.start()
            waits = {"cluster.default_node_left_delayed_timeout": "24h", "log.flush_interval": "24h"}
            assert try_ask(gone, "PUT", "/_cluster/settings", {"persistent": waits})[0] == 200
            # In each group of the log a partition on both nodes, and one on one of them.
            assert try_ask(gone, "PUT", "/kept", shape(shards=GROUPS))[0] == 200
            assert try_ask(gone, "PUT", "/single", shape(replicas=0, shards=GROUPS))[0] == 200
            cluster.await_green()
            write(gone, EARLY)
            write(gone, range(100), index="single")
            # Its rows were never made durable: what it has of its own is in the log alone.
            gone.kill()
            before = ends(cluster)
            now = {"log.flush_interval": "1s", "log.retention.max_bytes": "1mb"}
            assert try_ask(stays, "PUT", "/_cluster/settings", {"persistent": now})[0] == 200
            write(stays, MANY, LATE_BYTES)

            await_true("the node has left", lambda: stays.health()["number_of_nodes"] == 1, BOUND_SECONDS)
            rows = get(stays, "/_cat/shards/single?format=json&h=state")
            last_copies = sum(row["state"] == "UNASSIGNED" for row in rows)

            def trimmed():
                groups = cluster.logs.all[0].streams()
                return [group for group in before if groups[group]["state"]["first_seq"] > before[group] + 1]

            assert 0 < last_copies < GROUPS
            await_true(
                lambda: f"all but {last_copies} of {GROUPS} groups are trimmed: {trimmed()}",
                lambda: len(trimmed()) == GROUPS - last_copies,
                BOUND_SECONDS,
            )
            await_true(
                "it is said that the log is held for a node",
                lambda: any("for this node" in line and f'node="{gone.name}"' in line for line in stays.output),
                BOUND_SECONDS,
            )
            assert len(trimmed()) == GROUPS - last_copies
            cluster.restart(gone)
            assert "the log went on without this copy" in "".join(gone.output)
            cluster.await_green()
            for node in cluster.nodes:
                assert lacks(node, [*EARLY, *MANY], "kept") == []
                assert lacks(node, range(100), "single") == []
            by_shard = {}
            for copy in get(stays, "/_plimsoll/digest?index=kept"):
                by_shard.setdefault(copy["shard"], []).append((copy["lsn"], copy["hash"], copy["digest"]))
            assert all(len(copies) == 2 and len(set(copies)) == 1 for copies in by_shard.values()), by_shard
            await_true("the log gives up the rest", lambda: len(trimmed()) == GROUPS, BOUND_SECONDS)
    finally:
        cluster.close()


def test_an_index_is_waited_for_as_long_as_it_says(tmp_path):
    cluster = Cluster(tmp_path)
    gone, asked, _ = cluster.nodes
    delayed = "index.unassigned.node_left.delayed_timeout"
    try:
        with explained(cluster, "delayed", 0):
            cluster.start()
            short = {"cluster.default_node_left_delayed_timeout": "1s"}
            assert try_ask(asked, "PUT", "/_cluster/settings", {"persistent": short})[0] == 200
            for index, settings in (("moved", {}), ("waits", {delayed: "24h"})):
                body = shape(shards=GROUPS)
                body["settings"] |= settings
                assert try_ask(asked, "PUT", f"/{index}", body)[0] == 200
            cluster.await_green()
            gone.kill()

            def copies(index):
                rows = get(asked, f"/_cat/shards/{index}?format=json&h=state,node,unassigned.reason")
                return [(row["state"], row["node"]) for row in rows]

            def health(index):
                answer = get(asked, f"/_cluster/health/{index}")
                return answer["status"], answer["active_shards"], answer["delayed_unassigned_shards"]

            missing = sum(node == gone.name for _, node in copies("waits"))
            assert missing > 0
            await_true("the node has left", lambda: asked.health()["number_of_nodes"] == 2, BOUND_SECONDS)
            await_true("the one is green", lambda: health("moved") == ("green", 2 * GROUPS, 0), BOUND_SECONDS)
            assert gone.name not in {node for _, node in copies("moved")}
            for _ in range(20):
                assert health("waits") == ("yellow", 2 * GROUPS - missing, missing)
                assert copies("waits").count(("UNASSIGNED", None)) == missing
                time.sleep(0.1)
            # It says otherwise: then it is made elsewhere too.
            assert try_ask(asked, "PUT", "/waits/_settings", {delayed: "0ms"})[0] == 200
            await_true("the other is green", lambda: health("waits") == ("green", 2 * GROUPS, 0), BOUND_SECONDS)
            assert gone.name not in {node for _, node in copies("waits")}
    finally:
        cluster.close()

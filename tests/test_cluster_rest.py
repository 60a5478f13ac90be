"""What REST says of a cluster, at every node: its nodes, the copies of partitions, their figures and
digests; and that a change of an index is known everywhere once it is acknowledged."""

from cluster_processes import await_true
from rest import ask, get


def test_every_node_tells_of_all(cluster):
    first = cluster.nodes[0]
    settings = {"number_of_shards": 3, "number_of_replicas": 1}
    for number, node in enumerate(cluster.nodes):
        # Acknowledged is known everywhere: no refresh, no retry.
        assert ask(node, "PUT", f"/i{number}", {"settings": settings})[0] == 200
        for other in cluster.nodes:
            mapping = {"properties": {f"by_{other.name}": {"type": "keyword"}}}
            assert ask(other, "PUT", f"/i{number}/_mapping", mapping)[0] == 200
            for third in cluster.nodes:
                found = get(third, f"/i{number}/_mapping")[f"i{number}"]["mappings"]["properties"]
                assert f"by_{other.name}" in found
    for number in range(30):
        node = cluster.nodes[number % 3]
        status, written = ask(node, "PUT", f"/i0/_doc/{number}?refresh=true", {f"new{number}": number})
        assert status == 201 and written["_shards"] == {"total": 2, "successful": 2, "failed": 0}
    for number in range(30):
        query = {"query": {"term": {f"new{number}": number}}}
        for node in cluster.nodes:
            assert ask(node, "POST", "/i0/_count", query)[1]["count"] == 1
    names = {node.name for node in cluster.nodes}
    for node in cluster.nodes:
        assert {row["name"] for row in get(node, "/_cat/nodes?format=json")} == names
        assert all(row["heap.percent"] for row in get(node, "/_cat/nodes?format=json"))
        assert len(get(node, "/_cat/master?format=json")) == 1
        rows = get(node, "/_cat/shards/i0?format=json")
        assert len(rows) == 6 and {row["state"] for row in rows} == {"STARTED"}
        assert sorted(row["prirep"] for row in rows) == ["p"] * 3 + ["r"] * 3
        for kind in "pr":
            assert sum(int(row["docs"]) for row in rows if row["prirep"] == kind) == 30
        health = get(node, "/_cluster/health?level=shards")
        assert (health["status"], health["number_of_nodes"], health["active_shards"]) == ("green", 3, 18)
        assert get(node, "/_nodes")["_nodes"] == {"total": 3, "successful": 3, "failed": 0}
        stats = get(node, "/_nodes/stats")["nodes"].values()
        assert sum(it["indices"]["docs"]["count"] for it in stats) == 60
        assert all(it["process"]["open_file_descriptors"] > 0 for it in stats)
        stats = get(node, "/i0/_stats")
        assert stats["_shards"] == {"total": 6, "successful": 6, "failed": 0}
        assert stats["_all"]["primaries"]["docs"]["count"] == 30
        assert stats["_all"]["total"]["docs"]["count"] == 60
        assert get(node, "/_cluster/stats")["nodes"]["count"]["total"] == 3
        assert len(get(node, "/_cluster/state/nodes")["nodes"]) == 3
    assert {get(node, "/_cat/master?format=json")[0]["node"] for node in cluster.nodes} <= names
    assert ask(first, "POST", "/_cluster/allocation/explain", {})[0] == 400


def test_copies_have_equal_digests(cluster):
    for node in cluster.nodes:
        by_partition = {}
        for copy in get(node, "/_plimsoll/digest?index=i0"):
            by_partition.setdefault(copy["shard"], []).append(copy)
        assert len(by_partition) == 3
        for copies in by_partition.values():
            assert len({copy["node"] for copy in copies}) == 2
            assert len({(copy["lsn"], copy["hash"], copy["digest"]) for copy in copies}) == 1, copies
    assert ask(cluster.nodes[0], "GET", "/_plimsoll/digest?index=none")[0] == 404


def test_copies_are_taken_off_a_node_that_is_excluded(cluster):
    """Before a node is taken away: its copies are made on others first, and nothing is lost."""
    first, last = cluster.nodes[0], cluster.nodes[2]
    settings = {"number_of_shards": 3, "number_of_replicas": 1}
    assert ask(first, "PUT", "/moved", {"settings": settings})[0] == 200
    for number in range(50):
        assert ask(first, "PUT", f"/moved/_doc/{number}", {"n": number})[0] == 201
    name = "cluster.routing.allocation.exclude._name"

    def held():
        rows = get(first, "/_cat/shards/moved?format=json")
        return sorted(row["node"] for row in rows if row["state"] == "STARTED" and row["node"])

    assert last.name in held(), "there is nothing to move"
    assert ask(first, "PUT", "/_cluster/settings", {"persistent": {name: last.name}})[0] == 200
    others = sorted(node.name for node in cluster.nodes[:2])
    await_true("its copies are on the others", lambda: held() == sorted(others * 3), 60)
    # Also those of a table that is made now.
    assert ask(first, "PUT", "/later", {"settings": settings})[0] == 200
    rows = get(first, "/_cat/shards/later?format=json")
    assert sorted(row["node"] for row in rows) == sorted(others * 3)
    assert ask(last, "POST", "/moved/_refresh")[0] == 200
    assert get(last, "/moved/_count")["count"] == 50
    # A wish that leaves no node is not followed.
    assert ask(first, "PUT", "/_cluster/settings", {"persistent": {name: "*"}})[0] == 200
    assert ask(first, "PUT", "/nowhere", {"settings": settings})[0] == 200
    assert ask(first, "PUT", "/nowhere/_doc/1", {"n": 1})[0] == 201
    assert ask(first, "PUT", "/_cluster/settings", {"persistent": {name: None}})[0] == 200
    await_true("it has copies again", lambda: last.name in held(), 60)
    await_true("all is made", lambda: get(first, "/_cluster/health")["status"] == "green", 60)
    assert get(first, "/moved/_count")["count"] == 50


def test_a_node_that_left_is_told_of(cluster):
    gone, *rest = reversed(cluster.nodes)
    gone.kill()
    for node in rest:
        await_true("the node has left", lambda node=node: node.health().get("number_of_nodes") == 2, 60)
        health = node.health()
        assert health["status"] == "yellow"
        assert health["delayed_unassigned_shards"] == health["unassigned_shards"] > 0
        rows = get(node, "/_cat/shards?format=json&h=state,unassigned.reason,node")
        left = [row for row in rows if row["state"] == "UNASSIGNED"]
        assert {row["unassigned.reason"] for row in left} == {"NODE_LEFT"}
        explained = get(node, "/_cluster/allocation/explain")
        assert explained["can_allocate"] == "allocation_delayed"
        status, health = ask(node, "GET", "/_cluster/health?wait_for_status=green&timeout=100ms")
        assert (status, health["timed_out"]) == (408, True)
    assert ask(rest[0], "PUT", "/after", {})[0] == 200
    cluster.restart(gone)
    cluster.await_green()
    assert ask(gone, "GET", "/_cluster/health?wait_for_nodes=3&timeout=60s")[0] == 200


def test_the_window_of_an_index_holds_on_every_node(cluster):
    settings = {"number_of_shards": 4, "number_of_replicas": 0}
    first = cluster.nodes[0]
    wide = settings | {"max_result_window": 20_000}
    assert ask(first, "PUT", "/wide", {"settings": wide})[0] == 200
    assert ask(first, "PUT", "/narrow", {"settings": settings})[0] == 200
    for node in cluster.nodes:
        status, answer = ask(node, "POST", "/wide/_search", {"size": 12_000})
        assert (status, answer["_shards"]) == (200, {"total": 4, "successful": 4, "skipped": 0, "failed": 0})
        status, answer = ask(node, "POST", "/narrow/_search", {"size": 12_000})
        assert (status, answer["error"]["root_cause"][0]["type"]) == (400, "illegal_argument_exception")
        assert "[index.max_result_window]" in answer["error"]["root_cause"][0]["reason"]


def test_replicas_that_the_nodes_may_not_hold_are_refused(cluster):
    first = cluster.nodes[0]
    shape = {"number_of_shards": 4, "number_of_replicas": 0}
    assert ask(first, "PUT", "/raised", {"settings": shape})[0] == 200
    most = "cluster.max_shards_per_node"
    assert ask(first, "PUT", "/_cluster/settings", {"persistent": {most: 1}})[0] == 200
    for node in cluster.nodes:
        status, answer = ask(node, "PUT", "/raised/_settings", {"number_of_replicas": 1})
        assert (status, answer["error"]["type"]) == (400, "validation_exception"), answer
        assert most in answer["error"]["reason"]
        # What adds none is taken, however many there are.
        assert ask(node, "PUT", "/raised/_settings", {"number_of_replicas": 0})[0] == 200
    assert ask(first, "PUT", "/_cluster/settings", {"persistent": {most: None}})[0] == 200
    assert ask(first, "PUT", "/raised/_settings", {"number_of_replicas": 1})[0] == 200

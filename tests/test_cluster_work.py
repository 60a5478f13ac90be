"""Controllers at work in a cluster: a coordinator without copies, rules that are switched while it
runs, searches that are refused and where they go, views that are held and let go."""

import concurrent.futures
import threading

import pytest
import resp
from cluster_harness import NAMES, Cluster
from cluster_processes import await_true
from rest import ask_whole, get


RULES = ("load_aware", "round_robin", "least_outstanding", "p2c_peak_ewma", "c3", "prequal")
# The one that holds no copies.
COORDINATOR = NAMES[-1]


def settings(node, **changes):
    named = {name.replace("__", "."): value for name, value in changes.items()}
    status, _, answer = ask_whole(node, "PUT", "/_cluster/settings", {"transient": named})
    assert status == 200, answer


def own_stats(node, part):
    return next(iter(get(node, f"/_nodes/{node.name}/stats/{part}")["nodes"].values()))


def open_contexts(nodes):
    stats = [own_stats(node, "indices") for node in nodes]
    return sum(it["indices"]["search"]["open_contexts"] for it in stats)


class WithCoordinator(Cluster):
    """Three nodes with data, and one more that only coordinates."""

    def make_node(self, name, settings):
        roles = ["node.roles="] if name == COORDINATOR else []
        return super().make_node(name, [*settings, *roles])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = WithCoordinator(tmp_path_factory.mktemp("work"), nodes=len(NAMES)).start()
    first = cluster.nodes[0]
    shape = {"settings": {"number_of_shards": 2, "number_of_replicas": len(NAMES) - 2}}
    assert ask_whole(first, "PUT", "/i", shape)[0] == 200
    for number in range(100):
        assert ask_whole(first, "PUT", f"/i/_doc/{number}", {"n": number})[0] == 201
    cluster.await_green()
    assert ask_whole(first, "POST", "/i/_refresh")[0] == 200
    yield cluster
    cluster.close()


@pytest.fixture
def coordinator(cluster):
    return next(node for node in cluster.nodes if node.name == COORDINATOR)


def test_a_coordinator_holds_no_copies(cluster, coordinator):
    for node in cluster.nodes:
        roles = {row["name"]: row["node.role"] for row in get(node, "/_cat/nodes?format=json")}
        assert roles == {name: "-" if name == COORDINATOR else "dimr" for name in NAMES}
        holders = {row["node"] for row in get(node, "/_cat/shards/i?format=json")}
        assert holders == set(NAMES) - {COORDINATOR}
    health = get(coordinator, "/_cluster/health")
    assert (health["number_of_nodes"], health["number_of_data_nodes"]) == (len(NAMES), len(NAMES) - 1)
    assert own_stats(coordinator, "os")["roles"] == []
    assert get(coordinator, "/i/_search?size=3")["hits"]["total"]["value"] == 100
    assert get(coordinator, "/i/_doc/7")["_source"] == {"n": 7}
    status, _, written = ask_whole(coordinator, "PUT", "/made-here/_doc/1?refresh=true", {"a": 1})
    assert status == 201 and written["_shards"]["failed"] == 0
    assert get(coordinator, "/made-here/_count")["count"] == 1


def test_views_are_let_go(cluster, coordinator):
    held = lambda: open_contexts(cluster.nodes)  # noqa: E731
    await_true("nothing is held", lambda: held() == 0, 30)
    for number in range(30):
        found = get(coordinator, "/i/_search", {"size": 5, "query": {"range": {"n": {"gte": number}}}})
        assert len(found["hits"]["hits"]) == 5
        get(coordinator, "/i/_search", {"size": 5, "query": {"term": {"n": -1}}})
        get(coordinator, "/i/_search", {"size": 0})
    await_true("searches hold nothing", lambda: held() == 0, 10)
    point = ask_whole(coordinator, "POST", "/i/_pit?keep_alive=10m")[2]["id"]
    # The point itself, and a view of each of the two partitions.
    assert held() == 3
    body = {"size": 2, "pit": {"id": point}, "sort": [{"n": "desc"}]}
    assert [hit["_source"]["n"] for hit in get(coordinator, "/_search", body)["hits"]["hits"]] == [99, 98]
    assert held() == 3
    assert ask_whole(coordinator, "DELETE", "/_pit", {"id": point})[0] == 200
    await_true("the point's views are let go", lambda: held() == 0, 10)
    page = get(coordinator, "/i/_search?scroll=10m", {"size": 30, "sort": ["n"]})
    seen = []
    while page["hits"]["hits"]:
        assert held() == 3
        seen += [hit["_source"]["n"] for hit in page["hits"]["hits"]]
        page = get(coordinator, "/_search/scroll", {"scroll": "10m", "scroll_id": page["_scroll_id"]})
    assert sorted(seen) == list(range(100))
    assert ask_whole(coordinator, "DELETE", "/_search/scroll", {"scroll_id": [page["_scroll_id"]]})[0] == 200
    await_true("the scroll's views are let go", lambda: held() == 0, 10)


def test_the_rule_is_switched_live(cluster, coordinator):
    data = [node for node in cluster.nodes if node is not coordinator]
    try:
        for rule in RULES:
            settings(data[0], cluster__routing__replica_selection=rule)
            for node in cluster.nodes:
                assert own_stats(node, "adaptive_selection")["replica_selection"]["rule"] == rule
            assert len(get(coordinator, "/i/_search?size=1")["hits"]["hits"]) == 1
            assert get(coordinator, "/i/_doc/3")["_source"] == {"n": 3}
            assert get(data[1], "/i/_doc/3?realtime=false")["_source"] == {"n": 3}
        settings(data[0], cluster__routing__use_adaptive_replica_selection="false")
        before = picks(coordinator)
        for _ in range(30):
            get(coordinator, "/i/_search?size=0&request_cache=false")
        after = picks(coordinator)
        given = {node: after[node] - before.get(node, 0) for node in after}
        assert len(given) == len(data) and max(given.values()) - min(given.values()) <= 4, given
        settings(
            data[0],
            cluster__routing__use_adaptive_replica_selection=None,
            cluster__routing__replica_selection=None,
            cluster__routing__replica_selection_shadow="c3",
            cluster__routing__hedging="shadow",
        )
        for _ in range(10):
            get(coordinator, "/i/_search?size=0&request_cache=false")
        found = own_stats(coordinator, "adaptive_selection")
        assert found["replica_selection"]["shadow"]["picks"] >= 20
        assert found["replica_selection"]["hedging"] == "shadow"
        lines = [it["load_line"] for it in found["adaptive_selection"].values()]
        assert len(lines) == len(data) and all(it["workers"] >= 1 for it in lines)
        assert any(it["run_ns"]["search"] > 0 for it in lines)
    finally:
        settings(data[0], **{"cluster__routing__*": None})


def test_a_session_reads_what_it_wrote_and_never_goes_back(cluster, coordinator):
    """Two clients write counters through nodes of their own; each reads its own counter back at
    once, and the other's never falls, whichever copy answers."""
    rounds, keys = 150, 8
    turns = threading.Barrier(2)

    def client(node, own, other):
        last = dict.fromkeys(range(keys), 0)
        with resp.Connection(node.port) as connection:
            assert connection.ask("PLIMSOLL.READS", "session") == b"+OK\r\n"
            turns.wait(60)
            for number in range(1, rounds + 1):
                key = number % keys
                assert connection.ask("SET", f"{own}-{key}", number) == b"+OK\r\n"
                assert resp.bulk(connection.ask("GET", f"{own}-{key}")) == b"%d" % number
                found = int(resp.bulk(connection.ask("GET", f"{other}-{key}")) or 0)
                assert found >= last[key], "it saw more before"
                last[key] = found
        return max(last.values())

    first = cluster.nodes[0]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        clients = (pool.submit(client, first, "a", "b"), pool.submit(client, coordinator, "b", "a"))
        seen = [it.result(120) for it in clients]
    assert all(seen), "each saw something of the other's"


def picks(node):
    found = own_stats(node, "adaptive_selection")["adaptive_selection"]
    return {name: it["picks"] for name, it in found.items()}


def test_a_refusal_says_when_to_come_back(cluster, coordinator):
    shape = {"settings": {"number_of_shards": 24, "number_of_replicas": 0}}
    assert ask_whole(coordinator, "PUT", "/wide", shape)[0] == 200
    for number in range(50):
        assert ask_whole(coordinator, "PUT", f"/wide/_doc/{number}", {"n": number})[0] == 201
    assert ask_whole(coordinator, "POST", "/wide/_refresh")[0] == 200
    # One thread in each node and one search that may wait for it: of the many partitions that a
    # search asks at once, some are refused, and nobody else has a copy.
    settings(
        coordinator,
        thread_pool__search__size=1,
        thread_pool__search__queue_size=1,
        thread_pool__search__admission="fixed",
    )
    try:
        whole = "/wide/_search?request_cache=false&allow_partial_search_results="
        with concurrent.futures.ThreadPoolExecutor(8) as crowd:
            found = list(crowd.map(lambda _: ask_whole(coordinator, "GET", whole + "false"), range(200)))
        assert {status for status, _, _ in found} <= {200, 429}
        headers, answer = next((headers, answer) for status, headers, answer in found if status == 429)
        assert int(headers["retry-after"]) >= 1
        assert answer["error"]["root_cause"][0]["type"] == "es_rejected_execution_exception"
        assert all(it["hits"]["total"]["value"] == 50 for status, _, it in found if status == 200)
        with concurrent.futures.ThreadPoolExecutor(8) as crowd:
            found = list(crowd.map(lambda _: ask_whole(coordinator, "GET", whole + "true"), range(200)))
        partial = [it["_shards"] for status, _, it in found if status == 200 and it["_shards"]["failed"]]
        assert partial and partial[0]["failures"][0]["reason"]["type"] == "es_rejected_execution_exception"
        pools = get(coordinator, "/_cat/thread_pool/search?format=json&h=node_name,rejected,completed,qs,ad")
        pools = {row["node_name"]: row for row in pools}
        assert set(pools) == set(NAMES)
        assert {row["ad"] for row in pools.values()} == {"fixed"} and {row["qs"] for row in pools.values()} == {"1"}
        assert sum(int(row["rejected"]) for row in pools.values()) > 0
        assert int(pools[COORDINATOR]["completed"]) == 0
    finally:
        settings(coordinator, **{"thread_pool__*": None})
    pool = own_stats(coordinator, "thread_pool")["thread_pool"]["search"]
    assert pool["admission"]["rule"] == "load_aware" and pool["threads"] > 1
    assert get(coordinator, "/wide/_search?size=0")["_shards"]["failed"] == 0


def test_littles_law_tells_its_frames(cluster, coordinator):
    settings(
        coordinator,
        thread_pool__search__admission="littles_law",
        thread_pool__search__auto_queue_frame_size=10,
        thread_pool__search__target_response_time="4s",
    )
    try:
        for _ in range(60):
            get(coordinator, "/i/_search?size=0&request_cache=false")
        found = [own_stats(node, "thread_pool")["thread_pool"]["search"]["admission"] for node in cluster.nodes]
        frames = [frame for admission in found for frame in admission.get("frames", [])]
        assert frames and all(frame["tasks_s"] > 0 and frame["capacity"] >= 10 for frame in frames)
    finally:
        settings(coordinator, **{"thread_pool__*": None})


def test_a_hung_copy_is_asked_no_more(cluster, coordinator):
    data = [node for node in cluster.nodes if node is not coordinator]
    for _ in range(20):
        get(coordinator, "/i/_search?size=1")
    before = picks(coordinator)
    data[0].freeze()
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as crowd:
            found = list(crowd.map(lambda _: ask_whole(coordinator, "GET", "/i/_search?size=1"), range(400)))
        assert {status for status, _, _ in found} == {200}
        assert all(answer["_shards"]["failed"] == 0 for _, _, answer in found)
        given = sorted(count - before.get(node, 0) for node, count in picks(coordinator).items())
        # Two partitions of each search; a fair share would be a quarter of them.
        assert sum(given) >= 800 and given[0] < 80, given
    finally:
        data[0].thaw()
        cluster.await_green()

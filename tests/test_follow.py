"""A table that follows one of another cluster, over TLS: two real nodes, one a cluster. What the follower
contains is the leader's, byte for byte, by digests of the contents.
"""

import importlib
import json
import random
import time
import urllib.request

import pytest
import redis
from cluster_processes import await_true
from remote_clusters import Clusters, ManyClusters
from rest import ask, get

SECONDS = 60


class Pair:
    """A leader and a follower that is connected to it as `west`."""

    def __init__(self, folder, **options):
        self.clusters = Clusters(folder, **options)
        self.leader, self.follower = self.clusters.leader, self.clusters.follower
        self.key, path = self.clusters.make_key("*")
        self.clusters.connect("west", credentials_file=str(path))
        self.clusters.await_connected("west")

    def follow(self, name, leader, **body):
        body = {"remote_cluster": "west", "leader_index": leader, **body}
        return ask(self.follower, "PUT", f"/{name}/_ccr/follow?wait_for_active_shards=1", body, 90)

    def contents(self, node, name):
        copies = get(node, f"/_plimsoll/digest?index={name}")
        assert all(copy["error"] is None for copy in copies), copies
        return {copy["shard"]: copy["content"] for copy in copies}

    def are_level(self, name, leader):
        return self.contents(self.follower, name) == self.contents(self.leader, leader)

    def await_level(self, name, leader):
        def shown():
            return self.stats(name), self.contents(self.leader, leader), self.contents(self.follower, name)

        await_true(shown, lambda: self.are_level(name, leader), SECONDS)

    def stats(self, name):
        [index] = get(self.follower, f"/{name}/_ccr/stats")["indices"]
        return index["shards"]

    def close(self):
        self.clusters.close()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    pair = Pair(tmp_path_factory.mktemp("follow"))
    yield pair
    pair.clusters.demand_well()
    pair.close()


@pytest.fixture
def own_pair(tmp_path):
    pair = Pair(tmp_path)
    yield pair
    pair.close()


def bulk(node, index, documents):
    lines = []
    for number, source in documents:
        lines += [{"index": {"_index": index, "_id": str(number)}}, source]
    body = "\n".join(json.dumps(line) for line in lines) + "\n"
    request = urllib.request.Request(f"http://127.0.0.1:{node.http}/_bulk", body.encode(), method="POST")
    request.add_header("content-type", "application/x-ndjson")
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = json.loads(answer.read())
    assert not found["errors"], found


def searched(node, index):
    ask(node, "POST", f"/{index}/_refresh")
    body = {"size": 1000, "query": {"match_all": {}}, "sort": [{"n": "asc"}]}
    hits = get(node, f"/{index}/_search", body)["hits"]
    return [(hit["_id"], hit["_source"]) for hit in hits["hits"]]


def test_an_index_is_copied_and_followed(pair):
    settings = {"settings": {"number_of_shards": 3}, "aliases": {"all-logs": {}}}
    assert ask(pair.leader, "PUT", "/logs", settings)[0] == 200
    bulk(pair.leader, "logs", [(n, {"n": n, "text": f"line {n}"}) for n in range(500)])
    status, answer = pair.follow("logs-copy", "logs")
    assert (status, answer) == (
        200,
        {"follow_index_created": True, "follow_index_shards_acked": True, "index_following_started": True},
    )
    pair.await_level("logs-copy", "logs")
    assert searched(pair.follower, "logs-copy") == searched(pair.leader, "logs")

    # A field that is new, documents changed and deleted.
    bulk(pair.leader, "logs", [(n, {"n": n, "text": "again", "fresh": {"deep": n}}) for n in range(400, 700)])
    for n in range(0, 50, 5):
        assert ask(pair.leader, "DELETE", f"/logs/_doc/{n}")[0] == 200
    pair.await_level("logs-copy", "logs")
    assert searched(pair.follower, "logs-copy") == searched(pair.leader, "logs")
    mapping = get(pair.leader, "/logs/_mapping")["logs"]
    assert get(pair.follower, "/logs-copy/_mapping")["logs-copy"] == mapping
    assert "all-logs" in get(pair.follower, "/logs-copy/_alias")["logs-copy"]["aliases"]
    assert get(pair.leader, "/logs/_doc/450")["_seq_no"] == get(pair.follower, "/logs-copy/_doc/450")["_seq_no"]

    [info] = get(pair.follower, "/logs-copy/_ccr/info")["follower_indices"]
    assert (info["status"], info["remote_cluster"], info["leader_index"]) == ("active", "west", "logs")
    assert info["parameters"]["max_read_request_operation_count"] == 5120
    shards = pair.stats("logs-copy")
    assert [shard["shard_id"] for shard in shards] == [0, 1, 2]
    for shard in shards:
        assert shard["leader_global_checkpoint"] == shard["follower_global_checkpoint"]


def test_the_index_travels_with_the_rows(own_pair):
    """Also into a cluster whose log is empty so far: nothing is indexed once more."""
    pair = own_pair
    assert ask(pair.leader, "PUT", "/travels")[0] == 200
    bulk(pair.leader, "travels", [(n, {"n": n}) for n in range(300)])
    ask(pair.leader, "POST", "/travels/_refresh")
    assert pair.follow("travels", "travels")[0] == 200
    pair.await_level("travels", "travels")
    assert searched(pair.follower, "travels") == searched(pair.leader, "travels")
    text = "".join(pair.follower.output)
    assert "the index came with the rows" in text and "built anew" not in text, text
    row = get(pair.follower, "/_cat/recovery?format=json")[0]
    assert (row["type"], row["repository"], row["snapshot"]) == ("snapshot", "_ccr_west", "_latest_")


def test_a_follower_takes_its_leaders_writes_alone(pair):
    assert ask(pair.leader, "PUT", "/alone")[0] == 200
    bulk(pair.leader, "alone", [(1, {"n": 1})])
    assert pair.follow("alone-copy", "alone")[0] == 200
    for method, path, body in (
        ("PUT", "/alone-copy/_doc/2", {"n": 2}),
        ("POST", "/alone-copy/_update/1", {"doc": {"n": 2}}),
        ("DELETE", "/alone-copy/_doc/1", None),
    ):
        status, answer = ask(pair.follower, method, path, body)
        assert (status, answer["error"]["type"]) == (403, "cluster_block_exception"), (method, path, answer)
    for method, path, body in (
        ("PUT", "/alone-copy/_mapping", {"properties": {"x": {"type": "long"}}}),
        ("POST", "/_aliases", {"actions": [{"add": {"index": "alone-copy", "alias": "x"}}]}),
    ):
        status, answer = ask(pair.follower, method, path, body)
        assert (status, answer["error"]["type"]) == (400, "illegal_argument_exception"), answer
    pair.await_level("alone-copy", "alone")
    assert ask(pair.follower, "DELETE", "/alone-copy")[0] == 200


def test_rows_of_a_database_follow(pair):
    leader, follower = pair.leader.client(db=3), pair.follower.client(db=3)
    with leader.pipeline(transaction=False) as pipeline:
        for n in range(300):
            pipeline.set(f"key:{n}", "x" * n)
        pipeline.hset("hash", mapping={f"f{n}": n for n in range(100)})
        pipeline.execute()
    assert pair.follow("db3", "db3")[0] == 200
    pair.await_level("db3", "db3")
    assert follower.get("key:7") == b"xxxxxxx"
    for command in (("SET", "a", "1"), ("FLUSHDB",), ("EXPIRE", "key:1", "5"), ("INCR", "n")):
        with pytest.raises(redis.exceptions.ReadOnlyError):
            follower.execute_command(*command)
    own = pair.follower.client(db=0)
    own.set("own", "1")
    with pytest.raises(redis.exceptions.ReadOnlyError):
        own.execute_command("FLUSHALL")
    assert own.get("own") == b"1", "nothing is flushed where not all can be"
    leader.set("soon", "gone", px=300)
    leader.incr("counter")
    leader.hdel("hash", "f1")
    pair.await_level("db3", "db3")
    assert follower.get("counter") == b"1"
    await_true("it is swept", lambda: leader.dbsize() == 302, SECONDS)
    pair.await_level("db3", "db3")
    assert follower.get("soon") is None
    leader.flushdb()
    leader.set("after", "1")
    pair.await_level("db3", "db3")
    assert follower.keys() == [b"after"]


def test_what_makes_no_sense_is_refused(pair):
    assert ask(pair.leader, "PUT", "/sense")[0] == 200
    body = {"remote_cluster": "east", "leader_index": "sense"}
    status, answer = ask(pair.follower, "PUT", "/f/_ccr/follow", body)
    assert (status, answer["error"]["type"]) == (404, "no_such_remote_cluster_exception")
    status, answer = pair.follow("f", "nothing")
    assert (status, answer["error"]["reason"]) == (400, "leader index [nothing] does not exist")
    assert pair.follow("Upper", "sense")[0] == 400
    assert pair.follow("f", "sense", settings={"number_of_shards": 7})[0] == 400
    assert pair.follow("f", "sense", bogus=1)[0] == 400
    assert pair.follow("f", "sense")[0] == 200
    assert pair.follow("f", "sense")[0] == 400, "it is there already"
    for path in ("/none/_ccr/pause_follow", "/none/_ccr/resume_follow", "/none/_ccr/unfollow"):
        assert ask(pair.follower, "POST", path)[0] == 404
    assert ask(pair.follower, "PUT", "/own")[0] == 200
    status, answer = ask(pair.follower, "POST", "/own/_ccr/pause_follow")
    assert (status, answer["error"]["reason"]) == (400, "index [own] is not a follower index")
    status, answer = ask(pair.follower, "POST", "/f/_ccr/unfollow")
    assert status == 400 and "has not been paused" in answer["error"]["reason"]


def test_it_stands_still_on_demand_and_becomes_a_table_of_its_own(pair):
    assert ask(pair.leader, "PUT", "/ending")[0] == 200
    bulk(pair.leader, "ending", [(n, {"n": n}) for n in range(20)])
    assert pair.follow("ended", "ending")[0] == 200
    pair.await_level("ended", "ending")
    assert ask(pair.follower, "POST", "/ended/_ccr/pause_follow") == (200, {"acknowledged": True})
    assert ask(pair.follower, "POST", "/ended/_ccr/pause_follow")[0] == 400
    [info] = get(pair.follower, "/ended/_ccr/info")["follower_indices"]
    assert info["status"] == "paused" and "parameters" not in info
    bulk(pair.leader, "ending", [(n, {"n": n}) for n in range(20, 40)])
    time.sleep(2)
    assert not pair.are_level("ended", "ending")
    assert ask(pair.follower, "POST", "/ended/_ccr/resume_follow") == (200, {"acknowledged": True})
    pair.await_level("ended", "ending")

    assert ask(pair.follower, "POST", "/ended/_ccr/pause_follow")[0] == 200
    assert ask(pair.follower, "POST", "/ended/_ccr/unfollow") == (200, {"acknowledged": True})
    before = get(pair.follower, "/ended/_doc/39")["_seq_no"]
    status, answer = ask(pair.follower, "PUT", "/ended/_doc/40?refresh=true", {"n": 40})
    assert status == 201 and answer["_seq_no"] > before
    assert len(searched(pair.follower, "ended")) == 41
    assert len(searched(pair.leader, "ending")) == 40
    assert get(pair.follower, "/ended/_ccr/info")["follower_indices"] == []


def test_opensearchs_words_say_the_same(pair):
    assert ask(pair.leader, "PUT", "/words")[0] == 200
    bulk(pair.leader, "words", [(1, {"n": 1})])
    body = {"leader_alias": "west", "leader_index": "words"}
    path = "/_plugins/_replication/words"
    status, answer = ask(pair.follower, "PUT", f"{path}/_start?wait_for_restore=true", body)
    assert (status, answer) == (200, {"acknowledged": True})
    shown = get(pair.follower, f"{path}/_status")
    assert (shown["status"], shown["leader_alias"], shown["follower_index"]) == ("SYNCING", "west", "words")
    assert ask(pair.follower, "POST", f"{path}/_pause", {})[0] == 200
    assert get(pair.follower, f"{path}/_status")["status"] == "PAUSED"
    assert ask(pair.follower, "POST", f"{path}/_resume", {})[0] == 200
    assert ask(pair.follower, "POST", f"{path}/_stop", {})[0] == 200
    assert get(pair.follower, f"{path}/_status") == {"status": "REPLICATION NOT IN PROGRESS"}
    assert ask(pair.follower, "PUT", "/words/_doc/2", {"n": 2})[0] == 201


def test_opensearchs_rules_and_statistics(pair):
    path, rule = "/_plugins/_replication", {"leader_alias": "west", "name": "words", "pattern": "ruled-*"}
    assert ask(pair.follower, "POST", f"{path}/_autofollow", rule) == (200, {"acknowledged": True})
    assert ask(pair.follower, "POST", f"{path}/_autofollow", {**rule, "use_roles": {}})[0] == 400
    assert ask(pair.follower, "POST", f"{path}/_autofollow", {"name": "words"})[0] == 400
    assert ask(pair.leader, "PUT", "/ruled-1")[0] == 200
    bulk(pair.leader, "ruled-1", [(1, {"n": 1})])
    found = lambda: get(pair.follower, f"{path}/follower_stats")  # noqa: E731
    await_true(found, lambda: "ruled-1" in found()["index_stats"], SECONDS)
    pair.await_level("ruled-1", "ruled-1")
    await_true(found, lambda: found()["index_stats"]["ruled-1"]["follower_checkpoint"] == 1, SECONDS)
    assert found()["num_syncing_indices"] >= 1 and found()["num_failed_indices"] == 0
    shown = get(pair.follower, f"{path}/autofollow_stats")
    assert [it["name"] for it in shown["autofollow_stats"]] == ["words"]
    assert ask(pair.follower, "DELETE", f"{path}/_autofollow", {"leader_alias": "east", "name": "words"})[0] == 400
    assert ask(pair.follower, "DELETE", f"{path}/_autofollow", {"leader_alias": "west", "name": "words"})[0] == 200
    assert get(pair.follower, "/_ccr/auto_follow")["patterns"] == []


def test_nothing_is_lost_where_nodes_are_killed(own_pair):
    """Each is killed at moments drawn from a seed, while the leader is written to."""
    pair, chance = own_pair, random.Random(7)
    assert ask(pair.leader, "PUT", "/killed", {"settings": {"number_of_shards": 2}})[0] == 200
    bulk(pair.leader, "killed", [(n, {"n": n, "text": "x" * 200}) for n in range(1000)])
    body = {"remote_cluster": "west", "leader_index": "killed"}
    assert ask(pair.follower, "PUT", "/killed/_ccr/follow", body)[0] == 200
    number = 1000
    for round_ in range(6):
        time.sleep(chance.random())
        node = pair.follower if round_ % 2 == 0 else pair.leader
        node.kill()
        node.start()
        for _ in range(5):
            bulk(pair.leader, "killed", [(n, {"n": n, "round": round_}) for n in range(number, number + 40)])
            number += 40 if chance.random() < 0.7 else 0
    await_true("copies serve", lambda: all(c["error"] is None for c in get(pair.follower, "/_plimsoll/digest?index=killed")), SECONDS)
    pair.await_level("killed", "killed")
    assert searched(pair.follower, "killed") == searched(pair.leader, "killed")
    assert "panicked" not in "".join(pair.leader.output + pair.follower.output)


def test_new_indices_are_followed_by_patterns(pair):
    followed = lambda: get(pair.follower, "/_ccr/stats")["auto_follow_stats"]["number_of_successful_follow_indices"]  # noqa: E731
    before = followed()
    assert ask(pair.leader, "PUT", "/auto-before")[0] == 200
    pattern = {
        "remote_cluster": "west",
        "leader_index_patterns": ["auto-*"],
        "leader_index_exclusion_patterns": ["auto-not-*"],
        "follow_index_pattern": "{{leader_index}}-west",
    }
    assert ask(pair.follower, "PUT", "/_ccr/auto_follow/mine", pattern) == (200, {"acknowledged": True})
    [shown] = get(pair.follower, "/_ccr/auto_follow/mine")["patterns"]
    assert shown["name"] == "mine" and shown["pattern"]["active"] is True
    assert {key: shown["pattern"][key] for key in pattern} == pattern
    for name in ("auto-1", "auto-not-1", "other-1"):
        assert ask(pair.leader, "PUT", f"/{name}")[0] == 200

    def followers():
        return {it["follower_index"] for it in get(pair.follower, "/_all/_ccr/info")["follower_indices"]}

    await_true(followers, lambda: "auto-1-west" in followers(), SECONDS)
    assert ask(pair.follower, "POST", "/_ccr/auto_follow/mine/pause")[0] == 200
    assert ask(pair.leader, "PUT", "/auto-2")[0] == 200
    time.sleep(5)
    assert "auto-2-west" not in followers()
    assert ask(pair.follower, "POST", "/_ccr/auto_follow/mine/resume")[0] == 200
    await_true(followers, lambda: "auto-2-west" in followers(), SECONDS)
    assert not any("auto-before" in it or "auto-not" in it or "other" in it for it in followers())
    told = get(pair.follower, "/_ccr/stats")["auto_follow_stats"]
    assert followed() == before + 2
    assert [it["cluster_name"] for it in told["auto_followed_clusters"]] == ["west"]
    assert ask(pair.follower, "DELETE", "/_ccr/auto_follow/mine")[0] == 200
    assert ask(pair.follower, "GET", "/_ccr/auto_follow/mine")[0] == 404


def test_an_alias_that_is_written_to_keeps_its_index(own_pair):
    """A leader's alias writes to no follower of its, as in Elasticsearch: not while it follows, and not afterwards."""
    pair = own_pair
    write = {"actions": [{"add": {"index": "led", "alias": "w", "is_write_index": True}}]}
    assert ask(pair.leader, "PUT", "/led")[0] == 200
    assert ask(pair.follower, "PUT", "/own", {"aliases": {"w": {"is_write_index": True}}})[0] == 200
    assert pair.follow("led", "led")[0] == 200
    assert ask(pair.leader, "POST", "/_aliases", write)[0] == 200

    def alias():
        return get(pair.follower, "/led/_alias")["led"]["aliases"]

    await_true(alias, lambda: alias() == {"w": {"is_write_index": False}}, SECONDS)
    assert ask(pair.follower, "PUT", "/w/_doc/1?refresh=true", {"n": 1})[1]["_index"] == "own"
    for path in ("/led/_ccr/pause_follow", "/led/_ccr/unfollow"):
        assert ask(pair.follower, "POST", path)[0] == 200
    assert ask(pair.follower, "PUT", "/w/_doc/2?refresh=true", {"n": 2})[1]["_index"] == "own"
    status, answer = ask(pair.follower, "POST", "/_aliases", write)
    assert status == 400 and "has more than one write index [led,own]" in answer["error"]["reason"], answer
    write["actions"].append({"add": {"index": "own", "alias": "w", "is_write_index": False}})
    assert ask(pair.follower, "POST", "/_aliases", write)[0] == 200
    assert ask(pair.follower, "PUT", "/w/_doc/3?refresh=true", {"n": 3})[1]["_index"] == "led"


def test_a_wildcard_makes_no_database_follow(own_pair):
    """Whoever writes to one here with Redis' words has asked for nothing."""
    pair = own_pair
    put = lambda *names: ask(pair.follower, "PUT", "/_ccr/auto_follow/all", {"remote_cluster": "west", "leader_index_patterns": names})  # noqa: E731
    assert put("*", "db5")[0] == 200
    for db in (4, 5):
        pair.leader.client(db=db).set("key", db)
    assert ask(pair.leader, "PUT", "/logs")[0] == 200

    def followers():
        return {it["follower_index"] for it in get(pair.follower, "/_all/_ccr/info")["follower_indices"]}

    await_true(followers, lambda: followers() >= {"logs", "db5"}, SECONDS)
    assert followers() == {"logs", "db5"}
    assert pair.follower.client(db=4).set("key", "own")
    await_true("it is there", lambda: pair.follower.client(db=5).get("key") == b"5", SECONDS)


def test_what_is_deleted_on_either_side_is_told(own_pair):
    pair = own_pair
    assert ask(pair.leader, "PUT", "/gone")[0] == 200
    bulk(pair.leader, "gone", [(1, {"n": 1})])
    assert pair.follow("gone", "gone")[0] == 200
    pair.await_level("gone", "gone")
    assert ask(pair.leader, "DELETE", "/gone")[0] == 200
    assert ask(pair.leader, "PUT", "/gone")[0] == 200

    def fatal():
        [shard] = pair.stats("gone")
        return shard.get("fatal_exception", {}).get("reason", "")

    await_true(fatal, lambda: "anew" in fatal() or "no table" in fatal(), SECONDS)
    # It stays readable, and nothing of the new one comes.
    assert get(pair.follower, "/gone/_doc/1")["_source"] == {"n": 1}
    assert ask(pair.follower, "PUT", "/gone/_doc/2", {"n": 2})[0] == 403
    assert get(pair.follower, "/_plugins/_replication/gone/_status")["status"] == "FAILED"
    assert ask(pair.follower, "DELETE", "/gone")[0] == 200


def digests(nodes, name):
    """The contents of each partition at those of these nodes that have a copy, and whether all copies agree."""
    contents = {}
    for node in nodes:
        copies = get(node, f"/_plimsoll/digest?index={name}&timeout=20s")
        for copy in copies:
            if copy["content"] is not None:
                contents.setdefault(copy["shard"], set()).add(copy["content"])
    return contents


def copies_of(node, name):
    found = {}
    for copy in get(node, f"/_plimsoll/digest?index={name}&timeout=20s"):
        found.setdefault(copy["shard"], []).append((copy["digest"], copy["error"]))
    return found


def test_clusters_of_several_nodes_follow(tmp_path):
    """The first copy of a partition crosses the way between the clusters, the others are made of it; any node
    of either may go away."""
    clusters = ManyClusters(tmp_path)
    try:
        leader, follower = clusters.leaders[0], clusters.followers[0]
        settings = {"settings": {"number_of_shards": 4, "number_of_replicas": 1}}
        assert ask(leader, "PUT", "/logs", settings)[0] == 200
        bulk(leader, "logs", [(n, {"n": n, "text": "x" * 100}) for n in range(1000)])
        body = {"remote_cluster": "west", "leader_index": "logs", "settings": {"number_of_replicas": 1}}
        assert ask(follower, "PUT", "/logs/_ccr/follow?wait_for_active_shards=1", body, 90)[0] == 200

        def level():
            theirs, ours = digests(clusters.leaders, "logs"), digests(clusters.followers, "logs")
            return all(len(it) == 1 for it in ours.values()) and theirs == ours

        crossed = {}

        def both():
            # A copy that is made again, as its node was away for too long, comes from its neighbour then.
            for shard in get(follower, "/logs/_recovery").get("logs", {"shards": []})["shards"]:
                if shard["type"] == "SNAPSHOT":
                    crossed.setdefault(shard["id"], shard["source"]["repository"])
            copies = copies_of(follower, "logs")
            return len(copies) == 4 and all(len(it) == 2 and len(set(it)) == 1 for it in copies.values())

        await_true(lambda: copies_of(follower, "logs"), both, SECONDS)
        await_true("they are level", level, SECONDS)
        assert crossed == dict.fromkeys(range(4), "_ccr_west")

        number = 1000
        for gone in (clusters.followers[2], clusters.leaders[1], clusters.followers[1]):
            gone.kill()
            bulk(leader, "logs", [(n, {"n": n}) for n in range(number, number + 200)])
            number += 200
            time.sleep(2)
            gone.start()
            bulk(leader, "logs", [(n, {"n": n}) for n in range(number, number + 200)])
            number += 200
            await_true("they are level again", level, SECONDS)
            await_true(lambda: copies_of(follower, "logs"), both, SECONDS)
        for node in clusters.followers:
            assert searched(node, "logs") == searched(leader, "logs")
            assert ask(node, "PUT", "/logs/_doc/x", {"n": 0})[0] == 403
        for node in clusters.all():
            assert "panicked" not in "".join(node.output)
    finally:
        clusters.close()


@pytest.mark.parametrize("library", ["elasticsearch7", "elasticsearch8"])
def test_elasticsearchs_clients_work_unchanged(pair, library):
    client = importlib.import_module(library).Elasticsearch
    es, leader = (client(f"http://127.0.0.1:{node.http}") for node in (pair.follower, pair.leader))
    name, copy = f"client-{library}", f"copy-{library}"
    leader.indices.create(index=name)
    bulk(pair.leader, name, [(1, {"n": 1})])

    def call(method, body=None, **named):
        if library[-1] == "8":
            return method(**named, **(body or {}))
        return method(**named, **({"body": body} if body is not None else {}))

    body = {"remote_cluster": "west", "leader_index": name}
    made = call(es.ccr.follow, body, index=copy, wait_for_active_shards=1)
    assert made["index_following_started"] is True
    assert es.ccr.follow_info(index=copy)["follower_indices"][0]["status"] == "active"
    assert es.ccr.follow_stats(index=copy)["indices"][0]["shards"][0]["leader_index"] == name
    assert copy in {it["index"] for it in es.ccr.stats()["follow_stats"]["indices"]}
    pair.await_level(copy, name)
    assert es.ccr.pause_follow(index=copy)["acknowledged"]
    assert call(es.ccr.resume_follow, {}, index=copy)["acknowledged"]
    assert es.ccr.pause_follow(index=copy)["acknowledged"]
    assert es.ccr.unfollow(index=copy)["acknowledged"]
    assert es.delete(index=copy, id="1")["result"] == "deleted"
    pattern = {"remote_cluster": "west", "leader_index_patterns": [f"{library}-later-*"]}
    assert call(es.ccr.put_auto_follow_pattern, pattern, name=library)["acknowledged"]
    assert es.ccr.get_auto_follow_pattern(name=library)["patterns"][0]["name"] == library
    assert es.ccr.pause_auto_follow_pattern(name=library)["acknowledged"]
    assert es.ccr.resume_auto_follow_pattern(name=library)["acknowledged"]
    assert es.ccr.delete_auto_follow_pattern(name=library)["acknowledged"]
    uuid = es.indices.get_settings(index=copy)[copy]["settings"]["index"]["uuid"]
    forgotten = {
        "follower_cluster": "follower",
        "follower_index": copy,
        "follower_index_uuid": uuid,
        "leader_remote_cluster": "west",
    }
    assert call(leader.ccr.forget_follower, forgotten, index=name)["_shards"]["failed"] == 0


def test_numbers_of_chunks_are_taken_within_their_bounds_only(pair):
    name = "ccr.indices.recovery.max_concurrent_chunks_per_file"
    for value, expected in ((0, 400), (11, 400), ("few", 400), (1, 200), (None, 200)):
        status, answer = ask(pair.follower, "PUT", "/_cluster/settings", {"persistent": {name: value}})
        assert status == expected, (value, answer)
        assert expected == 200 or name in json.dumps(answer), answer

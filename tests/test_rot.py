"""One bit that rots, in every kind of file that a copy is made of. What is damaged is never shown: the
index is built anew from the rows, and a copy whose rows are damaged is made from another."""

import json
import random
import re
import shutil
import urllib.request

import pytest
import redis
from cluster_harness import Cluster, explained
from cluster_processes import await_true
from rest import try_ask

DOCUMENTS = 300
BOUND_SECONDS = 120
INDEX_FILES = ("fast", "store", "term", "idx", "pos", "fieldnorm", "del", "meta.json")


def flip_one_bit(path, chance):
    """Changes one bit of a file, in the middle of what it holds."""
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data) // 4, len(data) * 3 // 4)
    data[at] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes(data))


def shape(shards, replicas):
    text = {"type": "text"}
    mappings = {"properties": {"n": {"type": "long"}, "text": text, "tag": {"type": "keyword"}}}
    settings = {"number_of_shards": shards, "number_of_replicas": replicas, "refresh_interval": "1s"}
    return {"settings": settings, "mappings": mappings}


def fill(node, index, shards=1, replicas=0):
    assert try_ask(node, "PUT", f"/{index}", shape(shards, replicas))[0] == 200
    for number in range(DOCUMENTS):
        body = {"n": number, "text": f"word{number % 7} and more of it", "tag": f"t{number % 5}"}
        assert try_ask(node, "PUT", f"/{index}/_doc/{number}", body)[0] == 201
    assert try_ask(node, "POST", f"/{index}/_refresh")[0] == 200
    # What is written anew is deleted from the segment that it was in.
    assert try_ask(node, "PUT", f"/{index}/_doc/{number}", body)[0] == 200
    assert try_ask(node, "POST", f"/{index}/_refresh")[0] == 200
    assert try_ask(node, "POST", f"/{index}/_flush")[0] == 200


def answers(node, index):
    """What a search shows of all documents: sum, terms, order and sources."""
    body = {
        "size": DOCUMENTS,
        "sort": [{"n": "asc"}],
        "query": {"match": {"text": "more"}},
        "aggs": {"sum": {"sum": {"field": "n"}}, "tags": {"terms": {"field": "tag"}}},
    }
    status, answer = try_ask(node, "POST", f"/{index}/_search", body)
    if status != 200 or answer["_shards"]["failed"]:
        return None
    hits = [(hit["_id"], hit["_source"]["n"]) for hit in answer["hits"]["hits"]]
    counts = sorted((it["key"], it["doc_count"]) for it in answer["aggregations"]["tags"]["buckets"])
    return hits, answer["aggregations"]["sum"]["value"], counts


EXPECTED = (
    [(str(number), number) for number in range(DOCUMENTS)],
    sum(range(DOCUMENTS)),
    sorted((f"t{tag}", DOCUMENTS // 5) for tag in range(5)),
)


def files(node, kind):
    found = sorted(node.data.glob("partitions/*.index/*"))
    return [path for path in found if path.name == kind or path.suffix == f".{kind}"]


@pytest.mark.parametrize("damage", ["a bit", "truncated", "gone"])
@pytest.mark.parametrize("kind", INDEX_FILES)
def test_damaged_index_files_are_never_shown(new_node, kind, damage):
    node = new_node().start()
    fill(node, "kept")
    assert answers(node, "kept") == EXPECTED
    assert node.terminate() == 0
    paths = [path for path in files(node, kind) if path.stat().st_size > 64]
    assert paths, f"there is no file of the kind {kind}"
    for path in paths:
        if damage == "a bit":
            flip_one_bit(path, random.Random(str(path.stat().st_size)))
        elif damage == "truncated":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        elif kind != "meta.json":
            # Without it there is no index: then it is made, and nothing is to be said.
            path.unlink()
    node.start()
    assert answers(node, "kept") == EXPECTED
    if not (damage == "gone" and kind == "meta.json"):
        await_true("it is said", lambda: "built anew from the rows" in "".join(node.output), BOUND_SECONDS)


def test_rot_of_a_running_node_is_found_at_a_slow_pace(new_node):
    node = new_node().start()
    often = {"persistent": {"indices.check.interval": "1s"}}
    assert try_ask(node, "PUT", "/_cluster/settings", often)[0] == 200
    fill(node, "kept")
    for path in files(node, "fast"):
        if path.stat().st_size > 64:
            flip_one_bit(path, random.Random(1))
    await_true("it is found", lambda: "its checksum is wrong" in "".join(node.output), BOUND_SECONDS)
    await_true("the index is whole", lambda: answers(node, "kept") == EXPECTED, BOUND_SECONDS)


def rows_files(node):
    return [path for path in node.data.glob("partitions/*/*.sst") if re.fullmatch(r"\d+\.sst", path.name)]


METADATA = "0000000000000000-0"


@pytest.mark.parametrize("whose", ["of indices", "of the metadata"])
def test_a_copy_with_damaged_rows_is_made_from_another(tmp_path, whose):
    cluster = Cluster(tmp_path)
    try:
        with explained(cluster, f"rotten rows {whose}", 0):
            cluster.start()
            fill(cluster.nodes[0], "kept", shards=3, replicas=1)
            cluster.await_green()
            node = cluster.nodes[0]
            assert node.terminate(60) == 0
            chance = random.Random(7)
            is_metadata = whose == "of the metadata"
            damaged = [path for path in rows_files(node) if (METADATA in str(path)) == is_metadata]
            assert damaged
            for path in damaged:
                flip_one_bit(path, chance)
            cluster.restart(node)
            # Every document is there at every node all the time, whatever became of the copies.
            for asked in cluster.nodes:
                for number in range(DOCUMENTS):
                    status, answer = try_ask(asked, "GET", f"/kept/_doc/{number}")
                    assert status == 200 and answer["_source"]["n"] == number, (asked.name, number, answer)
            for asked in cluster.nodes:
                found = await_true("a search answers", lambda it=asked: answers(it, "kept"), BOUND_SECONDS)
                assert found == EXPECTED
            await_true("green", cluster.is_green, BOUND_SECONDS)
            cluster.await_equal_copies()
    finally:
        cluster.close()


LATE = 40
# So many partitions that each of the 16 log groups has records of others.
EVERY_GROUP = 32


def flip_a_bit_of_the_index_block(path):
    """RocksDB reads that block when it opens the file."""
    data = bytearray(path.read_bytes())
    data[-100] ^= 4
    path.write_bytes(bytes(data))


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def remove(path):
    path.unlink()


def flip_a_bit_of_the_manifest(path):
    (manifest,) = path.parent.glob("MANIFEST-*")
    flip_one_bit(manifest, random.Random(3))


def make_a_record_of_the_manifest_unknown(path):
    """RocksDB would read it again and again."""
    (manifest,) = path.parent.glob("MANIFEST-*")
    data = bytearray(manifest.read_bytes())
    data[6] ^= 4
    manifest.write_bytes(bytes(data))


def remove_current(path):
    (path.parent / "CURRENT").unlink()


def remove_folder(path):
    shutil.rmtree(path.parent)


DAMAGES = [
    flip_a_bit_of_the_index_block,
    truncate,
    remove,
    flip_a_bit_of_the_manifest,
    make_a_record_of_the_manifest_unknown,
    remove_current,
    remove_folder,
]


def folder_made_by(node, make):
    """The folder of the one partition that this makes."""
    before = set(node.data.glob("partitions/*"))
    make()
    (made,) = (it for it in set(node.data.glob("partitions/*")) - before if it.suffix == "")
    return made


def largest_rows_file(folder):
    return max(folder.glob("*.sst"), key=lambda it: it.stat().st_size)


def data_files(folder):
    """The files that rows are in, and those that say which these are."""
    named = re.compile(r"\d+\.sst|MANIFEST-\d+|CURRENT")
    return {path.name: path.read_bytes() for path in folder.glob("*") if named.fullmatch(path.name)}


def assert_stopped_by_name(node, index, partition):
    health = try_ask(node, "GET", "/_cluster/health?level=indices")[1]
    assert (health["status"], health["indices"][index]["status"]) == ("red", "red")
    assert health["indices"]["kept"]["status"] == "green"
    columns = "format=json&h=state,unassigned.details"
    (shard,) = try_ask(node, "GET", f"/_cat/shards/{index}?{columns}")[1]
    assert shard["state"] == "UNASSIGNED" and partition in shard["unassigned.details"], shard
    requests = [
        ("GET", f"/{index}/_doc/1", None, 503),
        # What was not taken may be sent again, as where a copy stops while it runs.
        ("PUT", f"/{index}/_doc/1", {"n": 1}, 429),
        ("POST", f"/{index}/_search", {"query": {"match_all": {}}}, 503),
        ("POST", f"/{index}/_refresh", None, 503),
        ("POST", f"/{index}/_flush", None, 503),
    ]
    for method, path, body, expected in requests:
        status, answer = try_ask(node, method, path, body)
        assert status == expected and partition in str(answer), (path, status, answer)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_node_that_is_alone_starts_without_a_copy_that_cannot_be_opened(new_node, tmp_path, damage):
    node = new_node().start()
    fill(node, "kept", shards=EVERY_GROUP)
    folder = folder_made_by(node, lambda: fill(node, "lost"))
    # Only the log has these.
    for number in range(LATE):
        assert try_ask(node, "PUT", f"/lost/_doc/late-{number}", {"n": -number})[0] == 201
    node.kill()
    whole = tmp_path / "whole"
    shutil.copytree(folder, whole)
    damage(largest_rows_file(folder))
    left = data_files(folder)

    # The second start is from a log that was trimmed behind all that others have.
    for _ in range(2):
        node.start()
        assert answers(node, "kept") == EXPECTED
        assert_stopped_by_name(node, "lost", folder.name)
        for number in range(DOCUMENTS):
            body = try_ask(node, "GET", f"/kept/_doc/{number}")[1]["_source"]
            assert try_ask(node, "PUT", f"/kept/_doc/{number}", body)[0] == 200
        assert node.terminate() == 0
        assert data_files(folder) == left

    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    node.start()
    for number in range(LATE):
        status, answer = try_ask(node, "GET", f"/lost/_doc/late-{number}")
        assert status == 200 and answer["_source"]["n"] == -number, answer
    body = {"query": {"match_all": {}}, "track_total_hits": True}
    found = try_ask(node, "POST", "/lost/_search", body)[1]
    assert found["hits"]["total"]["value"] == DOCUMENTS + LATE
    assert try_ask(node, "GET", "/_cluster/health")[1]["status"] == "green"


def test_an_older_backup_of_a_folder_stops_that_copy_alone(new_node, tmp_path):
    node = new_node().start()
    fill(node, "kept")
    folder = folder_made_by(node, lambda: fill(node, "older"))
    assert node.terminate() == 0
    backup, newest = tmp_path / "backup", tmp_path / "newest"
    shutil.copytree(folder, backup)
    # The second start is from a log that was trimmed behind what the backup has.
    for _ in range(2):
        node.start()
        for number in range(LATE):
            assert try_ask(node, "PUT", f"/older/_doc/late-{number}", {"n": -number})[0] in (200, 201)
        assert try_ask(node, "POST", "/older/_flush")[0] == 200
        assert node.terminate() == 0
    shutil.move(folder, newest)
    shutil.copytree(backup, folder)
    node.start()
    assert answers(node, "kept") == EXPECTED
    assert_stopped_by_name(node, "older", folder.name)
    assert node.terminate() == 0
    shutil.rmtree(folder)
    shutil.move(newest, folder)
    node.start()
    found = try_ask(node, "GET", "/older/_count")[1]
    assert found["count"] == DOCUMENTS + LATE
    assert try_ask(node, "GET", "/_cluster/health")[1]["status"] == "green"


def test_an_index_whose_copy_cannot_be_opened_can_be_deleted_and_made_anew(new_node):
    node = new_node().start()
    folder = folder_made_by(node, lambda: fill(node, "lost"))
    assert node.terminate() == 0
    flip_a_bit_of_the_index_block(largest_rows_file(folder))
    node.start()
    assert try_ask(node, "DELETE", "/lost")[0] == 200
    assert not folder.exists()
    fill(node, "lost")
    assert answers(node, "lost") == EXPECTED
    assert try_ask(node, "GET", "/_cluster/health")[1]["status"] == "green"


def test_keys_of_a_copy_that_cannot_be_opened_are_not_said_to_be_absent(new_node):
    node = new_node().start()
    folder = folder_made_by(node, lambda: node.client().set("k", "v"))
    node.client(db=1).set("k", "other")
    assert node.terminate() == 0
    flip_a_bit_of_the_index_block(largest_rows_file(folder))
    node.start()
    client = node.client()
    for command in ("GET k", "SET k v", "EXISTS k", "DBSIZE", "SCAN 0", "RANDOMKEY", "RENAME k l"):
        with pytest.raises(redis.RedisError) as told:
            client.execute_command(*command.split())
        assert folder.name in str(told.value), command
    assert node.client(db=1).get("k") == b"other"


# So many that it takes a while to index them.
MANY = 30_000
A_BULK = 2_000
# Searches at each node between two looks at the cluster's health.
MANY_A_LOOK = 5
AN_ANSWER = {
    "size": 20,
    "track_total_hits": True,
    "sort": [{"n": "desc"}],
    "query": {"match": {"text": "more"}},
    "aggs": {"sum": {"sum": {"field": "n"}}},
}


def fill_many(node):
    assert try_ask(node, "PUT", "/kept", shape(shards=1, replicas=1))[0] == 200
    for begin in range(0, MANY, A_BULK):
        lines = []
        for number in range(begin, begin + A_BULK):
            words = " ".join(f"w{number * it % 9973}" for it in range(1, 60))
            lines += [{"index": {"_id": str(number)}}, {"n": number, "text": f"{words} more", "tag": "t"}]
        data = "".join(json.dumps(line) + "\n" for line in lines).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{node.http}/kept/_bulk", data, method="POST")
        request.add_header("content-type", "application/x-ndjson")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert not json.loads(answer.read())["errors"]
    for command in ("_refresh", "_flush"):
        assert try_ask(node, "POST", f"/kept/{command}")[0] == 200


def is_whole(answer):
    hits = [hit["_source"]["n"] for hit in answer["hits"]["hits"]]
    found = (answer["hits"]["total"]["value"], answer["aggregations"]["sum"]["value"], hits)
    expected = (MANY, sum(range(MANY)), list(range(MANY - 1, MANY - 21, -1)))
    return not answer["_shards"]["failed"] and found == expected


def test_searches_are_whole_while_an_index_is_built_anew_and_health_says_so(tmp_path):
    cluster = Cluster(tmp_path, nodes=2)
    rotten = cluster.nodes[0]
    asked, refused, told = [], [], []

    def is_whole_again():
        return "the index is whole again" in "".join(rotten.output)

    def look():
        """Asks both nodes, as clients do, and says whether the index is built."""
        for node in cluster.nodes * MANY_A_LOOK:
            status, answer = try_ask(node, "POST", "/kept/_search", AN_ANSWER)
            asked.append(node.name)
            if status != 200 or not is_whole(answer):
                refused.append((node.name, status, answer.get("error", answer)))
        statuses = [node.health().get("status") for node in cluster.nodes]
        if is_whole_again():
            return True
        told.append(statuses)
        return False

    try:
        with explained(cluster, "rotten index", 0):
            cluster.start()
            fill_many(rotten)
            cluster.await_green()
            assert rotten.terminate(60) == 0
            for path in files(rotten, "fast"):
                flip_one_bit(path, random.Random(5))
            cluster.restart(rotten)
            await_true("the index is built", look, BOUND_SECONDS, pause_seconds=0)
            assert len(told) > 3, "nobody looked while it was built"
            assert not any("green" in statuses for statuses in told), told
            cluster.await_green()
            for node in cluster.nodes:
                status, answer = try_ask(node, "POST", "/kept/_search?preference=_local", AN_ANSWER)
                assert status == 200 and is_whole(answer), (node.name, answer)
            assert not refused, f"{len(refused)} of {len(asked)} searches, the first: {refused[0]}"
    finally:
        cluster.close()


# Of a document: its rows fill many blocks of a file.
BULK_BYTES = 2_000


def fill_files(node, documents):
    """Rows of two shards, each in one file."""
    body = shape(shards=2, replicas=0)
    body["mappings"]["properties"]["bulk"] = {"type": "object", "enabled": False}
    assert try_ask(node, "PUT", "/kept", body)[0] == 200
    for number, source in documents.items():
        assert try_ask(node, "PUT", f"/kept/_doc/{number}", source)[0] == 201
    for command in ("_refresh", "_flush"):
        assert try_ask(node, "POST", f"/kept/{command}")[0] == 200


@pytest.mark.parametrize(
    "search",
    [{}, {"sort": [{"n": "desc"}]}, {"query": {"match": {"text": "more"}}, "highlight": {"fields": {"text": {}}}}],
    ids=["all", "sorted", "highlighted"],
)
def test_a_search_says_that_it_cannot_read_rows(new_node, search):
    """Where the first that looks at damaged rows is a search, no hit without its document is shown."""
    node = new_node().start()
    bulk = {number: random.Random(number).randbytes(BULK_BYTES).hex() for number in range(DOCUMENTS)}
    documents = {str(n): {"n": n, "text": "one more", "bulk": {"it": bulk[n]}} for n in range(DOCUMENTS)}
    fill_files(node, documents)
    assert node.terminate() == 0
    damaged = max(rows_files(node), key=lambda path: path.stat().st_size)
    assert damaged.stat().st_size > DOCUMENTS * BULK_BYTES / 4, "there is no file with many documents"
    flip_one_bit(damaged, random.Random(3))
    node.start()
    body = {"size": DOCUMENTS, **search}
    shown = []
    for _ in range(3):
        status, answer = try_ask(node, "POST", "/kept/_search", body)
        assert (status, answer["_shards"]["failed"]) == (200, 1), answer["_shards"]
        assert "checksum" in str(answer["_shards"]["failures"]), answer["_shards"]
        for hit in answer["hits"]["hits"]:
            assert hit.get("_source") == documents[hit["_id"]], hit
        shown.append(sorted(hit["_id"] for hit in answer["hits"]["hits"]))
    assert 0 < len(shown[0]) < DOCUMENTS and shown == [shown[0]] * 3
    whole = "/kept/_search?allow_partial_search_results=false"
    assert try_ask(node, "POST", whole, body)[0] >= 500
    health = try_ask(node, "GET", "/_cluster/health")[1]
    assert (health["status"], health["active_shards"], health["unassigned_shards"]) == ("red", 1, 1)
    # What the other shard has is not lost with it.
    for id in shown[0]:
        assert try_ask(node, "GET", f"/kept/_doc/{id}")[1]["_source"] == documents[id]

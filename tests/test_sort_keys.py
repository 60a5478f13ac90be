"""Ranges and checks of a hash's fields over RESP 2 and 3, in transactions and over several partitions."""

import pytest
import redis
import requests
from resp import Connection


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(node, request):
    with node.client(protocol=request.param, decode_responses=True) as client:
        client.flushdb()
        yield client


def pages(client, *words, start="-", end="+"):
    """All names of a range, a page after another."""
    names, count = [], 0
    while start is not None:
        start, items = client.execute_command("PLIMSOLL.HRANGE", "h", start, end, "NOVALUES", *words)
        names += items
        count += 1
    return names, count


def test_ranges_are_paged_both_ways(client):
    names = [f"f{n:05}" for n in range(3000)]
    client.hset("h", mapping={name: "v" * 10 for name in names})
    assert pages(client) == (names, 1)
    assert pages(client, "COUNT", 1000) == (names, 3)
    assert pages(client, "REV", "COUNT", 999, start="+", end="-") == (names[::-1], 4)
    assert pages(client, "BYTES", 6 * 100) == (names, 30)
    assert pages(client, "PREFIX", "f01", "COUNT", 600) == (names[1000:2000], 2)
    assert pages(client, "MATCH", "*7", "COUNT", 100, start="f00100", end="f00200")[0] == names[107:200:10]
    with_values = client.execute_command("PLIMSOLL.HRANGE", "h", "f00001", "f00003", "EXCLFROM")
    assert with_values == [None, ["f00002", "v" * 10, "f00003", "v" * 10]]


def test_ranges_in_a_transaction_see_what_it_did(client):
    client.hset("h", mapping={"a": "1", "b": "2"})
    with client.pipeline(transaction=True) as together:
        together.hset("h", "c", "3")
        together.hdel("h", "a")
        together.execute_command("PLIMSOLL.HRANGE", "h", "-", "+")
        together.execute_command("PLIMSOLL.HRANGE", "h", "+", "-", "REV", "NOVALUES", "COUNT", "1")
        assert together.execute()[2:] == [[None, ["b", "2", "c", "3"]], ["b", ["c"]]]


def test_ranges_are_deleted_a_part_after_another(client):
    client.hset("h", mapping={f"f{n:05}": "v" for n in range(20_000)})
    assert client.execute_command("PLIMSOLL.HREMRANGE", "h", "f00010", "f00020", "EXCLTO") == [10, None]
    assert client.execute_command("PLIMSOLL.HREMRANGE", "h", "-", "+", "COUNT", "10") == [10, "f00020"]
    removed, start = 0, "-"
    while start is not None:
        some, start = client.execute_command("PLIMSOLL.HREMRANGE", "h", start, "+", "PREFIX", "f0")
        removed += some
    assert removed == 10_000 - 20
    assert client.hlen("h") == 10_000
    assert pages(client, "COUNT", 1)[0][0] == "f10000"


def test_fields_are_set_where_another_is_what_it_must_be(client):
    def check(*words):
        return client.execute_command("PLIMSOLL.HCHECKSET", "h", "version", *words)

    assert check("NX", "SET", "version", "1", "a", "x") == 1
    assert check("INT>=", "2", "GET", "SET", "a", "y") == [0, "1"]
    assert check("EQ", "1", "GET", "SET", "version", "2", "a", "y") == [1, "1"]
    assert check("BYTES>", "1", "DEL", "a", "none") == 1
    assert client.hgetall("h") == {"version": "2"}
    with pytest.raises(redis.ResponseError, match="unknown check 'LIKE'"):
        check("LIKE", "x", "SET", "a", "y")


def test_splits_of_a_scan_are_all_keys_together(new_node):
    node = new_node(settings=["resp.number_of_shards=3"]).start()
    with node.client(decode_responses=True) as client:
        keys = {f"k{n}" for n in range(2000)}
        client.mset(dict.fromkeys(keys, "v"))
        seen = []
        for part in range(4):
            cursor, before = "0", len(seen)
            while True:
                words = ("SPLIT", part, 4, "COUNT", 100)
                cursor, some = client.execute_command("SCAN", cursor, *words)
                seen += some
                if int(cursor) == 0:
                    break
            assert 300 < len(seen) - before < 700
        assert (len(seen), set(seen)) == (2000, keys)


def test_ranges_are_refused_as_redis_refuses(client):
    client.set("s", "v")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        client.execute_command("PLIMSOLL.HRANGE", "s", "-", "+")
    with pytest.raises(redis.ResponseError, match="syntax error"):
        client.execute_command("PLIMSOLL.HRANGE", "h", "-", "+", "COUNT", "0")
    assert client.command_getkeys("PLIMSOLL.HRANGE", "h", "-", "+") == ["h"]


def test_what_a_check_sets_is_held_to_the_mapping(new_node):
    node = new_node().start()
    url = f"http://127.0.0.1:{node.http}"
    mapping = {"mappings": {"properties": {"a": {"type": "integer"}}}}
    assert requests.put(f"{url}/db0", json=mapping, timeout=30).ok
    with Connection(node.port) as rows:
        refused = rows.ask("PLIMSOLL.HCHECKSET", "k", "1", "NX", "SET", "1", '{"a":"no number"}')
        assert refused.startswith(b"-ERR mapper_parsing_exception"), refused
        assert rows.ask("PLIMSOLL.HCHECKSET", "k", "2", "NX", "SET", "2", '{"size":5}') == b":1\r\n"
    requests.post(f"{url}/db0/_refresh", timeout=30)
    found = requests.get(f"{url}/db0/_search?q=size:5", timeout=30).json()
    assert [hit["_id"] for hit in found["hits"]["hits"]] == ["2"], found

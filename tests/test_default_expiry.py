"""A table's default expiry (`index.default_ttl`): of a database of rows and of an index, over RESP and REST, over a
restart, and what is refused."""

import pytest
import requests
from cluster_processes import await_true

URL = "http://127.0.0.1:{}/{}"


def put(node, path, body):
    return requests.put(URL.format(node.http, path), json=body, timeout=10)


def settings(node, name):
    return requests.get(URL.format(node.http, f"{name}/_settings?flat_settings"), timeout=10)


def test_a_databases_keys_expire_by_themselves(node):
    with node.client(db=5, decode_responses=True) as client, node.client(db=6) as other:
        # It is created where it is not there yet.
        assert put(node, "db5/_settings", {"index": {"default_ttl": "100s"}}).json() == {"acknowledged": True}
        assert settings(node, "db5").json() == {"db5": {"settings": {"index.default_ttl": "100000ms"}}}
        client.set("a", "1")
        client.hset("h", "f", "v")
        client.mset({"m1": "1", "m2": "2"})
        client.set("short", "1", ex=7)
        with client.pipeline(transaction=True) as together:
            together.set("t", "1")
            together.incr("n")
            together.execute()
        for key in ("a", "h", "m1", "m2", "t", "n"):
            assert 95 < client.ttl(key) <= 100, key
        assert 0 < client.ttl("short") <= 7
        assert client.persist("a") and client.append("a", "1") == 2 and client.ttl("a") == -1
        other.set("a", "1")
        assert other.ttl("a") == -1, "another database"
        # None from now on: what is there keeps what it has.
        assert put(node, "db5/_settings", {"index.default_ttl": None}).ok
        client.set("later", "1")
        assert client.ttl("later") == -1 and client.ttl("h") > 90
        assert settings(node, "db5").status_code == 404


def test_what_expires_is_gone(node):
    with node.client(db=7) as client:
        assert put(node, "db7/_settings", {"default_ttl": "300ms"}).ok
        client.hset("h", "f", "v")
        assert client.dbsize() == 1
        await_true("the hash has expired", lambda: not client.exists("h"), 10)
        assert put(node, "db7/_settings", {"default_ttl": "-1"}).ok


def test_an_indexs_documents_expire_too(node):
    assert put(node, "short", {"settings": {"default_ttl": "200s"}}).ok
    try:
        assert put(node, "short/_doc/1?refresh", {"a": 1}).status_code == 201
        bulk = '{"index":{"_index":"short","_id":"2"}}\n{"a":2}\n'
        answer = requests.post(
            URL.format(node.http, "_bulk"), data=bulk, headers={"content-type": "application/x-ndjson"}, timeout=10
        )
        assert not answer.json()["errors"]
        shown = settings(node, "short").json()["short"]["settings"]
        assert shown["index.default_ttl"] == "200s"
        assert put(node, "short/_settings", {"default_ttl": "1ms"}).ok
        assert put(node, "short/_doc/3", {"a": 3}).ok
        url = URL.format(node.http, "short/_doc/3")
        await_true("the document has expired", lambda: requests.get(url, timeout=10).status_code == 404, 10)
        assert requests.get(URL.format(node.http, "short/_doc/1"), timeout=10).ok
    finally:
        requests.delete(URL.format(node.http, "short"), timeout=10)


def test_documents_that_have_expired_take_no_others_places(node):
    """Searches see what was there at the last refresh, of which some has expired since."""
    url = URL.format(node.http, "pages")
    headers = {"content-type": "application/x-ndjson"}

    def write(numbers):
        lines = "".join('{"index":{}}\n{"n":%d}\n' % n for n in numbers)
        answer = requests.post(f"{url}/_bulk", data=lines, headers=headers, timeout=30)
        assert answer.ok and not answer.json()["errors"]

    def hits(path, body):
        answer = requests.post(URL.format(node.http, path), json=body, timeout=30).json()
        return [hit["_source"]["n"] for hit in answer["hits"]["hits"]], answer.get("_scroll_id")

    # What was seen is seen for as long as the test runs.
    assert put(node, "pages", {"settings": {"default_ttl": "10s", "refresh_interval": "-1", "number_of_shards": 2}}).ok
    try:
        write(range(1000, 4000))
        assert put(node, "pages/_settings", {"default_ttl": "-1"}).ok
        write(range(12))
        assert requests.post(f"{url}/_refresh", timeout=30).ok
        sort = [{"n": "desc"}]
        assert hits("pages/_search", {"sort": sort, "size": 2})[0] == [3999, 3998], "nothing has expired yet"
        await_true("all others have expired", lambda: all(n < 12 for n in hits("pages/_search", {"sort": sort})[0]), 30)
        assert hits("pages/_search", {"sort": sort, "size": 5})[0] == [11, 10, 9, 8, 7]
        assert hits("pages/_search", {"sort": sort, "size": 20})[0] == list(range(11, -1, -1))
        assert len(hits("pages/_search", {"size": 7})[0]) == 7
        after = {"sort": sort, "size": 5, "search_after": [2000]}
        assert hits("pages/_search", after)[0] == [11, 10, 9, 8, 7]
        page, scroll = hits("pages/_search?scroll=1m", {"sort": sort, "size": 5})
        found = []
        while page:
            found += page
            page, scroll = hits("_search/scroll", {"scroll": "1m", "scroll_id": scroll})
        assert found == list(range(11, -1, -1))
    finally:
        requests.delete(url, timeout=10)


def test_it_outlives_a_restart_and_goes_on_with_the_index(node):
    assert put(node, "db9/_settings", {"index.default_ttl": "1h"}).ok
    with node.client(db=9) as client:
        client.set("k", '{"a":1}')
        node.kill()
        node.start()
        client.set("l", '{"a":1}')
        assert 3500 < client.ttl("l") <= 3600
        assert put(node, "db9", {}).ok
        assert settings(node, "db9").json()["db9"]["settings"]["index.default_ttl"] == "3600000ms"
        client.set("m", '{"a":1}')
        assert 3500 < client.ttl("m") <= 3600


@pytest.mark.parametrize(
    "path, body, words",
    [
        ("db4/_settings", {"index.default_ttl": "soon"}, "failed to parse setting [index.default_ttl]"),
        ("db4/_settings", {"index.default_ttl": "99999999d"}, "a thousand years"),
        ("db4/_settings", {"index.refresh_interval": "1s"}, "has no setting [index.refresh_interval]"),
        ("other", {"settings": {"default_ttl": "1 parsec"}}, "index.default_ttl"),
    ],
)
def test_what_is_no_default_expiry_is_refused(node, path, body, words):
    answer = put(node, path, body)
    assert answer.status_code == 400 and words in answer.text, answer.text
    assert settings(node, path.split("/")[0]).status_code == 404

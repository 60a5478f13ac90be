"""A table of rows that becomes an index: what changes from then on is found, whatever befalls the node."""

import requests


def found(url, value):
    requests.post(f"{url}/db0/_refresh", timeout=30).raise_for_status()
    query = {"query": {"term": {"n": value}}}
    answer = requests.post(f"{url}/db0/_search", json=query, timeout=30)
    return [hit["_id"] for hit in answer.json()["hits"]["hits"]]


def test_a_node_that_is_killed_after_its_rows_became_an_index_notes_what_changes(new_node):
    node = new_node().start()
    client = node.client()
    for n in range(10):
        client.set(f"before:{n}", '{"n": 1}')
    url = f"http://127.0.0.1:{node.http}"
    mapping = {"mappings": {"properties": {"n": {"type": "long"}}}}
    requests.put(f"{url}/db0", json=mapping, timeout=30).raise_for_status()
    # Before anything of it is in files of rows.
    node.kill()
    node.start()
    client = node.client()
    url = f"http://127.0.0.1:{node.http}"
    assert len(found(url, 1)) == 10
    client.set("after", '{"n": 2}')
    client.set("before:0", '{"n": 3}')
    assert found(url, 2) == ["after"]
    assert found(url, 3) == ["before:0"]
    assert len(found(url, 1)) == 9

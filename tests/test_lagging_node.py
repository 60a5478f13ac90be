"""A node that was frozen while indices were made and deleted elsewhere: it finds out before it answers."""

import json
import threading
import time

import pytest
import requests
from rest import ask

ROUNDS = 4
DOCUMENTS = 20


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


class Asked(threading.Thread):
    """A request that is on its way while its node is frozen."""

    def __init__(self, node, method, path, body=None, kind="application/json"):
        super().__init__()
        self.request = (method, f"http://127.0.0.1:{node.http}{path}")
        self.body, self.kind, self.answer = body, kind, None
        self.start()

    def run(self):
        headers = {"content-type": self.kind}
        for _ in range(20):
            try:
                self.answer = requests.request(*self.request, data=self.body, headers=headers, timeout=60)
                return
            except requests.ConnectionError:
                # It had left, and begins anew.
                time.sleep(0.5)

    def json(self):
        self.join()
        return self.answer.json()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_node_that_was_frozen_knows_what_was_made_and_deleted_meanwhile(cluster, number):
    first, lagging, _ = cluster.nodes
    old, new, other = f"old{number}", f"new{number}", f"other{number}"
    settings = {"settings": {"number_of_replicas": 2}}
    assert ask(first, "PUT", f"/{old}", settings)[0] == 200
    assert ask(first, "PUT", f"/{old}/_doc/z?refresh=true", {"n": 1})[0] == 201
    assert ask(lagging, "GET", f"/{old}/_doc/z")[0] == 200
    lagging.freeze()
    try:
        for name in (new, other):
            assert ask(first, "PUT", f"/{name}", settings)[0] == 200
        assert ask(first, "PUT", f"/{new}/_doc/1?refresh=true", {"n": 1})[0] == 201
        assert ask(first, "DELETE", f"/{old}")[0] == 200
        json_lines = "application/x-ndjson"
        items = [row for n in range(DOCUMENTS) for row in ({"index": {"_id": str(n + 10)}}, {"n": n})]
        bulk = Asked(lagging, "POST", f"/{other}/_bulk", lines(*items), json_lines)
        many = Asked(lagging, "POST", "/_mget", json.dumps({"docs": [{"_index": new, "_id": "1"}]}))
        searches = Asked(lagging, "POST", "/_msearch", lines({"index": new}, {"size": 0}), json_lines)
        wildcard = Asked(lagging, "POST", f"/{new[:-1]}*{number}/_count", "{}")
        gone = Asked(lagging, "GET", f"/{old}/_doc/z")
        time.sleep(0.3)
    finally:
        lagging.thaw()
    assert [it["index"]["status"] for it in bulk.json()["items"]] == [201] * DOCUMENTS, bulk.json()
    assert many.json()["docs"][0].get("found"), many.json()
    assert searches.json()["responses"][0].get("status") == 200, searches.json()
    assert wildcard.json()["_shards"]["total"] == 1, wildcard.json()
    assert gone.json() and gone.answer.status_code == 404, gone.json()

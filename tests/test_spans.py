"""What nodes say at the level `debug` of one request: the node that a client asked, and those that it asks."""

import re

import requests
from cluster_harness import Cluster
from cluster_processes import await_true
from rest import ask


def said(node):
    return "".join(node.output)


def test_a_request_is_followed_through_all_nodes(tmp_path):
    cluster = Cluster(tmp_path, settings=["logger.level=debug"]).start()
    try:
        first, *others = cluster.nodes
        shape = {"number_of_shards": 6, "number_of_replicas": 0}
        assert ask(first, "PUT", "/spans", {"settings": shape})[0] == 200
        url = f"http://127.0.0.1:{first.http}/spans/_search"
        found = requests.get(url, headers={"X-Opaque-Id": "follow-me"}, timeout=30)
        assert found.json()["_shards"]["successful"] == 6
        own = re.compile(r'rest\{(?=[^}]*opaque_id="follow-me")[^}]*id=(\d+)[^}]*\}: .*answered status=200')
        number = await_true("its own span", lambda: own.search(said(first)), 30).group(1)
        asked = re.compile(rf'question\{{[^}}]*asked_by="{first.name}/{number}"[^}}]*\}}: .*answered')
        for other in others:
            await_true(f"the span of {other.name}", lambda other=other: asked.search(said(other)), 30)
    finally:
        cluster.close()

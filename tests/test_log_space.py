"""What the log gives back: what `_flush` asked for, and what was written in lives too short for a group's turn."""

import json
import random
import time

import requests

WAIT_SECONDS = 60


def log_bytes(node):
    return sum(file.stat().st_size for file in (node.data / "log/records").iterdir())


def count(url):
    return requests.post(f"{url}/lines/_count", timeout=60).json()["count"]


def test_a_flush_has_the_log_give_back_what_is_in_files(new_node):
    node = new_node().start()
    url = f"http://127.0.0.1:{node.http}"
    # So that only what is asked for is flushed.
    settings = {"persistent": {"log.flush_interval": "1h"}}
    requests.put(f"{url}/_cluster/settings", json=settings, timeout=30).raise_for_status()
    index = {"settings": {"number_of_shards": 3}, "mappings": {"properties": {"n": {"type": "long"}}}}
    requests.put(f"{url}/lines", json=index, timeout=30).raise_for_status()
    headers = {"content-type": "application/x-ndjson"}
    for batch in range(30):
        lines = (f'{{"index":{{}}}}\n{json.dumps({"n": batch * 1000 + n, "text": "x" * 2000})}\n' for n in range(1000))
        answer = requests.post(f"{url}/lines/_bulk", data="".join(lines), headers=headers, timeout=60)
        assert not answer.json()["errors"]
    held = log_bytes(node)
    assert held > 60_000_000
    requests.post(f"{url}/lines/_flush", timeout=60).raise_for_status()
    deadline = time.monotonic() + WAIT_SECONDS
    while log_bytes(node) > held / 4:
        assert time.monotonic() < deadline, f"{log_bytes(node)} of {held} bytes"
        time.sleep(0.2)
    node.kill()
    node.start()
    url = f"http://127.0.0.1:{node.http}"
    requests.post(f"{url}/lines/_refresh", timeout=60).raise_for_status()
    assert count(url) == 30_000


def test_a_node_that_is_killed_again_and_again_keeps_its_log_short(new_node):
    node = new_node(settings=["write_buffer.size=64mb"]).start()
    # So that age alone flushes nothing.
    settings = {"persistent": {"log.flush_interval": "1h"}}
    requests.put(f"http://127.0.0.1:{node.http}/_cluster/settings", json=settings, timeout=30).raise_for_status()
    value = random.Random(1).randbytes(1 << 20)
    for life in range(10):
        with node.client() as client:
            for key in range(60):
                client.set(f"key{key}", b"%d " % life + value)
        node.kill()
        node.start()
    deadline = time.monotonic() + WAIT_SECONDS
    # Of 600 MB it keeps about what it keeps of a node that lives on.
    while log_bytes(node) > 300_000_000:
        assert time.monotonic() < deadline, f"{log_bytes(node)} bytes"
        time.sleep(0.2)
    node.kill()
    node.start()
    with node.client() as client:
        assert all(client.get(f"key{key}") == b"9 " + value for key in range(60))

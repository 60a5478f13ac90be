"""`_flush` makes an index durable in files of its own, and has the log give back what it need not hold."""

import json
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

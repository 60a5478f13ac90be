"""What is copied and followed makes way for the work of both sides' own clients, costs nothing where there is
none, and goes on however late they are answered.
"""

import os
import signal
import threading
import time

import pytest
from cluster_processes import await_true
from rest import ask, get, try_ask
from test_follow import Pair, bulk

SECONDS = 90


@pytest.fixture
def pair(tmp_path):
    pair = Pair(tmp_path)
    yield pair
    pair.clusters.demand_well()
    pair.close()


class Foreground:
    """Clients of both sides, who search all the time."""

    def __init__(self, pair):
        self.is_over, self.answered = threading.Event(), {}
        nodes = (pair.leader, pair.follower)
        for node in nodes:
            assert ask(node, "PUT", "/own", {"settings": {"number_of_shards": 1}})[0] == 200
            bulk(node, "own", [(n, {"n": n, "text": f"word{n % 50}"}) for n in range(500)])
            ask(node, "POST", "/own/_refresh")
            self.answered[node.http] = 0
        self.threads = [threading.Thread(target=self.search, args=(node,)) for node in nodes]

    def search(self, node):
        while not self.is_over.is_set():
            number = self.answered[node.http]
            query = {"match": {"text": f"word{number % 50}"}}
            status, _ = try_ask(node, "POST", "/own/_search?request_cache=false", {"query": query})
            self.answered[node.http] += status == 200
            time.sleep(0.01)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        # They are known before anything is copied.
        for node in self.answered:
            await_true(f"searches of {node}", lambda node=node: self.answered[node] >= 100, SECONDS)
        time.sleep(2)
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


def begin(pair, name, documents):
    """An index of the leader's of 2 KB a document, which nothing makes smaller."""
    assert ask(pair.leader, "PUT", f"/{name}", {"settings": {"number_of_shards": 2}})[0] == 200
    for first in range(0, documents, 500):
        numbers = range(first, first + 500)
        bulk(pair.leader, name, [(n, {"n": n, "text": os.urandom(1000).hex()}) for n in numbers])


def copied(pair, name):
    """Copies it; how long that was held back at both sides, ms."""
    assert pair.follow(name, name)[0] == 200
    pair.await_level(name, name)
    shards = get(pair.follower, f"/{name}/_recovery")[name]["shards"]
    return [
        sum(shard["index"][f"{side}_throttle_time_in_millis"] for shard in shards) for side in ("source", "target")
    ]


def pacing(pair, value):
    assert ask(pair.follower, "PUT", "/_cluster/settings", {"persistent": {"ccr.pacing": value}})[0] == 200
    assert ask(pair.leader, "PUT", "/_cluster/settings", {"persistent": {"ccr.pacing": value}})[0] == 200
    # It is looked at once a second.
    time.sleep(2)


def rate(pair):
    return get(pair.follower, "/_ccr/stats")["pacing"]["bytes_per_second"]


def test_a_copy_makes_way_for_searches_alone(pair):
    begin(pair, "logs", 5000)
    # What was written just now is somebody's work as well.
    time.sleep(5)
    assert copied(pair, "logs") == [0, 0], "nobody asks for anything else"
    with Foreground(pair):
        begin(pair, "more", 5000)
        source, target = copied(pair, "more")
        assert source + target > 0
        await_true("the follower keeps a pace", lambda: (rate(pair) or 0) >= 1_000_000, SECONDS)
        for value in ("off", "shadow"):
            pacing(pair, value)
            begin(pair, value, 5000)
            assert copied(pair, value) == [0, 0], value
        await_true("the shadow works it out", lambda: rate(pair) is not None, SECONDS)
        pacing(pair, "off")
        assert rate(pair) is None
    status, answer = ask(pair.follower, "PUT", "/_cluster/settings", {"persistent": {"ccr.pacing": "maybe"}})
    assert status == 400 and "shadow" in answer["error"]["reason"], answer


def test_however_late_both_sides_are_nothing_starves(pair):
    """Both stand still a third of the time, whatever is copied."""
    with Foreground(pair) as foreground:
        begin(pair, "logs", 5000)
        is_over = threading.Event()

        def halt(node):
            while not is_over.wait(0.2):
                node.process.send_signal(signal.SIGSTOP)
                time.sleep(0.1)
                node.process.send_signal(signal.SIGCONT)

        threads = [threading.Thread(target=halt, args=(node,)) for node in (pair.leader, pair.follower)]
        for thread in threads:
            thread.start()
        try:
            assert pair.follow("logs", "logs")[0] == 200
            for first in range(5000, 10000, 500):
                bulk(pair.leader, "logs", [(n, {"n": n, "text": "x" * 500}) for n in range(first, first + 500)])
            pair.await_level("logs", "logs")
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        assert all(foreground.answered.values())

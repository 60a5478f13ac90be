"""Nodes that are away for longer than anybody waits for them, while others write.

The delays after which copies are made elsewhere and the log is trimmed are scaled down, so that an
absence of seconds is what one of hours is by default. Whoever was away must come back by itself, and
every document and row that was acknowledged must be there, at every node. `make test` runs some of the
kinds; `make soak-absence` runs all of them with absences of 1, 3 and 70 times the delay, and
`make soak-absence-real` one of 70 minutes with the delays as they are by default: the four ways side by
side, each in a cluster of its own.
"""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from cluster_harness import Cluster, explained
from cluster_processes import await_true
from resp import Closed, Connection, bulk
from rest import try_ask

SOAK = os.environ.get("PLIMSOLL_SOAK") == "1"
# At their real length the delays are those of the product.
REAL_SECONDS = float(os.environ.get("PLIMSOLL_ABSENCE_SECONDS", "0"))
DELAY_SECONDS = 2
# A node counts as gone after this long without a beat (members.rs).
LEFT_SECONDS = 6
COMES_BACK_SECONDS = 600 if REAL_SECONDS else 120
# Over an hour a slower writer leaves as long a log as anybody needs, and as many documents to ask for.
PAUSE_SECONDS = 0.2 if REAL_SECONDS else 0.01
DOCUMENTS_A_QUESTION = 500
SHARDS = 8
ON_ITS_WAY = 20
DOCUMENTS = 60


class Writer(threading.Thread):
    """Writes to a table of its own at nodes that stay, so that every log group goes on."""

    def __init__(self, nodes):
        super().__init__(daemon=True)
        self.nodes, self.halt, self.acknowledged = nodes, threading.Event(), []

    def run(self):
        number = 0
        while not self.halt.is_set() and self.nodes:
            node = self.nodes[number % len(self.nodes)]
            status, _ = try_ask(node, "PUT", f"/others/_doc/{number}", {"n": number}, 5)
            if status == 201:
                self.acknowledged.append(number)
            number += 1
            time.sleep(PAUSE_SECONDS)

    def stop(self):
        self.halt.set()
        self.join(60)
        return self.acknowledged


def kill(_cluster, nodes):
    for node in nodes:
        node.kill()


def terminate(_cluster, nodes):
    for node in nodes:
        assert node.terminate(60) == 0, f"{node.name} did not stop in order"


def freeze(_cluster, nodes):
    for node in nodes:
        node.freeze()


def cut(cluster, nodes):
    for node in nodes:
        cluster.cut_from_log(node, "frozen")
        cluster.cut_from_peers(node, "frozen")


KINDS = {"kill": kill, "term": terminate, "freeze": freeze, "cut": cut}


def scaled(node):
    """Has absences of seconds count as long ones."""
    settings = {"cluster.default_node_left_delayed_timeout": f"{DELAY_SECONDS}s", "log.flush_interval": "1s"}
    if not REAL_SECONDS:
        assert try_ask(node, "PUT", "/_cluster/settings", {"persistent": settings})[0] == 200


def fill(cluster, replicas):
    """Documents in an index with so many replicas, and rows; all acknowledged."""
    first = cluster.nodes[0]
    for index, copies in (("kept", replicas), ("others", 1)):
        shape = {"number_of_shards": SHARDS, "number_of_replicas": copies}
        assert try_ask(first, "PUT", f"/{index}", {"settings": shape})[0] == 200
    cluster.await_green()
    with Connection(first.port) as rows:
        for number in range(DOCUMENTS):
            status, answer = try_ask(first, "PUT", f"/kept/_doc/{number}", {"n": number})
            assert status == 201, answer
            assert rows.ask("SET", f"row:{number}", number) == b"+OK\r\n"


class NotBack(Exception):
    """A node does not answer yet. One that fell behind opens itself anew, whatever it was asked."""


def answered(node, method, path, body=None):
    status, answer = try_ask(node, method, path, body)
    if status in (0, 503):
        raise NotBack(f"{node.name} {method} {path}: {status} {answer}")
    return status, answer


def row(connection, key):
    reply = connection.ask("GET", key)
    if reply.startswith(b"-"):
        raise NotBack(f"GET {key}: {reply}")
    return bulk(reply)


def demand_everything(cluster, others):
    """Every acknowledged document and row is there at every node."""
    for node in cluster.nodes:
        for number in range(DOCUMENTS):
            status, answer = answered(node, "GET", f"/kept/_doc/{number}")
            assert status == 200 and answer["_source"] == {"n": number}, (node.name, number, answer)
        with Connection(node.port) as rows:
            for number in range(DOCUMENTS):
                assert row(rows, f"row:{number}") == str(number).encode(), (node.name, number)
        for begin in range(0, len(others), DOCUMENTS_A_QUESTION):
            ids = [str(number) for number in others[begin : begin + DOCUMENTS_A_QUESTION]]
            status, answer = answered(node, "POST", "/others/_mget", {"ids": ids})
            assert status == 200, (node.name, answer)
            errors = [document["error"] for document in answer["docs"] if "error" in document]
            if errors:
                raise NotBack(f"{node.name} {errors[0]}")
            sources = [document.get("_source") for document in answer["docs"]]
            assert sources == [{"n": int(id)} for id in ids], (node.name, answer)
    assert answered(cluster.nodes[0], "POST", "/kept,others/_refresh")[0] == 200
    for index, least in (("kept", DOCUMENTS), ("others", len(others))):
        for node in cluster.nodes:
            status, answer = answered(node, "GET", f"/{index}/_count")
            assert status == 200, answer
            if answer["_shards"]["failed"]:
                raise NotBack(f"{node.name} {answer}")
            assert answer["count"] >= least, (node.name, index, answer)


def await_everything(cluster, others):
    """Nobody answers wrongly meanwhile, and in the end everybody answers."""
    deadline = time.monotonic() + COMES_BACK_SECONDS
    while True:
        try:
            return demand_everything(cluster, others)
        except (NotBack, Closed, OSError) as error:
            assert time.monotonic() < deadline, f"a node did not come back: {error!r}"
        time.sleep(0.5)


def bounds(cluster):
    """Where each group of the log begins and ends."""
    states = {group: stream["state"] for group, stream in cluster.logs.all[0].streams().items()}
    return {group: (it["first_seq"], it["last_seq"]) for group, it in states.items()}


def is_trimmed(cluster, before):
    """Whether a group lost what stood there before, and more than may be on its way to a frozen node."""
    return any(first > before[group][1] + ON_ITS_WAY for group, (first, _) in bounds(cluster).items())


def absence(tmp_path, kind, away, delays, replicas):
    cluster = Cluster(tmp_path)
    try:
        with explained(cluster, f"{kind} {away}", delays):
            cluster.start()
            scaled(cluster.nodes[0])
            fill(cluster, replicas)
            # The first node acts for all: it goes too.
            by_id = sorted(cluster.nodes, key=lambda node: (node.data / "node-id").read_text())
            gone, stays = by_id[:away], by_id[away:]
            writer = Writer(stays)
            writer.start()
            KINDS[kind](cluster, gone)
            before = bounds(cluster)
            time.sleep(REAL_SECONDS or LEFT_SECONDS + delays * DELAY_SECONDS)
            if kind == "freeze" and away == 1:
                await_true(lambda: f"the log is trimmed past it: {before}", lambda: is_trimmed(cluster, before), 60)
            cluster.heal()
            others = writer.stop()
            await_true("the cluster is green", cluster.is_green, COMES_BACK_SECONDS)
            await_everything(cluster, others)
            if kind == "freeze" and away == 1:
                # Its appliers met the trim; or its copies were given up first, and were made anew, or its groups
                # with them, or others have them now.
                told = "".join(gone[0].output)
                ways = ["which must be opened anew", "the copy is made anew", "a log group is taken up"]
                ways += ["the copy is no longer here", "this node must be opened anew"]
                assert any(way in told for way in ways), told
            if replicas:
                cluster.await_equal_copies()
    finally:
        cluster.close()


# Two of three nodes away: all copies of some partitions are. Nobody can have made others.
QUICK = [("kill", 2, 3, 1), ("term", 1, 3, 0), ("freeze", 1, 3, 1), ("cut", 2, 1, 1)]
ALL = [(kind, away, delays, 1) for kind in KINDS for away in (1, 2, 3) for delays in (1, 3, 70)]
CASES = ALL + [("kill", 1, 3, 0)] if SOAK else QUICK


@pytest.mark.skipif(REAL_SECONDS > 0, reason="only the absences of real length are wanted")
@pytest.mark.parametrize("kind,away,delays,replicas", CASES)
def test_who_was_away_comes_back_and_nothing_is_lost(tmp_path, kind, away, delays, replicas):
    absence(tmp_path, kind, away, delays, replicas)


@pytest.mark.skipif(REAL_SECONDS == 0, reason="only `make soak-absence-real` has over an hour")
def test_who_was_away_at_real_length_comes_back_and_nothing_is_lost(tmp_path):
    def run(kind):
        folder = tmp_path / kind
        folder.mkdir()
        absence(folder, kind, away=1, delays=0, replicas=1)

    with ThreadPoolExecutor(len(KINDS)) as pool:
        runs = {kind: pool.submit(run, kind) for kind in KINDS}
    failed = {kind: run.exception() for kind, run in runs.items() if run.exception()}
    # Whole, where a comparison would show the beginning.
    for kind, error in failed.items():
        print(f"==== {kind}\n{error}")
    assert sorted(failed) == []

"""Rows on their way to files: many partitions at once, a store that takes nothing for a while, and a copy
whose apply stands still."""

import random
import re
import select
import threading
import time

import pytest
import requests
from cluster_harness import Cluster
from frozen_threads import frozen
from resp import Connection, encode

PARTITIONS = 64
BUFFER_BYTES = 16 << 20
WRITERS = 4
ROWS = 12_000
REPLAYED_ROWS = 36_000
GROUPS = 16
KEYS = 96
# A write that waits for a copy that stands still takes three seconds; most others some milliseconds.
ALL_SECONDS = 60
VALUE = random.Random(1).randbytes(1000)


def figure(node, name):
    text = requests.get(f"http://127.0.0.1:{node.http}/_metrics", timeout=10).text
    return float(re.search(rf"^plimsoll_{name} (\S+)$", text, re.MULTILINE)[1])


def write(node, writer):
    """Rows of one writer; how many were refused."""
    refused = 0
    with Connection(node.port, 60) as rows:
        for first in range(0, ROWS, 100):
            rows.send(b"".join(encode("SET", f"{writer}:{n}", VALUE) for n in range(first, first + 100)))
            replies = [rows.reply() for _ in range(100)]
            assert all(reply == b"+OK\r\n" or reply.startswith(b"-TRYAGAIN") for reply in replies), replies
            refused += sum(reply != b"+OK\r\n" for reply in replies)
    return refused


def test_many_partitions_share_one_budget(new_node, note):
    settings = [f"resp.number_of_shards={PARTITIONS}", f"write_buffer.size={BUFFER_BYTES}b"]
    node = new_node(settings=settings).start()
    interval = {"persistent": {"log.flush_interval": "1s"}}
    assert requests.put(f"http://127.0.0.1:{node.http}/_cluster/settings", json=interval, timeout=10).ok
    refused, most, halt = [], [0], threading.Event()

    def watch():
        while not halt.wait(0.05):
            most[0] = max(most[0], figure(node, "write_buffer_bytes"))

    writers = [threading.Thread(target=lambda at=at: refused.append(write(node, at))) for at in range(WRITERS)]
    watcher = threading.Thread(target=watch)
    for thread in [watcher, *writers]:
        thread.start()
    for thread in writers:
        thread.join()
    halt.set()
    watcher.join()
    assert len(refused) == WRITERS, "each writer came to its end"
    # What one record changes, and the first block of each memtable, come on top.
    assert most[0] <= 2 * BUFFER_BYTES + (8 << 20), most
    node.kill()
    node.start()
    with Connection(node.port, 60) as rows:
        assert rows.ask("DBSIZE") == b":%d\r\n" % (WRITERS * ROWS - sum(refused))
    stops = figure(node, "store_stops_total")
    note(f"{WRITERS * ROWS} rows of 1 KB in {PARTITIONS} partitions: at most {most[0] / 2**20:.1f} MiB not in files "
         f"of {BUFFER_BYTES >> 20}, {sum(refused)} refused; {stops:.0f} stops in the replay")
    assert node.terminate() == 0


def test_a_node_starts_with_less_memory_than_what_it_replays_takes(new_node):
    """Nothing of what many stores held was in files when it was killed, and no store alone holds much."""
    node = new_node(settings=["resp.number_of_shards=16", "write_buffer.size=64mb"]).start()
    with Connection(node.port, 60) as rows:
        for first in range(0, REPLAYED_ROWS, 100):
            rows.send(b"".join(encode("SET", f"key:{n}", VALUE) for n in range(first, first + 100)))
            assert all(rows.reply() == b"+OK\r\n" for _ in range(100))
    assert figure(node, "write_buffer_bytes") > 32 << 20, "they are in no files"
    node.kill()
    node.settings[-1] = "write_buffer.size=8mb"
    node.start()
    with Connection(node.port, 60) as rows:
        assert rows.ask("DBSIZE") == b":%d\r\n" % REPLAYED_ROWS
        assert rows.ask("SET", "end", 1) == b"+OK\r\n"
    assert node.terminate() == 0


def test_reads_go_on_while_rows_are_flushed(new_node):
    """RocksDB's flushes stand still, and later all that could take rows as well."""
    node = new_node(settings=["write_buffer.size=8mb"]).start()
    with Connection(node.port, 60) as rows:
        assert rows.ask("HSET", "hash", "a", 1, "b", 2) == b":2\r\n"
        with frozen(node.process, "rocksdb:high"):
            taken = 0
            for n in range(40):
                reply = rows.ask("SET", f"key:{n}", VALUE * 900)
                assert reply == b"+OK\r\n" or reply.startswith(b"-TRYAGAIN"), reply
                taken += reply == b"+OK\r\n"
                # Several rows at one moment: those that the store was not given among them.
                assert b"2" in rows.ask("HGETALL", "hash")
                assert rows.ask("HSET", "hash", "n", n).startswith((b":", b"-TRYAGAIN"))
            assert 8 < taken < 40, "it is refused before all memory is full"
        while rows.ask("SET", "end", 1) != b"+OK\r\n":
            pass
        assert rows.ask("DBSIZE") == b":%d\r\n" % (taken + 2)
    assert node.terminate() == 0


def test_a_group_that_stands_still_holds_up_no_other(new_node):
    """One thread of apply does not run on: the partitions of its group wait, others do not, nor does the metadata."""
    node = new_node(settings=[f"resp.number_of_shards={GROUPS}"]).start()
    clients = [Connection(node.port, 60) for _ in range(KEYS)]
    for number, rows in enumerate(clients):
        assert rows.ask("SET", f"key:{number}", 1) == b"+OK\r\n"
    # Its number is that of the group; that of the metadata has a name.
    with frozen(node.process, "apply-3"):
        for number, rows in enumerate(clients):
            rows.send(encode("SET", f"key:{number}", 2))
        time.sleep(1)
        answered, _, _ = select.select([rows.socket for rows in clients], [], [], 0)
        assert KEYS * 3 / 4 < len(answered) < KEYS, f"{len(answered)} of {KEYS}"
        setting = {"persistent": {"log.flush_interval": "7s"}}
        url = f"http://127.0.0.1:{node.http}/_cluster/settings"
        assert requests.put(url, json=setting, timeout=5).ok, "the metadata goes on"
    for rows in clients:
        assert rows.reply() == b"+OK\r\n"
        rows.close()
    assert node.terminate() == 0


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path).start()
    everywhere = {"persistent": {"cluster.default_number_of_replicas": 2}}
    url = f"http://127.0.0.1:{cluster.nodes[0].http}/_cluster/settings"
    assert requests.put(url, json=everywhere, timeout=10).ok
    yield cluster
    cluster.close()


def test_a_node_whose_apply_stands_still_holds_no_client_up(cluster):
    """Its clients' writes go through other copies: the first ones late, the others not."""
    node = cluster.nodes[0]
    with Connection(node.port, 120) as rows:
        assert rows.ask("SET", "first", 1) == b"+OK\r\n"
        cluster.await_green()
        with frozen(node.process, "apply-*"):
            end = time.monotonic() + ALL_SECONDS
            for n in range(200):
                assert rows.ask("SET", f"key:{n}", n) == b"+OK\r\n", n
                assert time.monotonic() < end, f"each waits for the copy that stands still: {n} are done"
        for n in range(200):
            assert rows.ask("GET", f"key:{n}") == b"$%d\r\n%d\r\n" % (len(str(n)), n)
    cluster.await_equal_copies()


def test_a_new_table_whose_files_stand_still_holds_up_no_other(new_node):
    node = new_node().start()
    with Connection(node.port, 30) as rows, Connection(node.port, 30) as other:
        assert rows.ask("SET", "a", "1") == b"+OK\r\n"
        with frozen(node.process, "rocksdb:high"):
            other.ask("SELECT", "1")
            other.send(encode("SET", "x", "1"))
            for n in range(100):
                assert rows.ask("SET", "b", str(n)) == b"+OK\r\n"
                assert rows.ask("GET", "a") == b"$1\r\n1\r\n"
            reply = other.reply()
            assert reply.startswith(b"-TRYAGAIN the database is still being created"), reply
        deadline = time.monotonic() + ALL_SECONDS
        while other.ask("SET", "x", "1") != b"+OK\r\n":
            assert time.monotonic() < deadline
        assert rows.ask("GET", "b") == b"$2\r\n99\r\n"

"""Rows at every node of a cluster: scans that one node began and another goes on with, and large hashes
that are copied in slices while others write to them."""

import threading

from resp import Connection, array, bulk

FIELDS = 6000


def fill(node, key):
    """A hash that no node keeps in one piece."""
    with Connection(node.port, 60) as rows:
        for begin in range(0, FIELDS, 500):
            pairs = [word for n in range(begin, begin + 500) for word in (f"f:{n}", f"v:{n}" * 10)]
            assert rows.ask("HSET", key, *pairs) == b":500\r\n"


def demand(node, key):
    with Connection(node.port, 60) as rows:
        assert rows.ask("HLEN", key) == b":%d\r\n" % FIELDS, (node.name, key)
        for n in range(0, FIELDS, 97):
            assert bulk(rows.ask("HGET", key, f"f:{n}")) == f"v:{n}".encode() * 10, (node.name, key, n)


def test_a_scan_goes_on_at_any_node(cluster):
    fill(cluster.nodes[0], "scanned")
    connections = [Connection(node.port, 60) for node in cluster.nodes]
    cursor, turns, seen = b"0", 0, []
    while turns == 0 or cursor != b"0":
        reply = connections[turns % len(connections)].ask("HSCAN", "scanned", cursor, "COUNT", 100)
        assert not reply.startswith(b"-"), reply
        cursor, items = array(reply)
        seen += items[::2]
        turns += 1
    assert turns > FIELDS / 200, "it came in parts"
    assert sorted(seen) == sorted(f"f:{n}".encode() for n in range(FIELDS))


def test_large_hashes_are_copied_and_renamed_at_any_node(cluster):
    fill(cluster.nodes[0], "{h}0")
    failures, halt = [], threading.Event()

    def others():
        with Connection(cluster.nodes[1].port, 60) as rows:
            n = 0
            while not halt.is_set():
                n += 1
                if rows.ask("SET", "{h}other", n) != b"+OK\r\n":
                    failures.append(n)

    writer = threading.Thread(target=others)
    writer.start()
    try:
        for at, node in enumerate(cluster.nodes):
            with Connection(node.port, 120) as rows:
                assert rows.ask("COPY", "{h}0", f"{{h}}copy{at}") == b":1\r\n"
                assert rows.ask("COPY", "{h}0", f"{{h}}copy{at}") == b":0\r\n", "it is there"
                assert rows.ask("RENAME", f"{{h}}copy{at}", f"{{h}}renamed{at}") == b"+OK\r\n"
    finally:
        halt.set()
        writer.join(60)
    assert failures == []
    for node in cluster.nodes:
        for at in range(len(cluster.nodes)):
            demand(node, f"{{h}}renamed{at}")
            with Connection(node.port) as rows:
                assert rows.ask("EXISTS", f"{{h}}copy{at}") == b":0\r\n"
        demand(node, "{h}0")
    cluster.await_equal_copies()


def test_no_copy_mixes_states_of_its_source(cluster):
    """A field and its twin change together in transactions: a copy has both or neither."""
    fill(cluster.nodes[0], "{m}0")
    halt = threading.Event()

    def change():
        with Connection(cluster.nodes[2].port, 60) as rows:
            n = 0
            while not halt.is_set():
                n += 1
                rows.ask("HSET", "{m}0", "f:0", n, f"f:{FIELDS - 1}", n)

    writer = threading.Thread(target=change)
    writer.start()
    try:
        with Connection(cluster.nodes[1].port, 120) as rows:
            for at in range(5):
                assert rows.ask("COPY", "{m}0", f"{{m}}copy{at}", "REPLACE") == b":1\r\n"
                first, last = array(rows.ask("HMGET", f"{{m}}copy{at}", "f:0", f"f:{FIELDS - 1}"))
                assert first == last, at
    finally:
        halt.set()
        writer.join(60)

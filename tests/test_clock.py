"""A clock that is wrong for a moment, on a node that is alone on its log: nothing of it gets into log
time, which never goes back, so what expires goes on to expire."""

import os
import struct

from cluster_harness import Cluster, explained
from cluster_processes import await_true, shim
from resp import Connection, bulk, number

HALF_A_DAY_MS = 12 * 3_600_000
BOUND_SECONDS = 60


def node_with_a_clock(new_node, tmp_path):
    """A node that runs, and what sets its clock wrong."""
    clock = tmp_path / "clock"

    def set_clock(wrong_ms):
        with open(clock, "r+b" if clock.exists() else "wb") as file:
            file.write(struct.pack("<q", wrong_ms))

    set_clock(0)
    env = {"LD_PRELOAD": str(shim("clock")), "PLIMSOLL_TEST_CLOCK": str(clock), "PATH": os.environ["PATH"]}
    return new_node(env=env).start(), set_clock


def test_a_clock_that_steps_and_comes_back_leaves_no_trace(new_node, tmp_path):
    node, set_clock = node_with_a_clock(new_node, tmp_path)
    with Connection(node.port) as rows:
        assert rows.ask("SET", "before", "v") == b"+OK\r\n"
        assert rows.ask("SET", "hour", "v", "EX", 3_600) == b"+OK\r\n"
        set_clock(HALF_A_DAY_MS)
        assert bulk(rows.ask("GET", "hour")) == b"v", "reads went by the wrong clock"
        refused = rows.ask("SET", "meanwhile", "v")
        assert bulk(rows.ask("GET", "hour")) == b"v"
        assert refused.startswith(b"-TRYAGAIN this node's clock stepped by "), refused
        assert bulk(rows.ask("GET", "before")) == b"v"
        set_clock(0)
        await_true("writes are taken", lambda: rows.ask("SET", "soon", "v", "PX", 300) == b"+OK\r\n", BOUND_SECONDS)
        await_true("it expires", lambda: bulk(rows.ask("GET", "soon")) is None, BOUND_SECONDS)
        await_true("it is swept", lambda: rows.ask("DBSIZE") == b":2\r\n", BOUND_SECONDS)
        assert bulk(rows.ask("GET", "meanwhile")) is None
    assert "believed once that has lasted" in node.text()


def test_a_step_that_lasts_is_taken(new_node, tmp_path):
    node, set_clock = node_with_a_clock(new_node, tmp_path)
    with Connection(node.port) as rows:
        assert rows.ask("SET", "before", "v") == b"+OK\r\n"
        set_clock(HALF_A_DAY_MS)
        await_true("writes are taken", lambda: rows.ask("SET", "after", "v") == b"+OK\r\n", BOUND_SECONDS)
        assert bulk(rows.ask("GET", "after")) == b"v"


def test_after_a_step_back_writes_are_taken_and_live_their_time(new_node, tmp_path):
    """What an ordinary correction of a clock does: log time is ahead of the clock for a while."""
    node, set_clock = node_with_a_clock(new_node, tmp_path)
    with Connection(node.port) as rows:
        assert rows.ask("SET", "before", "v") == b"+OK\r\n"
        set_clock(-HALF_A_DAY_MS)
        taken = lambda: rows.ask("SET", "minute", "v", "PX", 60_000) == b"+OK\r\n"  # noqa: E731
        await_true("writes are taken", taken, BOUND_SECONDS)
        assert bulk(rows.ask("GET", "minute")) == b"v"
        assert rows.ask("EXPIRE", "before", 60) == b":1\r\n"
        assert bulk(rows.ask("GET", "before")) == b"v"


def test_no_wrong_clock_of_one_node_shortens_or_lengthens_a_life(tmp_path):
    cluster = Cluster(tmp_path)
    try:
        with explained(cluster, "wrong clock", 0):
            cluster.start()
            who, others = cluster.nodes[0], cluster.nodes[1:]
            with Connection(who.port) as rows:
                assert rows.ask("SET", "there", "v") == b"+OK\r\n"
            for wrong_ms in (-120_000, 3_600_000):
                who.set_clock(wrong_ms)
                await_true("it is noticed", lambda: "stops serving" in "".join(who.output), BOUND_SECONDS)
                with Connection(who.port) as rows:
                    set_ = rows.ask("SET", f"minute{wrong_ms}", "v", "PX", 60_000)
                    expire = rows.ask("EXPIRE", "there", 60)
                assert set_ == b"+OK\r\n" or set_.startswith(b"-TRYAGAIN"), set_
                assert expire == b":1\r\n" or expire.startswith(b"-TRYAGAIN"), expire
                for node in others:
                    with Connection(node.port) as rows:
                        assert bulk(rows.ask("GET", "there")) == b"v"
                        assert number(rows.ask("PTTL", "there")) <= 61_000
                        if set_ == b"+OK\r\n":
                            assert bulk(rows.ask("GET", f"minute{wrong_ms}")) == b"v"
                            assert 0 < number(rows.ask("PTTL", f"minute{wrong_ms}")) <= 61_000
                who.set_clock(0)
    finally:
        cluster.close()

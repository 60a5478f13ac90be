"""The checker of histories finds what it is there to find, and takes what a right server does."""

import json
import subprocess
import time

import pytest
from cluster_history import Clients, History, Violation, demand_linearizable, judge, read_everywhere
from ports import free_ports
from resp import Connection

NS = 1_000_000
CLIENTS = 12
REAL_OPERATIONS = 20_000


def op(word, call, end, reply=None, value=None, key="k", expected=None):
    """An operation called and answered at these milliseconds; without an end it is unknown."""
    line = {"key": key, "op": word, "value": value, "expected": expected, "call_ns": call * NS, "client": 0}
    if end is None:
        return line | {"node": "n", "outcome": "unknown"}
    return line | {"node": "n", "outcome": "ok", "return_ns": end * NS, "reply": reply}


def refused(word, call, end, value=None):
    return op(word, call, end, value=value) | {"outcome": "refused"}


RIGHT = {
    "one after the other": [op("set", 0, 1, value="a"), op("get", 2, 3, "a"), op("del", 4, 5, 1), op("get", 6, 7)],
    "either of two at once": [op("set", 0, 9, value="a"), op("set", 1, 8, value="b"), op("get", 10, 11, "a")],
    "a read during a write sees the old": [op("set", 0, 9, value="a"), op("get", 1, 8), op("get", 10, 11, "a")],
    "an unknown that happens late": [op("set", 0, None, value="a"), op("get", 5, 6), op("get", 100, 101, "a")],
    "an unknown that never happens": [op("set", 0, None, value="a"), op("get", 5, 6), op("get", 100, 101)],
    "an unknown delete after which a key is not there": [
        op("set", 0, 1, value="a"), op("del", 2, None), op("get", 5, 6, "a"), op("get", 7, 8), op("setnx", 9, 10, 1, "b"),
    ],
    "increments with an unknown between them": [
        op("incr", 0, 1, 1), op("incr", 2, None), op("incr", 3, 4, 2), op("incr", 5, 6, 4), op("get", 7, 8, "4"),
    ],
    "a compare-and-set by what was read": [
        op("set", 0, 1, value="a"), op("cas", 2, 3, value="b", expected="a"), op("swap", 4, 5, "b", "c"),
    ],
    "what was refused did not run": [op("set", 0, 1, value="a"), refused("set", 2, 3, "b"), op("get", 4, 5, "a")],
}

WRONG = {
    "a stale read": [
        op("set", 0, 1, value="a"), op("set", 2, 3, value="b"), op("get", 4, 5, "b"), op("get", 6, 7, "a"),
    ],
    "a stale read of what nobody read yet": [op("set", 0, 1, value="a"), op("set", 2, 3, value="b"), op("get", 4, 5, "a")],
    "a lost acknowledged write": [op("set", 0, 1, value="a"), op("get", 2, 3)],
    "a lost acknowledged increment": [op("incr", 0, 1, 1), op("incr", 2, 3, 2), op("get", 4, 5, "1")],
    "a doubled increment": [op("incr", 0, 1, 1), op("incr", 2, 3, 3)],
    "an unknown increment that happens twice": [op("incr", 0, 1, 1), op("incr", 2, None), op("get", 5, 6, "3")],
    "an unknown that both happened and did not": [
        op("set", 0, 1, value="a"), op("set", 2, None, value="b"), op("get", 5, 6, "b"), op("get", 7, 8, "a"),
    ],
    "an unknown that happened before it was asked": [
        op("set", 0, 1, value="a"), op("get", 2, 3, "b"), op("set", 4, None, value="b"),
    ],
    "a value that nobody wrote": [op("set", 0, 1, value="a"), op("get", 2, 3, "z")],
    "what was refused and ran": [op("set", 0, 1, value="a"), refused("set", 2, 3, "b"), op("get", 4, 5, "b")],
    "two winners of SETNX": [op("setnx", 0, 9, 1, "a"), op("setnx", 1, 8, 1, "b")],
    "two winners of one compare-and-set": [
        op("set", 0, 1, value="a"), op("cas", 2, 9, value="b", expected="a"), op("cas", 3, 8, value="c", expected="a"),
    ],
    "a delete that found what was deleted": [op("set", 0, 1, value="a"), op("del", 2, 3, 1), op("del", 4, 5, 1)],
}


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("lines", RIGHT.values(), ids=RIGHT)
def test_takes(lines, tmp_path):
    assert judge(write(tmp_path / "history.ndjson", lines))["result"] == "ok"


@pytest.mark.parametrize("lines", WRONG.values(), ids=WRONG)
def test_rejects(lines, tmp_path):
    other = [op("set", 0, 1, value="x", key="other"), op("get", 2, 3, "x", key="other")]
    verdict = judge(write(tmp_path / "history.ndjson", lines + other))
    assert verdict["result"] == "illegal"
    assert [failure["key"] for failure in verdict["failures"]] == ["k"]


def test_names_the_earliest_answer_that_cannot_be(tmp_path):
    lines = [op("set", 10 * n, 10 * n + 5, value=str(n)) for n in range(200)]
    lines += [op("get", 10 * n + 6, 10 * n + 7, str(n)) for n in range(200)]
    lines[250]["reply"] = "49"
    (failure,) = judge(write(tmp_path / "history.ndjson", lines))["failures"]
    assert failure["wrong"].endswith('get -> "49"')
    assert "set 50" in failure["before"][-2]


def test_a_line_that_is_none_is_an_error_with_its_number(tmp_path):
    path = write(tmp_path / "history.ndjson", [op("set", 0, 1, value="a"), op("append", 2, 3, value="b")])
    with pytest.raises(AssertionError, match="line 2: no operation is called `append`"):
        judge(path)


@pytest.fixture
def real_server(tmp_path):
    (port,) = free_ports(1)
    command = ["redis-server", "--port", str(port), "--dir", str(tmp_path), "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while True:
        try:
            Connection(port).close()
            break
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, "redis-server does not start"
            time.sleep(0.05)
    yield port
    process.kill()
    process.wait()


def test_takes_a_long_history_of_a_real_server_and_finds_one_change_in_it(real_server, tmp_path, note):
    """redis-server runs one command at a time. Connections cut in the middle leave unknown outcomes."""
    nodes = [("redis", real_server)]
    clients = Clients(nodes, CLIENTS, seed=1, pace_seconds=0).start()
    while clients.history.counts()["ok"] < REAL_OPERATIONS:
        clients.await_more(REAL_OPERATIONS // 10, 60)
        with Connection(real_server) as connection:
            connection.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    history = clients.stop()
    read_everywhere(nodes, history)
    assert not history.unlisted
    verdict = demand_linearizable(history.write(tmp_path / "history.ndjson"))
    assert verdict["operations"] >= REAL_OPERATIONS
    note(
        f"linearizable: {verdict['operations']} operations of redis-server on {verdict['keys']} keys, "
        f"{verdict['unknown']} unknown, checked in {verdict['seconds']:.2f} s"
    )
    # The same history with one stale answer, and with all that was written to a key lost. The key
    # that was counted furthest has more increments that were answered than ones that nobody knows of.
    counted = [line for line in history.operations if line["client"] == 1_000_000 and "c:" in line["key"]]
    stale = max(counted, key=lambda line: int(line["reply"] or 0))
    for wrong in ("1", None):
        stale["reply"] = wrong
        with pytest.raises(Violation, match=f"key {stale['key']}"):
            demand_linearizable(history.write(tmp_path / "history.ndjson"))


def test_a_lost_write_is_named_by_its_key(real_server):
    history = History()
    history.add(0, "redis", "once:0:0", "set", time.monotonic_ns(), "ok", value="0.1")
    with pytest.raises(Violation, match="once:0:0 was acknowledged with '0.1', and redis reads None"):
        read_everywhere([("redis", real_server)], history)


def test_watch_notices_a_key_that_was_made_and_deleted_meanwhile(shared_node):
    """What two clients' compare-and-set by WATCH needs: else both succeed on what one of them read."""
    with Connection(shared_node.port) as one, Connection(shared_node.port) as other:
        one.ask("WATCH", "made-and-deleted")
        other.ask_many([("SET", "made-and-deleted", "v"), ("DEL", "made-and-deleted")])
        replies = one.ask_many([("MULTI",), ("SET", "made-and-deleted", "w"), ("EXEC",)])
    assert replies[-1] in (b"*-1\r\n", b"_\r\n")


def test_a_node_killed_again_and_again_stays_linearizable(new_node, tmp_path, note):
    """What kill -9 leaves unknown happened once or not at all, whoever reads it first after."""
    node = new_node()
    node.start()
    nodes = [("n", node.port)]
    clients = Clients(nodes, CLIENTS, seed=2, pace_seconds=0.001).start()
    for _ in range(8):
        clients.await_more(300, 60)
        node.kill()
        node.start()
    clients.await_more(300, 60)
    history = clients.stop()
    read_everywhere(nodes, history)
    assert not history.unlisted
    verdict = demand_linearizable(history.write(tmp_path / "history.ndjson"))
    assert verdict["unknown"] > 0, "the kills cut nothing off"
    note(f"linearizable under kill -9: {verdict['operations']} operations, {verdict['unknown']} unknown")

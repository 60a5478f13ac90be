"""One request that asks for much: what its record does, what its answer holds, and who waits for it."""

import threading
import time

import pytest
import redis
import requests
from redis.backoff import NoBackoff
from redis.retry import Retry
from resp import Connection

MIB = 1 << 20
LIMIT = "67108864"


def poison(pipe, count=700):
    for n in range(count):
        pipe.execute_command("SETBIT", f"far:{n}", 8 * 8 * MIB - 1, 1)
    return pipe


def peak_bytes(node):
    with open(f"/proc/{node.process.pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def check_alive(node):
    client = node.client()
    client.set("alive", "yes")
    assert client.get("alive") == b"yes"


def test_a_transaction_that_sets_far_bits_is_refused_before_it_is_written(new_node):
    node = new_node().start()
    with pytest.raises(redis.ResponseError, match=LIMIT):
        poison(node.client().pipeline(transaction=True)).execute()
    assert node.client().dbsize() == 0
    check_alive(node)
    assert peak_bytes(node) < 400 * MIB


@pytest.mark.parametrize(
    "one",
    [
        ("APPEND", "large", "x"),
        ("SETRANGE", "large", "0", "x"),
        ("COPY", "large", "copy:#"),
        ("GET", "large"),
        ("LCS", "large", "short"),
        ("HGETALL", "hash"),
        ("KEYS", "*"),
    ],
    ids=lambda one: one[0],
)
def test_what_rows_make_large_is_refused_when_it_is_applied(new_node, one):
    node = new_node().start()
    client = node.client()
    client.set("large", "x" * 7 * MIB)
    client.set("short", "y")
    for part in range(20):
        client.hset("hash", mapping={f"{part}:{n}": "v" * 20 for n in range(2000)})
    keys = client.dbsize()
    client.mset({f"key:{n}": "v" for n in range(1000)})
    pipe = client.pipeline(transaction=True)
    for n in range(1000):
        pipe.execute_command(*(part.replace("#", str(n)) for part in one))
    with pytest.raises(redis.ResponseError, match=LIMIT):
        pipe.execute()
    assert client.dbsize() == keys + 1000, "nothing of it was done"
    assert client.strlen("large") == 7 * MIB
    check_alive(node)
    # It is in the log, and applied again.
    node.kill()
    node.start()
    assert node.client().dbsize() == keys + 1001
    check_alive(node)
    assert peak_bytes(node) < 900 * MIB


def test_a_pipeline_of_far_bits_runs_in_records_of_bounded_size(new_node):
    node = new_node().start()
    replies = poison(node.client().pipeline(transaction=False), 60).execute()
    assert replies == [0] * 60
    assert node.client().dbsize() == 60
    node.kill()
    node.start()
    assert node.client().strlen("far:59") == 8 * MIB
    assert node.client().dbsize() == 60


def test_other_clients_beside_poison_are_answered(new_node):
    node = new_node().start()
    client = node.client()
    client.set("large", "x" * 7 * MIB)
    stop, failed = threading.Event(), []

    def count():
        mine = node.client()
        while not stop.is_set():
            try:
                mine.incr("count")
            except redis.RedisError as error:
                failed.append(error)
                return

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        pipe = client.pipeline(transaction=True)
        for n in range(200):
            pipe.copy("large", f"copy:{n}")
        with pytest.raises(redis.ResponseError, match=LIMIT):
            pipe.execute()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed
    assert int(client.get("count")) > 0


def large_hash(client, key, bytes_total):
    value = "v" * 10_000
    for part in range(bytes_total // 10_000 // 100):
        client.hset(key, mapping={f"{part}:{n}": value for n in range(100)})


def limit_requests(node, limit):
    settings = {"transient": {"indices.breaker.request.limit": limit}}
    requests.put(f"http://127.0.0.1:{node.http}/_cluster/settings", json=settings, timeout=10).raise_for_status()


def test_a_large_answer_asks_before_it_is_built(new_node):
    node = new_node().start()
    client = node.client()
    large_hash(client, "h", 300 * MIB)
    limit_requests(node, "50mb")
    before = peak_bytes(node)
    for command in (("HGETALL", "h"), ("HVALS", "h"), ("HRANDFIELD", "h", "-100000", "WITHVALUES")):
        with pytest.raises(redis.ResponseError, match="(?i)oom|data for|too large"):
            client.execute_command(*command)
    assert client.hlen("h") == 300 * MIB // 10_000 // 100 * 100
    client.set("large", "x" * 7 * MIB)
    with pytest.raises(redis.ResponseError):
        client.mget(["large"] * 2000)
    assert peak_bytes(node) - before < 250 * MIB
    # What fits is answered whole.
    large_hash(client, "small", 8 * MIB)
    assert len(client.hgetall("small")) == client.hlen("small")
    assert client.mget(["large"] * 3) == [b"x" * 7 * MIB] * 3
    check_alive(node)


def test_answers_that_are_not_read_are_charged_until_they_are(new_node):
    """Many clients ask for what fits and read nothing: the breaker holds all of them together."""
    node = new_node().start()
    large_hash(node.client(), "h", 20 * MIB)
    limit_requests(node, "80mb")
    before = node.resident_bytes()
    connections = [Connection(node.port, timeout_seconds=30) for _ in range(40)]
    for connection in connections:
        connection.send(b"*2\r\n$7\r\nHGETALL\r\n$1\r\nh\r\n")
    # An answer that is not read stays where it is, or is given up: the breaker's to say.
    for _ in range(20):
        time.sleep(0.2)
        assert node.resident_bytes() - before < 400 * MIB
    for connection in connections:
        connection.close()
    check_alive(node)


def test_an_idle_node_does_nothing_after_much_has_expired(new_node):
    node = new_node().start()
    client = node.client()
    pipe = client.pipeline(transaction=False)
    until = int(time.time() * 1000) + 4000
    for n in range(60_000):
        pipe.execute_command("SET", f"k:{n}", "v", "PXAT", until)
        if n % 5000 == 4999:
            pipe.execute()
    client.set("stays", "v")
    deadline = time.monotonic() + 60
    while client.info("keyspace")["db0"]["keys"] != 1:
        assert time.monotonic() < deadline, "expired keys are not swept"
        time.sleep(0.1)
    assert client.dbsize() == 1
    assert client.randomkey() == b"stays"


def test_a_large_hash_is_copied_in_slices(new_node):
    """Others write meanwhile, and nobody sees a part of it."""
    node = new_node().start()
    # A client that gave up after five seconds would send a COPY again that was done: 0.
    patient = {"socket_timeout": 600, "retry": Retry(NoBackoff(), 0)}
    client = node.client(**patient)
    fields = 400_000
    for part in range(fields // 2000):
        client.hset("h", mapping={f"{part}:{n}": "value" * 4 for n in range(2000)})
    stop, seen = threading.Event(), set()

    def write():
        mine = node.client(**patient)
        while not stop.is_set():
            mine.incr("count")

    def look():
        mine = node.client(**patient)
        while not stop.is_set():
            seen.add(mine.hlen("copy"))
            seen.add(mine.hlen("renamed"))

    threads = [threading.Thread(target=write), threading.Thread(target=look)]
    for thread in threads:
        thread.start()
    # The node counts: how many writes came between those before the command and those after it. Who
    # waits for all of it makes one. How many come is the machine's to say, so it may try again.
    during = {"COPY": 0, "RENAME": 0}
    try:
        for _ in range(20):
            for command, answers in (
                (("COPY", "h", "copy"), (1,)),
                (("RENAME", "copy", "renamed"), (True, b"OK", "OK")),
            ):
                pipe = client.pipeline(transaction=False)
                pipe.get("count").execute_command(*command)
                before, answer, after = pipe.get("count").execute()
                assert answer in answers
                during[command[0]] = max(during[command[0]], int(after or 0) - int(before or 0))
            if min(during.values()) > 5:
                break
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert seen <= {0, fields}, seen
    assert min(during.values()) > 5, f"others waited for all of it: {during}"
    assert client.hlen("h") == client.hlen("renamed") == fields
    assert client.exists("copy") == 0
    assert client.hget("renamed", "7:7") == b"value" * 4
    # A change of the source in the middle of it.
    def change():
        mine = node.client(**patient)
        for n in range(30):
            mine.hset("h", "changed", n)
            time.sleep(0.02)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        client.copy("h", "again")
        assert client.hlen("again") in (fields, fields + 1)
    except redis.ResponseError as error:
        assert "changed" in str(error) and not client.exists("again")
    changer.join()
    assert client.copy("h", "renamed") == 0, "it is there"
    assert client.copy("h", "renamed", replace=True) == 1
    assert client.hget("renamed", "changed") == b"29"
    node.kill()
    node.start()
    assert node.client().hlen("renamed") == fields + 1
    assert node.client().dbsize() in (3, 4)

"""Reads of rows that lie in files alone: many at once have few threads, and no others wait for them."""

import contextlib
import os
import random
import socket
import threading

import redis
from control_groups import limited
from rest import ask

ROWS = 60_000
CONNECTIONS = 400
ASKED = 200
# Those that a node has anyway, and as many as read files: of few rows, of many, and half as many of large ones.
THREADS_MAX = 80 + 5 * min(64, 4 * len(os.sched_getaffinity(0))) // 2
LIMIT = 512 << 20
LARGE = 8 << 20
LARGE_VALUES = 24
DEAF = 60
SMALL_READS = 300


def test_many_reads_of_files_have_few_threads(new_node):
    node = new_node(settings=["cache.size=8mb", "write_buffer.size=16mb"]).start()
    chance = random.Random(1)
    values = [chance.randbytes(500) + b"%d" % n for n in range(ROWS)]
    with node.client() as client:
        for first in range(0, ROWS, 1000):
            with client.pipeline(transaction=False) as together:
                for n in range(first, first + 1000):
                    together.set(f"row{n}", values[n])
                together.execute()
    node.terminate()
    node.start()
    sockets, wanted = [], []
    for _ in range(CONNECTIONS):
        connection = socket.create_connection(("127.0.0.1", node.port), timeout=60)
        numbers = [chance.randrange(ROWS) for _ in range(ASKED)]
        wanted.append(b"".join(b"$%d\r\n%s\r\n" % (len(values[n]), values[n]) for n in numbers))
        connection.sendall(b"".join(b"*2\r\n$3\r\nGET\r\n$%d\r\nrow%d\r\n" % (len(f"row{n}"), n) for n in numbers))
        sockets.append(connection)
    most, done = [0], threading.Event()

    def watch():
        while not done.wait(0.005):
            most[0] = max(most[0], len(os.listdir(f"/proc/{node.process.pid}/task")))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for connection, bytes_wanted in zip(sockets, wanted):
            with connection, connection.makefile("rb") as answers:
                assert answers.read(len(bytes_wanted)) == bytes_wanted
    finally:
        done.set()
        watcher.join()
    assert most[0] <= THREADS_MAX, most[0]


def mgets(chance):
    keys = [f"large{chance.randrange(LARGE_VALUES)}" for _ in range(200)]
    return b"".join(b"*2\r\n$4\r\nMGET\r\n$%d\r\n%s\r\n" % (len(key), key.encode()) for key in keys)


def test_a_node_outlives_large_answers_that_nobody_reads(new_node):
    """Sixty clients ask for 8 MiB values by the hundred and read nothing. What a node of 512 MiB holds of it is
    somebody's, so that it can be had back; and nobody who asks for little waits for it or is refused."""
    group = limited(LIMIT)
    node = new_node()
    node.before = group and group.enter
    node.start()
    if not group:
        limit = {"persistent": {"indices.breaker.total.limit": f"{LIMIT // 2}b"}}
        assert ask(node, "PUT", "/_cluster/settings", limit)[0] == 200
    chance = random.Random(1)
    with contextlib.ExitStack() as ends:
        ends.callback(lambda: group and group.close())
        ends.callback(node.kill)
        client = ends.enter_context(node.client())
        large = [chance.randbytes(LARGE - 2000) for _ in range(LARGE_VALUES)]
        for n, value in enumerate(large):
            client.set(f"large{n}", value)
        for n in range(SMALL_READS):
            client.set(f"small{n}", b"%d:" % n + b"y" * 300)
        deaf = [ends.enter_context(socket.create_connection(("127.0.0.1", node.port))) for _ in range(DEAF)]
        for connection in deaf:
            connection.sendall(mgets(chance))
        refused = 0
        for n in range(SMALL_READS):
            assert client.get(f"small{n}").startswith(b"%d:" % n)
            try:
                client.set("written", chance.randbytes(200))
            except redis.ResponseError:
                refused += 1
            # Who reads has what was asked for, or is told that there is no room.
            if n % 30 == 0:
                with contextlib.suppress(redis.OutOfMemoryError):
                    assert client.get(f"large{n % LARGE_VALUES}") == large[n % LARGE_VALUES]
        assert node.process.poll() is None, node.text()
        assert refused < SMALL_READS // 3, refused

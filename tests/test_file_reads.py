"""Reads of rows that lie in files alone: many at once have few threads, and no others wait for them."""

import os
import random
import socket
import threading

ROWS = 60_000
CONNECTIONS = 400
ASKED = 200
# Those that a node has anyway, and as many as read files.
THREADS_MAX = 80 + 2 * min(64, 4 * len(os.sched_getaffinity(0)))


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

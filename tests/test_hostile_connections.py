"""What one connection may cost: values that are too large or never come whole, answers that nobody reads,
and numbers in every answer."""

import select
import time

import pytest
import redis
import requests
from control_groups import limited
from resp import Connection, encode

MIB = 1 << 20
TOO_LARGE = 8 * MIB + 1


@pytest.fixture
def node(new_node):
    return new_node().start()


def test_an_argument_over_the_limit_is_refused_in_words_and_the_connection_goes_on(node):
    with Connection(node.port, timeout_seconds=30) as connection:
        connection.send(encode("SET", "before", "1"))
        connection.send(encode("SET", "large", b"x" * TOO_LARGE))
        connection.send(encode("GET", "before"))
        assert connection.reply() == b"+OK\r\n"
        assert connection.reply() == b"-ERR an argument exceeds the limit of 8388608 bytes\r\n"
        assert connection.reply() == b"$1\r\n1\r\n"
        assert connection.ask("EXISTS", "large") == b":0\r\n"
        # Among others, and in a transaction, which it spoils.
        assert connection.ask("MULTI") == b"+OK\r\n"
        assert connection.ask("SET", "before", "2") == b"+QUEUED\r\n"
        assert connection.ask("SET", "a" * TOO_LARGE, "b").startswith(b"-ERR an argument exceeds")
        assert connection.ask("EXEC").startswith(b"-EXECABORT")
        assert connection.ask("GET", "before") == b"$1\r\n1\r\n"


def test_passing_over_costs_no_memory(node):
    before = node.resident_bytes()
    connections = [Connection(node.port, timeout_seconds=60) for _ in range(4)]
    for connection in connections:
        connection.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (100 * MIB))
    for _ in range(99):
        for connection in connections:
            connection.send(b"x" * MIB)
    assert node.resident_bytes() - before < 60 * MIB
    for connection in connections:
        connection.send(b"x" * MIB + b"\r\n")
        assert connection.reply().startswith(b"-ERR an argument exceeds the limit")
        assert connection.ask("PING") == b"+PONG\r\n"
        connection.close()


def set_in_flight(node, limit):
    settings = {"transient": {"network.breaker.inflight_requests.limit": limit}}
    requests.put(f"http://127.0.0.1:{node.http}/_cluster/settings", json=settings, timeout=10).raise_for_status()


def test_values_that_do_not_come_whole_are_charged_and_refused_in_words(node):
    set_in_flight(node, "40mb")
    before = node.resident_bytes()
    connections = [Connection(node.port, timeout_seconds=30) for _ in range(60)]
    half = 3 * MIB
    for connection in connections:
        connection.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (2 * half) + b"x" * half)
    time.sleep(1)
    assert node.resident_bytes() - before < 250 * MIB
    node.client().set("small", "goes on")
    answers = []
    for connection in connections:
        connection.send(b"x" * half + b"\r\n")
        answers.append(connection.reply())
        assert connection.ask("PING") == b"+PONG\r\n", "the connection goes on"
        connection.close()
    refused = [answer for answer in answers if answer != b"+OK\r\n"]
    assert refused, "all of them fit"
    assert all(answer.startswith(b"-OOM") and b"in_flight_requests" in answer for answer in refused), refused[0]


def test_a_queue_of_a_transaction_is_charged(node):
    set_in_flight(node, "20mb")
    connections = [Connection(node.port, timeout_seconds=30) for _ in range(20)]
    refused = 0
    for connection in connections:
        assert connection.ask("MULTI") == b"+OK\r\n"
        for _ in range(3):
            refused += connection.ask("SET", "k", b"x" * 2 * MIB).startswith(b"-OOM")
    assert refused > 30
    for connection in connections:
        connection.close()
    deadline = time.monotonic() + 20
    while True:
        try:
            assert node.client().set("k", "x" * 3 * MIB)
            return
        except redis.ResponseError:
            assert time.monotonic() < deadline, "nothing was given back"
            time.sleep(0.1)


def test_who_has_no_password_holds_little(new_node):
    node = new_node(settings=["resp.password=secret"]).start()
    before = node.resident_bytes()
    connections = [Connection(node.port, timeout_seconds=30) for _ in range(1500)]
    for connection in connections:
        connection.send(b"*10\r\n" + b"$16384\r\n" + b"x" * 16384 + b"\r\n$16384\r\n" + b"x" * 16384)
    time.sleep(1)
    assert node.resident_bytes() - before < 1500 * 72 * 1024
    for connection in connections:
        connection.close()
    with Connection(node.port) as connection:
        connection.send(b"*10\r\n" + (b"$16000\r\n" + b"x" * 16000 + b"\r\n") * 3 + b"$16000\r\n")
        answer, closed = connection.rest(5)
        assert closed and answer == b"-ERR Protocol error: command exceeds 49152 bytes\r\n"
    with Connection(node.port) as connection:
        assert connection.ask("AUTH", "secret") == b"+OK\r\n"
        assert connection.ask("SET", "k", "x" * 100_000) == b"+OK\r\n"


UNPROVEN = 600
SENT_BYTES = 150 * 1024
# What such a connection may hold, and what the process has for it beside that.
HELD_BYTES, BESIDE_BYTES = 64 << 10, 16 << 10


@pytest.mark.parametrize(
    "sent",
    [
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % SENT_BYTES + b"x" * SENT_BYTES,
        b"*2\r\n$4\r\nAUTH\r\n$%d\r\n" % SENT_BYTES + b"x" * SENT_BYTES,
        (b"*10\r\n" + (b"$16000\r\n" + b"x" * 16000 + b"\r\n") * 9)[:SENT_BYTES],
        b"x" * SENT_BYTES,
        b"GET " + b"x " * (SENT_BYTES // 2),
        b"*" + b"1" * SENT_BYTES,
        b"*1\r\n$" + b"1" * SENT_BYTES,
        b"*%d\r\n" % SENT_BYTES + b"$1\r\nx\r\n" * (SENT_BYTES // 7),
        encode("GET", "k") * (SENT_BYTES // len(encode("GET", "k"))),
        encode("GET", "x" * 8000) * (SENT_BYTES // 8000),
    ],
    ids=["value", "password", "arguments", "line", "words", "count", "length", "many arguments", "commands",
         "long commands"],
)
def test_before_the_password_nobody_holds_more_than_64_kib(new_node, sent):
    """Many send as much as the node takes and read nothing, in a machine that has no room for all of it."""
    group = limited(1 << 30)
    if group is None:
        pytest.skip("no control group with a limit of memory can be made here")
    node = new_node(settings=["resp.password=secret"])
    node.before = group.enter
    connections = []
    try:
        node.start()
        before = node.resident_bytes()
        for _ in range(UNPROVEN):
            connections.append(Connection(node.port, timeout_seconds=30))
        left = {connection.socket: sent for connection in connections}
        for one in left:
            one.setblocking(False)
        # Until hardly anything is taken any more: each is refused and closed, or read no further than
        # it is answered.
        taken, since = 0, time.monotonic()
        while left:
            if time.monotonic() - since > 2:
                if taken < 1 << 20:
                    break
                taken, since = 0, time.monotonic()
            for one in select_writable(list(left)):
                try:
                    sent_bytes = one.send(left[one])
                    taken += sent_bytes
                    left[one] = left[one][sent_bytes:]
                    if not left[one]:
                        del left[one]
                except BlockingIOError:
                    pass
                except OSError:
                    del left[one]
        grown = node.resident_bytes() - before
        assert grown < UNPROVEN * (HELD_BYTES + BESIDE_BYTES), f"{grown // UNPROVEN} bytes each"
        with Connection(node.port, timeout_seconds=120) as connection:
            assert connection.ask("AUTH", "secret") == b"+OK\r\n"
            assert connection.ask("SET", "k", "x" * 100_000) == b"+OK\r\n"
        # None of it was carried out, whoever sent it.
        for connection in connections[:20]:
            connection.socket.settimeout(10)
            try:
                # What was answered so far: the rest comes slowly. Its last line may be cut.
                answer = connection.socket.recv(1 << 20)
            except ConnectionError:
                answer = b""
            closed = not answer
            lines = [line for line in answer.split(b"\r\n")[:-1] if line]
            assert all(line.startswith((b"-NOAUTH", b"-ERR", b"-WRONGPASS")) for line in lines), lines[:3]
            assert lines or closed
        assert node.process.poll() is None
    finally:
        for connection in connections:
            connection.close()
        if node.process:
            node.kill()
        group.close()


STRANGERS = 300


def test_who_does_not_log_in_is_answered_slowly_and_who_does_is_not(new_node):
    """Strangers ask as fast as they are answered: each answer to a client that logged in would come
    after one to each of them."""
    node = new_node(settings=["resp.password=secret"]).start()
    strangers = [Connection(node.port, timeout_seconds=30) for _ in range(STRANGERS)]
    for stranger in strangers:
        stranger.send(encode("GET", "k") * 1000)
    with Connection(node.port, timeout_seconds=120) as client:
        assert client.ask("AUTH", "secret") == b"+OK\r\n"
        for _ in range(300):
            assert client.ask("PING") == b"+PONG\r\n"
    answered = []
    for stranger in strangers:
        stranger.socket.setblocking(False)
        try:
            answered.append(stranger.socket.recv(1 << 20).count(b"-NOAUTH"))
        except BlockingIOError:
            answered.append(0)
    assert max(answered) < 150, max(answered)
    # Whoever logs in after all goes on as fast as anybody.
    with Connection(node.port) as late:
        for _ in range(20):
            assert late.ask("GET", "k").startswith(b"-NOAUTH")
        assert late.ask("AUTH", "secret") == b"+OK\r\n"
        late.send(encode("GET", "k") * 2000)
        got = b""
        while got.count(b"$-1\r\n") < 2000:
            got += late.socket.recv(1 << 16)
    for stranger in strangers:
        stranger.close()


def select_writable(sockets):
    poll = select.poll()
    known = {one.fileno(): one for one in sockets}
    for number in known:
        poll.register(number, select.POLLOUT)
    return [known[number] for number, _ in poll.poll(100)]


def test_a_client_that_reads_nothing_is_read_no_further(node):
    with Connection(node.port, timeout_seconds=30) as client:
        client.ask("SET", "k", "x" * 100_000)
    before = node.resident_bytes()
    with Connection(node.port, timeout_seconds=3) as connection:
        sent = 0
        connection.socket.setblocking(False)
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                sent += connection.socket.send(encode("GET", "k") * 1000)
            except BlockingIOError:
                time.sleep(0.05)
        assert node.resident_bytes() - before < 40 * MIB
        assert sent < 60 * MIB


def test_numbers_near_powers_of_ten_are_followed_by_nothing(node):
    numbers = [sign * (10**power + by) for power in range(19) for by in range(-2, 3) for sign in (1, -1)]
    numbers += [2**63 - 1, -(2**63)]
    with Connection(node.port) as connection:
        commands = [command for n in numbers for command in (("SET", "i", n), ("INCRBY", "i", 0))]
        for (name, _, number), reply in zip(commands, connection.ask_many(commands)):
            assert reply == (b"+OK\r\n" if name == "SET" else b":%d\r\n" % numbers[0])
            if name == "INCRBY":
                numbers.pop(0)


def test_commands_pause_and_go_on(node):
    client, reader = node.client(socket_timeout=600), node.client(socket_timeout=600)
    with Connection(node.port, timeout_seconds=120) as writer:
        assert writer.ask("SET", "before", "v") == b"+OK\r\n"
        # Longer than the slowest machine takes for what follows.
        client.client_pause(3_600_000, all=False)
        writer.send(encode("SET", "k", "v"))
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            assert reader.get("k") is None, "the write waits"
            assert reader.get("before") == b"v", "reads go on"
        assert not select.select([writer.socket], [], [], 0)[0], "it is answered"
        client.client_unpause()
        assert writer.reply() == b"+OK\r\n"
    assert reader.get("k") == b"v"
    client.client_pause(300)
    assert node.client().ping()
    with pytest.raises(redis.ResponseError, match="WRITE or ALL"):
        client.execute_command("CLIENT", "PAUSE", "1", "x")
    with pytest.raises(redis.ResponseError, match="timeout"):
        client.execute_command("CLIENT", "PAUSE", "-1")


def test_what_tools_set_at_start_is_said_back(node):
    client = node.client()
    assert client.config_get("hash-max-*") == {
        "hash-max-listpack-entries": "128",
        "hash-max-listpack-value": "64",
        "hash-max-ziplist-entries": "128",
        "hash-max-ziplist-value": "64",
    }
    assert client.config_set("hash-max-ziplist-entries", 512)
    assert client.config_get("hash-max-listpack-entries") == {"hash-max-listpack-entries": "512"}
    with pytest.raises(redis.ResponseError):
        client.config_set("hash-max-listpack-value", "many")
    assert {"redis_version", "connected_clients"} <= set(client.info("server", "clients"))
    assert client.command_getkeys("BITOP", "AND", "to", "a", "b") == ["to", "a", "b"]


def test_copy_names_databases(node):
    client = node.client(db=3)
    client.set("a", "1")
    assert client.execute_command("COPY", "a", "b", "DB", "3") == 1
    assert client.execute_command("COPY", "a", "b", "DB", "3", "REPLACE") == 1
    with pytest.raises(redis.ResponseError, match="another database is not supported"):
        client.execute_command("COPY", "a", "b", "DB", "4")
    with pytest.raises(redis.ResponseError, match="out of range"):
        client.execute_command("COPY", "a", "b", "DB", "99")
    assert client.dbsize() == 2

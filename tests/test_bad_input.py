"""Malformed input and a failing machine: a clear error, the node lives on, nothing half-written."""

import json
import os
import resource
import socket
import subprocess
import urllib.error
import urllib.request

import pytest
import redis
from resp import Closed, Connection, bulk, encode
from rest import try_ask

MIB = 1 << 20
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


def assert_alive(node):
    with Connection(node.port) as connection:
        assert connection.ask("PING") == b"+PONG\r\n"


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"*abc\r\n", b"invalid multibulk length"),
        (b"*2147483648\r\n", b"invalid multibulk length"),
        (b"*9223372036854775808\r\n", b"invalid multibulk length"),
        (b"*1\r\n$abc\r\n", b"invalid bulk length"),
        (b"*1\r\n$-5\r\n", b"invalid bulk length"),
        (b"*1\r\n$536870913\r\n", b"invalid bulk length"),
        (b"*1\r\n:4\r\n", b"expected '$', got ':'"),
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", b"expected '$', got '*'"),
        (b'GET "unbalanced\r\n', b"unbalanced quotes in request"),
    ],
)
def test_protocol_errors_are_named_and_close(node, data, error):
    with Connection(node.port) as connection:
        connection.send(encode("SET", "a", "1") + data)
        answer, closed = connection.rest(5)
    assert answer == b"+OK\r\n-ERR Protocol error: " + error + b"\r\n"
    assert closed
    assert_alive(node)


def test_a_request_cut_off_anywhere_writes_nothing(node):
    request = encode("MSET", "a", "1", "b", "2")
    for end in range(len(request)):
        with Connection(node.port) as connection:
            connection.send(request[:end])
    with Connection(node.port) as connection:
        assert connection.ask("DBSIZE") == b":0\r\n"


def test_a_transaction_cut_off_before_exec_writes_nothing(node):
    with Connection(node.port) as connection:
        connection.ask_many([("MULTI",), ("SET", "a", "1"), ("SET", "b", "1")])
        connection.send(encode("EXEC")[:-1])
    with Connection(node.port) as connection:
        assert connection.ask("DBSIZE") == b":0\r\n"


def test_headers_that_promise_much_cost_little(node):
    before = node.resident_bytes()
    connections = []
    for header in [b"*1\r\n$536870912\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$536870912\r\nx", b"*2147483647\r\n"] * 20:
        connection = Connection(node.port)
        connection.send(header)
        connections.append(connection)
    assert_alive(node)
    assert node.resident_bytes() - before < 64 * MIB
    for connection in connections:
        connection.close()
    assert_alive(node)


def test_a_stream_of_bytes_without_an_end_is_refused(node):
    """An inline command is at most 64 KiB; what never ends must not be kept."""
    before = node.resident_bytes()
    with Connection(node.port) as connection:
        try:
            for _ in range(256):
                connection.send(b"x" * 65536)
            answer, closed = connection.rest(5)
        except Closed:
            closed = True
    assert closed
    assert node.resident_bytes() - before < 64 * MIB
    assert_alive(node)


def test_a_value_over_the_limit_is_refused(node):
    with Connection(node.port, timeout_seconds=60) as connection:
        try:
            connection.send(encode("SET", "a", b"x" * (64 * MIB)))
            assert connection.reply().startswith(b"-ERR")
        except Closed:
            pass
    with Connection(node.port) as connection:
        assert bulk(connection.ask("GET", "a")) is None


def test_deep_and_long_arrays(node):
    with Connection(node.port) as connection:
        connection.send(b"*1\r\n" * 100_000)
        answer, closed = connection.rest(5)
    assert answer.startswith(b"-ERR Protocol error") and closed
    with Connection(node.port) as connection:
        assert connection.ask("DEL", *[f"k:{n}" for n in range(100_000)]) == b":0\r\n"


def test_random_bytes(node):
    for seed in range(200):
        noise = b"".join(
            bytes([(seed * 7 + n * n * 31 + n) % 256]) if n % 3 else b"*$:\r\n+-"[(seed + n) % 7 :][:1]
            for n in range(200)
        )
        with Connection(node.port) as connection:
            connection.send(noise)
    assert_alive(node)


@pytest.mark.parametrize("command", ["GET", "SET a", "HSET h f", "MSET a", "INCRBY a", "EXPIRE a", "HGETALL", "WATCH"])
def test_wrong_arity(node, command):
    with Connection(node.port) as connection:
        name = command.split()[0].lower()
        wanted = f"-ERR wrong number of arguments for '{name}' command\r\n".encode()
        assert connection.ask(*command.split()) == wanted
        assert connection.ask("DBSIZE") == b":0\r\n"


def test_a_client_that_does_not_read_does_not_stop_others(node):
    with Connection(node.port) as writer:
        writer.ask("SET", "a", b"x" * MIB)
    with Connection(node.port, timeout_seconds=1) as lazy:
        before = node.resident_bytes()
        try:
            for _ in range(2000):
                lazy.send(encode("GET", "a") * 10)
        except Closed:
            pass
        assert_alive(node)
        assert node.resident_bytes() - before < 512 * MIB
    assert_alive(node)


def test_a_second_node_on_the_same_folder_gives_up(new_node):
    first = new_node().start()
    second = new_node(data=first.data).spawn()
    assert second.exit_code() != 0
    assert str(first.data) in second.text() or "in use" in second.text(), second.text()
    assert_alive(first)


def test_a_busy_port_is_named(new_node):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node = new_node(port=port).spawn()
        assert node.exit_code() != 0
    assert f"127.0.0.1:{port}" in node.text(), node.text()


def test_a_bind_beyond_this_machine_needs_a_word(new_node):
    node = new_node(host="0.0.0.0").spawn()
    assert node.exit_code() != 0
    assert "insecure" in node.text(), node.text()


def test_unknown_settings_are_refused(new_node):
    node = new_node(settings=["log.durabilty=async"]).spawn()
    assert node.exit_code() != 0
    assert "log.durabilty" in node.text()


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of its own, and a way to change that disk."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", folder], check=True)
    yield folder, lambda options: subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True)
    subprocess.run(["umount", "-l", folder], check=True)


@NEEDS_ROOT
def test_a_full_disk_refuses_writes_and_keeps_what_was_acknowledged(new_node, small_disk):
    folder, remount = small_disk
    node = new_node(data=folder / "data").start()
    acknowledged, refused = 0, None
    with Connection(node.port, timeout_seconds=60) as connection:
        while refused is None and acknowledged < 4000:
            reply = connection.ask("SET", f"k:{acknowledged}", os.urandom(50) * 2000)
            if reply == b"+OK\r\n":
                acknowledged += 1
            else:
                refused = reply
    assert refused is not None, "the disk never filled"
    assert refused.startswith(b"-"), refused
    assert_alive(node)
    assert 0 == node.terminate() or node.process.poll() is not None
    remount("size=1g")
    node.start()
    with Connection(node.port, timeout_seconds=60) as connection:
        for n in range(acknowledged):
            value = bulk(connection.ask("GET", f"k:{n}"))
            assert value is not None and value == value[:50] * 2000, f"k:{n} is lost or torn"
        assert connection.ask("SET", "after", "1") == b"+OK\r\n"


@NEEDS_ROOT
def test_a_read_only_folder_is_named(new_node, small_disk):
    folder, remount = small_disk
    (folder / "data").mkdir()
    remount("ro")
    node = new_node(data=folder / "data").spawn()
    assert node.exit_code() != 0
    assert str(folder) in node.text(), node.text()
    assert not list((folder / "data").iterdir())


def test_more_shards_than_the_nodes_may_hold_are_refused(new_node):
    node = new_node().start()

    def put(path, body):
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{node.http}{path}", data, method="PUT")
        request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    shards = lambda count: {"settings": {"number_of_shards": count}}  # noqa: E731
    assert put("/a", shards(2))[0] == 200
    assert put("/_cluster/settings", {"persistent": {"cluster.max_shards_per_node": 4}})[0] == 200
    status, answer = put("/b", shards(3))
    assert (status, answer["error"]["type"]) == (400, "validation_exception"), answer
    assert "cluster.max_shards_per_node" in answer["error"]["reason"]
    assert put("/b", shards(2))[0] == 200
    assert put("/c", shards(1))[0] == 400
    with pytest.raises(redis.ResponseError, match="cluster.max_shards_per_node"):
        node.client(db=7).set("a", "b")
    assert put("/_cluster/settings", {"persistent": {"cluster.max_shards_per_node": None}})[0] == 200
    # A thousand at once are more than a node holds by default.
    status, answer = put("/many", shards(1024))
    assert status == 400 and "1024" in answer["error"]["reason"], answer
    assert put("/c", shards(1))[0] == 200
    assert node.client(db=7).set("a", "b")


def test_a_node_opens_more_files_than_a_shell_allows_by_default(new_node):
    """The soft limit is raised to the hard one; beyond that one, creation is refused in words."""
    hard = 4096

    def with_few_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))

    node = new_node()
    node.before = with_few_files
    node.start()
    body = {"settings": {"number_of_shards": 64, "number_of_replicas": 0}}
    assert try_ask(node, "PUT", "/a", body)[0] == 200
    status, answer = try_ask(node, "PUT", "/b", body)
    assert status == 400 and "ulimit -n" in answer["error"]["reason"], answer
    assert try_ask(node, "PUT", "/a/_doc/1?refresh=true", {"n": 1})[0] == 201
    assert node.terminate() == 0
    node.start()
    status, answer = try_ask(node, "GET", "/a/_count")
    assert (status, answer["count"], answer["_shards"]["successful"]) == (200, 1, 64)


def test_names_that_only_look_like_a_databases(new_node):
    """They are indices of their own, whatever number stands in them."""
    node = new_node().start()
    names = ("db03", "db003", "db16")
    node.client(db=3).set("own", "3")
    for name in names:
        assert try_ask(node, "PUT", f"/{name}/_doc/1?refresh=true", {"name": name})[0] == 201
    assert node.client(db=3).keys() == [b"own"]
    node.kill()
    node.start()
    for name in names:
        status, found = try_ask(node, "GET", f"/{name}/_doc/1")
        assert (status, found["_source"]) == (200, {"name": name})
        assert try_ask(node, "DELETE", f"/{name}")[0] == 200
    assert node.client(db=3).keys() == [b"own"]
    assert try_ask(node, "DELETE", "/db3")[0] == 404, "it is no index"


def nested(levels):
    inner = 1
    for _ in range(levels):
        inner = {"a": inner}
    return inner


def bools(levels):
    inner = {"term": {"a": 1}}
    for _ in range(levels):
        inner = {"bool": {"must": inner}}
    return inner


def test_what_is_too_deep_to_be_read_again_is_not_kept(new_node):
    """Objects of the metadata lie in others there: what a request may hold may be too deep for whoever starts."""
    node = new_node().start()
    assert try_ask(node, "PUT", "/i", {"mappings": {"properties": {"a": {"type": "long"}}}})[0] == 200
    taken = 0
    for levels in (90, 99, 100, 110, 120, 124, 125):
        meta = {"_meta": nested(levels)}
        template = {"index_patterns": [f"t{levels}*"], "mappings": meta}
        puts = [
            (f"/m{levels}", {"mappings": meta}),
            ("/i/_mapping", meta),
            (f"/_template/t{levels}", template),
            (f"/t{levels}", {}),
            (f"/_index_template/u{levels}", {"index_patterns": [f"u{levels}*"], "template": {"mappings": meta}}),
            (f"/u{levels}", {}),
            (f"/i/_alias/l{levels}", {"filter": bools(levels // 2)}),
            ("/i/_settings", {"index": nested(levels)}),
            ("/_cluster/settings", {"persistent": nested(levels)}),
            (f"/_ccr/auto_follow/p{levels}", {"remote_cluster": "r", "leader_index_patterns": ["x"], "settings": nested(levels)}),
            (f"/_security/user/u{levels}", {"password": "long enough", "roles": [], "metadata": nested(levels)}),
            (f"/_security/role/r{levels}", {"cluster": [], "metadata": nested(levels)}),
        ]
        for path, body in puts:
            status, answer = try_ask(node, "PUT", path, body)
            assert status in (200, 400), (path, levels, answer)
            taken += status == 200
        key = {"name": "k", "role_descriptors": {"r": {"cluster": [], "metadata": nested(levels)}}}
        status, answer = try_ask(node, "POST", "/_security/api_key", key)
        assert status in (200, 400), answer
        if status == 200:
            assert try_ask(node, "GET", f"/_security/api_key?id={answer['id']}")[1]["api_keys"], levels
    assert taken > 20, "not everything is too deep"
    assert try_ask(node, "PUT", "/i/_mapping", {"properties": {"b": {"type": "long"}}})[0] == 200
    assert "cannot be" not in node.text()
    node.kill()
    node.start()
    assert try_ask(node, "GET", "/i/_mapping")[1]["i"]["mappings"]["properties"]["b"]
    assert try_ask(node, "DELETE", "/i")[0] == 200

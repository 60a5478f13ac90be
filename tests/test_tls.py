"""TLS on the ports that clients use, with certificates as `plimsoll certificates` makes them: unchanged clients,
what is refused, certificates replaced under load, and handshakes that stop in the middle.
"""

import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import resource
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import elasticsearch7
import elasticsearch8
import opensearchpy
import pytest
import redis
import requests
import tls_scan
from cluster_processes import await_true
from conftest import Node, binary
from ports import free_ports
from remote_clusters import Certificates

NAMES = ("--dns", "localhost", "--ip", "127.0.0.1")
PASSWORD = "a lion: 1"
# How long a connection has that is not let in yet.
STRANGER_SECONDS = 10


def settings(certificates, name="node", ports=("http", "resp"), authority=None):
    for port in ports:
        yield f"{port}.tls.enabled=true"
        yield f"{port}.tls.certificate={certificates.path(name)}.crt"
        yield f"{port}.tls.key={certificates.path(name)}.key"
        if authority:
            yield f"{port}.tls.certificate_authorities={authority}"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates")).node("node", *NAMES).client("client")


@pytest.fixture(scope="module")
def node(certificates, tmp_path_factory):
    given = [*settings(certificates), f"resp.password={PASSWORD}"]
    node = Node(tmp_path_factory.mktemp("data"), given).start()
    yield node
    assert node.process.poll() is None, f"the node died:\n{node.text()}"
    assert node.terminate() == 0


def fingerprint(path):
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pathlib.Path(path).read_text())).hexdigest()


def redis_client(node, certificates, **more):
    options = {"ssl": True, "ssl_ca_certs": certificates.path("ca.crt"), "password": PASSWORD}
    return redis.Redis(port=node.port, **{**options, **more})


def shake(port, context, name="localhost"):
    """The version and cipher that the two sides agree on."""
    with socket.create_connection(("127.0.0.1", port)) as plain:
        with context.wrap_socket(plain, server_hostname=name) as through:
            return through.version(), through.cipher()[0]


def context_of(certificates, lowest=ssl.TLSVersion.TLSv1_2, highest=ssl.TLSVersion.TLSv1_3, ciphers=None):
    context = ssl.create_default_context(cafile=certificates.path("ca.crt"))
    context.minimum_version, context.maximum_version = lowest, highest
    if ciphers:
        context.set_ciphers(ciphers)
    return context


def test_clients_of_elasticsearch_need_no_change(node, certificates):
    url, authority = f"https://localhost:{node.http}", certificates.path("ca.crt")
    ways = {
        "7": elasticsearch7.Elasticsearch([url], http_auth=("elastic", PASSWORD), ca_certs=authority),
        "8": elasticsearch8.Elasticsearch(
            url.replace("localhost", "127.0.0.1"), basic_auth=("elastic", PASSWORD), ca_certs=authority
        ),
        "8, by fingerprint": elasticsearch8.Elasticsearch(
            url,
            basic_auth=("elastic", PASSWORD),
            ssl_assert_fingerprint=fingerprint(certificates.path("ca.crt")),
        ),
        "opensearch": opensearchpy.OpenSearch(
            [{"host": "localhost", "port": node.http}],
            http_auth=("elastic", PASSWORD),
            use_ssl=True,
            ca_certs=authority,
        ),
    }
    for number, (name, client) in enumerate(ways.items()):
        client.index(index="ships", id=str(number), body={"name": name}, refresh=True)
        found = client.search(index="ships", body={"query": {"match_all": {}}})
        assert found["hits"]["total"]["value"] == number + 1, name


def test_http_2_where_a_client_asks_for_it(node, certificates, tmp_path):
    """Requests side by side on one connection, a body beyond any window, and no password."""
    url = f"https://localhost:{node.http}"
    curl = ["curl", "-sS", "--http2", "--cacert", certificates.path("ca.crt"), "-u", f"elastic:{PASSWORD}"]

    def ask(*words):
        command = [*curl, "-w", "\n%{http_version} %{http_code} %{num_connects}", *words]
        asked = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        *answer, said = asked.stdout.rsplit("\n", 1)
        return "\n".join(answer), said.split()

    body = tmp_path / "bulk"
    lines = (f'{{"index": {{"_id": "{n}"}}}}\n{{"n": {n}, "text": "{"x" * 1000}"}}\n' for n in range(20_000))
    body.write_text("".join(lines))
    json_type = "content-type: application/x-ndjson"
    answer, said = ask("-XPOST", f"{url}/h2/_bulk?refresh=true", "-H", json_type, "--data-binary", f"@{body}")
    assert said[:2] == ["2", "200"] and '"errors":false' in answer, (said, answer[:500])
    answer, said = ask(f"{url}/h2/_count")
    assert said[:2] == ["2", "200"] and '"count":20000' in answer
    many = list(itertools.chain.from_iterable(["-o", str(tmp_path / f"{n}"), f"{url}/h2/_doc/{n}"] for n in range(200)))
    command = [*curl, "--parallel", "--parallel-max", "100", "-w", "%{http_version} %{http_code}\n", *many]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split("\n")
    assert said.count("2 200") == 200, said
    assert '"n": 17' in (tmp_path / "17").read_text().replace('"n":17', '"n": 17')
    command = [*curl[:5], "-w", "%{http_version} %{http_code}", "-o", os.devnull, f"{url}/h2/_count"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "2 401"
    command = [*curl, "--http1.1", "-w", "%{http_version} %{http_code}", "-o", os.devnull, f"{url}/h2/_count"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1.1 200"


def frame(kind, flags, stream, payload):
    """A frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def test_answers_that_a_stranger_does_not_take_are_small(node, certificates):
    """Requests of HTTP/2 as many as may be at once, whose answers have no window to go through. The long path is
    said once, and costs four bytes from then on (RFC 7541).
    """
    path, connections, streams = b"/" + b"a" * 3900, 60, 120
    length = len(path) - 127
    literal = b"\x44\x7f" + bytes([length & 127 | 128, length >> 7]) + path
    first, next_ones = b"\x82\x87\x41\x01a" + literal, b"\x82\x87\xbf\xbe"
    sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 4, 0))
    sent += frame(1, 5, 1, first) + b"".join(frame(1, 5, 3 + 2 * n, next_ones) for n in range(streams - 1))
    context = context_of(certificates)
    context.set_alpn_protocols(["h2"])

    def resident():
        return int(pathlib.Path(f"/proc/{node.process.pid}/statm").read_text().split()[1]) * 4096

    before = resident()
    with contextlib.ExitStack() as stack:
        for _ in range(connections):
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", node.http)))
            through = stack.enter_context(context.wrap_socket(plain, server_hostname="localhost"))
            assert through.selected_alpn_protocol() == "h2"
            through.sendall(sent)
        time.sleep(2)
        held = resident() - before
    assert held < connections * streams * 10_000, f"{held / connections / streams:.0f} bytes a request"


def test_clients_of_redis_need_no_change(node, certificates):
    client = redis_client(node, certificates)
    value = b"x" * (3 << 20)
    assert client.set("large", value) and client.get("large") == value
    pipe = client.pipeline(transaction=False)
    for number in range(5000):
        pipe.set(f"k{number}", "v" * 100)
    assert all(pipe.execute())
    assert len(client.mget([f"k{number}" for number in range(5000)])) == 5000
    command = ["redis-cli", "--tls", "--cacert", certificates.path("ca.crt"), "-p", str(node.port)]
    command += ["--no-auth-warning", "-a", PASSWORD, "GET", "k1"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "v" * 100 + "\n"


def test_what_is_agreed_on_is_new(node, certificates):
    old = ssl.TLSVersion.TLSv1_2
    for port in (node.http, node.port):
        assert shake(port, context_of(certificates))[0] == "TLSv1.3"
        version, cipher = shake(port, context_of(certificates, highest=old))
        assert version == "TLSv1.2" and cipher.startswith("ECDHE-"), cipher
        for weak in ("AES128-SHA", "ECDHE-ECDSA-AES128-SHA", "AES256-GCM-SHA384"):
            context = context_of(certificates, highest=old, ciphers=f"{weak}:@SECLEVEL=0")
            with pytest.raises((ssl.SSLError, ConnectionError)):
                shake(port, context)
        ancient = context_of(certificates, ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, "ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            shake(port, ancient)
        with pytest.raises(ssl.SSLCertVerificationError):
            shake(port, context_of(certificates), "other.example")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_sslyze_finds_nothing_old(node):
    for port in (node.http, node.port):
        tls_scan.demand_safe(port)


def test_a_session_is_not_negotiated_again(node):
    """`R` asks openssl to do so, in the middle of a connection of TLS 1.2; it waits for what does not come."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{node.port}", "-tls1_2"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True) as asking:
        asking.stdin.write("R\n")
        asking.stdin.flush()
        threading.Timer(5, asking.kill).start()
        before, _, after = asking.stdout.read().partition("RENEGOTIATING")
    assert "verify return" in before and "verify return" not in after, (before, after)


def test_a_connection_has_ten_seconds_to_log_in(node, certificates):
    """Whether it is silent or talks; one that logged in has them anew after RESET."""
    context = context_of(certificates)

    def connect():
        plain = socket.create_connection(("127.0.0.1", node.port), timeout=30)
        return context.wrap_socket(plain, server_hostname="localhost")

    def ask(through, words):
        through.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(it), it) for it in words))
        return through.recv(4096)

    with connect() as silent, connect() as talking, connect() as known:
        assert ask(known, [b"AUTH", PASSWORD.encode()]) == b"+OK\r\n"
        began, said = time.monotonic(), b""
        while time.monotonic() < began + 3 * STRANGER_SECONDS and b"no login" not in said:
            try:
                said = ask(talking, [b"PING"])
            except OSError:
                break
            time.sleep(0.2)
        assert time.monotonic() < began + 2 * STRANGER_SECONDS
        assert silent.recv(4096).startswith(b"-NOAUTH ") and silent.recv(4096) == b""
        assert ask(known, [b"RESET"]) == b"+RESET\r\n"
        time.sleep(1)
        assert ask(known, [b"AUTH", PASSWORD.encode()]) == b"+OK\r\n"
        assert ask(known, [b"PING"]) == b"+PONG\r\n"


def test_answers_arrive_whole_while_a_node_stops(certificates, tmp_path):
    """Large ones that are read slowly, by both protocols; a client that has none under way is not waited for."""
    (tmp_path / "data").mkdir()
    node = Node(tmp_path / "data", list(settings(certificates))).start()
    client = redis.Redis(port=node.port, ssl=True, ssl_ca_certs=certificates.path("ca.crt"))
    for number in range(6):
        client.set(f"k{number}", b"x" * (4 << 20))
    url, authority = f"https://localhost:{node.http}", certificates.path("ca.crt")
    rest = elasticsearch8.Elasticsearch(url, ca_certs=authority)
    for number in range(6):
        rest.index(index="large", id=str(number), document={"text": "y" * (3 << 20)}, refresh=True)
    curl = ["curl", "-sS", "--http2", "--cacert", authority, "--limit-rate", "4M", "-o", str(tmp_path / "answer")]
    with subprocess.Popen([*curl, f"{url}/large/_search?size=10"]) as slow:
        plain = socket.create_connection(("127.0.0.1", node.port), timeout=30)
        with context_of(certificates).wrap_socket(plain, server_hostname="localhost") as through:
            through.sendall(b"MGET k0 k1 k2 k3 k4 k5\r\n")
            time.sleep(1)
            node.process.send_signal(signal.SIGTERM)
            read = 0
            while data := through.recv(1 << 16):
                read += len(data)
                time.sleep(0.003)
        assert slow.wait(30) == 0
    answer = json.loads((tmp_path / "answer").read_text())
    assert read == 6 * ((4 << 20) + len(f"${4 << 20}\r\n\r\n")) + len("*6\r\n")
    assert [len(hit["_source"]["text"]) for hit in answer["hits"]["hits"]] == [3 << 20] * 6
    assert node.process.wait(30) == 0 and "cut off" not in node.text()


def test_a_certificate_of_another_node_is_not_taken_over(tmp_path):
    certificates = Certificates(tmp_path / "certificates").node("n1", *NAMES)
    given = [f"rpc.tls.certificate_authorities={certificates.path('ca.crt')}", "rpc.tls.mode=required", "node.name=n1"]
    given += [f"rpc.tls.{word}={certificates.path('n1')}.{end}" for word, end in (("certificate", "crt"), ("key", "key"))]
    (tmp_path / "data").mkdir()
    [port] = free_ports(1)
    node = Node(tmp_path / "data", [*given, f"rpc.address=127.0.0.1:{port}"]).start()
    before = ssl.get_server_certificate(("127.0.0.1", port))
    certificates.node("n1", *NAMES, "--cluster", "elsewhere", "--force")

    def is_named():
        with contextlib.suppress(OSError):
            assert ssl.get_server_certificate(("127.0.0.1", port)) == before
        return "is for a node of another cluster" in node.text()

    await_true(node.text, is_named, 20)
    assert node.terminate() == 0


def test_who_speaks_no_tls_is_not_answered(node):
    for port, words in ((node.http, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"), (node.port, b"*1\r\n$4\r\nPING\r\n")):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
            plain.sendall(words)
            answer = plain.recv(4096)
            # An alert of TLS, or nothing.
            assert answer[:1] in (b"\x15", b""), answer
    assert "handshakes failed" in node.text()


def test_handshakes_that_stop_keep_nobody_out(node, certificates):
    context = context_of(certificates)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    half = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        half.do_handshake()
    hello = outgoing.read()
    before = node.resident_bytes()
    sockets = []
    for number in range(1000):
        port = (node.http, node.port)[number % 2]
        sockets.append(socket.create_connection(("127.0.0.1", port)))
        sockets[-1].sendall(hello[: number % len(hello)])
    assert redis_client(node, certificates).ping()
    assert node.resident_bytes() - before < 64 << 20
    deadline = time.monotonic() + 3 * STRANGER_SECONDS
    for it in sockets:
        it.settimeout(max(deadline - time.monotonic(), 0.1))
        # What TLS has to say first, then the end.
        try:
            while it.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        it.close()
    assert redis_client(node, certificates).ping()


def test_strangers_leave_a_node_the_files_that_it_needs(certificates, tmp_path):
    """Half handshakes, more of them than files that the process may have open: each port has its part of these, and
    each address its share of a port. What is acknowledged meanwhile is there."""
    files, held = 1024, []
    node = Node(tmp_path, [*settings(certificates), f"resp.password={PASSWORD}"])
    node.before = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    node.start()
    own = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (own[1], own[1]))

    def strangers(count, source):
        for number in range(count):
            # It may be closed at once.
            with contextlib.suppress(ConnectionError):
                address = ("127.0.0.1", (node.http, node.port)[number % 2])
                held.append(socket.create_connection(address, source_address=(source, 0)))
                held[-1].sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")

    def session():
        it = requests.Session()
        it.trust_env, it.auth, it.verify = False, ("elastic", PASSWORD), f"{certificates.path('ca')}.crt"
        return it

    url, kept, written = f"https://localhost:{node.http}", session(), 0

    def write(by, count=50):
        nonlocal written
        for _ in range(count):
            written += 1
            assert by.put(f"{url}/i/_doc/{written}", json={"n": written}).status_code == 201
        assert len(os.listdir(f"/proc/{node.process.pid}/fd")) < files - 64

    try:
        write(kept)
        assert "resp.max_clients is 256 rather than 10000" in node.text()
        strangers(2 * files, "127.0.0.2")
        write(session())
        assert redis_client(node, certificates).ping()
        assert "from its address have not said who they are" in node.text()
        # From so many addresses that all places are taken: who is in goes on, and strangers give way to who comes.
        for number in range(3, 9):
            strangers(files // 4, f"127.0.0.{number}")
        write(kept)
        for _ in range(5):
            write(session(), 5)
            assert redis_client(node, certificates).ping()
        assert kept.post(f"{url}/i/_refresh").status_code == 200
        assert kept.get(f"{url}/i/_count").json()["count"] == written
    finally:
        for it in held:
            it.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, own)

    def is_let_in():
        with contextlib.suppress(requests.ConnectionError, redis.ConnectionError):
            return session().get(f"{url}/i/_count").json()["count"] == written and redis_client(node, certificates).ping()

    await_true("others get in", is_let_in, STRANGER_SECONDS)
    with pytest.raises(redis.ResponseError, match="try with 256"):
        redis_client(node, certificates).config_set("maxclients", 257)
    assert "Too many open files" not in node.text()
    assert node.terminate() == 0


def test_certificates_are_replaced_under_load(tmp_path):
    first = Certificates(tmp_path / "first").node("node", *NAMES)
    second = Certificates(tmp_path / "second").node("node", *NAMES)
    both = tmp_path / "both.crt"
    both.write_text("".join(pathlib.Path(it.path("ca.crt")).read_text() for it in (first, second)))
    pairs = [[pathlib.Path(it.path(f"node.{end}")).read_text() for end in ("key", "crt")] for it in (first, second)]
    (tmp_path / "data").mkdir()
    node = Node(tmp_path / "data", list(settings(first))).start()
    errors, stop, done = [], threading.Event(), [0, 0]

    def ask(number):
        """The first keeps its connection, the second makes a new one each time."""
        client = None
        while not stop.is_set():
            try:
                if client is None or number == 1:
                    client = redis.Redis(port=node.port, ssl=True, ssl_ca_certs=str(both))
                client.incr("count")
                done[number] += 1
            except redis.RedisError as error:
                errors.append(error)
                return

    def is_shown(certificate):
        # The node's own stands first in its file.
        return certificate.startswith(ssl.get_server_certificate(("127.0.0.1", node.port)).strip())

    threads = [threading.Thread(target=ask, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    assert is_shown(pairs[0][1])
    for key, certificate in (pairs[1], pairs[0], pairs[1]):
        # The key first, as `plimsoll certificates` does: for a moment the two do not belong together.
        pathlib.Path(first.path("node.key")).write_text(key)
        time.sleep(1.5)
        pathlib.Path(first.path("node.crt")).write_text(certificate)
        await_true(lambda: "the certificate is not taken over", lambda: is_shown(certificate), 20)
        seen = list(done)
        await_true(lambda: f"{done} of {seen}", lambda: done[0] > seen[0] and done[1] > seen[1], 20)
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors, errors
    count = redis.Redis(port=node.port, ssl=True, ssl_ca_certs=str(both)).get("count")
    assert int(count) == sum(done)
    assert node.terminate() == 0


def test_a_client_shows_a_certificate_where_it_is_asked_to(certificates, tmp_path):
    authority = certificates.path("ca.crt")
    other = Certificates(tmp_path / "other").client("client")
    (tmp_path / "data").mkdir()
    node = Node(tmp_path / "data", list(settings(certificates, authority=authority))).start()

    def ping(of):
        files = {} if of is None else {"ssl_certfile": of.path("client.crt"), "ssl_keyfile": of.path("client.key")}
        return redis.Redis(port=node.port, ssl=True, ssl_ca_certs=authority, **files).ping()

    assert ping(certificates)
    for stranger in (None, other):
        with pytest.raises(redis.ConnectionError):
            ping(stranger)
    assert node.terminate() == 0


@pytest.mark.parametrize(
    "given, words",
    [
        (["http.tls.enabled=true"], "http.tls.certificate"),
        (["resp.tls.certificate=/nowhere.crt"], "resp.tls.enabled"),
        (
            ["http.tls.enabled=true", "http.tls.certificate=/nowhere.crt", "http.tls.key=/nowhere.key"],
            "/nowhere",
        ),
        (["rpc.tls.mode=required"], "rpc.tls.certificate"),
    ],
)
def test_a_node_without_its_files_does_not_begin(tmp_path, given, words):
    command = [binary(), "serve", "--data", str(tmp_path), "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command += itertools.chain.from_iterable(("--set", it) for it in given)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2 and words in ended.stderr, ended.stderr

"""The port for other clusters: two real nodes over TLS, with certificates as `plimsoll certificates`
makes them. Who may not come in is told so in words, on both sides, and harms nobody; no secret stands
in any log.
"""

import base64
import contextlib
import os
import shutil
import socket
import ssl
import time
from pathlib import Path

import pytest
import tls_scan
from cluster_processes import await_true
from conftest import Node
from ports import free_ports
from remote_clusters import SSL, Certificates, Clusters
from rest import ask, get


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    clusters = Clusters(tmp_path_factory.mktemp("remote"))
    yield clusters
    clusters.demand_well()
    assert [node.terminate() for node in (clusters.leader, clusters.follower)] == [0, 0]


@pytest.fixture
def clusters(shared):
    yield shared
    for name in get(shared.follower, "/_remote/info"):
        shared.forget(name)
    shared.demand_well()


@pytest.fixture
def make_clusters(tmp_path):
    made = []

    def make(**options):
        made.append(Clusters(tmp_path / str(len(made)), **options))
        return made[-1]

    tmp_path.joinpath("0").mkdir()
    yield make
    for clusters in made:
        clusters.close()


def tables(clusters, name):
    return get(clusters.follower, f"/_plimsoll/remote/{name}/tables")["tables"]


def test_a_follower_comes_in_with_a_key_and_sees_its_tables(clusters):
    for index in ("logs-1", "logs-2", "other"):
        assert ask(clusters.leader, "PUT", f"/{index}", {"settings": {"number_of_shards": 2}})[0] == 200
    clusters.leader.client().set("x", "1")
    key, path = clusters.make_key("logs-*", "db?", metadata={"team": "west"})
    clusters.connect("west", credentials_file=str(path))
    info = clusters.await_connected("west")
    assert info == {
        "connected": True,
        "mode": "sniff",
        "seeds": [f"127.0.0.1:{clusters.port}"],
        "num_nodes_connected": 1,
        "max_connections_per_cluster": 3,
        "initial_connect_timeout": "30s",
        "skip_unavailable": False,
        "cluster_credentials": "::es_redacted::",
    }
    found = tables(clusters, "west")
    assert set(found) == {"logs-1", "logs-2", "db0"}
    shown = get(clusters.leader, "/logs-1/_settings")["logs-1"]["settings"]["index"]
    assert found["logs-1"] == {"uuid": shown["uuid"], "number_of_shards": 2, "mapping_version": 1}
    assert found["db0"]["mapping_version"] is None

    [listed] = get(clusters.leader, f"/_security/api_key?id={key['id']}")["api_keys"]
    assert listed["access"] == {"replication": [{"names": ["logs-*", "db?"]}]}
    assert (listed["type"], listed["invalidated"], listed["metadata"]) == ("cross_cluster", False, {"team": "west"})
    assert not any(secret in str(listed) for secret in clusters.secrets)
    settings = get(clusters.follower, "/_cluster/settings?flat_settings=true")["persistent"]
    assert settings["cluster.remote.west.credentials_file"] == str(path)
    assert ask(clusters.follower, "GET", "/_plimsoll/remote/east/tables")[0] == 404


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_sslyze_finds_nothing_old(clusters):
    tls_scan.demand_safe(clusters.port, has_1_2=False)


def test_through_a_proxy(clusters):
    _, path = clusters.make_key("*")
    proxy = f"localhost:{clusters.port}"
    options = {"seeds": None, "mode": "proxy", "proxy_address": proxy, "proxy_socket_connections": 2}
    clusters.connect("west", credentials_file=str(path), server_name="127.0.0.1", **options)
    clusters.await_connected("west")
    await_true("two connections", lambda: clusters.info("west")["num_proxy_sockets_connected"] == 2, 30)
    info = clusters.info("west")
    assert (info["mode"], info["proxy_address"], info["server_name"]) == ("proxy", proxy, "127.0.0.1")
    assert info["max_proxy_socket_connections"] == 2


def test_who_may_not_come_in_is_told_why(clusters, tmp_path):
    key, path = clusters.make_key("*")
    other = Certificates(tmp_path / "other").node("leader")
    made_up = tmp_path / "made-up"
    made_up.write_text(base64.b64encode(f"{key['id']}:{'x' * 43}".encode()).decode())
    nobody = tmp_path / "nobody"
    nobody.write_text(base64.b64encode(b"nobody:x").decode())
    no_key = tmp_path / "no-key"
    no_key.write_text(key["api_key"])
    good = {"credentials_file": str(path)}
    for name, options, words in [
        ("wrong-ca", {**good, "certificate_authorities": other.path("ca.crt")}, "signed by none of the authorities"),
        ("wrong-name", {**good, "server_name": "leader.example"}, "not for `leader.example`"),
        ("no-ca", {**good, "certificate_authorities": None}, "certificate_authorities is not set"),
        ("lost-ca", {**good, "certificate_authorities": "/nonexistent.crt"}, "/nonexistent.crt: No such file"),
        ("no-key", {}, "a key is wanted"),
        ("lost-key", {"credentials_file": "/nonexistent"}, "/nonexistent: No such file"),
        ("half-key", {"credentials_file": str(no_key)}, "holds no key"),
        ("wrong-key", {"credentials_file": str(made_up)}, "not known here, or its secret is another"),
        ("nobody", {"credentials_file": str(nobody)}, "not known here, or its secret is another"),
        ("nowhere", {**good, "seeds": ["127.0.0.1:1"]}, "refused"),
        ("no-tls", {**good, "seeds": [f"127.0.0.1:{clusters.leader.http}"]}, "does not speak TLS"),
    ]:
        clusters.connect(name, **options)
        clusters.await_refused(name, words)
        status, answer = ask(clusters.follower, "GET", f"/_plimsoll/remote/{name}/tables")
        assert status == 503 and words in answer["error"]["reason"], answer
    clusters.connect("good", **good)
    clusters.await_connected("good")


def test_a_key_ends_on_connections_that_are_open(clusters):
    key, path = clusters.make_key("*")
    clusters.connect("west", credentials_file=str(path))
    clusters.await_connected("west")
    ids = {"ids": [key["id"], "none"]}
    status, answer = ask(clusters.leader, "DELETE", "/_security/api_key", ids)
    assert (status, answer) == (
        200,
        {"invalidated_api_keys": [key["id"]], "previously_invalidated_api_keys": [], "error_count": 0},
    )
    status, answer = ask(clusters.follower, "GET", "/_plimsoll/remote/west/tables")
    assert status == 503 and f"`{key['id']}` was invalidated" in answer["error"]["reason"], answer
    clusters.await_refused("west", "was invalidated")
    _, answer = ask(clusters.leader, "DELETE", "/_security/api_key", {"ids": [key["id"]]})
    assert answer["previously_invalidated_api_keys"] == [key["id"]]
    active = get(clusters.leader, "/_security/api_key?active_only=true")["api_keys"]
    assert key["id"] not in [it["id"] for it in active]
    # Another key in the same file is taken up without a word.
    _, other = clusters.make_key("*")
    os.replace(other, path)
    clusters.await_connected("west")
    # One that lasts for seconds.
    _, short = clusters.make_key("*", expiration="3s")
    clusters.connect("short", credentials_file=str(short))
    clusters.await_connected("short")
    clusters.await_refused("short", "has expired")


def test_keys_that_make_no_sense_are_refused(clusters):
    open_access = {"replication": [{"names": ["*"]}]}
    for body, words in [
        ({"name": "x", "access": {"search": [{"names": ["*"]}]}}, "[access.search] is not supported"),
        ({"name": "x", "access": {"replication": [{"names": ["/a.*/"]}]}}, "regular expressions"),
        ({"name": "x"}, "Required [access]"),
        ({"access": open_access}, "api key name is required"),
        ({"name": "x", "access": open_access, "bogus": 1}, "unknown field [bogus]"),
    ]:
        status, answer = ask(clusters.leader, "POST", "/_security/cross_cluster/api_key", body)
        assert status == 400 and words in answer["error"]["reason"], answer
    # A follower's key is nobody's own.
    assert ask(clusters.leader, "GET", "/_security/api_key?owner=true") == (200, {"api_keys": []})
    assert ask(clusters.leader, "GET", "/_security/api_key?id=nobody") == (404, {"api_keys": []})
    assert ask(clusters.leader, "DELETE", "/_security/api_key", {})[0] == 400


def test_settings_of_remote_clusters_are_checked(clusters):
    for settings, words in [
        ({"cluster.remote.x.seed": "a:1"}, "cluster.remote.x.seed], not recognized"),
        ({"cluster.remote.x.seeds": "a"}, "is no address"),
        ({"cluster.remote.x.mode": "other"}, "none of sniff, proxy"),
        ({"cluster.remote.x.credentials_file": "key"}, "does not begin with"),
        ({"cluster.remote.x.proxy_address": "a:1"}, "cannot be used with the setting"),
        ({"cluster.remote.x.certificate": "/a.crt"}, "belong together"),
        ({"cluster.remote.x y.seeds": "a:1"}, "not recognized"),
    ]:
        for kind in ("persistent", "transient"):
            status, answer = ask(clusters.follower, "PUT", "/_cluster/settings", {kind: settings})
            assert status == 400 and words in answer["error"]["reason"], answer
    assert get(clusters.follower, "/_remote/info") == {}


def certificate_shown(port):
    return ssl.get_server_certificate(("127.0.0.1", port))


def test_certificates_are_replaced_while_the_node_runs(make_clusters, tmp_path):
    clusters = make_clusters()
    _, path = clusters.make_key("*")
    clusters.connect("old", credentials_file=str(path))
    clusters.await_connected("old")
    shown = certificate_shown(clusters.port)
    other = Certificates(tmp_path / "other").node("leader")
    clusters.connect("new", credentials_file=str(path), certificate_authorities=other.path("ca.crt"))
    clusters.await_refused("new", "signed by none of the authorities")
    # The certificate alone: it does not fit the key, so the old pair holds on.
    shutil.copy(other.path("leader.crt"), clusters.certificates.path("leader.crt"))
    time.sleep(1.5)
    assert certificate_shown(clusters.port) == shown
    clusters.await_connected("old")
    shutil.copy(other.path("leader.key"), clusters.certificates.path("leader.key"))
    clusters.await_connected("new")
    assert certificate_shown(clusters.port) != shown
    assert clusters.info("old")["connected"], "a connection that is open stays"
    clusters.demand_well()
    text = "".join(clusters.leader.output)
    assert "the key does not belong to the certificate" in text and "were taken over" in text


def test_a_leader_that_wants_certificates_of_followers(make_clusters, tmp_path):
    authority = Certificates(tmp_path / "followers").client("follower")
    other = Certificates(tmp_path / "others").client("follower")
    clusters = make_clusters(leader_settings=[f"{SSL}certificate_authorities={authority.path('ca.crt')}"])
    _, path = clusters.make_key("*")

    def shown(certificates):
        return {end: certificates.path(f"follower.{it}") for end, it in (("certificate", "crt"), ("key", "key"))}

    clusters.connect("none", credentials_file=str(path))
    clusters.await_refused("none", "it shows none")
    clusters.connect("other", credentials_file=str(path), **shown(other))
    clusters.await_refused("other", "does not take the certificate")
    clusters.connect("good", credentials_file=str(path), **shown(authority))
    clusters.await_connected("good")
    clusters.demand_well()


def test_a_leader_that_is_away_is_waited_for(make_clusters):
    clusters = make_clusters()
    _, path = clusters.make_key("*")
    clusters.connect("west", credentials_file=str(path))
    clusters.await_connected("west")
    clusters.leader.kill()
    clusters.await_refused("west", f"127.0.0.1:{clusters.port}")
    clusters.follower.kill()
    clusters.follower.start()
    assert not clusters.info("west")["connected"]
    clusters.leader.start()
    clusters.await_connected("west")
    clusters.demand_well()


def test_without_a_certificate_the_port_is_not_opened(new_node, tmp_path):
    certificates = Certificates(tmp_path / "certificates").node("a").node("b")
    [port] = free_ports(1)
    crossed = certificates.settings("a", port)
    crossed[-1] = f"{SSL}key={certificates.path('b.key')}"
    for settings, words in [
        (["remote_cluster_server.enabled=true"], "wants xpack.security.remote_cluster_server.ssl.certificate"),
        (certificates.settings("none", port), "none.crt: No such file"),
        (crossed, "a.crt: the key does not belong to the certificate"),
    ]:
        node = new_node(settings=settings).spawn()
        assert node.exit_code() == 2 and words in node.text(), node.text()
    # Not loopback, and no word more is needed.
    node = new_node(settings=[*certificates.settings("a", port), "remote_cluster.host=0.0.0.0"]).start()
    assert f"remote=0.0.0.0:{port}" in node.text()
    assert node.terminate() == 0


def test_a_key_opens_nothing_else(make_clusters):
    clusters = make_clusters(leader_settings=["resp.password=word"])
    request = base64.b64encode(b"elastic:word").decode()
    body = '{"name":"x","access":{"replication":[{"names":["*"]}]}}'
    head = f"POST /_security/cross_cluster/api_key HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    head += "content-type: application/json\r\nconnection: close\r\n"

    def post(*headers):
        with socket.create_connection(("127.0.0.1", clusters.leader.http)) as connection:
            connection.sendall((head + "".join(f"{it}\r\n" for it in headers) + "\r\n" + body).encode())
            return b"".join(iter(lambda: connection.recv(4096), b"")).decode()

    assert post().startswith("HTTP/1.1 401")
    made = post(f"authorization: Basic {request}")
    assert made.startswith("HTTP/1.1 200"), made
    encoded = made.split('"encoded":"')[1].split('"')[0]
    assert post(f"authorization: ApiKey {encoded}").startswith("HTTP/1.1 401")


def receive_all(connection, seconds):
    """What comes until the other side ends the connection, which it has to."""
    connection.settimeout(seconds)
    received = b""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := connection.recv(4096):
            received += data
    return received


def test_noise_on_the_port_harms_nobody(clusters):
    _, path = clusters.make_key("*")
    clusters.connect("west", credentials_file=str(path))
    clusters.await_connected("west")
    address = ("127.0.0.1", clusters.port)
    context = ssl.create_default_context(cafile=clusters.certificates.path("ca.crt"))
    for noise in (
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"\x16\x03\x01\xff\xff" + os.urandom(70_000),
        os.urandom(100_000),
    ):
        with socket.create_connection(address) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(noise)
            receive_all(connection, 15)
        with socket.create_connection(address) as plain:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                assert connection.version() == "TLSv1.3"
                with contextlib.suppress(OSError):
                    connection.sendall(noise)
                receive_all(connection, 15)
    old = ssl.create_default_context(cafile=clusters.certificates.path("ca.crt"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(address) as plain, pytest.raises(ssl.SSLError):
        old.wrap_socket(plain, server_hostname="127.0.0.1")
    assert clusters.info("west")["connected"]
    tables(clusters, "west")
    assert "refused: a connection or question of other clusters" in "".join(clusters.leader.output)


def stranger_to(port, number):
    """A connection from one of several addresses: each has room for 16 strangers."""
    return socket.create_connection(("127.0.0.1", port), source_address=(f"127.0.0.{2 + number // 16}", 0))


def test_strangers_are_few_and_do_not_stay(clusters):
    _, path = clusters.make_key("*")
    clusters.connect("west", credentials_file=str(path))
    clusters.await_connected("west")
    context = ssl.create_default_context(cafile=clusters.certificates.path("ca.crt"))
    with contextlib.ExitStack() as stack:
        connect = lambda number: stack.enter_context(stranger_to(clusters.port, number))
        silent = [connect(number) for number in range(40)]
        shaken = [context.wrap_socket(connect(number), server_hostname="127.0.0.1") for number in range(40, 60)]
        [stack.enter_context(connection) for connection in shaken]
        many = [connect(number) for number in range(60)]
        # Who was let in before is served meanwhile.
        tables(clusters, "west")
        for connection in [*many, *silent, *shaken]:
            receive_all(connection, 60)
    tables(clusters, "west")


def test_strangers_that_read_nothing_do_not_stay(clusters):
    """They fill what the node may send, with answers to pings: it never comes to read of them again."""
    _, path = clusters.make_key("*")
    context = ssl.create_default_context(cafile=clusters.certificates.path("ca.crt"))
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    pings = b"\0\0\10\6\0\0\0\0\0strangers" [:17] * 1000

    def fill(stranger):
        with contextlib.suppress(OSError):
            # Many at a time: a socket may take megabytes before it is full.
            for _ in range(50):
                stranger.send(pings)

    def held(strangers):
        """Those that the node holds open. A stranger may not hear of its end for long: the window that
        it left full makes the systems ask less and less often."""
        ports = {stranger.getsockname()[1] for stranger in strangers}
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        fields = [line.split() for line in lines]
        ends = [(int(it[1][-4:], 16), int(it[2][-4:], 16)) for it in fields if it[9] != "0"]
        return [theirs for ours, theirs in ends if ours == clusters.port and theirs in ports]

    with contextlib.ExitStack() as stack:
        strangers = []
        for number in range(64):
            plain = stack.enter_context(stranger_to(clusters.port, number))
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stranger = stack.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
            stranger.sendall(preface)
            stranger.setblocking(False)
            assert held([stranger])
            strangers.append(stranger)

        def are_gone():
            for stranger in strangers:
                fill(stranger)
            return not held(strangers)

        await_true(lambda: held(strangers), are_gone, 60)
    clusters.connect("west", credentials_file=str(path))
    clusters.await_connected("west")
    tables(clusters, "west")


def test_the_nodes_of_a_leader_are_found(tmp_path):
    """Two nodes on one log: the seed names the other, and both are connected to. Through a proxy, the
    one that is reached hands on what is meant for the other."""
    certificates = Certificates(tmp_path / "certificates").node("a").node("b")
    share, rpc_a, rpc_b, port_a, port_b = free_ports(5)
    nodes = []

    class Member(Node):
        def command(self):
            return super().command() + self.more

    def start(name, settings, more):
        (tmp_path / name).mkdir()
        node = Member(tmp_path / name, [f"node.name={name}", *settings])
        node.more = more
        nodes.append(node)
        return node.start()

    try:
        shared_log = [*certificates.settings("a", port_a), f"log.share=127.0.0.1:{share}"]
        leader = start("a", shared_log, ["--rpc", f"127.0.0.1:{rpc_a}"])
        more = ["--rpc", f"127.0.0.1:{rpc_b}", "--log", f"plimsoll://127.0.0.1:{share}"]
        start("b", certificates.settings("b", port_b), more)
        follower = start("follower", [], [])
        body = {"name": "x", "access": {"replication": [{"names": ["*"]}]}}
        status, key = ask(leader, "POST", "/_security/cross_cluster/api_key", body)
        assert status == 200, key
        path = tmp_path / "key"
        path.write_text(key["encoded"])
        settings = {
            "cluster.remote.west.seeds": f"127.0.0.1:1,127.0.0.1:{port_b}",
            "cluster.remote.west.certificate_authorities": certificates.path("ca.crt"),
            "cluster.remote.west.credentials_file": str(path),
        }
        assert ask(follower, "PUT", "/_cluster/settings", {"persistent": settings})[0] == 200

        def info():
            return get(follower, "/_remote/info")["west"]

        await_true(info, lambda: info()["num_nodes_connected"] == 2, 60)

        def found():
            nodes = get(follower, "/_plimsoll/remote/west/nodes")["nodes"].values()
            return sorted((it["name"], it["remote_address"], it["answers"]) for it in nodes)

        # Whoever is asked may not have heard of the other yet.
        both = [("a", f"127.0.0.1:{port_a}", True), ("b", f"127.0.0.1:{port_b}", True)]
        await_true(found, lambda: found() == both, 30)
        proxied = {
            "cluster.remote.proxied.mode": "proxy",
            "cluster.remote.proxied.proxy_address": f"127.0.0.1:{port_b}",
            "cluster.remote.proxied.proxy_socket_connections": 1,
            "cluster.remote.proxied.certificate_authorities": certificates.path("ca.crt"),
            "cluster.remote.proxied.credentials_file": str(path),
        }
        assert ask(follower, "PUT", "/_cluster/settings", {"persistent": proxied})[0] == 200
        await_true(info, lambda: get(follower, "/_remote/info")["proxied"]["connected"], 30)
        proxied = get(follower, "/_plimsoll/remote/proxied/nodes")["nodes"].values()
        assert sorted((it["name"], it["answers"]) for it in proxied) == [("a", True), ("b", True)], proxied
        # A key that one node takes back opens nothing at the other.
        assert ask(nodes[1], "DELETE", "/_security/api_key", {"name": "x"})[0] == 200
        await_true(info, lambda: "was invalidated" in info().get("error", ""), 30)
    finally:
        for node in nodes:
            node.kill()

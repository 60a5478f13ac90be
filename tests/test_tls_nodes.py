"""TLS between nodes: three on three log servers, certificates of another cluster or authority, strangers, and a
running cluster that goes over to TLS node by node.
"""

import socket
import subprocess
import threading

import pytest
import redis
import tls_scan
from cluster_harness import Cluster
from cluster_processes import await_true
from conftest import Node
from remote_clusters import Certificates
from rest import ask, get

NAME = "Kattegat"


@pytest.fixture
def make_cluster(tmp_path):
    made = []

    def make(mode):
        certificates = Certificates(tmp_path / "certificates")
        cluster = Cluster(tmp_path / "cluster", settings=[f"cluster.name={NAME}"])
        for node in cluster.nodes:
            certificates.node(node.name, "--ip", "127.0.0.1", "--cluster", NAME)
            set_mode(node, certificates, mode)
        made.append(cluster)
        return cluster, certificates

    yield make
    for cluster in made:
        cluster.close()


def set_mode(node, certificates, mode, name=None):
    node.settings = [it for it in node.settings if not it.startswith("rpc.tls.")]
    if mode != "off":
        node.settings += [
            f"rpc.tls.mode={mode}",
            f"rpc.tls.certificate={certificates.path(name or node.name)}.crt",
            f"rpc.tls.key={certificates.path(name or node.name)}.key",
            f"rpc.tls.certificate_authorities={certificates.path('ca.crt')}",
        ]


def write_everywhere(cluster, index="ships"):
    """A row and a document through each node, and both read through each."""
    for number, node in enumerate(cluster.nodes):
        assert node.client().set(f"{index}-{number}", number)
        path = f"/{index}/_doc/{number}?refresh=true"
        assert ask(node, "PUT", path, {"n": number})[0] == 201
    for node in cluster.nodes:
        for number in range(len(cluster.nodes)):
            assert node.client().get(f"{index}-{number}") == str(number).encode()
        found = get(node, f"/{index}/_search", {"query": {"match_all": {}}})
        assert found["hits"]["total"]["value"] == len(cluster.nodes)
        assert found["_shards"]["failed"] == 0


def test_three_nodes_and_who_is_none_of_them(make_cluster, tmp_path):
    cluster, certificates = make_cluster("required")
    cluster.start()
    write_everywhere(cluster)

    # Whoever has no certificate learns nothing, not the cluster's name.
    node = cluster.nodes[0]
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{node.rpc}", "-showcerts"]
    asked = subprocess.run(command, input="", capture_output=True, text=True, timeout=30)
    shown = subprocess.run(["openssl", "x509", "-text"], input=asked.stdout, capture_output=True, text=True)
    said = asked.stdout + asked.stderr + shown.stdout
    assert "urn:plimsoll:node:" in said and NAME not in said, said
    with socket.create_connection(("127.0.0.1", node.rpc), timeout=30) as plain:
        plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert plain.recv(4096)[:1] in (b"\x15", b"")
    old = subprocess.run([*command, "-tls1_2"], input="", capture_output=True, text=True, timeout=30)
    assert old.returncode != 0 and "protocol version" in old.stderr, old.stderr

    tls_scan.demand_safe(node.rpc, has_1_2=False, asks_for_certificate=True)

    # A client's certificate of the same authority, one of another cluster's node and one of another authority's
    # are no node's here.
    certificates.client("client").node("other", "--ip", "127.0.0.1", "--cluster", "Skagerrak")
    foreign = Certificates(tmp_path / "foreign").node("foreign", "--ip", "127.0.0.1", "--cluster", NAME)
    for of, name in ((certificates, "client"), (certificates, "other"), (foreign, "foreign")):
        words = ["-cert", f"{of.path(name)}.crt", "-key", f"{of.path(name)}.key"]
        with subprocess.Popen([*command, *words, "-quiet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as asking:
            said = asking.stderr.read() + asking.stdout.read()
        assert "alert" in said, f"{name}: {said}"
    cluster.await_green()


def test_a_node_with_another_certificate_does_not_begin(make_cluster, tmp_path):
    cluster, certificates = make_cluster("required")
    certificates.node("other", "--ip", "127.0.0.1", "--cluster", NAME)
    node = cluster.nodes[0]
    set_mode(node, certificates, "required", "other")
    (tmp_path / "alone").mkdir()
    lone = Node(tmp_path / "alone", [*node.settings, f"node.name={node.name}", "rpc.address=127.0.0.1:0"]).spawn()
    assert lone.exit_code() == 2
    assert "is for the node `other`" in lone.text()


def test_a_running_cluster_goes_over_to_tls(make_cluster):
    cluster, certificates = make_cluster("off")
    cluster.start()
    write_everywhere(cluster, "first")
    lost, stop, written = [], threading.Event(), [0]

    def count():
        """Increments through whichever node answers; what is not answered may have happened."""
        unknown = 0
        while not stop.is_set():
            node = cluster.nodes[written[0] % len(cluster.nodes)]
            try:
                node.client(socket_timeout=20).incr("count")
                written[0] += 1
            except redis.RedisError:
                unknown += 1
                stop.wait(0.05)
        lost.append(unknown)

    thread = threading.Thread(target=count)
    thread.start()
    for mode in ("optional", "required"):
        for node in cluster.nodes:
            assert node.terminate(60) == 0
            set_mode(node, certificates, mode)
            cluster.restart(node)
            cluster.await_green()
    before = written[0]
    await_true(lambda: f"{written[0]} of {before}", lambda: written[0] > before + 10, 30)
    stop.set()
    thread.join()
    found = int(cluster.nodes[0].client().get("count"))
    assert written[0] <= found <= written[0] + lost[0]
    write_everywhere(cluster, "second")
    cluster.await_equal_copies()

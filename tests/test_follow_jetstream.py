"""Two clusters of several nodes, each on log servers of its own, while processes of both die and the ways
between them go bad. In the end the follower has what its leader has: digests of the contents, rows, searches;
nothing acknowledged is lost, and nothing was copied anew.

`make test` has the short form; PLIMSOLL_SOAK=1 has a long one. Both draw from PLIMSOLL_SEED.
"""

import contextlib
import os
import random
import time

import pytest
from cluster_harness import Cluster
from cluster_processes import Network, await_true
from document_workload import Http
from ports import free_ports
from remote_clusters import CONNECT_SECONDS, Certificates
from rest import get, try_ask
from test_follow import copies_of, digests

SOAK = os.environ.get("PLIMSOLL_SOAK") == "1"
SEED = int(os.environ.get("PLIMSOLL_SEED", "5"))
VERSIONS = ["current", "oldest"] if SOAK else ["current"]
NODES, FAULTS = (3, 12) if SOAK else (2, 3)
WRITERS = 2
SECONDS = 120
INDEX = "logs"


class Leader(Cluster):
    """A cluster each of whose nodes has a port for followers."""

    def __init__(self, folder, certificates, **more):
        self.certificates, self.ports = certificates, {}
        super().__init__(folder, settings=["cluster.name=leader"], **more)

    def make_node(self, name, settings):
        [self.ports[name]] = free_ports(1)
        self.certificates.node(name)
        return super().make_node(name, [*settings, *self.certificates.settings(name, self.ports[name])])


class Pair:
    """A leader and a follower on log servers of their own, all bytes between which pass proxies."""

    def __init__(self, folder, version):
        self.certificates = Certificates(folder / "certificates")
        self.leader = Leader(folder / "leader", self.certificates, nodes=NODES, version=version)
        settings = ["cluster.name=follower"]
        self.follower = Cluster(folder / "follower", NODES, version, settings)
        self.between = Network()
        self.folder = folder

    def start(self):
        for cluster in (self.leader, self.follower):
            cluster.start()
        ways = [self.between.make_way("follower", name, port) for name, port in self.leader.ports.items()]
        body = {"name": "x", "access": {"replication": [{"names": ["*"]}]}}
        status, key = try_ask(self.leader.nodes[0], "POST", "/_security/cross_cluster/api_key", body)
        assert status == 200, key
        (self.folder / "key").write_text(key["encoded"])
        settings = {
            "cluster.remote.west.seeds": [f"127.0.0.1:{way}" for way in ways],
            "cluster.remote.west.certificate_authorities": self.certificates.path("ca.crt"),
            "cluster.remote.west.credentials_file": str(self.folder / "key"),
        }
        assert try_ask(self.follower.nodes[0], "PUT", "/_cluster/settings", {"persistent": settings})[0] == 200
        for node in self.follower.nodes:
            await_true("connected", lambda: get(node, "/_remote/info")["west"]["connected"], CONNECT_SECONDS)
        return self

    def follow(self):
        body = {"remote_cluster": "west", "leader_index": INDEX, "settings": {"number_of_replicas": 1}}
        status, answer = try_ask(self.follower.nodes[0], "PUT", f"/{INDEX}/_ccr/follow", body)
        assert status == 200, answer

    def clusters(self):
        return self.leader, self.follower

    def heal(self):
        self.between.heal()
        for cluster in self.clusters():
            cluster.heal()

    def is_level(self):
        """All copies of both are there, and have one content."""
        try:
            theirs, ours = (digests(cluster.nodes, INDEX) for cluster in self.clusters())
            copies = [copies_of(cluster.nodes[0], INDEX).values() for cluster in self.clusters()]
        except (AssertionError, OSError):
            return False
        are_whole = all(len(of) == 2 and all(error is None for _, error in of) for it in copies for of in it)
        return are_whole and theirs == ours and all(len(it) == 1 for it in theirs.values())

    def told(self):
        return try_ask(self.follower.nodes[0], "GET", f"/{INDEX}/_ccr/stats"), [
            try_ask(cluster.nodes[0], "GET", f"/_plimsoll/digest?index={INDEX}") for cluster in self.clusters()
        ]

    def close(self):
        for cluster in self.clusters():
            cluster.close()
        self.between.close()


def kill_node(pair, cluster, chance):
    node = chance.choice(cluster.nodes)
    node.kill()
    time.sleep(chance.uniform(0, 2))
    cluster.restart(node)


def freeze_node(_, cluster, chance):
    node = chance.choice(cluster.nodes)
    node.freeze()
    time.sleep(chance.uniform(0, 4))
    node.thaw()


def kill_log_server(_, cluster, chance):
    server = chance.choice(cluster.logs.all)
    server.kill()
    time.sleep(chance.uniform(0, 4))
    server.start()
    cluster.logs.await_well()


def kill_all_nodes(_, cluster, chance):
    nodes = list(cluster.nodes)
    chance.shuffle(nodes)
    for node in nodes:
        node.kill()
    for node in nodes:
        node.spawn()
    for node in nodes:
        cluster.await_ready(node)


def cut(pair, _, chance):
    for origin, target in list(pair.between.ways):
        pair.between.change(origin, target, chance.choice(("cut", "frozen")))
    time.sleep(chance.uniform(0, 20 if SOAK else 2))
    pair.between.heal()


ALL = (kill_node, freeze_node, kill_log_server, kill_all_nodes, cut)


@contextlib.contextmanager
def explained(pair, faults):
    """Adds to a failure what happened before, and what the processes said."""
    try:
        yield
    except BaseException as error:
        texts = "\n".join(text for cluster in pair.clusters() for text in cluster.texts())
        raise AssertionError(f"{texts}\nafter {faults}, seed {SEED}: {error}") from error


@pytest.mark.parametrize("version", VERSIONS)
def test_both_lose_processes_and_the_way_between(tmp_path, version, note):
    pair, chance, faults = Pair(tmp_path, version), random.Random(SEED), []
    try:
        with explained(pair, faults):
            pair.start()
            documents = pair.leader.documents(WRITERS, SEED, INDEX).start()
            pair.follow()
            for turn in range(FAULTS):
                # The first one while files are copied.
                time.sleep(chance.uniform(0, 1))
                cluster, fault = pair.clusters()[turn % 2], chance.choice(ALL)
                faults.append((fault.__name__, "leader" if cluster is pair.leader else "follower"))
                fault(pair, cluster, chance)
            pair.heal()
            documents.stop()
            await_true(pair.told, pair.is_level, SECONDS)
            for node in pair.follower.nodes:
                assert try_ask(node, "POST", f"/{INDEX}/_refresh")[0] == 200
                for writer in documents.writers:
                    writer.check(Http(node.http), f"follower {node.name}")
            output = "".join("".join(node.output) for cluster in pair.clusters() for node in cluster.nodes)
            assert "panicked" not in output
            assert "levelling by difference" not in output
            acknowledged = sum(writer.acknowledged for writer in documents.writers)
            note(f"{acknowledged} changes of documents followed on {version} log servers through {faults}")
    finally:
        pair.close()

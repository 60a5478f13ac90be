"""Two clusters that may reach each other over TLS, with certificates as `plimsoll certificates` makes
them.
"""

import base64
import random
import socket
import subprocess
import threading
import time

from cluster_processes import Network, await_true
from conftest import Node, binary
from ports import free_ports
from rest import ask, get

SSL = "xpack.security.remote_cluster_server.ssl."
CONNECT_SECONDS = 30


class Certificates:
    """A folder with an authority, and what it signs."""

    def __init__(self, folder):
        self.folder = folder
        self.make("ca")

    def make(self, kind, *words):
        command = [binary(), "certificates", kind, "--out", self.folder, *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def node(self, name, *words):
        names = words or ("--ip", "127.0.0.1")
        self.make("node", "--ca", self.folder, "--name", name, *names)
        return self

    def client(self, name):
        self.make("client", "--ca", self.folder, "--name", name)
        return self

    def path(self, name):
        return str(self.folder / name)

    def settings(self, name, port):
        """What a leader's node is started with."""
        return [
            "remote_cluster_server.enabled=true",
            f"remote_cluster.port={port}",
            f"{SSL}certificate={self.path(name)}.crt",
            f"{SSL}key={self.path(name)}.key",
        ]


class Clusters:
    """A leader and a follower."""

    def __init__(self, folder, leader_settings=()):
        self.folder = folder
        self.certificates = Certificates(folder / "certificates").node("leader")
        [self.port] = free_ports(1)
        settings = self.certificates.settings("leader", self.port)
        self.leader = self.node("leader", [*settings, *leader_settings])
        self.follower = self.node("follower", [])
        self.secrets = []

    def node(self, name, settings):
        (self.folder / name).mkdir(exist_ok=True)
        return Node(self.folder / name, [f"node.name={name}", f"cluster.name={name}", *settings]).start()

    def make_key(self, *names, **more):
        """A key of the leader's, and the file that holds it."""
        body = {"name": "follower", "access": {"replication": [{"names": list(names)}]}, **more}
        status, key = ask(self.leader, "POST", "/_security/cross_cluster/api_key", body)
        assert status == 200, key
        assert base64.b64decode(key["encoded"]).decode() == f"{key['id']}:{key['api_key']}"
        path = self.folder / f"{key['id']}.key"
        path.write_text(key["encoded"] + "\n")
        self.secrets += [key["api_key"], key["encoded"]]
        return key, path

    def connect(self, name, **options):
        """Sets a remote cluster of the follower's; options that are None are left out."""
        defaults = {
            "seeds": [f"127.0.0.1:{self.port}"],
            "certificate_authorities": self.certificates.path("ca.crt"),
        }
        options = {key: value for key, value in {**defaults, **options}.items() if value is not None}
        settings = {f"cluster.remote.{name}.{key}": value for key, value in options.items()}
        status, answer = ask(self.follower, "PUT", "/_cluster/settings", {"persistent": settings})
        assert status == 200, answer

    def forget(self, name):
        change = {"persistent": {f"cluster.remote.{name}.*": None}}
        assert ask(self.follower, "PUT", "/_cluster/settings", change)[0] == 200
        assert name not in get(self.follower, "/_remote/info")

    def info(self, name):
        return get(self.follower, "/_remote/info")[name]

    def await_connected(self, name):
        await_true(lambda: self.info(name), lambda: self.info(name)["connected"], CONNECT_SECONDS)
        return self.info(name)

    def await_refused(self, name, words):
        """Waits for the words that say why, which must not come from the time before."""

        def is_refused():
            info = self.info(name)
            return not info["connected"] and words in info.get("error", "")

        await_true(lambda: self.info(name), is_refused, CONNECT_SECONDS)

    def demand_well(self):
        """Both live, and nobody has said a secret."""
        for node in (self.leader, self.follower):
            assert ask(node, "GET", "/")[0] == 200
            assert node.process.poll() is None
            text = "".join(node.output)
            assert not any(secret in text for secret in self.secrets)
            assert "PRIVATE KEY" not in text and "panicked" not in text, text

    def close(self):
        for node in (self.leader, self.follower):
            if node.process.poll() is None:
                node.kill()


class Member(Node):
    """One of several nodes on one log, which the first of them holds."""

    def __init__(self, folder, name, settings, more):
        folder.mkdir(parents=True)
        super().__init__(folder, [f"node.name={name}", *settings])
        self.more = more

    def command(self):
        return super().command() + self.more


def members(folder, names, settings_of):
    """Nodes of one cluster, started; `settings_of` gives what each has beside its name."""
    share, *rpc = free_ports(1 + len(names))
    nodes = []
    for name, port in zip(names, rpc):
        more = ["--rpc", f"127.0.0.1:{port}"]
        settings = list(settings_of(name))
        if nodes:
            more += ["--log", f"plimsoll://127.0.0.1:{share}"]
        else:
            settings.append(f"log.share=127.0.0.1:{share}")
        nodes.append(Member(folder / name, name, settings, more).start())
    return nodes


class ManyClusters:
    """A leader of two nodes and a follower of three, connected as `west`."""

    def __init__(self, folder):
        self.certificates = Certificates(folder / "certificates")
        names = ("lead-a", "lead-b")
        for name in names:
            self.certificates.node(name)
        self.ports = dict(zip(names, free_ports(2)))
        self.leaders, self.followers = [], []
        self.leaders = members(folder, names, lambda it: self.certificates.settings(it, self.ports[it]))
        self.followers = members(folder, ("follow-a", "follow-b", "follow-c"), lambda _: [])
        body = {"name": "x", "access": {"replication": [{"names": ["*"]}]}}
        status, key = ask(self.leaders[0], "POST", "/_security/cross_cluster/api_key", body)
        assert status == 200, key
        path = folder / "key"
        path.write_text(key["encoded"])
        settings = {
            "cluster.remote.west.seeds": [f"127.0.0.1:{port}" for port in self.ports.values()],
            "cluster.remote.west.certificate_authorities": self.certificates.path("ca.crt"),
            "cluster.remote.west.credentials_file": str(path),
        }
        assert ask(self.followers[0], "PUT", "/_cluster/settings", {"persistent": settings})[0] == 200
        for node in self.followers:

            def info():
                return get(node, "/_remote/info")["west"]

            await_true(info, lambda: info()["num_nodes_connected"] == 2, CONNECT_SECONDS)

    def all(self):
        return self.leaders + self.followers

    def close(self):
        for node in self.all():
            node.kill()


class Way:
    """The way to a leader's port through a proxy, which can go bad."""

    def __init__(self, port):
        self.network = Network()
        self.port = self.network.make_way("follower", "leader", port)

    def settings(self):
        """What the remote cluster is set to, so that all bytes pass here."""
        address = f"127.0.0.1:{self.port}"
        return {"seeds": None, "mode": "proxy", "proxy_address": address, "server_name": "127.0.0.1"}

    def change(self, mode="open", **more):
        self.network.change("follower", "leader", mode, **more)

    def close(self):
        self.network.close()


def proxied(port):
    return Way(port)


class Tampering:
    """A way to a leader's port that flips one bit of what comes from there, where it is told to, and counts
    the bytes that pass both ways."""

    def __init__(self, port):
        self.target = port
        self.lock = threading.Lock()
        self.left = None
        self.carried, self.ends = 0, []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    settings = Way.settings

    def flip(self, after_bytes):
        """Has a bit flipped once so many more bytes came from the leader."""
        with self.lock:
            self.left = after_bytes

    def has_flipped(self):
        return self.left is None

    def accept(self):
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            with self.lock:
                self.ends += [near, far]
            for pair in ((near, far, False), (far, near, True)):
                threading.Thread(target=self.pump, args=pair, daemon=True).start()

    def pump(self, origin, target, flips):
        try:
            while chunk := origin.recv(1 << 16):
                with self.lock:
                    self.carried += len(chunk)
                self.rest()
                target.sendall(self.passed(chunk) if flips else chunk)
        except OSError:
            pass
        self.end(origin, target)

    def rest(self):
        """What a chunk waits for before it passes."""

    def end(self, *ends):
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def cut(self):
        """Ends all connections; new ones may be made at once."""
        with self.lock:
            ends, self.ends = self.ends, []
        self.end(*ends)

    def passed(self, chunk):
        with self.lock:
            if self.left is None:
                return chunk
            if self.left >= len(chunk):
                self.left -= len(chunk)
                return chunk
            at, self.left = self.left, None
        return chunk[:at] + bytes([chunk[at] ^ 1]) + chunk[at + 1 :]

    def close(self):
        self.server.close()


class Lossy(Tampering):
    """A way that loses packets as a user of TCP notices it: what was lost comes again after 0.2 s or more, and
    everything behind it waits; now and then a connection ends. Of a seed."""

    def __init__(self, port, seed=1, share=0.02):
        self.chance, self.share = random.Random(seed), share
        super().__init__(port)

    def rest(self):
        with self.lock:
            drawn = self.chance.random()
            timeouts = self.chance.choice((1, 1, 1, 3, 7))
        if drawn < self.share / 20:
            raise ConnectionResetError
        if drawn < self.share:
            time.sleep(0.2 * timeouts)

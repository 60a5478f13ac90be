"""Real processes that faults happen to: log servers, nodes of a cluster, and the ways between them.

Every process keeps its ports and its folder, so that it can be killed, frozen, thawed and started
again. Ports lie below those that the system gives to outgoing connections: nobody takes the port
of a process that is down.
"""

import atexit
import functools
import http.client
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

import pytest
from conftest import Node
from ports import free_ports

HERE = pathlib.Path(__file__).resolve().parent
ASK_SECONDS = 3
SERVERS_READY_SECONDS = 60


def get_json(port, path, timeout_seconds=ASK_SECONDS):
    """What a server answers; None where it does not, or with an error."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout_seconds) as answer:
            return json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException):
        return None


def await_true(what, condition, bound_seconds, pause_seconds=0.1):
    """Waits until a condition holds and returns what it gave."""
    deadline = time.monotonic() + bound_seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {bound_seconds} s: {what() if callable(what) else what}")
        time.sleep(pause_seconds)
    return found


class Signals:
    """What can be done to a running process, for those that have one as `process`."""

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        if self.is_running():
            self.process.send_signal(signal.SIGCONT)


class Network:
    """The proxies of a test; each way is one port that leads to another."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, HERE / "network/proxy.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ways = {}

    def tell(self, command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def make_way(self, origin, target, port):
        """The port through which `origin` reaches what `target` listens on."""
        self.ways[origin, target] = self.tell({"listen": port})["port"]
        return self.ways[origin, target]

    def change(self, origin, target, mode="open", delay_ms=0, bytes_s=0):
        way = self.ways[origin, target]
        self.tell({"way": way, "mode": mode, "delay_ms": delay_ms, "bytes_s": bytes_s})

    def heal(self):
        for origin, target in self.ways:
            self.change(origin, target)

    def close(self):
        self.process.kill()
        self.process.wait()


class Direct:
    """No proxies: every way leads straight to its target, and none can go bad."""

    def __init__(self):
        self.ways = {}

    def make_way(self, _origin, _target, port):
        return port

    def heal(self):
        pass

    def close(self):
        pass


@functools.cache
def shim(name):
    """A library to preload: `connect` leads a process's connections through ways, `clock` sets its
    clock wrong; see network/."""
    folder = tempfile.mkdtemp(prefix="plimsoll-shim-")
    atexit.register(shutil.rmtree, folder)
    path = pathlib.Path(folder) / f"{name}.so"
    source = HERE / f"network/{name}.c"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", path, source, "-ldl"], check=True)
    return path


@functools.cache
def log_server_binaries():
    script = HERE.parent / "scripts/nats.sh"
    provided = subprocess.run([script], stdout=subprocess.PIPE, text=True)
    if provided.returncode != 0:
        # They come from Debian and from Go's module proxy: without them there is no cluster.
        pytest.skip("scripts/nats.sh cannot provide the log's servers here")
    return dict(line.split("=", 1) for line in provided.stdout.split())


class LogServer(Signals):
    def __init__(self, name, folder, binary):
        self.name, self.binary = name, binary
        self.port, self.route, self.monitor = free_ports(3)
        self.config, self.text = folder / f"{name}.conf", folder / f"{name}.log"
        self.store = folder / name
        self.process = None

    def configure(self, routes, jetstream):
        # What servers tell each other and their clients of addresses leads nowhere: there is no
        # way around the proxies.
        self.config.write_text(
            f'server_name: {self.name}\nlisten: "127.0.0.1:{self.port}"\n'
            f'http: "127.0.0.1:{self.monitor}"\nmax_payload: 8MB\n'
            f'jetstream {{ store_dir: "{self.store}", max_file_store: 8GB, max_memory_store: 64MB {jetstream} }}\n'
            f'cluster {{ name: test, listen: "127.0.0.1:{self.route}", advertise: "127.0.0.1:1", '
            f"no_advertise: true, routes: [{', '.join(routes)}] }}\n",
            encoding="utf-8",
        )

    def start(self):
        self.process = subprocess.Popen([self.binary, "-c", self.config, "-l", self.text])
        return self

    def streams(self):
        """What this server knows of each of the log's groups, by the group's number."""
        answer = get_json(self.monitor, "/jsz?streams=true&accounts=true") or {}
        accounts = answer.get("account_details", ())
        streams = (stream for account in accounts for stream in account.get("stream_detail", ()))
        return {int(stream["name"].rsplit("_", 1)[1]): stream for stream in streams}

    def leader(self, group):
        """The name of the group's leader, as this server knows it."""
        return self.streams().get(group, {}).get("cluster", {}).get("leader")

    def is_well(self):
        """Whether it answers and has all of every stream that it keeps."""
        return (get_json(self.monitor, "/healthz") or {}).get("status") == "ok"

    def data_files(self):
        """The files that hold records."""
        return sorted(self.store.glob("jetstream/**/msgs/*.blk"))


class LogServers:
    """Servers that replicate to each other, each way between them through a proxy."""

    def __init__(self, folder, network, version="current", count=3):
        binary = log_server_binaries()[f"PLIMSOLL_NATS_{version.upper()}"]
        folder.mkdir(parents=True, exist_ok=True)
        self.network, self.version = network, version
        self.all = [LogServer(f"log{n}", folder, binary) for n in range(count)]
        # 2.9 has no such setting; what it acknowledges survives a kill, not a loss of power.
        jetstream = ', sync_interval: "always"' if version == "current" else ""
        for server in self.all:
            others = [other for other in self.all if other is not server]
            ways = [network.make_way(server.name, other.name, other.route) for other in others]
            server.configure([f"nats://127.0.0.1:{way}" for way in ways], jetstream)

    def start(self):
        for server in self.all:
            server.start()
        self.await_well()
        return self

    def await_well(self, bound_seconds=SERVERS_READY_SECONDS):
        def sick():
            return [server.name for server in self.all if not server.is_well()]

        await_true(lambda: f"log servers are well, {sick()} are not", lambda: not sick(), bound_seconds)

    def named(self, name):
        return next(server for server in self.all if server.name == name)

    def others(self, server):
        return [other for other in self.all if other is not server]

    def leader(self, group, asked=None):
        """The server that leads a group, by what another one says of it."""
        asked = asked or self.all[0]
        return self.named(await_true(f"group {group} has a leader", lambda: asked.leader(group), 60))

    def isolate(self, server, mode="cut"):
        """Cuts a server off from the others, not from its clients."""
        for other in self.others(server):
            self.network.change(server.name, other.name, mode)
            self.network.change(other.name, server.name, mode)

    def texts(self, lines=15):
        """What the servers wrote last."""
        for server in self.all:
            text = server.text.read_text(errors="replace") if server.text.exists() else ""
            # Connections through proxies come and go; that says nothing.
            told = [line for line in text.splitlines() if "oute" not in line]
            yield f"---- {server.name}\n" + "\n".join(told[-lines:])

    def close(self):
        for server in self.all:
            server.kill()


class ClusterNode(Signals, Node):
    """A node that reaches its log servers and its peers through ways of its own."""

    def __init__(self, name, data, settings=()):
        super().__init__(data, settings)
        self.name = name
        self.port, self.http, self.rpc = free_ports(3)
        self.log_address = None
        self.clock = self.data.with_name(f"{name}.clock")

    def set_clock(self, wrong_ms):
        """Sets the node's clock wrong, also while it runs."""
        with open(self.clock, "r+b" if self.clock.exists() else "wb") as file:
            file.write(struct.pack("<q", wrong_ms))

    def command(self):
        own = ["--node", self.name, "--rpc", f"127.0.0.1:{self.rpc}", "--log", self.log_address]
        return super().command() + own

    def connect(self, network, servers, nodes):
        ports = [network.make_way(self.name, server.name, server.port) for server in servers]
        self.log_address = "nats://" + ",".join(f"127.0.0.1:{port}" for port in ports)
        peers = [node for node in nodes if node is not self]
        ways = [f"{peer.rpc}={network.make_way(self.name, peer.name, peer.rpc)}" for peer in peers]
        if network.ways:
            self.set_clock(0)
            shims = f"{shim('connect')}:{shim('clock')}"
            self.env |= {"LD_PRELOAD": shims, "PLIMSOLL_TEST_CONNECT": ",".join(ways)}
            self.env["PLIMSOLL_TEST_CLOCK"] = str(self.clock)

    def health(self):
        return get_json(self.http, "/_cluster/health") or {}

    def digests(self):
        return get_json(self.http, "/_plimsoll/digest?timeout=20s", 40)


class SmallDisk:
    """A file system of a few megabytes that can be filled. Needs root."""

    @staticmethod
    def is_possible():
        return os.geteuid() == 0 and shutil.which("mount") is not None

    def __init__(self, folder, megabytes):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        options = f"size={megabytes}m"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "plimsoll-test", self.folder], check=True)
        self.ballast = self.folder / "ballast"

    def fill(self):
        with open(self.ballast, "ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                try:
                    while file.write(b"\1" * size):
                        pass
                except OSError:
                    pass

    def empty(self):
        self.ballast.unlink(missing_ok=True)

    def close(self):
        subprocess.run(["umount", "-l", self.folder], check=False)

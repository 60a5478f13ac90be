"""A cluster of real nodes on real log servers, and what must hold of it when a fault is over.

What happens to it is the tests' to say; the processes and ways are those of cluster_processes.py,
the clients those of cluster_history.py.
"""

import atexit
import contextlib
import pathlib
import time

from cluster_documents import Documents
from cluster_history import Clients, Violation, demand_linearizable, read_everywhere
from cluster_processes import ClusterNode, LogServers, Network, await_true

NAMES = ("ketch", "sloop", "yawl", "brig", "cutter")
READY_SECONDS = 120
GREEN_SECONDS = 120
EQUAL_SECONDS = 60
OUTPUT_LINES = 20


class Cluster:
    def __init__(self, folder, nodes=3, version="current", settings=(), data=None, network=None):
        """`data` may name other folders for the data of some nodes, by the node's name."""
        self.folder, self.data = pathlib.Path(folder), data or {}
        self.network = network or Network()
        self.logs = LogServers(self.folder / "logs", self.network, version)
        names = [*NAMES, *(f"lighter{n}" for n in range(len(NAMES), nodes))][:nodes]
        self.nodes = [self.make_node(name, settings) for name in names]
        for node in self.nodes:
            node.connect(self.network, self.logs.all, self.nodes)
        # A test that is interrupted leaves no process behind.
        atexit.register(self.close)

    def make_node(self, name, settings):
        folder = pathlib.Path(self.data.get(name) or self.folder / name)
        folder.mkdir(parents=True, exist_ok=True)
        return ClusterNode(name, folder, settings)

    def start(self):
        self.logs.start()
        for node in self.nodes:
            node.spawn()
        for node in self.nodes:
            self.await_ready(node)
        self.await_green()
        return self

    def await_ready(self, node):
        deadline = time.monotonic() + READY_SECONDS
        while not node.ready.wait(0.02):
            if not node.is_running():
                raise Violation(f"{node.name} ended with {node.process.poll()} before it was ready")
            if time.monotonic() > deadline:
                raise Violation(f"{node.name} is not ready after {READY_SECONDS} s")

    def restart(self, node):
        node.spawn()
        self.await_ready(node)

    def addresses(self, nodes=None):
        """Where clients go: names and RESP ports."""
        return [(node.name, node.port) for node in nodes or self.nodes]

    def others(self, node):
        return [other for other in self.nodes if other is not node]

    def cut_from_peers(self, node, mode):
        for other in self.others(node):
            self.network.change(node.name, other.name, mode)
            self.network.change(other.name, node.name, mode)

    def cut_from_log(self, node, mode, servers=None):
        for server in servers or self.logs.all:
            self.network.change(node.name, server.name, mode)

    def slow_down(self, node, delay_ms, bytes_s):
        for origin, target in self.network.ways:
            if node.name in (origin, target):
                self.network.change(origin, target, "open", delay_ms, bytes_s)

    def heal(self):
        """Ends every fault that can end: what is frozen goes on, ways open, who is down starts."""
        self.network.heal()
        for process in [*self.logs.all, *self.nodes]:
            process.thaw()
        if self.network.ways:
            for node in self.nodes:
                node.set_clock(0)
        for server in self.logs.all:
            if not server.is_running():
                server.start()
        down = [node for node in self.nodes if not node.is_running()]
        for node in down:
            node.spawn()
        for node in down:
            self.await_ready(node)

    def health(self):
        """Status and number of nodes, as each node says."""
        answers = {node.name: node.health() for node in self.nodes}
        return {name: (it.get("status"), it.get("number_of_nodes")) for name, it in answers.items()}

    def is_green(self):
        return all(found == ("green", len(self.nodes)) for found in self.health().values())

    def await_green(self, bound_seconds=GREEN_SECONDS):
        try:
            await_true(lambda: f"green: {self.health()}", self.is_green, bound_seconds)
        except AssertionError as error:
            raise Violation(str(error)) from None

    def copies(self):
        """Every copy of every partition by (table, shard) and node, as any node tells; none where no
        node does."""
        for node in self.nodes:
            answer = node.digests()
            if answer:
                found = {}
                for copy in answer:
                    found.setdefault((copy["table"], copy["shard"]), {})[copy["node"]] = copy
                return found
        return {}

    def await_equal_copies(self, bound_seconds=EQUAL_SECONDS):
        """Waits until all copies of each partition are at one position, and demands that they hold the
        same there. Returns how many there are."""
        deadline = time.monotonic() + bound_seconds
        while True:
            found = self.copies()
            behind = list(self.compare(found)) if found else ["no node tells of its copies"]
            if not behind:
                return sum(len(copies) for copies in found.values())
            if time.monotonic() > deadline:
                raise Violation(f"copies do not come to one position within {bound_seconds} s: {behind}")
            time.sleep(0.1)

    def compare(self, found):
        """Raises where two copies differ at one position; tells of those at different ones."""
        for partition, copies in found.items():
            at = {}
            for copy in copies.values():
                if copy.get("error"):
                    yield partition, copy
                    continue
                other = at.setdefault(copy["lsn"], copy)
                if (copy["hash"], copy["digest"]) != (other["hash"], other["digest"]):
                    raise Violation(f"copies of {partition} differ at {copy['lsn']}: {copy} and {other}")
            if len(at) > 1:
                yield partition, copies
            if len(copies) < 2 and len(self.nodes) > 1:
                yield partition, "has one copy"

    def clients(self, count, seed, prefix, nodes=None, **options):
        return Clients(self.addresses(nodes), count, seed, prefix=prefix, **options)

    def documents(self, writers, seed, index):
        return Documents([(node.name, node.http) for node in self.nodes], writers, seed, index)

    def settle(self, clients, path, documents=None, more=100):
        """Ends the faults and holds the cluster to its promises: it goes on for all clients, is green,
        nothing acknowledged is lost, the history has an order, copies are equal."""
        self.heal()
        clients.await_more(more, GREEN_SECONDS)
        history = clients.stop()
        if documents:
            documents.stop()
        history.write(path)
        self.await_green()
        read_everywhere(self.addresses(), history, GREEN_SECONDS)
        history.write(path)
        if history.unlisted:
            raise Violation(f"errors that nobody promised: {dict(history.unlisted)}")
        verdict = demand_linearizable(path)
        verdict["copies"] = self.await_equal_copies()
        verdict["documents"] = documents.check() if documents else 0
        return verdict

    def texts(self):
        """What all processes wrote last, to be shown with a failure."""
        for node in self.nodes:
            lines = "".join(node.output[-OUTPUT_LINES:])
            state = "runs" if node.is_running() else f"ended with {node.process and node.process.poll()}"
            yield f"---- {node.name} ({state}; RESP {node.port}, HTTP {node.http}, RPC {node.rpc})\n{lines}"
        yield from self.logs.texts()

    def close(self):
        atexit.unregister(self.close)
        for node in self.nodes:
            node.kill()
        self.logs.close()
        self.network.close()


@contextlib.contextmanager
def explained(cluster, scenario, seed):
    """Adds to a failure how to have it again, and what the processes said."""
    try:
        yield
    except Exception as error:
        again = f"PLIMSOLL_SOAK=1 PLIMSOLL_SEED={seed} PLIMSOLL_RUNS=1 pytest tests/test_cluster_faults.py"
        again += f" -k '{scenario} and {cluster.logs.version}'"
        texts = "\n".join(cluster.texts())
        # What went wrong comes last, where one looks first.
        kind = type(error) if isinstance(error, AssertionError) else Violation
        raise kind(f"{texts}\n---- {scenario}, seed {seed}: {error}\nagain: {again}") from error

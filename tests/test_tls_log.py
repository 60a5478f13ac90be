"""TLS to the log's servers: through a way that is listened to, and by those who may not read or write the log."""

import asyncio
import os
import pathlib
import signal
import subprocess
import threading

import pytest
from conftest import binary
from ports import free_ports
from remote_clusters import Certificates

ROOT = pathlib.Path(__file__).parent.parent
SECRET = b"what nobody on the way is to read"


class Listener:
    """A way to a port that keeps all that goes through it, and may turn a byte of it."""

    def __init__(self, target):
        self.target, self.heard, self.is_turning = target, bytearray(), False
        [self.port] = free_ports(1)
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), daemon=True).start()
        started.wait(10)

    def _run(self, started):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", self.port))
        started.set()
        self.loop.run_forever()

    async def _serve(self, reader, writer):
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.target)
        await asyncio.gather(self._copy(reader, other_writer), self._copy(other_reader, writer))

    async def _copy(self, reader, writer):
        try:
            while data := await reader.read(1 << 16):
                self.heard += data
                if self.is_turning:
                    middle = len(data) // 2
                    data = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


@pytest.fixture
def servers(tmp_path):
    """Three log servers that demand TLS, with routes between them that do."""
    certificates = Certificates(tmp_path / "certificates").client("client").node("n1", "--ip", "127.0.0.1")
    for number in range(3):
        certificates.make("server", "--ca", certificates.folder, "--name", f"log{number}", "--ip", "127.0.0.1")
    [port] = free_ports(1)
    command = [ROOT / "scripts/log_servers.sh", tmp_path / "log", "3", str(port)]
    environment = {**os.environ, "TLS_DIR": str(certificates.folder)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    yield port, certificates
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)


def settings(port, certificates, name):
    yield f"log.engine=nats://127.0.0.1:{port}"
    yield "log.replicas=3"
    yield f"log.tls.certificate_authorities={certificates.path('ca.crt')}"
    if name:
        yield f"log.tls.certificate={certificates.path(name)}.crt"
        yield f"log.tls.key={certificates.path(name)}.key"


def test_who_listens_on_the_way_to_the_log_reads_and_changes_nothing(servers, new_node):
    port, certificates = servers
    way = Listener(port)
    node = new_node(settings=settings(way.port, certificates, "n1")).start()
    assert node.client().set("key", SECRET)
    assert SECRET not in way.heard and b"CONNECT" not in way.heard and len(way.heard) > 1000
    way.is_turning = True
    node.client(socket_timeout=5)
    # What was changed on the way ends the connection, and nothing else.
    try:
        node.client(socket_timeout=3, retry=None).set("key", b"later")
    except Exception:  # noqa: BLE001
        pass
    way.is_turning = False
    client = node.client(socket_timeout=60)
    assert client.get("key") in (SECRET, b"later")
    # Another key: whoever gave up does not know whether its write is still to come.
    assert client.set("other", b"last") and client.get("other") == b"last"
    assert node.terminate() == 0


def test_who_shows_no_certificate_does_not_reach_the_log(servers, tmp_path, new_node):
    port, certificates = servers
    other = Certificates(tmp_path / "other").client("client")
    ways = [
        settings(port, certificates, None),
        [f"log.engine=nats://127.0.0.1:{port}"],
        settings(port, other, "client"),
        settings(port, certificates, "client"),
    ]
    nodes = []
    for number, given in enumerate(ways):
        node = new_node(tmp_path / f"node{number}", settings=[*given, f"node.name=node{number}"])
        nodes.append(node.spawn())
    *strangers, known = nodes
    assert known.ready.wait(30), known.text()
    for node in strangers:
        assert node.exit_code(60) == 1
        assert "cannot connect to" in node.text()


def test_files_for_a_log_without_servers_are_refused(tmp_path):
    for given in ("log.tls.key=/k", "log.credentials_file=/c"):
        command = [binary(), "serve", "--data", str(tmp_path), "--set", given]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert ended.returncode == 2 and "log.tls.*" in ended.stderr, ended.stderr

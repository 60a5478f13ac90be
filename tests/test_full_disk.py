"""A disk that fills up and is emptied again: reads and removals go on, and nobody restarts anything."""

import os
import subprocess
import time

import pytest
import redis
import requests
from cluster_processes import await_true

MIB = 1 << 20
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def node_with_documents(new_node, disk):
    """A node on the disk with 50 documents, a client of it, and its URL."""
    node = new_node(data=disk / "data").start()
    url = f"http://127.0.0.1:{node.http}"
    requests.put(f"{url}/docs", json={"mappings": {}}, timeout=30).raise_for_status()
    for n in range(50):
        requests.put(f"{url}/docs/_doc/{n}", json={"n": n}, timeout=30).raise_for_status()
    return node, node.client(socket_timeout=60), url


def all_documents_are_there(url):
    found = requests.post(f"{url}/docs/_mget", json={"ids": [str(n) for n in range(50)]}, timeout=30)
    return found.ok and all(doc["found"] for doc in found.json()["docs"])


def fill(folder):
    """Leaves nothing for anybody."""
    try:
        with open(folder / "other", "ab") as file:
            while True:
                file.write(b"x" * MIB)
                file.flush()
    except OSError:
        pass


def write_until_refused(client, name, size, most):
    """Returns the keys that were acknowledged, and the refusal."""
    written = []
    for n in range(most):
        try:
            client.set(f"{name}:{n}", os.urandom(size // 20) * 20)
        except redis.ResponseError as error:
            return written, str(error)
        written.append(f"{name}:{n}")
    raise AssertionError("the disk never filled")


def until(what, condition, seconds=30):
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except redis.ResponseError:
            pass
        assert time.monotonic() < deadline, what
        time.sleep(0.2)


@NEEDS_ROOT
def test_a_node_that_fills_its_disk_reads_and_removes(new_node, disk):
    _, client, url = node_with_documents(new_node, disk)
    written, refusal = write_until_refused(client, "k", 100_000, 6000)
    assert "nearly full" in refusal and "MB" in refusal, refusal
    assert len(written) > 100
    # Rows in memory and in files alike.
    for _ in range(2):
        assert all(client.strlen(key) == 100_000 for key in written)
        assert client.mget(written[:20]) == [client.get(key) for key in written[:20]]
        assert all_documents_are_there(url)
        time.sleep(1)
    # A flush may have given the log's room back meanwhile: it is filled again right before.
    transaction = client.pipeline(transaction=True)

    def refused():
        written.extend(write_until_refused(client, f"k{len(written)}", 100_000, 6000)[0])
        answer = requests.put(f"{url}/docs/_doc/new", json={"n": 1}, timeout=30)
        if answer.status_code != 429:
            return False
        assert "nearly full" in answer.text
        try:
            transaction.set("a", "b").execute()
        except redis.ResponseError as error:
            assert "nearly full" in str(error)
            return True
        return client.delete("a") == 0

    until("it is never refused", refused)
    assert requests.delete(f"{url}/docs/_doc/1", timeout=30).status_code == 200
    assert client.delete(*written[:50]) == 50
    for key in written[50:100]:
        assert client.delete(key) == 1
    assert client.pipeline(transaction=True).delete(written[100]).get(written[101]).execute()[0] == 1
    # Removals make room once files are rewritten; so does whoever owns the disk.
    subprocess.run(["mount", "-o", "remount,size=1g", disk], check=True)
    until("it takes no writes again", lambda: client.set("after", "1"))
    assert client.dbsize() == len(written) - 101 + 1


@NEEDS_ROOT
def test_a_disk_that_others_fill_heals_without_a_restart(new_node, disk):
    node, client, url = node_with_documents(new_node, disk)
    for n in range(300):
        client.set(f"k:{n}", os.urandom(5_000) * 20)
    fill(disk)
    # Whatever is tried now: flushes, that fail, among it.
    for n in range(100):
        for attempt in (lambda: client.set(f"new:{n}", "x" * 1000), lambda: client.delete(f"new:{n}")):
            try:
                attempt()
            except redis.ResponseError:
                pass
    refreshed = requests.post(f"{url}/docs/_refresh", timeout=60)
    # It says no more than it did.
    if refreshed.ok:
        assert refreshed.json()["_shards"]["successful"] == 1, refreshed.text
    else:
        assert refreshed.json()["error"]["reason"], refreshed.text
    try:
        requests.post(f"{url}/docs/_flush", timeout=60)
        client.save()
    except redis.ResponseError:
        pass
    for _ in range(3):
        assert all(client.strlen(f"k:{n}") == 100_000 for n in range(300))
        assert None not in client.mget([f"k:{n}" for n in range(300)])
        assert client.dbsize() >= 300
        assert all_documents_are_there(url)
        time.sleep(1)
    (disk / "other").unlink()
    until("it takes no writes again", lambda: client.set("after", "1"))
    assert client.delete("k:0") == 1
    for n in range(300, 500):
        client.set(f"k:{n}", os.urandom(5_000) * 20)
    assert all(client.strlen(f"k:{n}") == 100_000 for n in range(1, 500))
    assert requests.put(f"{url}/docs/_doc/new", json={"n": 1}, timeout=30).ok
    node.terminate()
    node.start()
    client = node.client()
    assert all(client.strlen(f"k:{n}") == 100_000 for n in range(1, 500))


def test_a_store_that_cannot_write_its_files_says_so_and_loses_nothing(new_node):
    """An error that is no full disk, after which RocksDB does not go on by itself: folders stand where its next
    files are to be."""
    node = new_node(settings=["write_buffer.size=16mb"]).start()
    url = f"http://127.0.0.1:{node.http}"
    client = node.client(socket_timeout=60)
    client.set("first", "1")
    blocks = []
    for store in (node.data / "partitions").iterdir():
        numbers = [int(file.stem.split("-")[-1]) for file in store.iterdir() if file.stem[-6:].isdigit()]
        blocks += [store / f"{number:06}.sst" for number in range(max(numbers) + 1, max(numbers) + 400)]
    for block in blocks:
        block.mkdir()
    values = {f"row:{n}": os.urandom(100_000) for n in range(140)}
    for key, value in values.items():
        client.set(key, value)

    def status():
        return requests.get(f"{url}/_cluster/health", timeout=30).json()

    await_true(status, lambda: status()["status"] == "yellow", 60)
    assert status()["stores_were_stopped"]
    for block in blocks:
        block.rmdir()
    assert client.get("row:7") == values["row:7"]
    lines = len(node.output)
    time.sleep(5)
    assert len(node.output) - lines < 50, "nobody fills the log with it"
    node.terminate()
    node.start()
    client = node.client(socket_timeout=60)
    assert all(client.get(key) == value for key, value in values.items())
    url = f"http://127.0.0.1:{node.http}"
    await_true(status, lambda: status()["status"] == "green", 60)

"""Files, disks, logs and ways that go bad under a follower. What is damaged is never followed: it is mended,
copied from another, or told by name; both sides are equal in the end, and little is sent twice.

The long ones run with PLIMSOLL_SOAK=1.
"""

import random
import shutil
import signal
import time

import pytest
from cluster_processes import SmallDisk, await_true
from remote_clusters import Lossy, ManyClusters, Tampering
from rest import ask, get, try_ask
from test_follow import bulk, copies_of, digests, searched
from test_follow_faults import (  # noqa: F401
    LONG,
    SECONDS,
    SOAK,
    Faulty,
    Writer,
    begin,
    begin_following,
    make,
    recovered,
    text,
)
from test_rot import files, flip_one_bit, rows_files


def is_named(pair, name, words):
    """Whether `_ccr/stats` says why a follower does not go on."""
    status, answer = try_ask(pair.follower, "GET", f"/{name}/_ccr/stats")
    return status == 200 and any(word in str(answer["indices"][0]["shards"]) for word in words)


def told(pair, name):
    return lambda: try_ask(pair.follower, "GET", f"/{name}/_ccr/stats")


def begin_flushed(pair, name, documents, size, shards=2):
    """An index all of which is in files."""
    begin(pair, name, documents, size, shards)
    for step in ("_refresh", "_flush"):
        assert ask(pair.leader, "POST", f"/{name}/{step}")[0] == 200


def test_an_index_that_rots_at_the_leader(make):
    """The follower builds its own from the rows, and never shows what is damaged."""
    pair = make()
    begin_flushed(pair, "rots", 900, 300)
    whole = searched(pair.leader, "rots")
    assert len(whole) == 900
    paths = [path for kind in ("store", "term", "fast") for path in files(pair.leader, kind)]
    damaged = [path for path in paths if path.stat().st_size > 64]
    assert damaged
    for path in damaged:
        flip_one_bit(path, random.Random(path.stat().st_size))
    begin_following(pair, "rots")
    await_true(told(pair, "rots"), lambda: pair.serve("rots", "rots"), SECONDS)
    assert searched(pair.follower, "rots") == whole
    # The leader finds it itself when it opens the index.
    pair.leader.kill()
    pair.leader.start()
    bulk(pair.leader, "rots", [(n, {"n": n, "text": text(50)}) for n in range(900, 950)])
    pair.demand_equal("rots", "rots")
    pair.finish()


@LONG
def test_rows_that_rot_at_the_leader(make):
    """In the only copy that there is: the follower says so and serves nothing of it. Put right, it goes on."""
    pair = make()
    begin_flushed(pair, "rots", 4000, 500, shards=1)
    whole = {path: path.read_bytes() for path in rows_files(pair.leader) if path.stat().st_size > 500_000}
    assert whole, rows_files(pair.leader)
    for path in whole:
        flip_one_bit(path, random.Random(3))
    begin_following(pair, "rots")
    await_true(told(pair, "rots"), lambda: is_named(pair, "rots", ("damaged", "checksum", "wrong")), SECONDS)
    assert not pair.serve("rots", "rots")
    pair.leader.kill()
    for path, data in whole.items():
        path.write_bytes(data)
    pair.leader.start()
    pair.demand_equal("rots", "rots")
    pair.finish()


def test_a_leader_that_is_put_back_to_an_earlier_time(make, tmp_path):
    """Its log is another from there on: the follower says so by name, stays as it is, and can be begun anew."""
    pair = make()
    begin(pair, "earlier", 100, shards=1)
    assert pair.follow("earlier", "earlier")[0] == 200
    pair.await_level("earlier", "earlier")
    assert pair.leader.terminate() == 0
    shutil.copytree(pair.leader.data, tmp_path / "backup")
    pair.leader.start()
    bulk(pair.leader, "earlier", [(n, {"n": n, "text": "lost"}) for n in range(100, 200)])
    pair.demand_equal("earlier", "earlier")
    before = searched(pair.follower, "earlier")
    pair.leader.kill()
    shutil.rmtree(pair.leader.data)
    shutil.copytree(tmp_path / "backup", pair.leader.data)
    pair.leader.start()
    for first in range(100, 400, 10):
        bulk(pair.leader, "earlier", [(n, {"n": n, "text": "other"}) for n in range(first, first + 10)])
    await_true(told(pair, "earlier"), lambda: is_named(pair, "earlier", ("fork",)), SECONDS)
    assert searched(pair.follower, "earlier") == before
    assert ask(pair.follower, "DELETE", "/earlier")[0] == 200
    begin_following(pair, "earlier")
    pair.demand_equal("earlier", "earlier")
    pair.finish()


@pytest.fixture
def on_a_small_disk(tmp_path):
    """A pair whose follower's disk can be filled."""
    if not SmallDisk.is_possible():
        pytest.skip("a small file system needs root")
    disk = SmallDisk(tmp_path / "follower", 160)
    pair = Faulty(tmp_path)
    yield pair, disk
    pair.close()
    disk.close()


@pytest.mark.parametrize("when", ["bootstrap", "following"])
def test_a_disk_of_the_follower_that_is_full(on_a_small_disk, when):
    """It says so, what it has stays readable, and it goes on by itself once there is room."""
    pair, disk = on_a_small_disk
    begin_flushed(pair, "full", 800, 4000)
    if when == "following":
        assert pair.follow("full", "full")[0] == 200
        pair.await_level("full", "full")
    disk.fill()
    if when == "following":
        for first in range(800, 2400, 400):
            bulk(pair.leader, "full", [(n, {"n": n, "text": text(4000)}) for n in range(first, first + 400)])
        await_true(told(pair, "full"), lambda: is_named(pair, "full", ("full", "space")), SECONDS)
        assert get(pair.follower, "/full/_doc/7")["_source"]["n"] == 7
    else:
        begin_following(pair, "full")
        await_true(told(pair, "full"), lambda: is_named(pair, "full", ("full", "space")), SECONDS)
    disk.empty()
    pair.demand_equal("full", "full")
    pair.finish()


def test_little_is_sent_twice(make, note):
    """Over twenty cuts while files are copied and more while records are followed."""
    pair = make(way=Tampering)
    limit = {"persistent": {"ccr.indices.recovery.max_bytes_per_sec": "5mb"}}
    assert ask(pair.follower, "PUT", "/_cluster/settings", limit)[0] == 200
    documents = 30_000 if SOAK else 8_000
    begin_flushed(pair, "twice", documents, 1000)
    begin_bytes = pair.way.carried
    begin_following(pair, "twice")
    for _ in range(20):
        time.sleep(0.1)
        pair.way.cut()
    await_true(told(pair, "twice"), lambda: pair.serve("twice", "twice"), SECONDS)
    copied = pair.way.carried - begin_bytes
    table, wire = recovered(pair, "twice")

    def write(first, count):
        """In small batches, all of which have arrived; the bytes that crossed."""
        before = pair.way.carried
        for at in range(first, first + count, 10):
            bulk(pair.leader, "twice", [(n, {"n": n, "text": text(1000)}) for n in range(at, at + 10)])
        await_true(told(pair, "twice"), lambda: pair.are_level("twice", "twice"), SECONDS)
        return pair.way.carried - before

    written = write(documents, 1000)
    before = pair.way.carried
    for first in range(documents + 1000, documents + 6000, 500):
        write(first, 490)
        # What a cut catches on the way has to come again: one batch.
        bulk(pair.leader, "twice", [(n, {"n": n, "text": text(1000)}) for n in range(first + 490, first + 500)])
        pair.way.cut()
    pair.demand_equal("twice", "twice")
    followed = (pair.way.carried - before) / 5
    note(f"copied {copied:,} bytes of a table of {table:,} (told {wire:,}), {copied / table:.3f}; "
         f"followed {followed:,.0f} of {written:,}, {followed / written:.3f}")
    assert copied <= 1.05 * table
    assert followed <= 1.05 * written
    pair.finish()


def test_a_way_that_loses_packets(make):
    pair = make(way=Lossy)
    begin(pair, "lossy", 3000, 500)
    with Writer(pair, "lossy") as writer:
        begin_following(pair, "lossy")
        await_true(told(pair, "lossy"), lambda: pair.serve("lossy", "lossy"), SECONDS)
        time.sleep(2)
    assert not writer.failures
    pair.demand_equal("lossy", "lossy")
    pair.finish()


@pytest.fixture
def many(tmp_path):
    clusters = ManyClusters(tmp_path)
    yield clusters
    for node in clusters.all():
        assert "panicked" not in "".join(node.output)
    clusters.close()


def are_level(clusters, leaders, name):
    theirs, ours = digests(leaders, name), digests(clusters.followers, name)
    return theirs == ours and all(len(it) == 1 for it in ours.values())


@LONG
def test_several_pull_at_once(many):
    """A node that pulls stands still until another does in its place, and goes on as if nothing had been."""
    leader, follower = many.leaders[0], many.followers[0]
    settings = {"settings": {"number_of_shards": 4, "number_of_replicas": 1}}
    assert ask(leader, "PUT", "/logs", settings)[0] == 200
    bulk(leader, "logs", [(n, {"n": n}) for n in range(100)])
    body = {"remote_cluster": "west", "leader_index": "logs", "settings": {"number_of_replicas": 2}}
    assert ask(follower, "PUT", "/logs/_ccr/follow?wait_for_active_shards=1", body, 90)[0] == 200
    await_true("they are level", lambda: are_level(many, many.leaders, "logs"), SECONDS)
    number = 100
    # Node follow-a holds the log that all three use.
    for turn in range(10):
        frozen = many.followers[1 + turn % 2]
        frozen.process.send_signal(signal.SIGSTOP)
        end = time.monotonic() + 7.5
        while time.monotonic() < end:
            bulk(leader, "logs", [(n, {"n": n}) for n in range(number, number + 20)])
            number += 20
            time.sleep(0.1)
        frozen.process.send_signal(signal.SIGCONT)
        for _ in range(5):
            bulk(leader, "logs", [(n, {"n": n}) for n in range(number, number + 20)])
            number += 20
    await_true("they are level", lambda: are_level(many, many.leaders, "logs"), SECONDS)

    def whole():
        copies = copies_of(follower, "logs").values()
        return all(len(it) == 3 and len(set(it)) == 1 and it[0][1] is None for it in copies)

    await_true(lambda: copies_of(follower, "logs"), whole, SECONDS)
    assert searched(follower, "logs") == searched(leader, "logs")


@LONG
def test_a_source_that_never_returns(many, note):
    """Another of the leader's nodes gives what is left, after a minute."""
    leader, follower = many.leaders[0], many.followers[0]
    settings = {"settings": {"number_of_shards": 4, "number_of_replicas": 1}}
    assert ask(leader, "PUT", "/logs", settings)[0] == 200
    for first in range(0, 20_000, 500):
        bulk(leader, "logs", [(n, {"n": n, "text": text(1000)}) for n in range(first, first + 500)])
    assert ask(leader, "POST", "/logs/_flush")[0] == 200
    limit = {"persistent": {"ccr.indices.recovery.max_bytes_per_sec": "1mb"}}
    assert ask(follower, "PUT", "/_cluster/settings", limit)[0] == 200
    body = {"remote_cluster": "west", "leader_index": "logs"}
    assert ask(follower, "PUT", "/logs/_ccr/follow", body)[0] == 200
    time.sleep(4)
    many.leaders[1].kill()
    bulk(leader, "logs", [(n, {"n": n}) for n in range(20_000, 20_100)])
    limit = {"persistent": {"ccr.indices.recovery.max_bytes_per_sec": None}}
    assert ask(follower, "PUT", "/_cluster/settings", limit)[0] == 200
    before = time.monotonic()
    await_true(lambda: try_ask(follower, "GET", "/logs/_recovery"),
               lambda: are_level(many, many.leaders[:1], "logs"), 300, 1)
    note(f"level {time.monotonic() - before:.0f} s after the source was gone")
    assert searched(follower, "logs") == searched(leader, "logs")

"""What may happen to a leader, to its follower and to the way between them. Whatever it is, both have equal
contents and answers in the end, nothing is lost, and nobody panics.

The long ones run with PLIMSOLL_SOAK=1; they draw from PLIMSOLL_SEED.
"""

import base64
import http.client
import json
import os
import random
import signal
import struct
import threading
import time

import pytest
import redis
from cluster_processes import await_true, shim
from remote_clusters import CONNECT_SECONDS, Clusters, Tampering, proxied
from rest import ask, get, try_ask
from test_follow import Pair, bulk, searched

SOAK = os.environ.get("PLIMSOLL_SOAK") == "1"
LONG = pytest.mark.skipif(not SOAK, reason="PLIMSOLL_SOAK=1 runs it")
SEED = int(os.environ.get("PLIMSOLL_SEED", "11"))
SECONDS = 90


class Faulty(Pair):
    """A leader and a follower, all bytes between which pass a proxy."""

    def __init__(self, folder, way=None):
        self.clusters = Clusters(folder)
        self.leader, self.follower = self.clusters.leader, self.clusters.follower
        self.key, self.path = self.clusters.make_key("*")
        self.way = (way or proxied)(self.clusters.port)
        self.connect()

    def connect(self):
        self.clusters.connect("west", credentials_file=str(self.path), **self.way.settings())
        self.clusters.await_connected("west")

    def finish(self):
        """Both live, and nobody has panicked."""
        self.clusters.demand_well()

    def demand_equal(self, name, leader):
        """Equal contents, equal answers."""
        await_true(lambda: f"copies of {name} serve", lambda: self.serve(name, leader), SECONDS)
        self.await_level(name, leader)
        assert searched(self.follower, name) == searched(self.leader, leader)

    def serve(self, name, leader):
        asked = ((self.follower, name), (self.leader, leader))
        found = [try_ask(node, "GET", f"/_plimsoll/digest?index={index}") for node, index in asked]
        return all(status == 200 and all(it["error"] is None for it in copies) for status, copies in found)

    def trouble(self, name):
        """Why each partition does not go on, as `_ccr/stats` says; empty where it does."""
        troubles = []
        for shard in self.stats(name):
            told = shard.get("fatal_exception") or next(iter(shard["read_exceptions"]), {}).get("exception", {})
            troubles.append(told.get("reason", ""))
        return troubles

    def close(self):
        self.way.close()
        super().close()


@pytest.fixture
def make(tmp_path):
    made = []

    def made_pair(**options):
        made.append(Faulty(tmp_path, **options))
        return made[-1]

    yield made_pair
    for pair in made:
        pair.close()


@pytest.fixture(scope="module")
def shared_pair(tmp_path_factory):
    pair = Faulty(tmp_path_factory.mktemp("faults"))
    yield pair
    pair.finish()
    pair.close()


class Writer:
    """Writes to an index all the time: new documents, changed ones, deletions. Keeps what was acknowledged."""

    def __init__(self, pair, index, documents=200, size=200, pause_seconds=0.01):
        self.pair, self.index, self.size, self.pause_seconds = pair, index, size, pause_seconds
        self.chance = random.Random(SEED)
        self.documents = documents
        self.is_over = threading.Event()
        self.failures = []
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()

    def run(self):
        number = 0
        while not self.is_over.is_set():
            number += 1
            key = self.chance.randrange(self.documents)
            body = {"n": key, "round": number, "text": text(self.chance.randrange(self.size))}
            path, leader = f"/{self.index}/_doc/{key}", self.pair.leader
            if self.chance.random() < 0.1:
                status, answer = try_ask(leader, "DELETE", path, None, 5)
                allowed = (0, 200, 404, 503)
            else:
                status, answer = try_ask(leader, "PUT", path, body, 5)
                allowed = (0, 200, 201, 503)
            if status not in allowed:
                self.failures.append((status, answer))
            time.sleep(self.pause_seconds)


def begin(pair, name, documents=300, size=200, shards=2):
    """An index of the leader's with something in it."""
    assert ask(pair.leader, "PUT", f"/{name}", {"settings": {"number_of_shards": shards}})[0] == 200
    for first in range(0, documents, 500):
        last = min(first + 500, documents)
        # Nothing that could be made smaller on the way.
        bulk(pair.leader, name, [(n, {"n": n, "text": text(size)}) for n in range(first, last)])


def text(size):
    return os.urandom(size // 2).hex()


def begin_following(pair, name, **more):
    """Has it followed, and does not wait for that."""
    body = {"remote_cluster": "west", "leader_index": name, **more}
    status, answer = ask(pair.follower, "PUT", f"/{name}/_ccr/follow", body)
    assert status == 200, answer


def cut_briefly(pair, seconds=3):
    pair.way.change("cut")
    time.sleep(seconds)
    pair.way.change("open")


def cut_often(pair, times=20):
    for _ in range(times):
        pair.way.change("cut")
        time.sleep(0.05)
        pair.way.change("open")
        time.sleep(0.15)


def freeze_way(pair):
    pair.way.change("frozen")
    time.sleep(4)
    pair.way.change("open")


def narrow(pair):
    pair.way.change("open", bytes_s=200_000)
    time.sleep(5)
    pair.way.change("open")


def freeze_leader(pair, seconds=6):
    stopped(pair.leader, seconds)


def freeze_follower(pair, seconds=6):
    stopped(pair.follower, seconds)


def stopped(node, seconds):
    node.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        node.process.send_signal(signal.SIGCONT)


FAULTS = [cut_briefly, cut_often, freeze_way, narrow, freeze_leader, freeze_follower]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda it: it.__name__)
def test_it_goes_on_after(shared_pair, fault):
    """What happens while files are copied, and while records are followed."""
    pair, name = shared_pair, fault.__name__
    begin(pair, name, 2000, 500)
    with Writer(pair, name) as writer:
        begin_following(pair, name)
        time.sleep(0.1)
        fault(pair)
        await_true(lambda: pair.trouble(name), lambda: pair.serve(name, name), SECONDS)
        fault(pair)
    assert not writer.failures
    pair.demand_equal(name, name)


@LONG
@pytest.mark.parametrize("seconds", [20, 180])
def test_it_goes_on_after_long_faults(make, seconds):
    pair = make()
    begin(pair, "long", 5000, 1000)
    begin_following(pair, "long")
    for fault in (cut_briefly, freeze_leader, freeze_follower):
        with Writer(pair, "long") as writer:
            fault(pair, seconds)
        assert not writer.failures
        pair.demand_equal("long", "long")
    pair.finish()


def test_a_flipped_bit_is_a_broken_connection(make):
    """TLS finds each; what was under way is asked for again."""
    pair = make(way=Tampering)
    begin(pair, "flipped", 3000, 500)
    with Writer(pair, "flipped"):
        begin_following(pair, "flipped")
        for seed in range(12 if SOAK else 4):
            pair.way.flip(after_bytes=random.Random(seed).randrange(1, 60_000))
            await_true("a bit was flipped", lambda: pair.way.has_flipped(), SECONDS)
            time.sleep(0.5)
    pair.demand_equal("flipped", "flipped")
    pair.finish()


def write_rows(pair, chance, round_):
    """Rows of db3 of all kinds, those that expire soon among them."""
    rows = pair.leader.client(db=3, socket_timeout=10)
    with rows.pipeline(transaction=False) as pipeline:
        for _ in range(60):
            key = chance.randrange(200)
            match chance.randrange(6):
                case 0:
                    pipeline.set(f"k{key}", round_, px=chance.randrange(1, 3000))
                case 1:
                    pipeline.delete(f"k{key}")
                case 2:
                    pipeline.hset(f"h{key}", mapping={f"f{chance.randrange(9)}": round_})
                case 3:
                    pipeline.incr(f"n{key}")
                case 4:
                    pipeline.expire(f"h{key}", chance.randrange(1, 5))
                case _:
                    pipeline.set(f"k{key}", "v" * chance.randrange(2000))
        pipeline.execute(raise_on_error=False)
    if chance.random() < 0.2:
        rows.flushdb()
    rows.close()


def rows_of(node):
    rows = node.client(db=3)
    return {key: rows.get(key) if rows.type(key) == b"string" else rows.hgetall(key) for key in rows.keys()}


@pytest.mark.parametrize("rounds", [4, pytest.param(20, marks=LONG)])
def test_nothing_is_lost_where_either_or_both_are_killed(make, rounds):
    pair, chance = make(), random.Random(SEED)
    begin(pair, "killed", 1000)
    write_rows(pair, chance, 0)
    begin_following(pair, "killed")
    begin_following(pair, "db3")
    for round_ in range(rounds):
        with Writer(pair, "killed"):
            write_rows(pair, chance, round_)
            time.sleep(chance.random())
            victims = [[pair.follower], [pair.leader], [pair.leader, pair.follower]][round_ % 3]
            for node in victims:
                node.kill()
            for node in victims:
                node.start()
            write_rows(pair, chance, round_)
    pair.demand_equal("killed", "killed")
    await_true("db3 serves", lambda: pair.serve("db3", "db3"), SECONDS)
    pair.await_level("db3", "db3")
    leader = pair.leader.client(db=3)

    def ends(rows):
        return [key for key in rows.keys() if rows.ttl(key) >= 0]

    await_true(lambda: ends(leader), lambda: not ends(leader), SECONDS)
    pair.await_level("db3", "db3")
    assert rows_of(pair.follower) == rows_of(pair.leader)
    pair.finish()


def test_a_leader_that_is_gone_for_good(make):
    """What it had stays readable, and is a table of its own in the end; what has expired stays away."""
    pair = make()
    begin(pair, "last", 100)
    rows = pair.leader.client(db=3)
    rows.set("stays", "1")
    rows.set("soon", "1", px=4000)
    for name in ("last", "db3"):
        assert pair.follow(name, name)[0] == 200
        pair.await_level(name, name)
    bulk(pair.leader, "last", [(n, {"n": n}) for n in range(100, 120)])
    pair.await_level("last", "last")
    expected = searched(pair.leader, "last")
    pair.leader.kill()
    for _ in range(2):
        pair.follower.kill()
        pair.follower.start()
    await_true(lambda: pair.stats("last"), lambda: any(pair.trouble("last")), CONNECT_SECONDS)
    assert searched(pair.follower, "last") == expected
    assert ask(pair.follower, "PUT", "/last/_doc/x", {"n": 0})[0] == 403
    followed = pair.follower.client(db=3)
    assert followed.get("stays") == b"1"
    before = get(pair.follower, "/last/_doc/119")["_seq_no"]
    for name in ("last", "db3"):
        for step in ("pause_follow", "unfollow"):
            status, answer = ask(pair.follower, "POST", f"/{name}/_ccr/{step}")
            assert status == 200, (name, step, answer)
    status, answer = ask(pair.follower, "PUT", "/last/_doc/119", {"n": 119})
    assert status == 200 and answer["_seq_no"] > before
    await_true("it expires", lambda: followed.get("soon") is None, SECONDS)
    followed.set("own", "1", px=500)
    await_true("own rows expire", lambda: followed.keys() == [b"stays"], SECONDS)
    pair.follower.kill()
    pair.follower.start()
    assert pair.follower.client(db=3).keys() == [b"stays"]
    assert len(searched(pair.follower, "last")) == 120
    assert "panicked" not in "".join(pair.follower.output)


@pytest.mark.parametrize("when", ["bootstrap", "following"])
def test_a_key_that_is_taken_back_and_another(make, when):
    pair = make()
    begin(pair, "keyed", 2000, 500)
    if when == "bootstrap":
        pair.way.change("open", bytes_s=100_000)
    begin_following(pair, "keyed")
    if when == "following":
        await_true("it serves", lambda: pair.serve("keyed", "keyed"), SECONDS)
        pair.await_level("keyed", "keyed")
    else:
        time.sleep(0.5)
    ids = {"ids": [pair.key["id"]]}
    assert ask(pair.leader, "DELETE", "/_security/api_key", ids)[0] == 200
    pair.way.change("open")
    bulk(pair.leader, "keyed", [(n, {"n": n}) for n in range(2000, 2100)])
    await_true(lambda: pair.stats("keyed"), lambda: "invalidated" in str(pair.trouble("keyed")), SECONDS)
    _, other = pair.clusters.make_key("*")
    os.replace(other, pair.path)
    pair.demand_equal("keyed", "keyed")
    pair.finish()


@pytest.mark.parametrize("when", ["bootstrap", "following"])
def test_settings_of_the_remote_that_go_and_come_back(make, when):
    pair = make()
    begin(pair, "set", 2000, 500)
    if when == "bootstrap":
        pair.way.change("open", bytes_s=100_000)
    begin_following(pair, "set")
    if when == "following":
        await_true("it serves", lambda: pair.serve("set", "set"), SECONDS)
    else:
        time.sleep(0.5)
    pair.clusters.forget("west")
    pair.way.change("open")
    bulk(pair.leader, "set", [(n, {"n": n}) for n in range(2000, 2100)])
    await_true(lambda: pair.stats("set"), lambda: "no such remote" in str(pair.trouble("set")), SECONDS)
    pair.connect()
    pair.demand_equal("set", "set")
    pair.finish()


def test_a_leader_that_is_compacted_while_it_is_copied(make):
    pair = make()
    begin(pair, "merged", 4000, 1000)
    pair.way.change("open", bytes_s=400_000)
    with Writer(pair, "merged") as writer:
        begin_following(pair, "merged")
        for _ in range(3):
            assert ask(pair.leader, "POST", "/merged/_forcemerge?max_num_segments=1")[0] == 200
            assert ask(pair.leader, "POST", "/merged/_flush")[0] == 200
            time.sleep(0.5)
        pair.way.change("open")
        await_true(lambda: pair.trouble("merged"), lambda: pair.serve("merged", "merged"), SECONDS)
    assert not writer.failures
    pair.demand_equal("merged", "merged")
    pair.finish()


@LONG
def test_a_leader_that_is_made_anew_while_it_is_copied(make):
    """It says so, whatever else it could do; deleted and followed again it has the new one."""
    pair = make()
    begin(pair, "anew", 4000, 1000)
    pair.way.change("open", bytes_s=100_000)
    begin_following(pair, "anew")
    time.sleep(0.5)
    assert ask(pair.leader, "DELETE", "/anew")[0] == 200
    begin(pair, "anew", 50)
    pair.way.change("open")
    await_true(lambda: pair.stats("anew"), lambda: any(pair.trouble("anew")), SECONDS)
    assert ask(pair.follower, "DELETE", "/anew")[0] == 200
    begin_following(pair, "anew")
    pair.demand_equal("anew", "anew")
    pair.finish()


def test_a_follower_that_is_deleted_while_it_is_copied(make):
    """Many times, and followed again under its name at once."""
    pair, chance = make(), random.Random(SEED)
    begin(pair, "again", 3000, 1000)
    pair.way.change("open", bytes_s=2_000_000)
    for _ in range(60 if SOAK else 15):
        begin_following(pair, "again")
        time.sleep(chance.random() * 0.6)
        status, answer = ask(pair.follower, "DELETE", "/again")
        assert status == 200, answer
    pair.way.change("open")
    begin_following(pair, "again")
    bulk(pair.leader, "again", [(n, {"n": n}) for n in range(3000, 3100)])
    pair.demand_equal("again", "again")
    # The leader lets go what it kept for those that are gone: there is room for others.
    for n in range(3):
        assert pair.follow(f"again-{n}", "again")[0] == 200
    pair.finish()


def test_one_table_that_is_gone_leaves_the_others_alone(make):
    """Also where the stream is begun anew."""
    pair = make()
    for name in ("gone", "stays"):
        begin(pair, name, 50)
        assert pair.follow(name, name)[0] == 200
        pair.await_level(name, name)
    assert ask(pair.leader, "DELETE", "/gone")[0] == 200
    await_true(lambda: pair.stats("gone"), lambda: any("fatal_exception" in it for it in pair.stats("gone")), SECONDS)
    bulk(pair.leader, "stays", [(n, {"n": n}) for n in range(50, 100)])
    pair.demand_equal("stays", "stays")
    pair.follower.kill()
    pair.follower.start()
    bulk(pair.leader, "stays", [(n, {"n": n}) for n in range(100, 150)])
    pair.demand_equal("stays", "stays")
    begin(pair, "later", 20)
    assert pair.follow("later", "later")[0] == 200
    bulk(pair.leader, "later", [(n, {"n": n}) for n in range(20, 40)])
    pair.demand_equal("later", "later")
    pair.finish()


def test_requests_that_lose_leave_nothing_at_the_leader(make):
    """Of several for one name at once one wins; what is kept for the others is let go."""
    pair = make()
    begin(pair, "one", 5, shards=1)
    for _ in range(22):
        answers = []
        ask_once = lambda: answers.append(pair.follow("one", "one")[0])  # noqa: E731
        threads = [threading.Thread(target=ask_once) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [200, 400, 400, 400]
        assert ask(pair.follower, "DELETE", "/one")[0] == 200
    assert pair.follow("one", "one")[0] == 200
    pair.demand_equal("one", "one")
    pair.finish()


@pytest.mark.parametrize("wrong_ms", [-30_000, 30_000])
def test_clocks_that_are_apart(tmp_path, wrong_ms):
    """Expiry goes by the leader's clock, whatever the follower's says."""
    clock = tmp_path / "clock"
    clock.write_bytes(struct.pack("<q", wrong_ms))
    env = {"LD_PRELOAD": str(shim("clock")), "PLIMSOLL_TEST_CLOCK": str(clock)}
    pair = Faulty(tmp_path)
    try:
        pair.follower.kill()
        pair.follower.env |= env
        pair.follower.start()
        pair.clusters.await_connected("west")
        rows, followed = pair.leader.client(db=3), pair.follower.client(db=3)
        rows.set("minute", "1", px=60_000)
        rows.set("stays", "1")
        begin(pair, "clocks", 50)
        for name in ("db3", "clocks"):
            assert pair.follow(name, name)[0] == 200
            pair.await_level(name, name)
        rows.set("soon", "1", px=1500)
        pair.await_level("db3", "db3")
        assert 0 < followed.pttl("minute") <= 60_000
        await_true("it expires", lambda: followed.get("soon") is None, SECONDS)
        rows.set("after", "1")
        with Writer(pair, "clocks"):
            time.sleep(2)
        pair.demand_equal("clocks", "clocks")
        pair.await_level("db3", "db3")
        assert rows_of(pair.follower) == rows_of(pair.leader)
        for step in ("pause_follow", "unfollow"):
            assert ask(pair.follower, "POST", f"/db3/_ccr/{step}")[0] == 200
        assert followed.get("stays") == b"1"
        await_true("writes are taken", lambda: takes(followed, "own"), SECONDS)
        # Log time is the leader's until the clock here has come as far.
        await_true("and expire", lambda: followed.get("own") is None, SECONDS)
        pair.finish()
    finally:
        pair.close()


def takes(rows, key):
    try:
        return rows.set(key, "1", px=500)
    except redis.exceptions.ResponseError:
        return False


HOSTILE = [
    None,
    [],
    0,
    "x",
    True,
    {"remote_cluster": 7},
    {"remote_cluster": ["west"], "leader_index": "h"},
    {"remote_cluster": "west"},
    {"leader_index": "h"},
    {"remote_cluster": "west", "leader_index": {"a": 1}},
    {"remote_cluster": "west", "leader_index": "h*"},
    {"remote_cluster": "west", "leader_index": "h,i"},
    {"remote_cluster": "west", "leader_index": ""},
    {"remote_cluster": "", "leader_index": "h"},
    {"remote_cluster": "x" * 100_000, "leader_index": "h"},
    {"remote_cluster": "west", "leader_index": "h" * 100_000},
    {"remote_cluster": "west", "leader_index": "\0"},
    {"remote_cluster": "west", "leader_index": "../h"},
    {"remote_cluster": "west", "leader_index": "h", "bogus": 1},
    {"remote_cluster": "west", "leader_index": "h", "settings": 1},
    {"remote_cluster": "west", "leader_index": "h", "settings": {"index.number_of_replicas": "x"}},
    {"remote_cluster": "west", "leader_index": "h", "settings": {"index": {"bogus": []}}},
    {"remote_cluster": "west", "leader_index": "h", "max_read_request_operation_count": -1},
    {"remote_cluster": "west", "leader_index": "h", "max_read_request_operation_count": 1e300},
    {"remote_cluster": "west", "leader_index": "h", "max_read_request_size": "big"},
    {"remote_cluster": "west", "leader_index": "h", "read_poll_timeout": "-7q"},
    {"leader_alias": "west", "leader_index": 5},
    {"leader_alias": "west", "leader_index": "h", "use_roles": 3},
    {"remote_cluster": "west", "leader_index_patterns": 5},
    {"remote_cluster": "west", "leader_index_patterns": []},
    {"remote_cluster": "west", "leader_index_patterns": ["x" * 10_000], "follow_index_pattern": "{{bogus}}"},
    {"remote_cluster": "west", "leader_index_patterns": ["*"] * 5000, "leader_index_exclusion_patterns": {}},
]
HOSTILE_PATHS = [
    ("PUT", "/{}/_ccr/follow"),
    ("POST", "/{}/_ccr/resume_follow"),
    ("POST", "/{}/_ccr/pause_follow"),
    ("POST", "/{}/_ccr/unfollow"),
    ("POST", "/{}/_ccr/forget_follower"),
    ("GET", "/{}/_ccr/info"),
    ("GET", "/{}/_ccr/stats"),
    ("PUT", "/_ccr/auto_follow/{}"),
    ("POST", "/_ccr/auto_follow/{}/pause"),
    ("DELETE", "/_ccr/auto_follow/{}"),
    ("PUT", "/_plugins/_replication/{}/_start"),
    ("POST", "/_plugins/_replication/{}/_pause"),
    ("POST", "/_plugins/_replication/{}/_resume"),
    ("POST", "/_plugins/_replication/{}/_stop"),
    ("GET", "/_plugins/_replication/{}/_status"),
]
HOSTILE_NAMES = ["none", "a,b", "*", "_all", "-x", "UPPER", "%2e%2e", "x" * 256, "%00", "%ff", "a%2Fb", "%3Cx%3E"]


def raw(node, method, path, body):
    """Status of an answer to bytes, which need not be JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", node.http, timeout=20)
    try:
        connection.request(method, path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_hostile_requests_are_refused(shared_pair):
    pair = shared_pair
    begin(pair, "h", 5, shards=1)
    bodies = [b"", b"{", b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe", b"x" * 1000]
    bodies += [json.dumps(body).encode() for body in HOSTILE]
    asked = 0
    for method, path in HOSTILE_PATHS:
        for turn, body in enumerate(bodies):
            name = HOSTILE_NAMES[turn % len(HOSTILE_NAMES)]
            status, answer = raw(pair.follower, method, path.format(name), body)
            assert status not in (500, 502), (method, path, name, body[:200], answer[:500])
            assert status < 500 or b"remote" in answer or b"west" in answer, (method, path, body[:200], answer[:500])
            asked += 1
        for name in HOSTILE_NAMES:
            status, answer = raw(pair.follower, method, path.format(name), b"")
            assert status < 500, (method, path, name, answer[:500])
            asked += 1
    assert asked >= 300
    for it in get(pair.follower, "/_ccr/auto_follow")["patterns"]:
        assert ask(pair.follower, "DELETE", f"/_ccr/auto_follow/{it['name']}")[0] == 200
    assert pair.follow("h-after", "h")[0] == 200
    pair.demand_equal("h-after", "h")


def test_a_follower_is_followed_by_nobody(make, tmp_path):
    """Both ways and in a chain."""
    pair = make()
    begin(pair, "chain", 10)
    assert pair.follow("chain", "chain")[0] == 200
    (tmp_path / "back").mkdir()
    own = Clusters(tmp_path / "back")
    try:
        # The follower's follower: a leader of its own that follows is followed by nobody.
        _, path = own.make_key("*")
        settings = {
            "cluster.remote.far.seeds": [f"127.0.0.1:{pair.clusters.port}"],
            "cluster.remote.far.certificate_authorities": pair.clusters.certificates.path("ca.crt"),
            "cluster.remote.far.credentials_file": str(pair.path),
        }
        assert ask(own.leader, "PUT", "/_cluster/settings", {"persistent": settings})[0] == 200
        await_true("connected", lambda: get(own.leader, "/_remote/info")["far"]["connected"], CONNECT_SECONDS)
        body = {"remote_cluster": "far", "leader_index": "chain"}
        assert ask(own.leader, "PUT", "/chain/_ccr/follow?wait_for_active_shards=1", body, 90)[0] == 200
        own.connect("near", credentials_file=str(path))
        own.await_connected("near")
        body = {"remote_cluster": "near", "leader_index": "chain"}
        status, answer = ask(own.follower, "PUT", "/chain/_ccr/follow", body)
        assert status == 400 and "cannot be followed" in answer["error"]["reason"], answer
        own.demand_well()
    finally:
        own.close()
    pair.demand_equal("chain", "chain")
    pair.finish()


@LONG
def test_a_large_table_in_bounded_memory(make, note):
    pair = make()
    begin(pair, "large", 200_000, 300, shards=4)
    before = time.monotonic()
    begin_following(pair, "large")
    await_true("it serves", lambda: pair.serve("large", "large"), 600)
    await_true("it is level", lambda: pair.are_level("large", "large"), 600)
    copied = time.monotonic() - before
    assert ask(pair.follower, "POST", "/large/_ccr/pause_follow")[0] == 200
    for first in range(200_000, 300_000, 1000):
        bulk(pair.leader, "large", [(n, {"n": n, "text": text(300)}) for n in range(first, first + 1000)])
    nodes = (pair.leader, pair.follower)
    idle = [node.resident_bytes() for node in nodes]
    before = time.monotonic()
    assert ask(pair.follower, "POST", "/large/_ccr/resume_follow")[0] == 200
    most = list(idle)
    while not pair.are_level("large", "large"):
        most = [max(known, node.resident_bytes()) for known, node in zip(most, nodes)]
        assert time.monotonic() - before < 600
        time.sleep(0.2)
    grown = [(it - was) >> 20 for it, was in zip(most, idle)]
    note(f"200,000 documents copied in {copied:.1f} s, 100,000 caught up with in {time.monotonic() - before:.1f} s; "
         f"memory grew by {grown} MiB")
    assert max(grown) < 700, grown
    pair.finish()


def recovered(pair, name):
    """Bytes of the files of a table that was copied, and bytes of them on the way."""
    sizes = [shard["index"]["size"] for shard in get(pair.follower, f"/{name}/_recovery")[name]["shards"]]
    return sum(size["recovered_in_bytes"] for size in sizes), sum(size["wire_in_bytes"] for size in sizes)


def test_a_first_copy_over_a_narrow_link_is_compressed(make):
    """By itself where that pays, never or always where that is set."""
    pair = make()
    words = [f"word{number}" for number in range(3000)]
    chance = random.Random(SEED)
    assert ask(pair.leader, "PUT", "/prose", {"settings": {"number_of_shards": 2}})[0] == 200
    for first in range(0, 24_000, 1000):
        text = [" ".join(chance.choices(words, k=60)) for _ in range(1000)]
        bulk(pair.leader, "prose", [(first + n, {"n": first + n, "text": text[n]}) for n in range(1000)])
    ask(pair.leader, "POST", "/prose/_refresh")
    pair.way.change("open", bytes_s=1_000_000)
    shares = {}
    for compress in (None, False, True):
        setting = {"cluster.remote.west.transport.compress": compress}
        assert ask(pair.follower, "PUT", "/_cluster/settings", {"persistent": setting})[0] == 200
        pair.clusters.await_connected("west")
        name = f"prose-{compress}".lower()
        body = {"remote_cluster": "west", "leader_index": "prose"}
        assert ask(pair.follower, "PUT", f"/{name}/_ccr/follow", body)[0] == 200
        await_true("it serves", lambda: pair.serve(name, "prose"), SECONDS)
        pair.await_level(name, "prose")
        assert searched(pair.follower, name) == searched(pair.leader, "prose")
        bytes_there, bytes_wire = recovered(pair, name)
        shares[compress] = round(bytes_wire / bytes_there, 3)
        assert ask(pair.follower, "DELETE", f"/{name}")[0] == 200
    assert shares[False] == 1.0, shares
    # How much of it depends on the processors that are free while it goes.
    assert shares[None] < 1.0, shares
    assert shares[True] < 0.95, shares
    for option, value in (("transport.compress", "indexing_data"), ("transport.compression_scheme", "lz4")):
        setting = {f"cluster.remote.west.{option}": value}
        assert ask(pair.follower, "PUT", "/_cluster/settings", {"persistent": setting})[0] == 400
    pair.finish()


RETENTION = {"ccr.retention.max_bytes": "1mb", "log.flush_interval": "1s"}


def paused(pair, *names):
    for name in names:
        assert ask(pair.follower, "POST", f"/{name}/_ccr/pause_follow")[0] == 200
    # What was under way then may still come.
    time.sleep(1)


def resume(pair, *names):
    for name in names:
        assert ask(pair.follower, "POST", f"/{name}/_ccr/resume_follow")[0] == 200


def await_given_up(pair, write, *names):
    """Has the leader give up what it keeps of tables for followers, and trim its log past them."""

    def is_given_up():
        write()
        return all(it["is_dropped"] for it in followers(pair) if it["leader_index"] in names)

    await_true(lambda: followers(pair), is_given_up, SECONDS, 0.5)
    # It may have been given up before anything was trimmed that the follower lacks.
    time.sleep(3)
    assert is_given_up()
    time.sleep(3)


def test_a_log_that_was_trimmed_past_its_follower(make):
    """It is levelled by itself and stays readable meanwhile; the others go on."""
    pair = make()
    assert ask(pair.leader, "PUT", "/_cluster/settings", {"persistent": RETENTION})[0] == 200
    for name in ("lost", "stays"):
        begin(pair, name, 50, shards=1)
        assert pair.follow(name, name)[0] == 200
        pair.await_level(name, name)
    paused(pair, "lost")
    before = searched(pair.follower, "lost")
    changed = [(n, {"n": n, "text": text(5000)}) for n in range(200)]
    await_given_up(pair, lambda: bulk(pair.leader, "lost", changed), "lost")
    assert searched(pair.follower, "lost") == before
    resume(pair, "lost")
    bulk(pair.leader, "stays", [(n, {"n": n}) for n in range(50, 100)])
    pair.demand_equal("stays", "stays")
    pair.demand_equal("lost", "lost")
    assert not any("fatal_exception" in it for it in pair.stats("lost"))
    # From there it follows the log again, also after a restart.
    bulk(pair.leader, "lost", [(n, {"n": n}) for n in range(200, 250)])
    pair.follower.kill()
    pair.follower.start()
    bulk(pair.leader, "lost", [(n, {"n": n}) for n in range(250, 300)])
    pair.demand_equal("lost", "lost")
    assert "levelling by difference" not in "".join(pair.follower.output)
    pair.finish()


def test_only_what_differs_crosses_the_link(make, note):
    """5 % of the documents and rows changed, some deleted, some expired: at most 15 % of the bytes are sent."""
    pair = make(way=Tampering)
    assert ask(pair.leader, "PUT", "/_cluster/settings", {"persistent": RETENTION})[0] == 200
    documents, keys, size = 20_000, 10_000, 400
    begin(pair, "part", documents, size, shards=2)
    rows = pair.leader.client(db=3)

    def write_keys(numbers, **options):
        with rows.pipeline(transaction=False) as pipeline:
            for number in numbers:
                pipeline.set(f"k{number}", text(size), **options)
            pipeline.execute()

    for first in range(0, keys, 1000):
        write_keys(range(first, first + 1000))
    write_keys(range(keys, keys + 500), px=8000)
    write_keys(range(keys + 500, keys + 1000), ex=3600)
    begin_bytes = pair.way.carried
    for name in ("part", "db3"):
        assert pair.follow(name, name)[0] == 200
        pair.await_level(name, name)
    table_bytes = documents * size + (keys + 1000) * size
    copied_bytes = pair.way.carried - begin_bytes
    paused(pair, "part", "db3")
    for n in range(1, documents, 200):
        assert ask(pair.leader, "DELETE", f"/part/_doc/{n}")[0] == 200
    rows.delete(*[f"k{n}" for n in range(1, keys, 100)])
    rows.hset("h", mapping={f"f{n}": n for n in range(50)})
    await_true("they expire", lambda: rows.exists(f"k{keys}") == 0, SECONDS)

    def change():
        changed = list(range(0, documents, 20))
        for at in range(0, len(changed), 500):
            bulk(pair.leader, "part", [(n, {"n": n, "text": text(size)}) for n in changed[at : at + 500]])
        write_keys(range(0, keys, 20))

    await_given_up(pair, change, "part", "db3")
    before = pair.way.carried
    resume(pair, "part", "db3")
    pair.demand_equal("part", "part")
    pair.await_level("db3", "db3")
    sent = pair.way.carried - before
    note(f"{sent:,} bytes crossed the link, {sent / table_bytes:.3f} of {table_bytes:,} bytes of values; "
         f"the first copy took {copied_bytes:,}")
    assert "levelling by difference" in "".join(pair.follower.output)
    assert sent <= 0.15 * table_bytes
    assert rows_of(pair.follower) == rows_of(pair.leader)
    for node in (pair.leader, pair.follower):
        ask(node, "POST", "/part/_refresh")
    query = {"size": 0, "track_total_hits": True, "query": {"range": {"n": {"gte": 100}}},
             "aggs": {"sum": {"sum": {"field": "n"}}}}  # fmt: skip
    found = [get(node, "/part/_search", query) for node in (pair.leader, pair.follower)]
    assert found[0]["hits"]["total"] == found[1]["hits"]["total"]
    assert found[0]["aggregations"] == found[1]["aggregations"]
    pair.finish()


@pytest.mark.parametrize("fault", [cut_often, freeze_leader, "kill_follower", "kill_leader", "unfollow"],
                         ids=lambda it: getattr(it, "__name__", it))  # fmt: skip
def test_levelling_goes_on_after(make, fault):
    """Whatever cuts it off while it is levelled over a narrow link, both are equal in the end."""
    pair = make()
    assert ask(pair.leader, "PUT", "/_cluster/settings", {"persistent": RETENTION})[0] == 200
    begin(pair, "cut", 4000, 1000, shards=2)
    assert pair.follow("cut", "cut")[0] == 200
    pair.await_level("cut", "cut")
    paused(pair, "cut")

    def change():
        bulk(pair.leader, "cut", [(n, {"n": n, "text": text(1000)}) for n in range(0, 4000, 3)])

    await_given_up(pair, change, "cut")
    pair.way.change("open", bytes_s=400_000)
    resume(pair, "cut")
    await_true("it is levelled", lambda: "levelling by difference" in "".join(pair.follower.output), SECONDS)
    time.sleep(1)
    if fault == "unfollow":
        for step in ("pause_follow", "unfollow"):
            status, answer = ask(pair.follower, "POST", f"/cut/_ccr/{step}")
            assert status == 200, answer
        assert ask(pair.follower, "PUT", "/cut/_doc/own", {"n": -1})[0] == 201
        assert len(searched(pair.follower, "cut")) == 1000
    else:
        change()
        if callable(fault):
            fault(pair)
        else:
            node = pair.follower if fault == "kill_follower" else pair.leader
            node.kill()
            node.start()
        pair.way.change("open")
        pair.demand_equal("cut", "cut")
    pair.finish()


def test_there_is_no_such_database(shared_pair):
    pair = shared_pair
    pair.leader.client(db=6).set("a", "1")
    assert pair.follow("db99", "db6")[0] == 400


@pytest.mark.parametrize("state", ["bootstrapping", "following", "paused", "unfollowed", "deleted"])
def test_either_is_restarted_in_each_state(make, state):
    pair, name = make(), "states"
    begin(pair, name, 2000, 500)
    if state == "bootstrapping":
        pair.way.change("open", bytes_s=100_000)
    begin_following(pair, name)
    if state != "bootstrapping":
        await_true("it serves", lambda: pair.serve(name, name), SECONDS)
        pair.await_level(name, name)
    steps = {"paused": ["pause_follow"], "unfollowed": ["pause_follow", "unfollow"]}.get(state, [])
    for step in steps:
        assert ask(pair.follower, "POST", f"/{name}/_ccr/{step}")[0] == 200
    if state == "deleted":
        assert ask(pair.follower, "DELETE", f"/{name}")[0] == 200
    for node in (pair.follower, pair.leader, pair.follower):
        node.kill()
        node.start()
    pair.way.change("open")
    await_true("the leader serves", lambda: pair.serve(name, name) or state == "deleted" or state == "bootstrapping",
               SECONDS)
    bulk(pair.leader, name, [(n, {"n": n}) for n in range(2000, 2020)])
    info = try_ask(pair.follower, "GET", f"/{name}/_ccr/info")[1]
    if state == "paused":
        assert info["follower_indices"][0]["status"] == "paused"
        assert ask(pair.follower, "POST", f"/{name}/_ccr/resume_follow")[0] == 200
    if state == "unfollowed":
        assert info["follower_indices"] == []
        assert ask(pair.follower, "PUT", f"/{name}/_doc/own", {"n": -1})[0] == 201
        assert ask(pair.follower, "DELETE", f"/{name}")[0] == 200
    if state in ("unfollowed", "deleted"):
        begin_following(pair, name)
    pair.demand_equal(name, name)
    pair.finish()


def test_a_follower_that_is_deleted_at_once_leaves_nothing_at_the_leader(make):
    """A leader keeps its log for 64 followers of a table."""
    pair = make()
    begin(pair, "brief", 5, shards=1)
    for _ in range(70):
        begin_following(pair, "brief")
        assert ask(pair.follower, "DELETE", "/brief")[0] == 200
    begin_following(pair, "brief")
    pair.demand_equal("brief", "brief")
    pair.finish()


def followers(pair):
    return get(pair.leader, "/_plimsoll/followers")["followers"]


def test_a_leader_learns_of_an_end_however_long_it_was_away(make):
    """Also where the follower's node is killed meanwhile. Until then it keeps its log, and says for whom."""
    pair = make()
    begin(pair, "ended", 5, shards=1)
    assert pair.follow("ended", "ended")[0] == 200
    [held] = followers(pair)
    uuid = get(pair.follower, "/ended/_settings")["ended"]["settings"]["index"]["uuid"]
    assert (held["leader_index"], held["follower_index"], held["follower_index_uuid"]) == ("ended", "ended", uuid)
    pair.way.change("cut")
    assert ask(pair.follower, "DELETE", "/ended")[0] == 200
    pair.follower.kill()
    pair.follower.start()
    assert len(followers(pair)) == 1
    pair.way.change("open")
    await_true(lambda: followers(pair), lambda: followers(pair) == [], SECONDS)
    pair.finish()


class Stranger:
    """One who speaks the protocol of the leader's port by hand, with a key for some tables."""

    def __init__(self, pair, path):
        grpc = pytest.importorskip("grpc")
        self.error = grpc.RpcError
        with open(pair.clusters.certificates.path("ca.crt"), "rb") as file:
            credentials = grpc.ssl_channel_credentials(file.read())
        self.channel = grpc.secure_channel(f"127.0.0.1:{pair.clusters.port}", credentials)
        self.key = [("authorization", f"ApiKey {path.read_text().strip()}")]
        self.plain = {"request_serializer": bytes, "response_deserializer": bytes}

    def ask(self, question):
        """The answer, or the name of a refusal and its words."""
        method = self.channel.unary_unary("/plimsoll.Remote/Ask", **self.plain)
        question = question if isinstance(question, bytes) else json.dumps({"ask": question}).encode()
        try:
            answer = method(question, metadata=self.key, timeout=20)
        except self.error as error:
            return error.code().name, error.details()
        return answer if answer[:1] == b"\0" else json.loads(answer)

    def files(self, log, tag, body):
        """A question of recovery, of the nodes' own form."""
        envelope = bytes([4]) + varint(2) + b"me" + varint(log) + varint(5000) + bytes(3) + varint(tag) + body
        return self.ask({"files": {"question": base64.b64encode(envelope).decode()}})

    def records(self, *places, seconds=20):
        """The stream itself; nobody has read from it yet."""
        method = self.channel.unary_stream("/plimsoll.Remote/Records", **self.plain)
        return method(json.dumps({"places": places}).encode(), metadata=self.key, timeout=seconds)

    def heard(self, *places):
        """Messages up to a refusal, which is the last."""
        stream, heard = self.records(*places, seconds=5), []
        try:
            for message in stream:
                heard.append(message)
                if len(heard) > 20:
                    stream.cancel()
                    break
        except self.error as error:
            heard.append((error.code().name, error.details()))
        return heard

    def close(self):
        self.channel.close()


def varint(number):
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes(found + bytes([number]))


def place(of, **more):
    return {"table": of["incarnation"], "ordinal": 0, "log": of["log"], "lsn": 0, "hash": 0, "log_time_ms": 0} | more


@pytest.fixture
def strangers(make):
    """A pair with tables `a-1` and `b`, one whose key is for `a-*`, and one who may see all."""
    pair = make()
    for name in ("a-1", "b"):
        assert ask(pair.leader, "PUT", f"/{name}")[0] == 200
        bulk(pair.leader, name, [(n, {"n": n, "text": f"SECRET-of-{name}"}) for n in range(50)])
    _, path = pair.clusters.make_key("a-*")
    found = pair, Stranger(pair, path), Stranger(pair, pair.path)
    yield found
    for stranger in found[1:]:
        stranger.close()
    pair.finish()


# What a message of the stream begins with that refuses a partition.
REFUSED = b"\x02"


def test_a_key_for_some_tables_gets_nothing_of_others(strangers):
    pair, stranger, all_seeing = strangers
    own = stranger.ask({"table": {"name": "a-1"}})["table"]
    other = all_seeing.ask({"table": {"name": "b"}})["table"]
    assert [it["name"] for it in stranger.ask({"tables": {}})["tables"]["tables"]] == ["a-1"]
    assert stranger.ask({"table": {"name": "b"}})[0] == "NOT_FOUND"

    hold = {"name": "a-1", "table": own["incarnation"], "cluster_uuid": "u", "follower": "f",
            "follower_incarnation": 7, "change": "begin"}  # fmt: skip
    of_b = {"name": "b", "table": other["incarnation"]}
    for change in ("begin", {"positions": [1 << 60]}, {"positions": [0]}):
        for forged in (of_b, {"table": other["incarnation"]}, {"name": "b"}):
            answer = stranger.ask({"hold": {"hold": hold | forged | {"change": change}}})
            assert answer[0] == "NOT_FOUND", (forged, answer)
    # What is kept for another is not ended by who knows its names.
    mine = hold | of_b
    begun = all_seeing.ask({"hold": {"hold": mine}})
    stranger.ask({"hold": {"hold": hold | {"table": other["incarnation"], "change": "end"}}})
    settings = {"log.flush_interval": "1s"}
    assert ask(pair.leader, "PUT", "/_cluster/settings", {"persistent": settings})[0] == 200
    for _ in range(3):
        bulk(pair.leader, "b", [(n, {"n": n, "text": text(2000)}) for n in range(100)])
        time.sleep(1.2)
    assert all_seeing.ask({"hold": {"hold": mine}}) == begun
    all_seeing.ask({"hold": {"hold": mine | {"change": "end"}}})

    for forged in (place(other), place(own, table=0), place(own, ordinal=9), place(own, table=1 << 63)):
        [refused, last] = stranger.heard(forged)
        assert b"no_table" in refused and refused[:1] == REFUSED, refused
        assert last[0] == "UNAVAILABLE", last
    heard = stranger.heard(place(own), place(other))
    assert b"no_table" in heard[0] and heard[0][:1] == REFUSED, heard[0]
    assert not any(b"SECRET-of-b" in it for it in heard if isinstance(it, bytes))
    for forged in (place(own, lsn=(1 << 64) - 1), place(own, log=5), place(own, hash=9)):
        heard = [it for it in stranger.heard(forged) if isinstance(it, bytes)]
        assert any(it[:1] == REFUSED and b"forked" in it for it in heard), heard
        assert not any(b"SECRET-of-b" in it for it in heard)

    names = {table["name"]: varint(table["incarnation"]) + varint(0) for table in (own, other)}
    opened = all_seeing.files(own["log"], 20, names["b"])
    assert opened[3:6] == b"\0\x0e" + opened[5:6], opened[:20]
    checkpoint = opened[5 : 5 + next(n for n in range(1, 11) if opened[4 + n] < 128)]
    for tag in range(30):
        for body in (names["b"] + bytes(8), checkpoint + bytes(8), names["a-1"] + bytes(8), b""):
            if tag == 20 and body.startswith(names["a-1"]):
                continue
            answer = stranger.files(own["log"], tag, body)
            assert len(answer) < 200 and b"SECRET" not in answer, (tag, answer[:200])
    for garbage in (b"", b"null", bytes(1000), b"[" * 200_000, b'{"ask":' * 20_000, b" " * (300 << 10)):
        assert stranger.ask(garbage)[0] in ("INVALID_ARGUMENT", "OUT_OF_RANGE")


def test_one_key_does_not_take_all_streams(strangers):
    """Who opens as many as it can and reads none of them leaves room for the followers of other keys."""
    pair, stranger, _ = strangers
    assert pair.follow("b", "b")[0] == 200
    pair.await_level("b", "b")
    own = stranger.ask({"table": {"name": "a-1"}})["table"]
    # What the leader says of a place that is wrong tells the right one.
    said = stranger.heard(place(own))[-1][1]
    words = said.split("saw ")[-1].split() if "saw " in said else ["0"]
    pair.follower.kill()
    time.sleep(1)
    streams = [stranger.records(place(own, hash=int(words[0], 16)), seconds=60) for _ in range(40)]
    time.sleep(1)
    pair.follower.start()
    bulk(pair.leader, "b", [(n, {"n": n}) for n in range(50, 60)])
    try:
        pair.demand_equal("b", "b")
    finally:
        for stream in streams:
            stream.cancel()


def test_an_end_that_was_cut_off_is_brought_to_its_end(make):
    """Killed in the middle of becoming a table of its own it becomes one, or still stands still."""
    pair = make()
    begin(pair, "ends", 20, shards=6)
    for turn in range(10):
        name = f"ends-{turn}"
        follow = {"remote_cluster": "west", "leader_index": "ends"}
        path = f"/{name}/_ccr/follow?wait_for_active_shards=1"
        await_true("it follows", lambda: ask(pair.follower, "PUT", path, follow, 90)[0] == 200, SECONDS)
        assert ask(pair.follower, "POST", f"/{name}/_ccr/pause_follow")[0] == 200
        unfollow = threading.Thread(target=try_ask, args=(pair.follower, "POST", f"/{name}/_ccr/unfollow"))
        unfollow.start()
        time.sleep(turn * 0.004)
        pair.follower.kill()
        unfollow.join()
        pair.follower.start()

        def shown():
            return [it["status"] for it in get(pair.follower, f"/{name}/_ccr/info")["follower_indices"]]

        await_true(shown, lambda: shown() in ([], ["paused"]), 10)
        if shown():
            assert ask(pair.follower, "POST", f"/{name}/_ccr/unfollow")[0] == 200
        assert ask(pair.follower, "PUT", f"/{name}/_doc/own", {"n": -1})[0] == 201
    pair.finish()

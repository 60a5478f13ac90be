"""redis-py, unmodified, over RESP 2 and 3."""

import threading
import time

import pytest
import redis


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(node, request):
    with node.client(protocol=request.param, decode_responses=True) as client:
        yield client


def test_strings(client):
    assert client.set("a", "1") is True
    assert client.get("a") == "1"
    assert client.get("none") is None
    assert client.set("a", "2", nx=True) is None
    assert client.set("a", "2", xx=True, get=True) == "1"
    assert client.append("a", "345") == 4
    assert client.getrange("a", 1, 2) == "34"
    assert client.setrange("a", 6, "x") == 7
    assert client.strlen("a") == 7
    assert client.mset({"b": "1", "c": "2"}) is True
    assert client.mget("b", "none", "c") == ["1", None, "2"]
    assert not client.msetnx({"b": "9", "d": "9"})
    assert client.getdel("b") == "1"
    assert client.exists("a", "a", "b") == 2


def test_counters(client):
    assert client.incr("n") == 1
    assert client.incrby("n", 9) == 10
    assert client.decr("n", 3) == 7
    assert float(client.incrbyfloat("n", 0.5)) == 7.5
    with pytest.raises(redis.ResponseError, match="not an integer"):
        client.incr("n")
    client.set("n", 2**63 - 1)
    with pytest.raises(redis.ResponseError, match="overflow"):
        client.incr("n")


def test_hashes(client):
    assert client.hset("h", mapping={"f": "1", "g": "x"}) == 2
    assert client.hset("h", "f", "2") == 0
    assert client.hgetall("h") == {"f": "2", "g": "x"}
    assert client.hmget("h", "f", "none") == ["2", None]
    assert client.hincrby("h", "f", 5) == 7
    assert float(client.hincrbyfloat("h", "f", 0.5)) == 7.5
    assert sorted(client.hkeys("h")) == ["f", "g"]
    assert sorted(client.hvals("h")) == ["7.5", "x"]
    assert client.hsetnx("h", "f", "9") in (0, False)
    assert dict(client.hscan_iter("h", match="f*")) == {"f": "7.5"}
    assert client.hrandfield("h") in ("f", "g")
    assert client.hdel("h", "f", "g", "none") == 2
    assert client.exists("h") == 0


def test_wrong_types(client):
    client.hset("h", "f", "1")
    client.set("s", "1")
    for call in (lambda: client.get("h"), lambda: client.hget("s", "f"), lambda: client.incr("h")):
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            call()


def test_expiry(client):
    client.set("a", "1", px=30)
    client.set("b", "1", ex=1000)
    assert 999 <= client.ttl("b") <= 1000
    assert client.ttl("none") == -2
    wait_until(lambda: client.get("a") is None)
    assert client.persist("b") == 1
    assert client.ttl("b") == -1
    assert client.expire("b", 50, nx=True) == 1
    assert client.expire("b", 20, gt=True) == 0
    assert client.expireat("b", 1) == 1
    assert client.exists("b") == 0


def test_fields_expire(client):
    client.hset("h", mapping={"f": "1", "g": "2"})
    assert client.hexpire("h", 100, "f", "none") == [1, -2]
    assert client.httl("h", "f", "g")[1] == -1
    assert client.hpersist("h", "f") == [1]
    assert client.hpexpire("h", 30, "f") == [1]
    wait_until(lambda: client.hgetall("h") == {"g": "2"})
    assert client.hlen("h") == 1


def test_scan_finds_every_key(client):
    wanted = {f"k:{n}" for n in range(2500)}
    client.mset(dict.fromkeys(wanted, "v"))
    client.hset("h", "f", "v")
    assert set(client.scan_iter(match="k:*", count=100)) == wanted
    assert list(client.scan_iter(_type="hash")) == ["h"]
    assert client.dbsize() == 2501
    assert sorted(client.keys("k:1?")) == [f"k:{n}" for n in range(10, 20)]


def test_pipelines_answer_in_order(client):
    pipeline = client.pipeline(transaction=False)
    for n in range(1000):
        pipeline.set(f"p:{n}", n).get(f"p:{n}").incr("count")
    replies = pipeline.execute()
    assert replies[1::3] == [str(n) for n in range(1000)]
    assert replies[2::3] == list(range(1, 1001))


def test_an_error_in_a_pipeline_stays_in_its_place(client):
    replies = client.pipeline(transaction=False).set("a", "x").incr("a").get("a").execute(raise_on_error=False)
    assert replies[0] is True and replies[2] == "x"
    assert isinstance(replies[1], redis.ResponseError)


def test_transactions(client):
    assert client.pipeline().set("a", 1).incr("a").hset("h", "f", 1).execute() == [True, 2, 1]
    replies = client.pipeline().incr("h").set("b", 1).execute(raise_on_error=False)
    assert isinstance(replies[0], redis.ResponseError) and replies[1] is True


def test_a_watched_key_that_changed_stops_the_transaction(client):
    client.set("a", 1)
    with client.pipeline() as pipeline:
        pipeline.watch("a")
        client.set("a", 2)
        pipeline.multi()
        pipeline.set("a", 3)
        with pytest.raises(redis.WatchError):
            pipeline.execute()
    assert client.get("a") == "2"


@pytest.mark.parametrize("flush", ["flushdb", "flushall"])
@pytest.mark.parametrize("value", [1, None])
def test_a_flush_by_another_client_stops_a_transaction_that_watches(node, flush, value):
    """Whatever was there when the key was watched: gone, or gone and made again as it was. A key that
    was never there has not changed."""
    with node.client(decode_responses=True) as one, node.client() as other:
        for is_made_again in (False, True):
            one.flushall()
            if value is not None:
                one.set("a", value)
            with one.pipeline() as pipeline:
                pipeline.watch("a")
                assert pipeline.get("a") == (None if value is None else str(value))
                getattr(other, flush)()
                if is_made_again and value is not None:
                    other.set("a", value)
                pipeline.multi()
                pipeline.set("a", "by the transaction")
                if value is None:
                    assert pipeline.execute() == [True]
                else:
                    with pytest.raises(redis.WatchError):
                        pipeline.execute()
            left = str(value) if is_made_again else None
            assert one.get("a") == ("by the transaction" if value is None else left)
    # Of another database it is nobody's business here.
    with node.client() as one, node.client(db=1) as other, one.pipeline() as pipeline:
        one.set("a", 1)
        pipeline.watch("a")
        other.flushdb()
        pipeline.multi()
        pipeline.get("a")
        assert pipeline.execute() == [b"1"]


def test_racing_transactions_lose_nothing(node):
    rounds, racers = 40, 5

    def race():
        with node.client() as client:
            for _ in range(rounds):
                client.transaction(lambda p: increment(p), "a")

    def increment(pipeline):
        value = int(pipeline.get("a") or 0)
        pipeline.multi()
        pipeline.set("a", value + 1)

    in_parallel(racers, race)
    assert int(node.client().get("a")) == rounds * racers


def test_databases_are_apart(node):
    with node.client(db=1) as one, node.client() as zero:
        one.set("a", "1")
        assert zero.get("a") is None
        zero.flushdb()
        assert one.get("a") == b"1"
        one.flushall()


def test_binary_and_large_values(node):
    with node.client() as client:
        key, value = bytes(range(256)), bytes(range(256)) * 4096
        client.set(key, value)
        assert client.get(key) == value
        client.hset("h", key, value)
        assert client.hgetall("h") == {key: value}
        assert client.strlen(key) == 1 << 20


def test_too_large_a_value_is_refused_and_leaves_nothing(node):
    with node.client() as client:
        client.set("a", "before")
        with pytest.raises(redis.ResponseError):
            client.set("a", b"x" * (8 << 20))
        # A header over the limit ends the connection, as in Redis; the client may see only that.
        with pytest.raises((redis.ResponseError, redis.ConnectionError)):
            client.set("a", b"x" * (9 << 20))
        assert client.get("a") == b"before"


def test_values_that_are_not_text_are_the_clients_concern(node):
    node.client().set("a", b"\xff\xfe")
    with node.client(decode_responses=True) as client:
        with pytest.raises(UnicodeDecodeError):
            client.get("a")


def test_many_connections(node):
    clients = [node.client() for _ in range(300)]
    for n, client in enumerate(clients):
        client.set(f"k:{n}", n)
    assert [int(client.get(f"k:{n}")) for n, client in enumerate(clients)] == list(range(300))
    assert int(clients[0].info("clients")["connected_clients"]) >= 300
    for client in clients:
        client.close()


def test_info_is_true(node):
    with node.client() as client:
        client.set("a", 1)
        client.set("b", 1, ex=100)
        info = client.info()
        assert info["tcp_port"] == node.port
        assert info["process_id"] == node.process.pid
        assert info["db0"]["keys"] == 2 and info["db0"]["expires"] == 1
        assert info["role"] == "master" and info["cluster_enabled"] == 0


@pytest.mark.parametrize("stop", ["terminate", "kill"])
def test_a_restart_keeps_everything(new_node, stop):
    node = new_node().start()
    with node.client() as client:
        client.set("a", "1")
        client.set("b", "1", ex=1000)
        client.set("c", "1", px=50)
        client.hset("h", mapping={"f": "1", "g": "2"})
        client.hexpire("h", 1000, "f")
        client.delete("a")
        client.incr("n")
    result = getattr(node, stop)()
    assert result in (None, 0)
    node.start()
    with node.client(decode_responses=True) as client:
        assert client.get("a") is None
        assert 900 < client.ttl("b") <= 1000
        wait_until(lambda: client.get("c") is None)
        assert client.hgetall("h") == {"f": "1", "g": "2"}
        assert 900 < client.httl("h", "f")[0] <= 1000
        assert client.incr("n") == 2


def wait_until(condition, seconds=10):
    """Polls; the limit only ends a test that would otherwise hang."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def in_parallel(count, work):
    errors = []

    def run():
        try:
            work()
        except Exception as error:  # noqa: BLE001 - handed to the test below
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors

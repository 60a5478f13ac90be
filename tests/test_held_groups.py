"""A node reads the groups of the log in which it has copies: it takes them up and gives them up with these,
under writes and while the log is trimmed behind them."""

import contextlib
import pathlib

import pytest
from cluster_harness import Cluster
from cluster_processes import await_true
from resp import Connection
from rest import ask, get

GROUPS = 16
TABLE = "db0"
# A group that is of no use is given up ten seconds later.
SETTLE_SECONDS = 90
EXCLUDE = "cluster.routing.allocation.exclude._name"
TRIMMED_RECORDS = 100


def groups_read(node):
    """The groups that a node reads, the metadata's aside: each has a thread of its own."""
    found = set()
    for task in pathlib.Path(f"/proc/{node.process.pid}/task").iterdir():
        # A thread may end meanwhile.
        with contextlib.suppress(OSError):
            name = (task / "comm").read_text().strip().removeprefix("apply-")
            found |= {int(name)} if name.isdigit() else set()
    return found


def shards(cluster):
    """The shards that serve on each node."""
    found = {node.name: set() for node in cluster.nodes}
    for (table, shard), copies in cluster.copies().items():
        for name in copies if table == TABLE else ():
            found[name].add(shard)
    return found


def change(cluster, **changes):
    named = {name.replace("__", "."): value for name, value in changes.items()}
    assert ask(cluster.nodes[0], "PUT", "/_cluster/settings", {"persistent": named})[0] == 200


def exclude(cluster, name):
    assert ask(cluster.nodes[0], "PUT", "/_cluster/settings", {"persistent": {EXCLUDE: name}})[0] == 200


def await_groups(cluster):
    """Waits until every node reads as many groups as it has shards: each of them lies in another one."""

    def state():
        held = shards(cluster)
        return {node.name: (len(groups_read(node)), len(held[node.name])) for node in cluster.nodes}

    def is_settled():
        found = state().values()
        return sum(held for _, held in found) == 2 * GROUPS and all(read == held for read, held in found)

    await_true(lambda: f"groups read and shards: {state()}", is_settled, SETTLE_SECONDS)


def await_trimmed(cluster):
    """Waits until the log has given up what all copies have, in all groups that were written to."""

    def untrimmed():
        states = {group: stream["state"] for group, stream in cluster.logs.all[0].streams().items()}
        much = {group: (it["first_seq"], it["last_seq"]) for group, it in states.items() if it["last_seq"] > TRIMMED_RECORDS}
        return {group: held for group, held in much.items() if held[0] < held[1] / 2}

    await_true(lambda: f"trimmed: {untrimmed()}", lambda: not untrimmed(), SETTLE_SECONDS)


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path, nodes=4, settings=[f"resp.number_of_shards={GROUPS}"]).start()
    waits = {"cluster.default_node_left_delayed_timeout": "5s"}
    change(cluster, log__flush_interval="2s", cluster__default_number_of_replicas=1, **waits)
    yield cluster
    cluster.close()


def test_a_node_reads_the_groups_of_its_copies(cluster, tmp_path):
    first, last = cluster.nodes[0], cluster.nodes[3]
    everything = set(range(1, GROUPS + 1))
    assert all(groups_read(node) == everything for node in cluster.nodes), "nobody has copies yet"
    with Connection(first.port, 60) as rows:
        assert rows.ask("SET", "key", 0) == b"+OK\r\n"
    cluster.await_green()
    clients = cluster.clients(8, seed=1, prefix="held:", pace_seconds=0.1).start()
    await_groups(cluster)
    assert set().union(*map(groups_read, cluster.nodes)) == everything

    # Its copies go elsewhere, and it reads nothing any more but the metadata; it still serves clients.
    exclude(cluster, last.name)
    await_true(lambda: f"it reads {groups_read(last)}", lambda: not groups_read(last), SETTLE_SECONDS)
    await_groups(cluster)
    clients.await_more(200, SETTLE_SECONDS)
    await_trimmed(cluster)
    # A table that it creates, in groups of others.
    shape = {"settings": {"number_of_shards": 3, "number_of_replicas": 1}}
    assert ask(last, "PUT", "/made", shape)[0] == 200
    assert ask(last, "PUT", "/made/_doc/1?refresh=true", {"n": 1})[0] == 201
    assert get(last, "/made/_count")["count"] == 1

    # What it had given up and the others trimmed meanwhile it takes up again, also after a restart.
    assert last.terminate(60) == 0
    cluster.restart(last)
    assert not groups_read(last)
    exclude(cluster, None)
    await_true("it has copies again", lambda: shards(cluster)[last.name], SETTLE_SECONDS)
    clients.await_more(200, SETTLE_SECONDS)
    assert ask(first, "DELETE", "/made")[0] == 200
    await_groups(cluster)
    await_trimmed(cluster)
    verdict = cluster.settle(clients, tmp_path / "history")
    assert verdict["copies"] == 2 * GROUPS


def test_a_node_that_stood_still_takes_up_what_was_trimmed_meanwhile(cluster, tmp_path):
    """It is frozen while the copies move, and the log of its groups goes on without it."""
    last = cluster.nodes[3]
    with Connection(last.port, 60) as rows:
        assert rows.ask("SET", "key", 0) == b"+OK\r\n"
    cluster.await_green()
    await_groups(cluster)
    clients = cluster.clients(6, seed=2, prefix="still:", nodes=cluster.nodes[:3], pace_seconds=0.1).start()
    exclude(cluster, last.name)
    await_true("it has no copies", lambda: not shards(cluster)[last.name], SETTLE_SECONDS)
    last.freeze()
    exclude(cluster, None)
    clients.await_more(300, SETTLE_SECONDS)
    await_trimmed(cluster)
    last.thaw()
    await_true("it has copies again", lambda: shards(cluster)[last.name], SETTLE_SECONDS)
    await_groups(cluster)
    verdict = cluster.settle(clients, tmp_path / "history")
    assert verdict["copies"] == 2 * GROUPS


def test_a_node_that_the_log_goes_on_without_again_and_again_is_there_each_time(tmp_path):
    """What was copied for it the last time is too old by then: it has to be copied anew."""
    cluster = Cluster(tmp_path, nodes=3).start()
    try:
        last = cluster.nodes[2]
        change(cluster, log__flush_interval="1s", cluster__default_node_left_delayed_timeout="1s")

        def metadata():
            state = cluster.logs.all[0].streams()[0]["state"]
            return state["first_seq"], state["last_seq"]

        for _ in range(2):
            last.kill()
            _, gone_at = metadata()
            await_true(
                lambda at=gone_at: f"trimmed past {at}: {metadata()}",
                lambda at=gone_at: metadata()[0] > at,
                SETTLE_SECONDS,
            )
            cluster.restart(last)
    finally:
        cluster.close()

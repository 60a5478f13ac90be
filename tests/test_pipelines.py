"""Pipelines over many partitions: requests of different partitions run side by side, and a client that is
alone sees what it would see if they ran one after the other."""

import random

import pytest
from cluster_harness import Cluster
from resp import Connection, array, bulk, encode, number

PARTITIONS = 16
KEYS = [f"key:{n}" for n in range(120)]
ROUNDS = 60
REQUESTS = 150


class Model:
    """What Redis would answer."""

    def __init__(self):
        self.rows = {}

    def ask(self, words):
        name, *rest = words
        rows = self.rows
        match name:
            case "SET":
                rows[rest[0]] = rest[1]
                return "OK"
            case "GET":
                return rows.get(rest[0])
            case "DEL":
                return sum(rows.pop(key, None) is not None for key in set(rest))
            case "APPEND":
                rows[rest[0]] = rows.get(rest[0], "") + rest[1]
                return len(rows[rest[0]])
            case "STRLEN":
                return len(rows.get(rest[0], ""))
            case "MSET":
                rows.update(zip(rest[::2], rest[1::2]))
                return "OK"
            case "MGET":
                return [rows.get(key) for key in rest]
        raise AssertionError(name)


def draw(chance):
    def key():
        return chance.choice(KEYS)

    match chance.randrange(9):
        case 0 | 1 | 2:
            return ["SET", key(), str(chance.randrange(10**9))]
        case 3 | 4:
            return ["GET", key()]
        case 5:
            return ["APPEND", key(), "x" * chance.randrange(5)]
        case 6:
            return ["STRLEN", key()]
        case 7:
            return chance.choice([["DEL", key(), key(), key()], ["DEL", key()]])
        case _:
            some = chance.sample(KEYS, 8)
            return chance.choice([["MGET", *some], ["MSET", *[it for key in some for it in (key, str(chance.random()))]]])


def parsed(reply):
    match reply[:1]:
        case b"+":
            return reply[1:-2].decode()
        case b":":
            return number(reply)
        case b"$":
            value = bulk(reply)
            return None if value is None else value.decode()
        case b"*":
            return [None if it is None else it.decode() for it in array(reply)]
    raise AssertionError(reply)


def check(ports, chance):
    model = Model()
    connections = [Connection(port, 60) for port in ports]
    for at in range(ROUNDS):
        commands = [draw(chance) for _ in range(REQUESTS)]
        rows = connections[at % len(connections)]
        rows.send(b"".join(encode(*words) for words in commands))
        for words in commands:
            assert parsed(rows.reply()) == model.ask(words), words
    for connection in connections:
        connection.close()


def test_a_pipeline_over_many_partitions_answers_in_order(new_node):
    node = new_node(settings=[f"resp.number_of_shards={PARTITIONS}"]).start()
    check([node.port], random.Random(1))


@pytest.mark.parametrize("seed", [1, 2])
def test_nodes_in_turn_answer_one_client_in_order(tmp_path, seed):
    cluster = Cluster(tmp_path, settings=[f"resp.number_of_shards={PARTITIONS}"]).start()
    try:
        check([node.port for node in cluster.nodes], random.Random(seed))
    finally:
        cluster.close()

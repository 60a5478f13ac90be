"""Commands on strings that Redis 7.0 lacks, over RESP 2 and 3: conditions on what is set or deleted."""

import pytest


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(node, request):
    with node.client(protocol=request.param, decode_responses=True) as client:
        client.flushdb()
        yield client


def test_strings_are_compared_before_they_are_set_or_deleted(client):
    def run(words):
        return client.execute_command(*words.split())

    assert run("SET k hello IFEQ x") is None
    assert run("SET k hello IFNE x") in (True, "OK")
    assert run("DIGEST k") == "9555e8555c62dcfd"
    set_and_get = ["SET", "k", "world", "IFDEQ", "9555e8555c62dcfd", "GET"]
    assert client.execute_command(*set_and_get, get=True) == "hello"
    assert run("DELEX k IFEQ hello") == 0
    with client.pipeline(transaction=True) as together:
        together.execute_command("SET", "k", "x", "IFEQ", "world")
        together.execute_command("DELEX", "k", "IFNE", "world")
        assert together.execute()[1] == 1
    assert run("DIGEST k") is None

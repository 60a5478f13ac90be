"""Debian's redis-cli and redis-benchmark, unmodified."""

import re
import subprocess

import pytest


def cli(node, *words, stdin=None):
    command = ["redis-cli", "-p", str(node.port), *map(str, words)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=True).stdout


def test_cli_answers(node):
    assert cli(node, "SET", "a", "1") == "OK\n"
    assert cli(node, "GET", "a") == "1\n"
    assert cli(node, "HSET", "h", "f", "v", "g", "w") == "2\n"
    assert cli(node, "-3", "HGETALL", "h").split() == ["f", "v", "g", "w"]
    assert cli(node, "-n", "3", "GET", "a") == "\n"
    assert "unknown command" in cli(node, "BOGUS")


def test_cli_reads_commands_from_a_pipe(node):
    lines = "".join(f"SET k:{n} {n}\n" for n in range(100)) + "MULTI\nINCR k:1\nINCR k:2\nEXEC\n"
    assert cli(node, stdin=lines).split()[-2:] == ["2", "3"]


def test_cli_scans_and_weighs(node):
    cli(node, stdin="".join(f"SET k:{n} {n}\n" for n in range(500)))
    cli(node, "HSET", "h", "f", "1", "g", "2")
    assert len(cli(node, "--scan", "--pattern", "k:*").split()) == 500
    big = cli(node, "--bigkeys")
    assert "Biggest   hash found" in big and "501 keys" in big


def test_cli_loads_in_bulk(node):
    stream = "".join(f"*3\r\n$3\r\nSET\r\n$5\r\nm:{n:03}\r\n$1\r\nx\r\n" for n in range(1000))
    result = cli(node, "--pipe", stdin=stream)
    assert "errors: 0, replies: 1000" in result
    assert cli(node, "DBSIZE") == "1000\n"


@pytest.mark.parametrize("protocol", [[], ["-3"]], ids=["resp2", "resp3"])
@pytest.mark.parametrize("pipeline", [1, 16])
def test_benchmark_runs(node, pipeline, protocol):
    command = ["redis-benchmark", "-p", str(node.port), "-t", "ping,set,get,incr,hset,mset", "-q"]
    command += ["-n", "2000", "-P", str(pipeline), "-r", "1000", *protocol]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    output = result.stdout + result.stderr
    assert result.returncode == 0, output
    # The tool ends with an error at the first reply that is one.
    assert "rror" not in output, output
    rates = re.findall(r"^(\S+).*: ([0-9.]+) requests per second", output.replace("\r", "\n"), re.M)
    assert {name for name, _ in rates} == {"PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "HSET", "MSET"}
    assert int(cli(node, "HLEN", "myhash")) > 0

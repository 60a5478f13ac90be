"""A client that ends what it sends, or is ended, has the answer to all that came whole before."""

import contextlib
import socket

import pytest
from resp import Connection, encode

VALUE = b"x" * 8000
READS = 2000
ANSWER = b"$%d\r\n%s\r\n" % (len(VALUE), VALUE)
# More than the server reads at once: bytes are left that nobody reads.
REST = b"PING\r\n" * 60_000


def all_answers(node, sent):
    """What comes for bytes that are sent while nothing is read, the sending half closed after them."""
    with socket.create_connection(("127.0.0.1", node.port), timeout=60) as connection:
        # The server may have ended it meanwhile, and that is what is looked at.
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        data = b""
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(1 << 16):
                data += piece
        return data


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (b"SET a 1\r\nGET a\r\n", b"+OK\r\n$1\r\n1\r\n"),
        (b"SET a 1\nGET a\n", b"+OK\r\n$1\r\n1\r\n"),
        (encode("SET", "a", "1") + encode("GET", "a"), b"+OK\r\n$1\r\n1\r\n"),
        (b"MULTI\r\nSET a 1\r\nGET a\r\nEXEC\r\n", b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n$1\r\n1\r\n"),
        (b"SET a 1\r\nDEBUG SLEEP 0.2\r\nGET a\r\n", b"+OK\r\n+OK\r\n$1\r\n1\r\n"),
        # What has not come whole is no command.
        (b"SET a 1\r\nGET a\r\nSET a 2", b"+OK\r\n$1\r\n1\r\n"),
        (encode("SET", "a", "1") + encode("GET", "a") + b"*2\r\n$3\r\nGET\r\n$1\r\n", b"+OK\r\n$1\r\n1\r\n"),
        (b"INCR n\r\n" * 5000, b"".join(b":%d\r\n" % (n + 1) for n in range(5000))),
    ],
)
def test_a_pipeline_whose_sender_closes_its_half_is_answered_whole(node, sent, answers):
    assert all_answers(node, sent) == answers


def test_answers_that_are_read_late_come_whole(node):
    with Connection(node.port) as connection:
        connection.ask("SET", "v", VALUE)
    assert all_answers(node, b"GET v\r\n" * READS) == ANSWER * READS


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (b"QUIT\r\n", b"+OK\r\n"),
        (b"*1\r\n$x\r\n", b"-ERR Protocol error: invalid bulk length\r\n"),
        (b"POST / HTTP/1.1\r\n", b""),
    ],
)
def test_who_is_ended_while_more_comes_has_the_answers_before(node, end, words):
    """A system that closes a connection with bytes unread takes back what is still on its way."""
    with Connection(node.port) as connection:
        connection.ask("SET", "v", VALUE)
    for reads in (1, 50, READS):
        assert all_answers(node, b"GET v\r\n" * reads + end + REST) == ANSWER * reads + words

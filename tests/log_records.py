"""Looks at a log's streams past Plimsoll: the least that can ask a NATS server, and what a record says
of itself. Only of what stands in the log; nothing here appends."""

import base64
import datetime
import json
import socket
import struct

# Where a record has its lead's stamp, ms since 1970: behind the format, the version, the partition
# and the lead's place (crates/log/src/record.rs).
STAMP_OFFSETS = {1: 1 + 12 + 20, 2: 1 + 4 + 12 + 20}
ASK_SECONDS = 10


class LogConnection:
    """A connection to one NATS server that asks JetStream's API there."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), ASK_SECONDS)
        self.file = self.socket.makefile("rb")
        self.file.readline()
        self.socket.sendall(b'CONNECT {"verbose":false}\r\nSUB inbox 1\r\nPING\r\n')
        while self.file.readline() != b"PONG\r\n":
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def ask(self, subject, bodies):
        """The answers to one request for each body, in order."""
        asked = [json.dumps(body).encode() for body in bodies]
        self.socket.sendall(
            b"".join(b"PUB $JS.API.%s inbox %d\r\n%s\r\n" % (subject.encode(), len(text), text) for text in asked)
        )
        return [self.answer() for _ in asked]

    def answer(self):
        while line := self.file.readline():
            if line.startswith(b"MSG "):
                body = self.file.read(int(line.split()[-1]) + 2)
                return json.loads(body)
            if line == b"PING\r\n":
                self.socket.sendall(b"PONG\r\n")
        raise AssertionError("the log server closed the connection")


def stream_name(group):
    return f"plimsoll_plimsoll_{group}"


def last_position(port, group):
    """The position of a group's last record, as the server at this port answers; None where it does
    not know."""
    with LogConnection(port) as connection:
        (answer,) = connection.ask(f"STREAM.INFO.{stream_name(group)}", [{}])
    return answer.get("state", {}).get("last_seq")


def delays_ms(port, group, first, last):
    """For each record in a range how long after its making the log's leader stored it."""
    found = []
    with LogConnection(port) as connection:
        for begin in range(first, last + 1, 100):
            bodies = [{"seq": seq} for seq in range(begin, min(begin + 100, last + 1))]
            for answer in connection.ask(f"STREAM.MSG.GET.{stream_name(group)}", bodies):
                if "message" in answer:
                    found.append(delay_ms(answer["message"]))
    return found


def delay_ms(message):
    record = base64.b64decode(message["data"])
    (stamp_ms,) = struct.unpack_from("<Q", record, STAMP_OFFSETS[record[0]])
    # Nanoseconds are more than Python reads.
    text = message["time"].rstrip("Z")[:26]
    stored = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc)
    return stored.timestamp() * 1000 - stamp_ms

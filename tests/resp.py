"""The least a client can be: sends arrays of bulk strings, hands back the bytes of each reply."""

import socket


def encode(*words):
    parts = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


class Closed(Exception):
    """The server ended the connection; what was asked and not answered has an unknown outcome."""


class Connection:
    def __init__(self, port, timeout_seconds=10):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Closed from error

    def reply(self):
        """The next reply whole, as bytes, nested ones included."""
        try:
            line = self.file.readline()
        except OSError as error:
            raise Closed from error
        if not line.endswith(b"\r\n"):
            raise Closed
        kind, rest = line[:1], line[1:-2]
        if kind in b"$=!" and rest != b"-1":
            body = self.file.read(int(rest) + 2)
            if len(body) != int(rest) + 2:
                raise Closed
            return line + body
        if kind in b"*~>%|" and rest != b"-1":
            count = int(rest) * (2 if kind in b"%|" else 1)
            return line + b"".join(self.reply() for _ in range(count))
        return line

    def ask(self, *words):
        self.send(encode(*words))
        return self.reply()

    def ask_many(self, commands):
        """Sends all commands at once and returns their replies in order."""
        self.send(b"".join(encode(*words) for words in commands))
        return [self.reply() for _ in commands]

    def rest(self, timeout_seconds):
        """Everything that still comes, and whether the server closed the connection after it."""
        self.socket.settimeout(timeout_seconds)
        data = b""
        try:
            while chunk := self.socket.recv(65536):
                data += chunk
        except TimeoutError:
            return data, False
        except OSError:
            pass
        return data, True


def number(reply):
    assert reply[:1] == b":", reply
    return int(reply[1:])


def bulk(reply):
    """The bytes of a bulk string; None for a null."""
    if reply[:3] in (b"$-1", b"_\r\n"):
        return None
    assert reply[:1] == b"$", reply
    return reply[reply.index(b"\r\n") + 2 : -2]


def array(reply):
    """What an array of bulk strings, and of such arrays, has in it."""
    found, end = _parsed(reply, 0)
    assert end == len(reply) and isinstance(found, list), reply
    return found


def _parsed(reply, at):
    line = reply.index(b"\r\n", at)
    kind, size = reply[at : at + 1], int(reply[at + 1 : line])
    if kind == b"*":
        items, at = [], line + 2
        for _ in range(size):
            item, at = _parsed(reply, at)
            items.append(item)
        return items, at
    assert kind == b"$", reply
    if size < 0:
        return None, line + 2
    return reply[line + 2 : line + 2 + size], line + 2 + size + 2

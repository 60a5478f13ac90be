"""A mixed load that remembers what was acknowledged, and checks a restarted node against it.

Each writer owns its keys, so it knows what they must hold; one pair of counters is shared by all
and must sum to zero. An operation in flight when the node dies is unknown: it may have happened
once or not at all. After a check the writers take over what the node holds and go on.
"""

import random
import threading
import time

from resp import Closed, Connection, bulk, encode, number


class Wrong(AssertionError):
    """The node lost, repeated or tore something."""


class Writer:
    """One connection's worth of load."""

    def __init__(self, name, seed):
        self.name = name
        self.random = random.Random(seed)
        self.strings = 0  # string keys s:<name>:<n> acknowledged, n from 0
        self.fields = 0  # hash fields f<n> of h:<name> acknowledged
        self.count = 0  # value of the counter c:<name>
        self.moves = 0  # transactions acknowledged
        self.moved = 0  # what they took from `left` in all
        self.unknown = None  # the kind of the operation in flight at the kill, and its amount
        self.done = 0

    def value(self, number):
        return f"{self.name}-{number}-".encode() * (1 + number % 40)

    def run(self, port, stop):
        try:
            with Connection(port) as connection:
                while not stop.is_set():
                    self.step(connection)
        except (Closed, OSError):
            pass

    def step(self, connection):
        kind = self.random.choice(("string", "field", "increment", "move", "batch"))
        amount = self.random.randint(1, 9) if kind in ("move", "batch") else 1
        self.unknown = (kind, amount)
        getattr(self, kind)(connection, amount)
        self.unknown = None
        self.done += 1

    def string(self, connection, _):
        expect(connection.ask("SET", f"s:{self.name}:{self.strings}", self.value(self.strings)), b"+OK\r\n")
        self.strings += 1

    def batch(self, connection, amount):
        """A pipeline of increments: the replies come in order and count without a gap."""
        commands = [("INCR", f"c:{self.name}")] * amount
        connection.send(b"".join(encode(*words) for words in commands))
        for left in range(amount, 0, -1):
            self.unknown = ("batch", left)
            expect(number(connection.reply()), self.count + 1)
            self.count += 1

    def field(self, connection, _):
        reply = connection.ask("HSET", f"h:{self.name}", f"f{self.fields}", self.value(self.fields))
        expect(reply, b":1\r\n")
        self.fields += 1

    def increment(self, connection, _):
        expect(number(connection.ask("INCR", f"c:{self.name}")), self.count + 1)
        self.count += 1

    def move(self, connection, amount):
        commands = [
            ("MULTI",), ("DECRBY", "left", amount), ("INCRBY", "right", amount),
            ("INCR", f"m:{self.name}"), ("INCRBY", f"a:{self.name}", amount), ("EXEC",),
        ]
        reply = connection.ask_many(commands)[-1]
        if not reply.startswith(b"*4\r\n"):
            raise Wrong(f"EXEC answered {reply!r}")
        self.moves += 1
        self.moved += amount

    def check(self, connection, recent):
        """Compares the node with what was acknowledged and takes over what it holds.

        `recent` is how many of the newest strings are read; older ones were read before.
        """
        kind, amount = self.unknown or (None, 0)
        self.unknown = None
        self.check_strings(connection, recent, kind == "string")
        self.check_fields(connection, recent, kind == "field")
        slack = {"increment": 1, "batch": amount}.get(kind, 0)
        self.count = self.within(connection, "c", self.count, slack)
        before = self.moves
        self.moves = self.within(connection, "m", before, int(kind == "move"))
        expected = self.moved + (amount if self.moves > before else 0)
        self.moved = self.within(connection, "a", expected, 0)

    def within(self, connection, key, acknowledged, slack):
        found = int(bulk(connection.ask("GET", f"{key}:{self.name}")) or 0)
        if not acknowledged <= found <= acknowledged + slack:
            raise Wrong(f"{key}:{self.name} is {found}, acknowledged {acknowledged}, in flight {slack}")
        return found

    def check_strings(self, connection, recent, unknown):
        numbers = range(max(0, self.strings - recent), self.strings + 1)
        replies = connection.ask_many([("GET", f"s:{self.name}:{n}") for n in numbers])
        found = [bulk(reply) for reply in replies]
        for n, value in zip(numbers[:-1], found):
            if value != self.value(n):
                raise Wrong(f"s:{self.name}:{n} holds {value!r}")
        self.strings += self.took_effect(found[-1], self.strings, unknown)

    def check_fields(self, connection, recent, unknown):
        key = f"h:{self.name}"
        numbers = range(max(0, self.fields - recent), self.fields + 1)
        replies = connection.ask_many([("HGET", key, f"f{n}") for n in numbers])
        found = [bulk(reply) for reply in replies]
        for n, value in zip(numbers[:-1], found):
            if value != self.value(n):
                raise Wrong(f"{key} f{n} holds {value!r}")
        self.fields += self.took_effect(found[-1], self.fields, unknown)
        length = number(connection.ask("HLEN", key))
        if length != self.fields:
            raise Wrong(f"{key} has {length} fields, {self.fields} were written")

    def took_effect(self, value, n, unknown):
        """Whether the write after the last acknowledged one is there; it must be whole if it is."""
        if value is None:
            return 0
        if not unknown or value != self.value(n):
            raise Wrong(f"{self.name}: write {n} holds {value!r} and was never acknowledged")
        return 1


def end_somehow(node, chance, load_seconds_max):
    """Lets the load run for a random time and kills the node, now and then while it stops by itself."""
    time.sleep(chance.uniform(0, load_seconds_max))
    if chance.random() < 0.3:
        node.kill_while_stopping(chance.uniform(0, 0.3))
    else:
        node.kill()


class Workload:
    """Several writers and the invariant that they share."""

    def __init__(self, writers, seed):
        self.writers = [Writer(f"w{n}", seed * 1000 + n) for n in range(writers)]

    @property
    def done(self):
        """Operations acknowledged so far."""
        return sum(writer.done for writer in self.writers)

    def run_until(self, port, kill):
        """Loads the node from all writers while `kill` runs, which ends the node."""
        stop, wrong = threading.Event(), []

        def work(writer):
            try:
                writer.run(port, stop)
            except AssertionError as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(writer,)) for writer in self.writers]
        for thread in threads:
            thread.start()
        kill()
        stop.set()
        for thread in threads:
            thread.join()
        if wrong:
            raise wrong[0]

    def check(self, port, recent=1_000_000):
        """Raises `Wrong` where the node does not hold what it acknowledged."""
        with Connection(port) as connection:
            for writer in self.writers:
                writer.check(connection, recent)
            left, right = (int(bulk(connection.ask("GET", key)) or 0) for key in ("left", "right"))
            moved = sum(writer.moved for writer in self.writers)
            if (left, right) != (-moved, moved):
                raise Wrong(f"left is {left} and right {right}, moved were {moved}")


def expect(found, wanted):
    if found != wanted:
        raise Wrong(f"expected {wanted!r}, the node answered {found!r}")

"""The way from one process to another, as something that can go bad: cut, frozen, slow, narrow.

A program of its own, so that what passes does not wait for the test's clients. It takes a line of
JSON a command and answers each with a line:

    {"listen": 4222}                              -> {"port": 41001}
    {"way": 41001, "mode": "open" | "cut" | "frozen", "delay_ms": 20, "bytes_s": 100000} -> {}

`cut` ends all connections and every new one; `frozen` lets nothing through and says nothing, as a
network that drops packets; what was under way goes on when it is open again. A delay and a rate
(0: none) hold in each direction.
"""

import asyncio
import json
import os
import sys

CHUNK_BYTES = 1 << 16
# Chunks of one direction that may be under way.
QUEUE_LENGTH = 64


class Way:
    def __init__(self, target):
        self.target = target
        self.port = 0
        self.delay_seconds, self.bytes_s = 0.0, 0
        self.is_cut = False
        self.flows = asyncio.Event()
        self.flows.set()
        self.ends = set()

    async def listen(self):
        server = await asyncio.start_server(self.accept, "127.0.0.1", 0, limit=CHUNK_BYTES)
        self.port = server.sockets[0].getsockname()[1]
        self.server = server

    def change(self, mode, delay_ms=0, bytes_s=0):
        self.delay_seconds, self.bytes_s = delay_ms / 1000, bytes_s
        self.is_cut = mode == "cut"
        (self.flows.clear if mode == "frozen" else self.flows.set)()
        if self.is_cut:
            for end in list(self.ends):
                end.transport.abort()

    async def accept(self, reader, writer):
        ends = [writer]
        self.ends.add(writer)
        try:
            await self.flows.wait()
            if self.is_cut:
                return
            onward_reader, onward = await asyncio.open_connection("127.0.0.1", self.target, limit=CHUNK_BYTES)
            ends.append(onward)
            self.ends.add(onward)
            pumps = [asyncio.create_task(self.pump(*pair)) for pair in ((reader, onward), (onward_reader, writer))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            # The end of one direction is the end of both, once what came before it has passed.
            await asyncio.sleep(self.delay_seconds)
            for pump in pumps:
                pump.cancel()
        except OSError:
            pass
        finally:
            for end in ends:
                self.ends.discard(end)
                end.transport.abort()

    async def pump(self, reader, writer):
        queue = asyncio.Queue(QUEUE_LENGTH)
        passing = asyncio.create_task(self.deliver(queue, writer))
        loop = asyncio.get_running_loop()
        try:
            while chunk := await reader.read(CHUNK_BYTES):
                await queue.put((loop.time() + self.delay_seconds, chunk))
            await queue.put((0, b""))
            await passing
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            passing.cancel()

    async def deliver(self, queue, writer):
        loop = asyncio.get_running_loop()
        try:
            while True:
                due, chunk = await queue.get()
                if not chunk:
                    return
                if (wait := due - loop.time()) > 0:
                    await asyncio.sleep(wait)
                await self.flows.wait()
                writer.write(chunk)
                await writer.drain()
                if self.bytes_s:
                    await asyncio.sleep(len(chunk) / self.bytes_s)
        except OSError:
            writer.transport.abort()


async def main():
    ways = {}
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        command = json.loads(line)
        answer = {}
        if "listen" in command:
            way = Way(command["listen"])
            await way.listen()
            ways[way.port] = way
            answer = {"port": way.port}
        else:
            ways[command.pop("way")].change(**command)
        print(json.dumps(answer), flush=True)
    # Whoever gave the commands is gone; nothing here is worth an orderly end.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(main())

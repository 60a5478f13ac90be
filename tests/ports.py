"""Free ports for what the tests start. Every port of a run comes from here.

They are no ports that the kernel gives out by itself, and each process of a run that is spread over several
(`pytest -n`) has those of its own: a port that nobody listens on yet, or any more, is given to nobody else.
"""

import os
import random
import socket

PORTS = range(12_000, 32_000)
WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))

# Ports that this process has given out.
GIVEN = set()


def free_ports(count):
    found = []
    while len(found) < count:
        port = random.SystemRandom().choice(PORTS[WORKER::WORKERS])
        if port in GIVEN:
            continue
        try:
            with socket.create_server(("127.0.0.1", port)):
                pass
        except OSError:
            continue
        GIVEN.add(port)
        found.append(port)
    return found

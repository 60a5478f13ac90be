"""A hostile client: requests that are small to send and large to serve. Each is sent to a real node in
a control group of 1 GiB, and has to be answered, refused or closed, with the node alive and the small
requests beside it answered.

What is refused is refused while it is read or built; a node that finds out afterwards is killed by
the system before it can say so.
"""

import contextlib
import gzip
import json
import resource
import select
import socket
import subprocess
import sys
import threading
import time

import pytest
import requests
from cluster_processes import await_true
from conftest import Node
from control_groups import limited

LIMIT_BYTES = 1 << 30
# How long the harness waits for anything at all: generous, so that a busy machine does not fail it.
PATIENCE_SECONDS = 120
# A small request passes through several threads, each of which the machine may keep waiting.
MACHINE_TIMES = 20
JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}
REFUSED = {400, 413, 429}
MIB = 1 << 20


@pytest.fixture(scope="module")
def group():
    group = limited(LIMIT_BYTES)
    if group is None:
        pytest.skip("no control group with a limit of memory can be made here")
    yield group
    group.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory, group):
    # As many connections as some of the requests need, on both sides.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1 << 14) if hard > 0 else 1 << 14, hard))
    node = Node(tmp_path_factory.mktemp("hostile"))
    node.before = group.enter
    yield node
    if node.process:
        node.kill()


@pytest.fixture
def node(shared):
    """The node of all tests; where one of them ended it, the next has it started again."""
    if shared.process is None or shared.process.poll() is not None:
        shared.start()
        ask(shared, "PUT", "/h", {"settings": {"number_of_replicas": 0}})
        for number in range(5):
            write(shared, f"/h/_doc/{number}?refresh=true", {"n": number, "t": "one two three"})
    return shared


def url(node, path):
    return f"http://127.0.0.1:{node.http}{path}"


def ask(node, method, path, body=None, headers=JSON):
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return requests.request(method, url(node, path), data=body, headers=headers, timeout=PATIENCE_SECONDS)


def write(node, path, body):
    """Writes what a test needs. What the test before it asked for may still hold the memory: a client
    that is told 429 comes again."""

    def is_written():
        answer = ask(node, "PUT", path, body)
        assert answer.status_code in (200, 201, 429), answer.text[:500]
        return answer.status_code != 429

    await_true(f"no room for {path}", is_written, PATIENCE_SECONDS)


# A server that does nothing, in a process of its own: what it takes to answer is the machine's.
IDLE_SERVER = """
import socket
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
connection = listening.accept()[0]
while connection.recv(1):
    connection.send(b"x")
"""


class Machine:
    """How long the machine itself keeps somebody waiting."""

    def __enter__(self):
        command = [sys.executable, "-c", IDLE_SERVER]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        port = int(self.process.stdout.readline())
        self.connection = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        return self

    def wait_seconds(self):
        began = time.monotonic()
        self.connection.send(b"x")
        self.connection.recv(1)
        return time.monotonic() - began

    def __exit__(self, *_):
        self.connection.close()
        self.process.wait()
        self.process.stdout.close()


class Beside:
    """A client of small requests: each has to be answered within a second, and whatever the machine
    lets anybody wait meanwhile."""

    def __init__(self, node):
        self.node = node
        self.answers = 0
        self.slowest_seconds = 0.0
        self.machine_seconds = 0.0
        self.failures = []
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with requests.Session() as session, Machine() as machine:
            while not self.stopped.is_set() or self.answers == 0:
                began = time.monotonic()
                try:
                    answer = session.get(url(self.node, "/h/_doc/1"), timeout=PATIENCE_SECONDS)
                    if answer.status_code != 200:
                        self.failures.append(answer.text[:300])
                except requests.RequestException as error:
                    self.failures.append(repr(error))
                if self.failures:
                    return
                self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)
                self.machine_seconds = max(self.machine_seconds, machine.wait_seconds())
                self.answers += 1
                self.stopped.wait(0.02)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.stopped.set()
        self.thread.join()
        if kind is None:
            assert self.node.process.poll() is None, f"the node died:\n{self.node.text()[-2000:]}"
            assert not self.failures, self.failures[0]
            # Its own threads share the processors with the node's, and with what runs beside the test.
            allowed = 1 + MACHINE_TIMES * self.machine_seconds
            print(f"slowest small request {self.slowest_seconds:.3f} s, machine {self.machine_seconds:.3f} s")
            assert self.slowest_seconds < allowed, (self.slowest_seconds, self.machine_seconds)


def statuses_at_once(count, node, *request):
    """What so many of a request, sent at once, are answered with, while others are served."""
    statuses = []

    def send():
        statuses.append(ask(node, *request).status_code)

    with Beside(node):
        threads = [threading.Thread(target=send) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(statuses) == count, statuses
    return set(statuses)


def zeros(mebibytes):
    """`{"xx":[0,0,…]}`: each two bytes are a value."""
    return b'{"xx":[' + b"0," * (mebibytes * MIB // 2) + b"0]}"


# A body as a whole, or the line of a document under an action.
BODIES = [
    ("POST", "/h/_search"),
    ("POST", "/h/_count"),
    ("POST", "/h/_msearch"),
    ("POST", "/h/_explain/1"),
    ("POST", "/h/_validate/query"),
    ("POST", "/h/_field_caps?fields=n"),
    ("POST", "/h/_analyze"),
    ("POST", "/_search/scroll"),
    ("DELETE", "/_search/scroll"),
    ("POST", "/_mget"),
    ("POST", "/h/_doc"),
    ("PUT", "/h/_create/new"),
    ("POST", "/h/_update/1"),
    ("POST", "/_bulk"),
    ("POST", "/h/_delete_by_query"),
    ("POST", "/h/_update_by_query"),
    ("POST", "/_reindex"),
    ("PUT", "/made"),
    ("PUT", "/h/_settings"),
    ("PUT", "/h/_mapping"),
    ("POST", "/_aliases"),
    ("PUT", "/_template/t"),
    ("PUT", "/_index_template/t"),
    ("PUT", "/_component_template/t"),
    ("PUT", "/_cluster/settings"),
]


def body_for(path, json_bytes):
    if path == "/_bulk":
        return b'{"index":{"_index":"h"}}\n' + json_bytes + b"\n", NDJSON
    if path == "/h/_msearch":
        return b"{}\n" + json_bytes + b"\n", NDJSON
    return json_bytes, JSON


@pytest.fixture(scope="module")
def many():
    return zeros(90)


@pytest.fixture(scope="module")
def packed(many):
    return {path: gzip.compress(body_for(path, many)[0]) for path in ["/h/_search", "/_bulk"]}


@pytest.mark.parametrize(("method", "path"), BODIES)
def test_a_large_body_is_refused_while_it_is_read(node, many, method, path):
    body, headers = body_for(path, many)
    with Beside(node):
        try:
            answer = ask(node, method, path, body, headers)
        except requests.ConnectionError:
            return  # closed while it was being sent
        if path in ("/_bulk", "/h/_msearch") and answer.status_code == 200:
            (item,) = answer.json().get("items") or answer.json()["responses"]
            status = item.get("index", item)["status"]
        elif path == "/h/_validate/query" and answer.status_code == 200:
            # It says of a query that it is wrong; that is its answer.
            status = 400 if answer.json()["valid"] is False else 200
        else:
            status = answer.status_code
        assert status in REFUSED, answer.text[:500]


@pytest.mark.parametrize(("method", "path"), BODIES)
def test_so_is_one_that_is_small_on_the_way(node, packed, method, path):
    body = packed["/_bulk" if path in ("/_bulk", "/h/_msearch") else "/h/_search"]
    assert len(body) < MIB
    headers = body_for(path, b"")[1] | {"content-encoding": "gzip"}
    with Beside(node):
        answer = ask(node, method, path, body, headers)
        assert answer.status_code in REFUSED | {200}, answer.text[:500]


@pytest.mark.parametrize("path", ["/h/_search", "/_bulk", "/h/_doc", "/_mget", "/h/_analyze", "/_aliases"])
def test_sixteen_at_once_are_too(node, packed, path):
    body = packed["/_bulk" if path == "/_bulk" else "/h/_search"]
    headers = body_for(path, b"")[1] | {"content-encoding": "gzip"}
    assert statuses_at_once(16, node, "POST", path, body, headers) <= REFUSED | {200}


def test_sixteen_documents_of_the_largest_size_are_taken_or_refused(node):
    # Below every limit of one request: only what all hold together can be too much.
    body = b'{"doc":' + zeros(7) + b"}"
    statuses = statuses_at_once(16, node, "POST", "/h/_update/1?refresh=false", body)
    assert statuses <= REFUSED | {200, 409}
    write(node, "/h/_doc/1?refresh=true", {"n": 1})


def test_a_million_clauses_are_counted_before_they_are_read(node):
    clauses = b",".join([b'{"term":{"n":1}}'] * 1_000_000)
    with Beside(node):
        answer = ask(node, "POST", "/h/_search", b'{"query":{"bool":{"should":[' + clauses + b"]}}}")
        assert answer.status_code in REFUSED, answer.text[:500]
        clauses = b",".join([b'{"term":{"n":1}}'] * 1_025)
        answer = ask(node, "POST", "/h/_search", b'{"query":{"bool":{"should":[' + clauses + b"]}}}")
        assert answer.status_code == 400 and "indices.query.bool.max_clause_count" in answer.text


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"query":{"bool":{"must":'])
def test_values_in_values_without_end(node, opening):
    with Beside(node):
        answer = ask(node, "POST", "/h/_search", opening * (8 * MIB // len(opening)))
        assert answer.status_code == 400, answer.text[:500]


SCRIPTS = {
    "a sum of 8,000 terms": "ctx._source.n = 1" + "+1" * 8_000,
    "a path of 8,000 fields": "ctx" + ".a" * 8_000,
    "lists in lists": "def a = [1];" + "a=[a];" * 10_000,
    "lists in lists that are added": "def a = [1];" + "a.add(a);" * 2_000,
    "lists of both": "def a = ['0123456789'];" + "a=[a,a];" * 24,
    "texts that double": "def s = 'x';" + "s += s;" * 40,
    "calls of calls": "ctx._source.t" + ".toString()" * 5_000,
    "brackets": "ctx._source.n = " + "(" * 30_000,
    "signs": "ctx._source.n = " + "-" * 60_000 + "1",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_end_by_themselves(node, name):
    with Beside(node):
        for body in ({"script": SCRIPTS[name]}, {"script": SCRIPTS[name], "scripted_upsert": True, "upsert": {}}):
            answer = ask(node, "POST", "/h/_update/2", body)
            assert answer.status_code == 400, answer.text[:500]
            assert answer.json()["error"]["caused_by"]["type"] == "illegal_argument_exception"
        by_query = ask(node, "POST", "/h/_update_by_query", {"script": SCRIPTS[name]})
        assert by_query.status_code == 400, by_query.text[:500]


@pytest.mark.parametrize("pattern", ["**." * 120 + "x", "**." * 250 + "x", "*.**." * 120 + "x", "**." * 5_000 + "x", "a," * 5_000])
def test_filters_of_answers_cost_what_they_say(node, pattern):
    with Beside(node):
        for path in ("/_nodes/stats", "/h/_search", "/_cluster/state"):
            answer = requests.get(url(node, f"{path}?filter_path={pattern}"), timeout=PATIENCE_SECONDS)
            assert answer.status_code in (200, 400, 431), answer.text[:500]
        many = f"/h/_doc/1?_source_includes={pattern}"
        assert requests.get(url(node, many), timeout=PATIENCE_SECONDS).status_code in (200, 400, 431)


def test_what_is_indented_is_not_mostly_spaces(node):
    deep = b'{"type":"object","enabled":false}'
    assert ask(node, "PUT", "/deep", b'{"mappings":{"properties":{"o":' + deep + b"}}}").status_code == 200
    document = b'{"o":' + b"[" * 100 + b"0," * (3 * MIB) + b"0" + b"]" * 100 + b"}"
    write(node, "/deep/_doc/1", document)
    with Beside(node):
        for _ in range(3):
            assert ask(node, "GET", "/deep/_doc/1?pretty").status_code == 200
        answer = ask(node, "GET", "/deep/_doc/1?filter_path=**.x")
        assert answer.status_code == 200
    assert ask(node, "DELETE", "/deep").status_code == 200


ANALYZED = {
    "n-grams of a long word": {"tokenizer": {"type": "ngram", "min_gram": 1, "max_gram": 2}, "text": "x" * (3 * MIB)},
    "paths": {"tokenizer": "path_hierarchy", "text": "/a" * MIB},
    "letters that become books": {
        "tokenizer": "standard",
        "char_filter": [{"type": "mapping", "mappings": ["a => " + "b" * 65_536]}],
        "text": "a" * MIB,
    },
    "tags without end": {"tokenizer": "standard", "char_filter": ["html_strip"], "text": "<" * (4 * MIB)},
    "more than a document": {"analyzer": "standard", "text": "word " * (18 * MIB)},
}


@pytest.mark.parametrize("name", ANALYZED)
def test_analysis_stops_at_its_limit(node, name):
    with Beside(node):
        answer = ask(node, "POST", "/_analyze", ANALYZED[name])
        assert answer.status_code in REFUSED | {200, 500}, answer.text[:500]
        if answer.status_code == 500:
            assert "index.analyze.max_token_count" in answer.text


@pytest.fixture
def numbers(node):
    """An index of few documents that are as large as documents may be."""
    fields = {"n": {"type": "long"}, "o": {"type": "object", "enabled": False}}
    body = {"settings": {"number_of_replicas": 0}, "mappings": {"properties": fields}}
    ask(node, "DELETE", "/numbers")
    assert ask(node, "PUT", "/numbers", body).status_code == 200
    document = b'{"n":1,"o":[' + b"0," * (7 * MIB // 2) + b"0]}"
    for number in range(4):
        write(node, f"/numbers/_doc/{number}?refresh=true", document)
    yield "/numbers"
    if node.process.poll() is None:
        ask(node, "DELETE", "/numbers")


@pytest.mark.parametrize(
    "body",
    [
        {"_source": ["n"]},
        {"_source": {"excludes": ["n"]}},
        {"_source": False, "fields": ["n"]},
        {"_source": False, "highlight": {"fields": {"*": {}}}, "query": {"query_string": {"query": "1"}}},
        {"size": 0, "aggs": {"t": {"top_hits": {"size": 4, "_source": {"excludes": ["n"]}}}}},
    ],
)
def test_parts_of_large_documents_are_shown_within_the_memory(node, numbers, body):
    path = f"{numbers}/_search?request_cache=false"
    assert statuses_at_once(8, node, "POST", path, body) <= {200, 429}


def test_indices_are_made_up_to_what_the_node_holds(node):
    many = {"persistent": {"cluster.max_shards_per_node": 100_000}}
    assert ask(node, "PUT", "/_cluster/settings", many).status_code == 200
    made = []
    try:
        with Beside(node):
            body = {"settings": {"number_of_shards": 32, "number_of_replicas": 0}}
            while True:
                answer = ask(node, "PUT", f"/many-{len(made)}", body)
                if answer.status_code != 200:
                    break
                made.append(f"many-{len(made)}")
        assert answer.status_code == 400, answer.text
        # Where the machine lets a process open few files, these are used up first.
        assert "set by the memory of a node" in answer.text or "ulimit -n" in answer.text, answer.text
        assert len(made) > 4
        for name in made:
            assert ask(node, "GET", f"/{name}/_count").json()["_shards"]["successful"] == 32
    finally:
        for name in made:
            ask(node, "DELETE", f"/{name}")
        ask(node, "PUT", "/_cluster/settings", {"persistent": {"cluster.max_shards_per_node": None}})


def test_phrases_in_long_texts(node):
    text = {"t": "one two " * (7_900_000 // 8)}
    write(node, "/h/_doc/long?refresh=true", text)
    try:
        with Beside(node):
            for phrase in ("one two", "two one two", "one two one two one two one two", "one " * 200):
                body = {"size": 0, "query": {"match_phrase": {"t": {"query": phrase, "slop": 50}}}}
                for _ in range(2):
                    answer = ask(node, "POST", "/h/_search?request_cache=false", body)
                    is_dear = answer.status_code == 400 and "fewer or rarer words take less" in answer.text
                    assert is_dear or answer.status_code in (200, 429), answer.text[:500]
            assert is_dear or answer.status_code == 429, answer.text[:500]
            body = {"query": {"match_phrase": {"t": {"query": "two one", "slop": 2}}}, "_source": False}
            found = ask(node, "POST", "/h/_search", body).json()["hits"]["hits"]
            assert "long" in [hit["_id"] for hit in found]
    finally:
        assert ask(node, "DELETE", "/h/_doc/long?refresh=true").status_code == 200


def test_dear_searches_end_with_their_clients(node):
    terms = [{"k": f"{number:06}"} for number in range(50_000)]
    lines = "".join('{"index":{}}\n' + json.dumps(term) + "\n" for term in terms)
    mapping = {"properties": {"k": {"type": "keyword"}}}
    try:
        write(node, "/terms", {"mappings": mapping, "settings": {"number_of_replicas": 0}})
        filled = ask(node, "POST", "/terms/_bulk?refresh=true", lines.encode(), NDJSON)
        assert filled.json()["errors"] is False
        walks = [{"prefix": {"k": "0"}}] * 500 + [{"wildcard": {"k": "*0*"}}] * 500
        dear = {"bool": {"should": walks}}
        bodies = [
            {"size": 0, "query": dear},
            {"size": 0, "aggs": {"f": {"filter": dear}}},
            {"query": {"match_all": {}}, "rescore": {"query": {"rescore_query": dear}}},
            {"query": {"match_all": {}}, "sort": [{"k": "asc"}], "explain": True, "post_filter": dear},
        ]
        with Beside(node):
            for body in bodies * 3:
                with contextlib.suppress(requests.exceptions.Timeout):
                    requests.post(url(node, "/terms/_search"), json=body, timeout=0.3)

            def is_idle():
                pool = ask(node, "GET", "/_cat/thread_pool/search?format=json&h=active,queue").json()
                return all(row == {"active": "0", "queue": "0"} for row in pool)

            await_true("searches go on without their clients", is_idle, PATIENCE_SECONDS)
    finally:
        ask(node, "DELETE", "/terms")


def connected(node):
    return socket.create_connection(("127.0.0.1", node.http), timeout=PATIENCE_SECONDS)


def is_ended(connection):
    """Whether the node has ended a connection, by a close or a reset."""
    connection.settimeout(0.01)
    try:
        while True:
            if not connection.recv(1 << 16):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True


def test_answers_that_nobody_reads_stop_the_reading(node):
    request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n" * 200_000
    before = node.resident_bytes()
    with contextlib.ExitStack() as stack, Beside(node):
        unsent = {}
        for _ in range(13):
            connection = stack.enter_context(connected(node))
            connection.setblocking(False)
            unsent[connection] = memoryview(request)
        # Sent for as long as any of it is taken, by the node or the system.
        went_on = time.monotonic()
        while unsent and time.monotonic() - went_on < 5:
            for connection in select.select([], list(unsent), [], 1)[1]:
                try:
                    sent = connection.send(unsent[connection][:MIB])
                except OSError:
                    del unsent[connection]
                    continue
                went_on = time.monotonic()
                unsent[connection] = unsent[connection][sent:]
                if not unsent[connection]:
                    del unsent[connection]
        # Each answer is written before the next request is read: nothing waits in the node.
        assert node.resident_bytes() - before < 64 * MIB


def test_heads_without_end_are_cut_off(node):
    head = b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"x: " + b"y" * 380_000
    with contextlib.ExitStack() as stack, Beside(node):
        open_ones = []
        for _ in range(3_000):
            connection = stack.enter_context(connected(node))
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.send(head)
            open_ones.append(connection)
        await_true("all are ended", lambda: all(map(is_ended, open_ones)), PATIENCE_SECONDS)


def test_half_heads_do_not_keep_others_out(tmp_path, group):
    node = Node(tmp_path, settings=["http.max_clients=200"])
    node.before = group.enter
    node.start()
    try:
        with contextlib.ExitStack() as stack:
            half = [stack.enter_context(connected(node)) for _ in range(210)]
            for connection in half:
                with contextlib.suppress(OSError):
                    connection.sendall(b"GET / HTTP/1.1\r\nhost: loc")

            def answered():
                with contextlib.suppress(requests.RequestException):
                    return requests.get(url(node, "/"), timeout=PATIENCE_SECONDS).status_code == 200

            await_true("somebody else is answered", answered, PATIENCE_SECONDS)
            await_true("all are ended", lambda: all(map(is_ended, half)), PATIENCE_SECONDS)
        # Whoever was served before may stand idle for longer than that.
        assert node.process.poll() is None
    finally:
        node.kill()

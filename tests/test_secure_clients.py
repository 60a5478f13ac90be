"""Clients in four languages, unchanged, against a node with TLS and users: by password and by API key, with the
authority's certificate and with its fingerprint. The node refuses what their user may not do, and each client refuses
a node that it does not trust.

Each language has a program in `clients/`, which reads its arguments from the environment and prints the outcome of
each way to connect. The test builds it in the cache folder, where its dependencies are downloaded to, and again only
when one of its files changes.
"""

import base64
import concurrent.futures
import fcntl
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys

import pytest
import redis
import requests
from conftest import Node
from remote_clusters import Certificates

SOURCES = pathlib.Path(__file__).parent / "clients"
CACHE = pathlib.Path(os.environ.get("PLIMSOLL_CACHE") or pathlib.Path.home() / ".cache/plimsoll") / "clients"
ADMIN = ("elastic", "correct horse")
# With characters that a URL has to escape, one of them the colon between user and password.
USER, PASSWORD, WRONG_PASSWORD = "skipper", "a lion: 1/2", "a lion: 2/1"
BUILD_SECONDS = 1200
RUN_SECONDS = 60

# The clients of Elasticsearch and of Redis, each with the language whose program uses it.
DOCUMENTS = {
    "@elastic/elasticsearch 8": "node",
    "@elastic/elasticsearch 9": "node",
    "elasticsearch-java 8": "java",
    "elasticsearch-py 8": "python 8",
    "elasticsearch-py 9": "python 9",
    "go-elasticsearch 8": "go",
}
ROWS = {"ioredis 5": "node", "ioredis 6": "node", "lettuce": "java", "redis-py": "python 9", "go-redis": "go"}
WAYS = [f"{credentials}, {trust}" for credentials in ("password", "API key") for trust in ("CA file", "CA fingerprint")]


def install_node(folder):
    npm = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--cache", folder / "npm"]
    return [npm], ["node", folder / "client.mjs"], {}


def install_go(folder):
    env = {"GOMODCACHE": folder / "modules", "GOCACHE": folder / "build", "GOFLAGS": "-modcacherw"}
    return [["go", "build", "-o", folder / "client", "."]], [folder / "client"], env


def install_java(folder):
    goals = ["dependency:copy-dependencies", "compiler:compile"]
    maven = ["mvn", "-q", "-B", f"-Dmaven.repo.local={folder / 'repository'}", *goals]
    classes = f"{folder / 'target/classes'}:{folder / 'target/lib'}/*"
    return [maven], ["java", "-cp", classes, "Client"], {}


def install_python(folder):
    python = folder / "venv/bin/python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    venv = [sys.executable, "-m", "venv", "--clear", folder / "venv"]
    return [venv, [*pip, "-r", folder / "requirements.txt"]], [python, folder / "client.py", "elasticsearch9"], {}


# By language: what gives the commands that build the program, the one that runs it and the environment of the former;
# and the tools that they need.
LANGUAGES = {
    "node": (install_node, ["node", "npm"]),
    "go": (install_go, ["go"]),
    "java": (install_java, ["java", "javac", "mvn"]),
    "python": (install_python, []),
}


def built(language):
    """Builds the program of a language where that is not done; gives the command that runs it."""
    install, tools = LANGUAGES[language]
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"the clients in {language} need {', '.join(missing)}")
    files = sorted(path for path in (SOURCES / language).rglob("*") if path.is_file())
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    folder = CACHE / language
    folder.mkdir(parents=True, exist_ok=True)
    commands, run, env = install(folder)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = folder / ".built"
        if not stamp.exists() or stamp.read_text() != wanted:
            stamp.unlink(missing_ok=True)
            # Jars of versions that were replaced would be loaded too.
            shutil.rmtree(folder / "target", ignore_errors=True)
            shutil.copytree(SOURCES / language, folder, dirs_exist_ok=True)
            env = {**os.environ, **{name: str(value) for name, value in env.items()}}
            for command in commands:
                done = subprocess.run(
                    command, cwd=folder, env=env, capture_output=True, text=True, timeout=BUILD_SECONDS
                )
                assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
            stamp.write_text(wanted)
    return run


def fingerprint(path):
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pathlib.Path(path).read_text())).hexdigest()


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    certificates = Certificates(tmp_path_factory.mktemp("certificates"))
    certificates.node("node", "--dns", "localhost", "--ip", "127.0.0.1")
    given = ["security.enabled=true", f"resp.password={ADMIN[1]}"]
    for port in ("http", "resp"):
        given.append(f"{port}.tls.enabled=true")
        given.append(f"{port}.tls.certificate={certificates.path('node.crt')}")
        given.append(f"{port}.tls.key={certificates.path('node.key')}")
    node = Node(tmp_path_factory.mktemp("data"), given).start()
    node.ca = certificates.path("ca.crt")
    yield node
    assert node.process.poll() is None, f"the node died:\n{node.text()}"
    assert node.terminate() == 0


@pytest.fixture(scope="module")
def environment(node):
    """What the programs are started with: a user with a role for `ships-*` and rules for `ship:*` in database 0, and an
    API key of that user; beside them an index and a key that others own.
    """

    def ask(method, path, body, user=ADMIN):
        url = f"https://localhost:{node.http}{path}"
        answer = requests.request(method, url, json=body, auth=user, verify=node.ca, timeout=30)
        assert answer.ok, answer.text
        return answer.json()

    role = {
        "cluster": ["manage_own_api_key"],
        "indices": [{"names": ["ships-*"], "privileges": ["read", "write", "create_index", "maintenance"]}],
    }
    ask("PUT", "/_security/role/skipper", role)
    ask("PUT", f"/_security/user/{USER}", {"password": PASSWORD, "roles": ["skipper"]})
    ask("PUT", "/orders/_doc/1?refresh=true", {"name": "an order"})
    with redis.Redis(port=node.port, password=ADMIN[1], ssl=True, ssl_ca_certs=node.ca) as boss:
        rules = ("resetkeys", "~ship:*", "db=0", "+@read", "+@write", "+@connection")
        boss.execute_command("ACL", "SETUSER", USER, *rules)
        boss.set("order:1", "an order")
    key = ask("POST", "/_security/api_key", {"name": "of-clients"}, (USER, PASSWORD))
    assert base64.b64decode(key["encoded"]).decode() == f"{key['id']}:{key['api_key']}"
    yield {
        "TEST_HOST": "localhost",
        "TEST_HTTP_PORT": str(node.http),
        "TEST_RESP_PORT": str(node.port),
        "TEST_CA": node.ca,
        "TEST_CA_FINGERPRINT": fingerprint(node.ca),
        "TEST_WRONG_FINGERPRINT": hashlib.sha256(b"another certificate").hexdigest(),
        "TEST_USER": USER,
        "TEST_PASSWORD": PASSWORD,
        "TEST_WRONG_PASSWORD": WRONG_PASSWORD,
        "TEST_API_KEY": key["encoded"],
        "TEST_INDEX": "ships",
        "TEST_OTHER_INDEX": "orders",
        "TEST_KEY": "ship:",
        "TEST_OTHER_KEY": "order:1",
    }
    # What others own is as it was, and no secret was written anywhere.
    found = ask("POST", "/orders/_search", {})["hits"]["hits"]
    assert [hit["_source"] for hit in found] == [{"name": "an order"}]
    with redis.Redis(port=node.port, password=ADMIN[1], ssl=True, ssl_ca_certs=node.ca) as boss:
        assert boss.get("order:1") == b"an order"
    written = "".join(node.output) + "".join(file.read_text() for file in node.data.glob("audit_*.json"))
    assert not any(secret in written for secret in (PASSWORD, WRONG_PASSWORD, key["api_key"], key["encoded"]))


def run(language, environment):
    """What the program of a language prints."""
    if language == "python 8":
        # The tests' own environment has it; 8 and 9 want different versions of what both are built on.
        command = [sys.executable, SOURCES / "python/client.py", "elasticsearch8"]
    else:
        command = built(language.split()[0])
    env = {**os.environ, **environment}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def results(environment):
    """Gives the outcomes of a client. Each program runs once; its failure, or that it is skipped, holds for every
    test of its clients.
    """
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
        started = functools.cache(lambda language: pool.submit(run, language, environment))
        yield lambda client: started({**DOCUMENTS, **ROWS}[client]).result()[client]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("client", DOCUMENTS)
def test_documents(results, client, way):
    assert results(client)[way] == {
        "indexed": "created",
        "got": {"name": "Ada", "knots": 12},
        "bulk": [201, 201, 403],
        "found": ["3", "1"],
        "total": 2,
        "forbidden": [403, 403, 403],
    }


@pytest.mark.parametrize("client", DOCUMENTS)
def test_a_wrong_password_gets_no_document(results, client):
    assert results(client)["wrong password"]["status"] == 401


@pytest.mark.parametrize("client", ROWS)
def test_rows(results, client):
    outcome = dict(results(client)["password, CA file"])
    assert outcome.pop("forbidden", "").startswith("NOPERM"), outcome
    assert outcome == {
        "set": "OK",
        "got": "Ada",
        "added": 2,
        "hash": {"knots": "12", "wind": "NW"},
        "pipeline": [1, 2, "Ada"],
    }


@pytest.mark.parametrize("client", ROWS)
def test_a_wrong_password_gets_no_row(results, client):
    assert "WRONGPASS" in results(client)["wrong password"]["error"]


@pytest.mark.parametrize("client", {**DOCUMENTS, **ROWS})
def test_a_node_that_is_not_trusted_is_not_asked(results, client):
    """The client ends the handshake, and names the certificate as the reason."""
    ways = ["unknown CA", "wrong CA fingerprint"] if client in DOCUMENTS else ["unknown CA"]
    for way in ways:
        outcome = results(client)[way]
        assert outcome["status"] is None, outcome
        assert re.search("certificat|fingerprint", outcome["error"], re.IGNORECASE), outcome

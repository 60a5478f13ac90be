"""Users, roles, API keys and ACLs: who gets in, who may what, and what is never told or lost."""

import base64
import contextlib
import itertools
import json
import socket
import threading
import time

import elasticsearch8
import pytest
import redis
import requests
import resp
from cluster_processes import await_true
from conftest import Node

ADMIN = ("elastic", "correct horse")
# How long a connection has in all on which nobody shows who it is.
STRANGER_SECONDS = 30


class Rest:
    """Requests of one user to one node."""

    def __init__(self, node, user=ADMIN, key=None):
        self.base = f"http://127.0.0.1:{node.http}"
        self.session = requests.Session()
        self.session.auth = user
        if key:
            self.session.headers["Authorization"] = f"ApiKey {key}"

    def __call__(self, method, path, body=None, status=200, **more):
        if isinstance(body, str):
            more["headers"] = {"Content-Type": "application/x-ndjson"}
            more["data"] = body
        elif body is not None:
            more["json"] = body
        answer = self.session.request(method, self.base + path, timeout=30, **more)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.text.startswith("{") else answer.text


def lines(*items):
    return "".join(json.dumps(item) + "\n" for item in items)


def role(*entries, cluster=()):
    indices = [{"names": names.split(","), "privileges": what.split(",")} for names, what in entries]
    return {"cluster": list(cluster), "indices": indices}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("data"), [f"resp.password={ADMIN[1]}"]).start()
    yield node
    assert node.process.poll() is None, f"the node died:\n{node.text()}"
    assert node.terminate() == 0


@pytest.fixture(scope="module")
def admin(node):
    return Rest(node)


@pytest.fixture(scope="module")
def filled(admin):
    """Two indices of logs, one of orders and an alias over a part; somebody for each way of using them."""
    for index, count in (("logs-1", 3), ("logs-2", 2), ("orders", 4)):
        items = itertools.chain.from_iterable(
            [{"index": {"_index": index, "_id": str(n)}}, {"n": n, "secret": index}] for n in range(count)
        )
        admin("POST", "/_bulk?refresh=true", lines(*items))
    admin("PUT", "/logs-1/_alias/current")
    roles = {
        "log_reader": role(("logs-*", "read")),
        "log_writer": role(("logs-*", "write,create_index")),
        "current_reader": role(("current", "read,view_index_metadata")),
        "order_manager": role(("orders", "manage,read,write")),
        "watcher": role(("*", "monitor"), cluster=["monitor"]),
        "keeper": role(cluster=["manage_security"]),
    }
    for name, body in roles.items():
        assert admin("PUT", f"/_security/role/{name}", body)["role"]["created"]
        user = {"password": f"{name} secret", "roles": [name]}
        assert admin("PUT", f"/_security/user/{name}", user)["created"]
    return roles


@pytest.fixture
def by(node, filled):
    return lambda name: Rest(node, (name, f"{name} secret"))


def test_nobody_gets_in_without_being_known(node, by):
    nobody = Rest(node, None)
    refused = nobody("GET", "/logs-1/_search", status=401)
    assert refused["error"]["type"] == "security_exception"
    for user in (("elastic", "wrong"), ("nobody", "x" * 6), ("log_reader", ""), ("log_reader", "x" * 5000)):
        Rest(node, user)("GET", "/", status=401)
    known = by("log_reader")("GET", "/_security/_authenticate")
    assert (known["username"], known["roles"], known["authentication_type"]) == (
        "log_reader",
        ["log_reader"],
        "realm",
    )
    assert Rest(node)("GET", "/_security/_authenticate")["username"] == "elastic"


def test_a_reader_reads_what_it_may_and_wildcards_mean_that(by):
    reader = by("log_reader")
    assert reader("GET", "/logs-1/_count")["count"] == 3
    assert reader("GET", "/logs-*/_count")["count"] == 5
    for everything in ("/_count", "/_all/_count", "/*/_count"):
        assert reader("GET", everything)["count"] == 5, everything
    hits = reader("GET", "/_search?size=100")["hits"]["hits"]
    assert {hit["_index"] for hit in hits} == {"logs-1", "logs-2"}
    refused = reader("GET", "/orders/_search", status=403)["error"]
    assert refused["type"] == "security_exception"
    assert refused["reason"] == (
        "action [indices:data/read/search] is unauthorized for user [log_reader] with effective roles "
        "[log_reader] on indices [orders], this action is granted by the index privileges [all,read]"
    )
    # Whether an index is there is told to nobody who may not use it.
    other = reader("GET", "/nothing/_search", status=403)["error"]["reason"]
    assert other == refused["reason"].replace("orders", "nothing")
    assert reader("GET", "/logs-9/_search", status=404)["error"]["type"] == "index_not_found_exception"
    assert reader("GET", "/logs-1,orders/_count?ignore_unavailable=true")["count"] == 3
    reader("GET", "/logs-1,orders/_count", status=403)
    reader("GET", "/orders/_doc/1", status=403)
    reader("GET", "/orders/_source/1", status=403)
    reader("PUT", "/logs-1/_doc/9", {"n": 9}, status=403)
    reader("DELETE", "/logs-1/_doc/1", status=403)
    reader("DELETE", "/logs-1", status=403)
    reader("GET", "/_cat/indices", status=403)
    reader("GET", "/_nodes", status=403)
    reader("GET", "/_metrics", status=403)


def test_items_are_judged_one_by_one(by, admin):
    reader, writer = by("log_reader"), by("log_writer")
    docs = [{"_index": "logs-1", "_id": "1"}, {"_index": "orders", "_id": "1"}]
    found = reader("POST", "/_mget", {"docs": docs})["docs"]
    assert found[0]["found"] and found[1]["error"]["type"] == "security_exception"
    searches = lines({"index": "logs-1"}, {}, {"index": "orders"}, {}, {"index": "*"}, {})
    answers = reader("POST", "/_msearch", searches)["responses"]
    assert [answer["status"] for answer in answers] == [200, 403, 200]
    assert answers[2]["hits"]["total"]["value"] == 5
    items = lines(
        {"index": {"_index": "logs-1", "_id": "new"}},
        {"n": 1},
        {"index": {"_index": "orders", "_id": "new"}},
        {"n": 1},
        {"create": {"_index": "logs-made", "_id": "a"}},
        {"n": 1},
        {"index": {"_index": "unmade", "_id": "a"}},
        {"n": 1},
        {"delete": {"_index": "logs-1", "_id": "new"}},
        {"update": {"_index": "orders", "_id": "1"}},
        {"doc": {"n": 7}},
    )
    outcome = writer("POST", "/_bulk", items)
    statuses = [next(iter(item.values()))["status"] for item in outcome["items"]]
    assert outcome["errors"] and statuses == [201, 403, 201, 403, 200, 403]
    assert admin("GET", "/orders/_doc/1")["_source"]["n"] == 1
    admin("GET", "/unmade", status=404)
    admin("DELETE", "/logs-made")
    # Who may write and not read gets nothing to see.
    writer("GET", "/logs-1/_doc/1", status=403)
    writer("POST", "/logs-1/_update_by_query", {}, status=403)
    reindex = {"source": {"index": "orders"}, "dest": {"index": "logs-3"}}
    writer("POST", "/_reindex", reindex, status=403)
    reindex = {"source": {"index": "logs-1"}, "dest": {"index": "orders"}}
    reader("POST", "/_reindex", reindex, status=403)


def test_an_alias_is_granted_by_its_own_name(by):
    reader = by("current_reader")
    assert reader("GET", "/current/_count")["count"] == 3
    assert reader("GET", "/_count")["count"] == 3 and reader("GET", "/*/_count")["count"] == 3
    reader("GET", "/logs-1/_count", status=403)
    by("log_reader")("GET", "/current/_count", status=403)
    by("order_manager")("PUT", "/orders/_alias/current", status=403)
    by("order_manager")("DELETE", "/orders/_alias/current", status=403)
    add = {"actions": [{"add": {"index": "logs-1", "alias": "orders-too"}}]}
    by("order_manager")("POST", "/_aliases", add, status=403)
    by("order_manager")("PUT", "/orders/_alias/orders", status=400)


def test_a_manager_manages_its_index_and_no_other(by, admin):
    manager = by("order_manager")
    manager("PUT", "/orders/_mapping", {"properties": {"note": {"type": "keyword"}}})
    manager("PUT", "/logs-1/_mapping", {"properties": {"note": {"type": "keyword"}}}, status=403)
    manager("POST", "/orders/_refresh")
    manager("PUT", "/other", {}, status=403)
    manager("PUT", "/_cluster/settings", {"persistent": {}}, status=403)
    manager("PUT", "/_index_template/x", {"index_patterns": ["x*"]}, status=403)
    # What wildcards mean to delete is what it may.
    admin("PUT", "/kept-1")
    assert manager("DELETE", "/kept-*,nothing-*")["acknowledged"]
    admin("HEAD", "/kept-1")
    admin("DELETE", "/kept-1")


def test_who_watches_sees_figures_and_no_documents(by):
    watcher = by("watcher")
    assert "orders" in watcher("GET", "/_cat/indices")
    assert "plimsoll_" in watcher("GET", "/_metrics")
    watcher("GET", "/_cluster/health")
    watcher("GET", "/_nodes/stats")
    watcher("GET", "/orders/_search", status=403)
    watcher("GET", "/_security/user", status=403)
    watcher("GET", "/_plimsoll/audit", status=403)
    watcher("PUT", "/_cluster/settings", {"persistent": {}}, status=403)


def test_scrolls_and_points_in_time_belong_to_their_user(by, admin):
    reader = by("log_reader")
    first = reader("POST", "/logs-*/_search?scroll=1m&size=1")
    scroll = {"scroll_id": first["_scroll_id"]}
    by("watcher")("POST", "/_search/scroll", scroll, status=404)
    by("watcher")("DELETE", "/_search/scroll", scroll, status=404)
    admin("POST", "/_search/scroll", scroll, status=404)
    assert len(reader("POST", "/_search/scroll", scroll)["hits"]["hits"]) == 1
    point = reader("POST", "/logs-1/_pit?keep_alive=1m")["id"]
    search = {"pit": {"id": point}}
    admin("POST", "/_search", search, status=404)
    by("current_reader")("POST", "/_search", search, status=404)
    by("current_reader")("DELETE", "/_pit", {"id": point}, status=404)
    assert reader("POST", "/_search", search)["hits"]["total"]["value"] == 3
    assert reader("DELETE", "/_pit", {"id": point})["num_freed"] == 1
    assert reader("DELETE", "/_search/scroll", scroll)["num_freed"] == 1


def test_users_are_made_changed_and_taken_away(node, admin):
    user = {"password": "first one", "roles": ["superuser"], "full_name": "A B", "metadata": {"team": "x"}}
    assert admin("POST", "/_security/user/ann", user) == {"created": True}
    assert admin("PUT", "/_security/user/ann", {"roles": ["superuser"]}) == {"created": False}
    shown = admin("GET", "/_security/user/ann")["ann"]
    assert shown["full_name"] == "A B" and "password" not in json.dumps(shown)
    ann = Rest(node, ("ann", "first one"))
    ann("GET", "/_cluster/health")
    assert ann("PUT", "/_security/user/_password", {"password": "second one"}) == {}
    Rest(node, ("ann", "first one"))("GET", "/", status=401)
    ann = Rest(node, ("ann", "second one"))
    ann("GET", "/")
    admin("PUT", "/_security/user/ann/_disable")
    ann("GET", "/", status=401)
    admin("PUT", "/_security/user/ann/_enable")
    ann("GET", "/")
    assert admin("DELETE", "/_security/user/ann") == {"found": True}
    assert admin("DELETE", "/_security/user/ann", status=404) == {"found": False}
    ann("GET", "/", status=401)
    assert admin("GET", "/_security/user/ann", status=404) == {}
    for name, body in (
        ("x", {"password": "short", "roles": []}),
        ("x", {"roles": []}),
        ("x", {"password": "long enough", "roles": [], "bogus": 1}),
        ("_x", {"password": "long enough", "roles": []}),
        ("x", {"password_hash": "$2a$10$abc", "roles": []}),
    ):
        admin("PUT", f"/_security/user/{name}", body, status=400)
    for body in (
        {"indices": [{"names": ["a"], "privileges": ["read"], "query": '{"match_all":{}}'}]},
        {"indices": [{"names": ["a"], "privileges": ["read"], "field_security": {"grant": ["a"]}}]},
        {"cluster": ["manage_ml"]},
        {"run_as": ["x"]},
    ):
        admin("PUT", "/_security/role/x", body, status=400)
    admin("PUT", "/_security/role/superuser", {}, status=400)
    admin("DELETE", "/_security/user/elastic", status=400)
    for name in ("elastic", "default"):
        refused = admin("PUT", f"/_security/user/{name}", {"roles": []}, status=400)
        assert "reserved" in refused["error"]["reason"]


def test_has_privileges(by, admin):
    asked = {
        "cluster": ["monitor", "manage"],
        "index": [{"names": ["logs-1", "orders", "logs-x*"], "privileges": ["read", "write"]}],
    }
    answer = by("log_reader")("POST", "/_security/user/_has_privileges", asked)
    assert answer["has_all_requested"] is False
    assert answer["cluster"] == {"monitor": False, "manage": False}
    assert answer["index"]["logs-1"] == {"read": True, "write": False}
    assert answer["index"]["logs-x*"] == {"read": True, "write": False}
    assert answer["index"]["orders"] == {"read": False, "write": False}
    assert admin("POST", "/_security/user/_has_privileges", asked)["has_all_requested"] is True


def test_api_keys_have_no_more_than_their_user(node, by, admin):
    only = {"reader": role(("logs-1", "all"))}
    made = admin("POST", "/_security/api_key", {"name": "of-admin", "role_descriptors": only})
    assert base64.b64decode(made["encoded"]).decode() == f"{made['id']}:{made['api_key']}"
    key = Rest(node, None, made["encoded"])
    assert key("GET", "/logs-1/_count")["count"] == 3
    key("GET", "/orders/_count", status=403)
    key("GET", "/_cluster/health", status=403)
    who = key("GET", "/_security/_authenticate")
    assert (who["username"], who["authentication_type"]) == ("elastic", "api_key")
    # Of somebody who may make none: no key. Of somebody who may: no more than it has itself.
    by("log_reader")("POST", "/_security/api_key", {"name": "x"}, status=403)
    admin("PUT", "/_security/role/key_maker", role(("logs-1", "read"), cluster=["manage_own_api_key"]))
    admin("PUT", "/_security/user/key_maker", {"password": "key_maker secret", "roles": ["key_maker"]})
    maker = by("key_maker")
    wide = {"all": role(("*", "all"), cluster=["all"])}
    wide = maker("POST", "/_security/api_key", {"name": "wide", "role_descriptors": wide})
    wide = Rest(node, None, wide["encoded"])
    assert wide("GET", "/logs-1/_count")["count"] == 3
    wide("GET", "/orders/_count", status=403)
    wide("PUT", "/logs-1/_doc/1", {}, status=403)
    wide("GET", "/_security/user", status=403)
    wide("POST", "/_security/api_key", {"name": "derived"}, status=400)
    # It sees and takes back its own alone.
    assert {it["name"] for it in maker("GET", "/_security/api_key")["api_keys"]} == {"wide"}
    assert "api_key" not in admin("GET", f"/_security/api_key?id={made['id']}")["api_keys"][0]
    assert maker("DELETE", "/_security/api_key", {"ids": [made["id"]]})["invalidated_api_keys"] == []
    key("GET", "/logs-1/_count")
    assert admin("DELETE", "/_security/api_key", {"ids": [made["id"]]})["invalidated_api_keys"] == [made["id"]]
    key("GET", "/logs-1/_count", status=401)
    # A key goes with its user.
    admin("PUT", "/_security/user/key_maker/_disable")
    wide("GET", "/logs-1/_count", status=401)
    short = admin("POST", "/_security/api_key", {"name": "short", "expiration": "1s"})
    short = Rest(node, None, short["encoded"])
    short("GET", "/")
    time.sleep(1.1)
    short("GET", "/", status=401)


def test_clients_of_elasticsearch_need_no_change(node, by, admin):
    made = admin("POST", "/_security/api_key", {"name": "client"})
    address = f"http://127.0.0.1:{node.http}"
    with elasticsearch8.Elasticsearch(address, api_key=made["encoded"]) as client:
        assert client.count(index="logs-*")["count"] == 5
        assert client.security.authenticate()["authentication_type"] == "api_key"
    with elasticsearch8.Elasticsearch(address, basic_auth=("log_reader", "log_reader secret")) as client:
        assert client.count(index="logs-1")["count"] == 3
        with pytest.raises(elasticsearch8.AuthorizationException):
            client.count(index="orders")
    with elasticsearch8.Elasticsearch(address, basic_auth=ADMIN) as client:
        client.security.put_role(name="made", cluster=["monitor"], indices=[])
        client.security.put_user(username="made", password="made secret", roles=["made"])
        assert client.security.get_user(username="made")["made"]["enabled"]
        assert client.security.has_privileges(cluster=["monitor"])["has_all_requested"]
        client.security.delete_user(username="made")
        client.security.delete_role(name="made")


def test_a_body_is_not_read_of_somebody_who_may_not(node, filled):
    """The refusal comes while most of the body is still to come."""
    credentials = base64.b64encode(b"log_reader:log_reader secret").decode()
    with socket.create_connection(("127.0.0.1", node.http)) as sock:
        head = (
            f"POST /orders/_doc HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {credentials}\r\n"
            "Content-Type: application/json\r\nContent-Length: 90000000\r\n\r\n{"
        )
        sock.sendall(head.encode())
        sock.settimeout(5)
        assert sock.recv(4096).startswith(b"HTTP/1.1 403 ")


def redis_by(node, user=None, password=None, **more):
    return redis.Redis(port=node.port, username=user, password=password, **more)


def refused(client, *command, word="NOPERM"):
    with pytest.raises(redis.exceptions.ResponseError) as error:
        client.execute_command(*command)
    assert word in type(error.value).__name__.upper() + str(error.value).upper(), error.value


def test_roles_hold_by_resp_too(node, admin):
    admin("PUT", "/_security/role/rows", role(("db1", "read")))
    admin("PUT", "/_security/user/rows", {"password": "rows secret", "roles": ["rows"]})
    boss = redis_by(node, "default", ADMIN[1], db=1)
    boss.set("k", "v")
    with redis_by(node, "rows", "rows secret", db=1) as rows:
        assert rows.get("k") == b"v"
        for command in (("SET", "k", "w"), ("DEL", "k"), ("INFO",), ("CONFIG", "GET", "*"), ("FLUSHALL",)):
            with pytest.raises(redis.exceptions.NoPermissionError):
                rows.execute_command(*command)
        assert rows.acl_whoami() == "rows"
    with redis_by(node, "rows", "rows secret") as rows:
        with pytest.raises(redis.exceptions.NoPermissionError):
            rows.get("k")
    with pytest.raises(redis.exceptions.AuthenticationError):
        redis_by(node, "rows", "wrong").ping()


def test_acl_of_redis(node):
    boss = redis_by(node, "default", ADMIN[1])
    boss.mset({"app:1": "a", "other": "b"})
    assert boss.acl_setuser(
        "app",
        enabled=True,
        passwords=["+app secret"],
        categories=["+@read"],
        commands=["+set"],
        keys=["app:*"],
    )
    assert "app" in boss.acl_users() and "argon2" not in " ".join(boss.acl_list())
    with redis_by(node, "app", "app secret") as app:
        assert app.get("app:1") == b"a" and app.set("app:2", "c")
        for command in (("GET", "other"), ("SET", "other", "x"), ("DEL", "app:1"), ("CONFIG", "GET", "*")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                app.execute_command(*command)
        # Other rights hold at once, on the connection that there is.
        boss.execute_command("ACL", "SETUSER", "app", "-set", "+del")
        with pytest.raises(redis.exceptions.NoPermissionError):
            app.set("app:2", "c")
        assert app.delete("app:2") == 1
        pipe = app.pipeline(transaction=True)
        pipe.get("app:1").get("other")
        with pytest.raises(redis.exceptions.RedisError):
            pipe.execute()
        assert boss.execute_command("ACL", "DRYRUN", "app", "get", "other") != b"OK"
        assert boss.execute_command("ACL", "DRYRUN", "app", "get", "app:1") in (b"OK", "OK")
        # Who is taken away is out.
        assert boss.acl_deluser("app") == 1
        with pytest.raises(redis.exceptions.RedisError):
            app.get("app:1")
    with pytest.raises(redis.exceptions.AuthenticationError):
        redis_by(node, "app", "app secret").ping()
    for rule in ("nopass", "#" + "0" * 64, "+nothing", "(+get ~x)", "&x", "%Q~x"):
        with pytest.raises(redis.exceptions.ResponseError):
            boss.execute_command("ACL", "SETUSER", "bad", "on", rule)
    assert boss.execute_command("ACL", "GETUSER", "bad") is None
    assert "read" in boss.acl_cat() and "get" in boss.acl_cat("read")
    with pytest.raises(redis.exceptions.ResponseError):
        boss.acl_deluser("default")
    # Databases, in Valkey's words.
    boss.execute_command("ACL", "SETUSER", "two", "on", ">two secret", "+@all", "~*", "db=2")
    with redis_by(node, "two", "two secret", db=2) as two:
        assert two.set("a", "b")
        for command in (("SELECT", "0"), ("COPY", "a", "b", "DB", "3"), ("FLUSHALL",)):
            with pytest.raises(redis.exceptions.NoPermissionError):
                two.execute_command(*command)


def test_a_user_made_by_acl_may_nothing_by_rest(node):
    boss = redis_by(node, "default", ADMIN[1])
    boss.execute_command("ACL", "SETUSER", "rows2", "on", ">rows2 secret", "+@all", "~*")
    rest = Rest(node, ("rows2", "rows2 secret"))
    assert rest("GET", "/_security/_authenticate")["roles"] == []
    rest("GET", "/logs-1/_search", status=403)
    rest("GET", "/_cluster/health", status=403)


def test_passwords_cost_and_their_queue_has_an_end(node, admin, filled):
    """Who logged in stays fast while many others try passwords, whose turn does not come all at once."""
    known = Rest(node, ("log_reader", "log_reader secret"))
    known("GET", "/logs-1/_count")
    statuses = []

    def try_one(number):
        user = (f"guess{number}", "x" * 8)
        statuses.append(requests.get(f"http://127.0.0.1:{node.http}/", auth=user, timeout=60).status_code)

    threads = [threading.Thread(target=try_one, args=(n,)) for n in range(100)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        known("GET", "/logs-1/_count")
    for thread in threads:
        thread.join()
    assert set(statuses) <= {401, 429} and statuses.count(429) > 0
    # The slow-down is of the address: wait it out for the tests that follow.
    address = f"http://127.0.0.1:{node.http}/"
    await_true("the address may log in", lambda: requests.get(address, auth=ADMIN).status_code == 200, 60)


def test_idle_connections_of_who_is_gone_end(node, admin):
    """Connections hold places: who may not log in any more holds none."""
    admin("PUT", "/_security/user/leaver", {"password": "leaver secret", "roles": []})
    by_rest, by_resp = (socket.create_connection(("127.0.0.1", port), 10) for port in (node.http, node.port))
    by_resp.sendall(b"AUTH leaver \"leaver secret\"\r\n")
    assert by_resp.recv(100) == b"+OK\r\n"
    proof = base64.b64encode(b"leaver:leaver secret").decode()
    head = f"GET /_security/_authenticate HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {proof}\r\n\r\n"
    by_rest.sendall(head.encode())
    assert by_rest.recv(4000).startswith(b"HTTP/1.1 200 ")
    admin("DELETE", "/_security/user/leaver")
    for connection in (by_rest, by_resp):
        connection.settimeout(30)
        while connection.recv(4000):
            pass
        connection.close()


def test_what_happened_is_noted_without_secrets(node, admin, by, filled):
    admin("PUT", "/_security/user/noted", {"password": "noted secret", "roles": []})
    by("log_reader")("GET", "/orders/_search", status=403)
    events = admin("GET", "/_plimsoll/audit?size=1000")["events"]
    actions = {event["event.action"] for event in events}
    assert {"authentication_success", "authentication_failed", "access_denied", "changed"} <= actions
    denied = next(event for event in events if event["event.action"] == "access_denied")
    assert denied["user.name"] == "log_reader" and denied["request"] == "GET /orders/_search"
    files = list(node.data.glob("audit_*.json"))
    text = "".join(file.read_text() for file in files)
    assert all(json.loads(line) for line in text.splitlines())
    log = (text + node.text()).lower()
    for secret in ("noted secret", "correct horse", "log_reader secret", "argon2id", "app secret"):
        assert secret not in log, secret
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    refusals = redis_by(node, "default", ADMIN[1]).acl_log()
    assert {entry["reason"] for entry in refusals} <= {"auth", "command"} and len(refusals) > 1


def test_the_last_administrator_stays(tmp_path):
    given = ["security.enabled=true", "resp.password=correct horse"]
    node = Node(tmp_path / "a", given).start()
    admin = Rest(node)
    admin("PUT", "/_security/user/elastic/_disable", status=400)
    admin("PUT", "/_security/user/boss", {"password": "boss secret", "roles": ["bosses"]})
    admin("PUT", "/_security/user/elastic/_disable", status=400)
    admin("PUT", "/_security/role/bosses", role(cluster=["all"]))
    admin("PUT", "/_security/user/elastic/_disable")
    admin("GET", "/", status=401)
    boss = Rest(node, ("boss", "boss secret"))
    boss("GET", "/")
    boss("PUT", "/_security/user/boss/_disable", status=400)
    boss("PUT", "/_security/user/boss", {"roles": []}, status=400)
    boss("DELETE", "/_security/user/boss", status=400)
    boss("PUT", "/_security/role/bosses", {}, status=400)
    boss("DELETE", "/_security/role/bosses", status=400)
    # All of it is there after a start.
    node.kill()
    node.start()
    Rest(node)("GET", "/", status=401)
    boss = Rest(node, ("boss", "boss secret"))
    boss("PUT", "/_security/user/elastic/_enable")
    boss("PUT", "/_security/user/elastic/_password", {"password": "another one"})
    Rest(node)("GET", "/", status=401)
    Rest(node, ("elastic", "another one"))("GET", "/")
    # The password of the cluster goes over that of the settings, for both names.
    with pytest.raises(redis.exceptions.AuthenticationError):
        redis_by(node, "default", "correct horse").ping()
    assert redis_by(node, None, "another one").ping()
    assert node.terminate() == 0


def test_who_is_open_stays_open_until_default_has_a_password(tmp_path):
    node = Node(tmp_path / "a").start()
    nobody = Rest(node, None)
    assert nobody("GET", "/_security/_authenticate")["authentication_type"] == "anonymous"
    nobody("PUT", "/_security/user/bob", {"password": "bob secret", "roles": []})
    nobody("GET", "/_cluster/health")
    Rest(node, ("bob", "bob secret"))("GET", "/_cluster/health", status=403)
    Rest(node, ("bob", "wrong"))("GET", "/_cluster/health", status=401)
    open_rows = redis_by(node)
    assert open_rows.set("a", "b")
    nobody("PUT", "/_security/user/elastic/_password", {"password": "now closed"})
    nobody("GET", "/_cluster/health", status=401)
    with pytest.raises(redis.exceptions.RedisError):
        open_rows.get("a")
    assert Rest(node, ("elastic", "now closed"))("GET", "/_cluster/health")["status"]
    assert redis_by(node, None, "now closed").get("a") == b"b"
    assert node.terminate() == 0


def test_what_an_attacker_found_is_closed(node, admin, by, filled):
    """By reading the code: ways around what was granted."""
    admin("PUT", "/_security/role/putter", role(("logs-*", "index")))
    admin("PUT", "/_security/user/putter", {"password": "putter secret", "roles": ["putter"]})
    putter = by("putter")
    admin("PUT", "/logs-1/_doc/kept?refresh=true", {"n": 7}, status=201)
    # A script may delete, and an update may show what was there.
    admin("PUT", "/_security/role/reviser", role(("logs-*", "index,read")))
    admin("PUT", "/_security/user/reviser", {"password": "reviser secret", "roles": ["reviser"]})
    reviser = by("reviser")
    delete = {"script": {"source": "ctx.op='delete'"}}
    assert "delete" in reviser("POST", "/logs-1/_update/kept", delete, status=403)["error"]["reason"]
    item = reviser("POST", "/_bulk", lines({"update": {"_index": "logs-1", "_id": "kept"}}, delete))["items"][0]
    assert item["update"]["status"] == 403
    putter("POST", "/logs-1/_update/kept?_source=true", {"doc": {"m": 1}}, status=403)
    shown = lines({"update": {"_index": "logs-1", "_id": "kept"}}, {"doc": {"m": 1}})
    assert putter("POST", "/_bulk?_source=true", shown)["items"][0]["update"]["status"] == 403
    assert putter("POST", "/logs-1/_update/kept", {"doc": {"m": 1}})["result"] == "updated"
    assert admin("GET", "/logs-1/_doc/kept")["_source"] == {"n": 7, "m": 1}
    admin("DELETE", "/logs-1/_doc/kept?refresh=true")
    # Who may see metadata runs no query, and sees no other aliases.
    by("current_reader")("GET", "/logs-1/_validate/query", status=403)
    assert "current" in by("current_reader")("GET", "/_cat/aliases")
    admin("PUT", "/orders/_alias/hidden-from-them")
    assert "hidden" not in by("current_reader")("GET", "/_cat/aliases")
    assert by("current_reader")("GET", "/_count")["count"] == 3
    admin("DELETE", "/orders/_alias/hidden-from-them")
    # Whoever manages the cluster does not become its first user.
    admin("PUT", "/_security/role/operator", role(cluster=["manage"]))
    admin("PUT", "/_security/user/operator", {"password": "operator secret", "roles": ["operator"]})
    with redis_by(node, "operator", "operator secret") as operator:
        assert operator.config_set("maxclients", 999)
        with pytest.raises(redis.exceptions.NoPermissionError):
            operator.config_set("requirepass", "mine now")
    # Nor does whoever is logged in guess others' passwords any faster than strangers.
    with socket.create_connection(("127.0.0.1", node.port)) as sock, sock.makefile("rb") as answers:
        sock.sendall(b'AUTH operator "operator secret"\r\n')
        assert answers.readline() == b"+OK\r\n"
        began = time.monotonic()
        for _ in range(12):
            sock.sendall(b"AUTH default guess\r\n")
            assert answers.readline().startswith(b"-WRONGPASS")
        assert time.monotonic() - began > 1
    address = f"http://127.0.0.1:{node.http}/"
    await_true("the address may log in", lambda: requests.get(address, auth=ADMIN).status_code == 200, 60)
    follow = {"remote_cluster": "x", "leader_index": "y"}
    admin("PUT", "/_security/role/follower", role(cluster=["manage_ccr"]))
    admin("PUT", "/_security/user/follower", {"password": "follower secret", "roles": ["follower"]})
    by("follower")("PUT", "/orders/_ccr/follow", follow, status=403)
    # Another user of the same name has nothing of the first.
    admin("PUT", "/_security/role/key_maker2", role(("logs-1", "read"), cluster=["manage_own_api_key"]))
    body = {"password": "twice secret", "roles": ["key_maker2"]}
    admin("PUT", "/_security/user/twice", body)
    made = by("twice")("POST", "/_security/api_key", {"name": "of-the-first"})
    rows = redis_by(node, "twice", "twice secret")
    connection = rows.client_id()
    admin("DELETE", "/_security/user/twice")
    admin("PUT", "/_security/user/twice", body)
    Rest(node, None, made["encoded"])("GET", "/logs-1/_count", status=401)
    # The client logs in anew by itself: the connection that there was is nobody's.
    assert rows.client_id() != connection
    asked = {"index": [{"names": ["a"] * 1000, "privileges": ["read"] * 1000}]}
    by("log_reader")("POST", "/_security/user/_has_privileges", asked, status=400)
    boss = redis_by(node, "default", ADMIN[1])
    boss.execute_command("ACL", "SETUSER", "calm", "on", ">calm secret", "+@all", "-@dangerous", "~*")
    with redis_by(node, "calm", "calm secret") as calm:
        for command in (("CLIENT", "PAUSE", "10"), ("CLIENT", "KILL", "ID", "1"), ("INFO",), ("FLUSHALL",)):
            with pytest.raises(redis.exceptions.NoPermissionError):
                calm.execute_command(*command)
    with pytest.raises(redis.RedisError):
        boss.execute_command("AUTH", "x" * 100_000, "y")


def test_what_a_second_attacker_found_is_closed(node, admin, by, filled):
    """From outside: what outlives its user, and what reaches further than it says."""
    # Another user of the same name reads no scroll and no point in time of the first.
    admin("PUT", "/_security/role/contexts", role(("logs-1", "read")))
    admin("PUT", "/_security/user/namesake", {"password": "the first one", "roles": ["contexts"]})
    first = Rest(node, ("namesake", "the first one"))
    scroll = first("POST", "/logs-1/_search?scroll=1m&size=1", {})["_scroll_id"]
    point = first("POST", "/logs-1/_pit?keep_alive=1m")["id"]
    assert first("POST", "/_search", {"pit": {"id": point}})["hits"]["hits"]
    admin("DELETE", "/_security/user/namesake")
    admin("PUT", "/_security/role/elsewhere", role(("orders", "read")))
    admin("PUT", "/_security/user/namesake", {"password": "the second one", "roles": ["elsewhere"]})
    second = Rest(node, ("namesake", "the second one"))
    second("POST", "/_search/scroll", {"scroll_id": scroll}, status=404)
    second("POST", "/_search", {"pit": {"id": point}}, status=404)

    # A body that is under way ends with the rights of whoever sends it.
    admin("PUT", "/_security/role/shipper", role(("shipped", "write,create_index")))
    for change in ("delete", "narrow"):
        admin("PUT", "/_security/user/shipper", {"password": "shipper secret", "roles": ["shipper"]})
        item = lines({"index": {"_index": "shipped", "_id": change}}, {"n": 1}).encode()
        with socket.create_connection(("127.0.0.1", node.http), timeout=30) as sock:
            login = base64.b64encode(b"shipper:shipper secret").decode()
            head = f"POST /_bulk HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {login}\r\n"
            head += "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
            chunk = b"%x\r\n%s\r\n" % (len(item), item)
            sock.sendall(head.encode() + chunk)
            time.sleep(0.2)
            if change == "delete":
                admin("DELETE", "/_security/user/shipper")
            else:
                admin("PUT", "/_security/role/shipper", role(("elsewhere", "write")))
            sock.sendall(chunk.replace(change.encode(), b"l" * len(change)))
            answer = sock.recv(65536)
        assert answer.startswith(b"HTTP/1.1 403") and b"rights" in answer, answer
        admin("GET", f"/shipped/_doc/{'l' * len(change)}", status=404)

    # Who lowers its rights by a header that is not heeded here is told so.
    runas = {"es-security-runas-user": "log_reader"}
    assert "runas" in admin("GET", "/logs-1/_count", status=400, headers=runas)["error"]["reason"]

    # A key owns no other key, not even of its user.
    own = {"roles": {"r": {"cluster": ["manage_own_api_key"]}}}
    kept = admin("POST", "/_security/api_key", {"name": "kept"})
    narrow = admin("POST", "/_security/api_key", {"name": "narrow", "role_descriptors": own["roles"]})
    by_key = Rest(node, None, narrow["encoded"])
    assert [key["id"] for key in by_key("GET", "/_security/api_key")["api_keys"]] == [narrow["id"]]
    by_key("DELETE", "/_security/api_key", {"ids": [kept["id"]]})
    by_key("DELETE", "/_security/api_key", {"name": "kept"})
    Rest(node, None, kept["encoded"])("GET", "/_cluster/health")
    admin("DELETE", "/_security/api_key", {"owner": True, "username": "elastic"}, status=400)
    assert by_key("DELETE", "/_security/api_key", {"owner": True})["invalidated_api_keys"] == [narrow["id"]]

    # What is followed as it comes makes no index that its maker may not make.
    admin("PUT", "/_security/role/follows", role(("far-*", "manage"), cluster=["manage_ccr"]))
    admin("PUT", "/_security/user/follows", {"password": "follows secret", "roles": ["follows"]})
    follows = Rest(node, ("follows", "follows secret"))
    rule = {"remote_cluster": "west", "leader_index_patterns": ["logs-*"]}
    for name in ("payroll-{{leader_index}}", "{{leader_index}}", None, "fa{{leader_index}}"):
        follows("PUT", "/_ccr/auto_follow/x", {**rule, "follow_index_pattern": name}, status=403)
    # It may: there is no such cluster.
    follows("PUT", "/_ccr/auto_follow/x", {**rule, "follow_index_pattern": "far-{{leader_index}}"}, status=404)
    other = {"leader_alias": "west", "name": "x", "pattern": "logs-*"}
    follows("POST", "/_plugins/_replication/_autofollow", other, status=403)

    # A role that is to see some documents alone is refused, whatever it says.
    for query in ({}, [], "", {"match_all": {}}):
        narrowed = {"indices": [{"names": ["a"], "privileges": ["read"], "query": query}]}
        admin("PUT", "/_security/role/narrowed", narrowed, status=400)


def test_what_a_third_attacker_found_is_closed(node, admin, by, filled):
    """From outside: who may write and not read, and who may make templates and nothing else."""
    admin("PUT", "/_security/role/writer", role(("drop-*", "write")))
    admin("PUT", "/_security/user/writer", {"password": "writer secret", "roles": ["writer"]})
    writer = Rest(node, ("writer", "writer secret"))
    admin("PUT", "/drop-1/_doc/1?refresh=true", {"secret": "abc", "n": 7}, status=201)
    script = {"script": {"source": "ctx._source.n = ctx._source.secret"}}
    refused = writer("POST", "/drop-1/_update/1", script, status=403)
    assert "abc" not in json.dumps(refused) and "read" in refused["error"]["reason"]
    items = writer("POST", "/_bulk", lines({"update": {"_index": "drop-1", "_id": "1"}}, script))["items"]
    assert items[0]["update"]["status"] == 403 and "abc" not in json.dumps(items)
    writer("POST", "/drop-1/_update/1", {"doc": {"n": 8}})

    # An alias that a template gives is judged as one that is put on an index that is there.
    admin("PUT", "/_security/role/templates", role(("tap-*", "read,manage"), cluster=["manage_index_templates"]))
    admin("PUT", "/_security/user/templates", {"password": "templates secret", "roles": ["templates"]})
    templates = Rest(node, ("templates", "templates secret"))
    for pattern, alias, status in (("pay-*", "tap-1", 403), ("tap-*", "pay-1", 403), ("*", "tap-1", 403), ("tap-9*", "tap-1", 200)):
        template = {"aliases": {alias: {}}}
        whole = {"index_patterns": [pattern], "priority": 99}
        templates("PUT", "/_index_template/tapping", {**whole, "template": template}, status=status)
        templates("PUT", "/_template/tapping", {"index_patterns": [pattern], **template}, status=status)
    templates("DELETE", "/_index_template/tapping")
    templates("DELETE", "/_template/tapping")
    # Neither by a component, whichever of the two comes first.
    templates("PUT", "/_component_template/tapping", {"template": {"aliases": {"pay-1": {}}}}, status=403)
    templates("PUT", "/_component_template/tapping", {"template": {"aliases": {"tap-1": {}}}})
    composed = {"index_patterns": ["pay-*"], "priority": 99, "composed_of": ["tapping"]}
    templates("PUT", "/_index_template/tapping", composed, status=403)
    templates("PUT", "/_component_template/tapping", {"template": {"settings": {}}})
    templates("PUT", "/_index_template/tapping", composed)
    templates("PUT", "/_component_template/tapping", {"template": {"aliases": {"tap-1": {}}}}, status=403)
    templates("DELETE", "/_index_template/tapping")
    templates("DELETE", "/_component_template/tapping")


def test_a_stranger_that_takes_no_answers_does_not_stay(node, admin, filled):
    """Requests that nobody logged in for, one behind the other, whose answers are not read until the time of
    strangers is over: those that could not be sent by then are not there any more.
    """
    request, asked, answers = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 0, b""
    with socket.socket() as sock, contextlib.suppress(ConnectionError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", node.http))
        sock.setblocking(False)
        end = time.monotonic() + STRANGER_SECONDS + 5
        while time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                asked += sock.send(request * 100) // len(request)
            time.sleep(0.1)
        sock.settimeout(60)
        while read := sock.recv(1 << 20):
            answers += read
    assert asked and answers.count(b"HTTP/1.1 401") < asked - 100


def test_passwords_are_not_hashed_for_those_who_have_gone(node, filled):
    """Requests whose clients hang up hold their turns, and count as tries."""
    credentials = base64.b64encode(b"nobody:at all here").decode()
    head = f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {credentials}\r\n\r\n".encode()
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", node.http)) as sock:
            sock.sendall(head)
    time.sleep(1)
    answer = requests.get(f"http://127.0.0.1:{node.http}/", auth=("nobody", "at all here"), timeout=60)
    assert answer.status_code in (401, 429)
    threads = int(next(line for line in open(f"/proc/{node.process.pid}/status") if "Threads" in line).split()[1])
    assert threads < 150, threads
    address = f"http://127.0.0.1:{node.http}/"
    await_true("the address may log in", lambda: requests.get(address, auth=ADMIN).status_code == 200, 60)


def test_a_password_that_was_changed_ends_what_it_began(node, admin, filled):
    """A body that is under way, and what operators do over an open connection."""
    admin("PUT", "/_security/user/sluggish", {"password": "the first one", "roles": ["superuser"]})
    body = json.dumps({"password": "thief's own", "roles": ["superuser"]}).encode()
    login = base64.b64encode(b"sluggish:the first one").decode()
    head = f"PUT /_security/user/thief HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {login}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    listed = ("CONFIG", "SET", "hash-max-listpack-entries")
    with resp.Connection(node.port, 30) as opened:
        assert opened.ask("AUTH", "sluggish", "the first one") == b"+OK\r\n"
        assert opened.ask(*listed, "127") == b"+OK\r\n"
        with socket.create_connection(("127.0.0.1", node.http), timeout=30) as sock:
            sock.sendall(head.encode() + body[:5])
            time.sleep(0.2)
            # The same one again is no change.
            admin("PUT", "/_security/user/sluggish", {"password": "the first one", "roles": ["superuser"]})
            assert opened.ask(*listed, "126") == b"+OK\r\n"
            admin("PUT", "/_security/user/sluggish/_password", {"password": "another one"})
            sock.sendall(body[5:])
            answer = sock.recv(65536)
        assert answer.startswith(b"HTTP/1.1 403") and b"rights" in answer, answer
        # Rows go on; who may do more has to show the new one first.
        assert opened.ask("SET", "a", "b") == b"+OK\r\n"
        assert opened.ask(*listed, "128").startswith(b"-NOAUTH")
        assert opened.ask("ACL", "SETUSER", "thief", "on").startswith(b"-NOAUTH")
        assert opened.ask("AUTH", "sluggish", "another one") == b"+OK\r\n"
        assert opened.ask(*listed, "128") == b"+OK\r\n"
    admin("GET", "/_security/user/thief", status=404)


def test_who_sets_the_password_of_the_settings_goes_on(tmp_path):
    node = Node(tmp_path / "a").start()
    with resp.Connection(node.port) as opened:
        for password in ("one", "two", ""):
            assert opened.ask("CONFIG", "SET", "requirepass", password) == b"+OK\r\n"
            assert opened.ask("CONFIG", "SET", "hash-max-listpack-entries", "127") == b"+OK\r\n"
            assert opened.ask("MULTI") == b"+OK\r\n"
            for command in (("SET", "a", password), ("CONFIG", "SET", "requirepass", password), ("GET", "a")):
                assert opened.ask(*command) == b"+QUEUED\r\n"
            assert opened.ask("EXEC").count(b"+OK\r\n") == 2
            with resp.Connection(node.port) as other:
                assert other.ask("GET", "a").startswith(b"-NOAUTH" if password else b"$0")
        # Also where a parameter behind it is refused.
        command = ("CONFIG", "SET", "requirepass", "three", "maxclients", "many")
        assert opened.ask(*command).startswith(b"-ERR")
        assert opened.ask("CONFIG", "SET", "requirepass", "") == b"+OK\r\n"
    assert node.terminate() == 0


def test_a_body_ends_when_the_node_is_closed(tmp_path):
    """Whoever was anybody when it began, and whoever came by the password that the settings had."""
    node = Node(tmp_path / "a").start()
    item = lines({"index": {"_index": "closed"}}, {"n": 1}).encode()
    chunk = b"%x\r\n%s\r\n" % (len(item), item)
    for login, password in ((None, "one"), ("elastic:one", "two")):
        head = "POST /_bulk HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        if login:
            head += f"Authorization: Basic {base64.b64encode(login.encode()).decode()}\r\n"
        with socket.create_connection(("127.0.0.1", node.http), timeout=30) as sock, resp.Connection(node.port) as rows:
            if login:
                assert rows.ask("AUTH", "one") == b"+OK\r\n"
            sock.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunk)
            time.sleep(0.2)
            assert rows.ask("CONFIG", "SET", "requirepass", password) == b"+OK\r\n"
            sock.sendall(chunk + b"0\r\n\r\n")
            answer = sock.recv(65536)
        assert answer.startswith(b"HTTP/1.1 403") and b"rights" in answer, answer
    # The first password that the cluster keeps ends no connection for rows.
    with resp.Connection(node.port) as rows:
        assert rows.ask("AUTH", "two") == b"+OK\r\n"
        Rest(node, ("elastic", "two"))("PUT", "/_security/user/elastic/_password", {"password": "kept one"})
        assert rows.ask("SET", "a", "b") == b"+OK\r\n"
        assert rows.ask("ACL", "SETUSER", "bob").startswith(b"-NOAUTH")
    assert node.terminate() == 0


def test_a_password_that_is_there_is_no_other(node, admin):
    redo = redis_by(node, "default", ADMIN[1])
    for _ in range(3):
        assert redo.execute_command("ACL", "SETUSER", "again", "on", ">one", ">one", ">two", "~*", "+@all")
    with resp.Connection(node.port, 30) as opened:
        assert opened.ask("AUTH", "again", "two") == b"+OK\r\n"
        redo.execute_command("ACL", "SETUSER", "again", "resetpass", ">two", ">one")
        assert opened.ask("CONFIG", "SET", "hash-max-listpack-entries", "128") == b"+OK\r\n"
        redo.execute_command("ACL", "SETUSER", "again", "<one")
    with resp.Connection(node.port, 30) as opened:
        assert opened.ask("AUTH", "again", "one").startswith(b"-WRONGPASS")
    redo.execute_command("ACL", "DELUSER", "again")


def test_guesses_over_an_open_connection_count(node, admin, filled):
    """Whoever has logged in guesses its own password no faster than a stranger."""
    admin("PUT", "/_security/user/guesser", {"password": "guesser secret", "roles": []})
    # From an address of its own: it is slowed.
    with (
        socket.create_connection(("127.0.0.1", node.port), timeout=30, source_address=("127.0.0.9", 0)) as sock,
        sock.makefile("rb") as answers,
    ):
        sock.sendall(resp.encode("AUTH", "guesser", "guesser secret"))
        assert answers.readline() == b"+OK\r\n"
        began, wrong = time.monotonic(), 0
        while time.monotonic() < began + 4:
            sock.sendall(resp.encode("AUTH", "guesser", "wrong"))
            assert answers.readline().startswith(b"-WRONGPASS")
            wrong += 1
    assert 11 <= wrong <= 12 + (time.monotonic() - began), wrong


def test_guesses_of_a_new_password_over_connections_that_were_open_count(node, admin, filled):
    """Whoever knew the password before knows nothing of the new one."""
    admin("PUT", "/_security/user/stale", {"password": "stale secret", "roles": []})
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(40):
            here = ("127.0.0.10", 0)
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", node.port), 30, source_address=here))
            sock.sendall(resp.encode("AUTH", "stale", "stale secret"))
            assert sock.recv(100) == b"+OK\r\n"
            opened.append(sock)
        admin("POST", "/_security/user/stale/_password", {"password": "another one"})
        began = time.monotonic()
        for sock in opened:
            sock.sendall(resp.encode("AUTH", "stale", "guess"))
        time.sleep(3)
        looked_at = 0
        for sock in opened:
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                looked_at += sock.recv(100).startswith(b"-WRONGPASS")
        assert 10 <= looked_at <= 12 + (time.monotonic() - began), looked_at


def test_a_user_has_only_so_many_rules_at_once(node):
    with resp.Connection(node.port, 30) as opened:
        assert opened.ask("AUTH", ADMIN[1]) == b"+OK\r\n"
        assert opened.ask("ACL", "SETUSER", "many", *["~a"] * 1024) == b"+OK\r\n"
        many = opened.ask("ACL", "SETUSER", "many", *(f"~{number}" for number in range(100_000)))
        assert many.startswith(b"-ERR ACL SETUSER takes at most 1024 rules"), many
        assert opened.ask("ACL", "DELUSER", "many") == b":1\r\n"

"""REST's documents and administration of indices over real HTTP: plain requests first, then the
clients that people use."""

import gzip
import http.client
import json
import re
import socket
import threading
import time

import elasticsearch7
import elasticsearch7.helpers
import elasticsearch8
import elasticsearch8.helpers
import opensearchpy
import opensearchpy.helpers
import pytest
import requests


class Rest:
    """A node's REST as these tests use it."""

    def __init__(self, node):
        self.url = f"http://127.0.0.1:{node.http}"
        self.session = requests.Session()

    def __call__(self, method, path, body=None, status=200, **options):
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        headers = {"content-type": "application/json", **options.pop("headers", {})}
        answer = self.session.request(
            method, self.url + path, data=body, headers=headers if body is not None else options.pop("h", None), **options
        )
        assert status is None or answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        assert answer.headers["X-Elastic-Product"] == "Elasticsearch"
        return answer

    def json(self, method, path, body=None, status=200, **options):
        return self(method, path, body, status, **options).json()

    def refused(self, method, path, body=None, status=400, **options):
        """The type and reason of an error."""
        error = self.json(method, path, body, status, **options)["error"]
        return (error["type"], error["reason"]) if isinstance(error, dict) else error


@pytest.fixture
def rest(shared_node):
    rest = Rest(shared_node)
    rest("DELETE", "/*?expand_wildcards=all", status=None)
    for kind in ["_index_template", "_component_template", "_template"]:
        rest("DELETE", f"/{kind}/*", status=None)
    return rest


# Identity and HTTP


def test_identity(rest):
    body = rest.json("GET", "/")
    assert body["version"]["number"] == "7.10.2"
    assert body["version"]["build_flavor"] == "default"
    assert body["tagline"] == "You Know, for Search"
    assert len(body["cluster_uuid"]) == 22
    head = rest("HEAD", "/")
    assert head.text == "" and int(head.headers["content-length"]) > 100
    assert rest("GET", "/?pretty").text.startswith('{\n  "name" : ')


def test_identity_stays_and_can_be_set(new_node):
    node = new_node(settings=["rest.version=2.19.1", "rest.distribution=opensearch", "cluster.name=c"]).start()
    first = Rest(node).json("GET", "/")
    assert first["version"]["distribution"] == "opensearch" and first["cluster_name"] == "c"
    assert node.terminate() == 0
    assert Rest(node.start()).json("GET", "/") == first


def test_headers(rest):
    answer = rest("GET", "/", headers={"X-Opaque-Id": "me"}, h={"X-Opaque-Id": "me"})
    assert answer.headers["x-opaque-id"] == "me"
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    versioned = "application/vnd.elasticsearch+json; compatible-with=8"
    answer = rest(
        "PUT", "/g/_doc/1", {"n": 1}, 201, headers={"content-type": versioned, "accept": versioned}
    )
    assert answer.headers["content-type"] == "application/vnd.elasticsearch+json;compatible-with=8"
    assert answer.headers["location"] == "/g/_doc/1"


def test_media_types(rest):
    form = {"content-type": "application/x-www-form-urlencoded"}
    refused = rest.json("PUT", "/g/_doc/9", "x=1", 406, headers=form)
    assert refused == {
        "error": "Content-Type header [application/x-www-form-urlencoded] is not supported",
        "status": 406,
    }
    # A request without a body may say what it likes.
    assert rest("POST", "/_refresh", h={"content-type": "application/octet-stream"}).ok


def test_unknown_paths_methods_and_parameters(rest):
    assert rest.json("POST", "/g/_bogus", status=400) == {
        "error": "no handler found for uri [/g/_bogus] and method [POST]"
    }
    answer = rest("DELETE", "/_bulk", status=405)
    assert answer.headers["allow"] == "POST,PUT"
    assert answer.json()["status"] == 405
    assert rest.refused("PUT", "/g/_doc/9?bogus=1", {"n": 1}) == (
        "illegal_argument_exception",
        "request [/g/_doc/9] contains unrecognized parameter: [bogus]",
    )
    assert rest.refused("GET", "/_bogus")[0] == "invalid_index_name_exception"


def test_gzip_both_ways(rest):
    lines = b"".join(
        b'{"index":{"_index":"g","_id":"%d"}}\n{"n":%d}\n' % (n, n) for n in range(2000)
    )
    headers = {"content-encoding": "gzip", "content-type": "application/x-ndjson"}
    answer = rest("POST", "/_bulk", gzip.compress(lines), headers=headers)
    assert answer.headers["content-encoding"] == "gzip"
    assert len(answer.json()["items"]) == 2000
    bomb = gzip.compress(b" " * (200 << 20))
    rest("POST", "/_bulk", bomb, 413, headers=headers)


def test_large_bodies_are_refused_without_reading_them(rest):
    connection = http.client.HTTPConnection(rest.url.split("//")[1])
    connection.putrequest("POST", "/_bulk")
    connection.putheader("content-type", "application/x-ndjson")
    connection.putheader("content-length", str(101 << 20))
    connection.endheaders()
    assert connection.getresponse().status == 413


def test_chunked_bodies_pipelines_and_continue(shared_node, rest):
    rest("PUT", "/g")
    chunks = (b'{"a', b'": 1', b"}")
    answer = rest.session.put(
        rest.url + "/g/_doc/1", data=iter(chunks), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 201
    with socket.create_connection(("127.0.0.1", shared_node.http), timeout=10) as stream:
        stream.sendall(b"GET /g/_source/1 HTTP/1.1\r\nhost: localhost\r\n\r\n" * 3)
        data = b""
        while data.count(b'{"a": 1}') < 3:
            data += stream.recv(65536)
        stream.sendall(
            b"PUT /g/_doc/2 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: 2\r\nexpect: 100-continue\r\n\r\n"
        )
        assert stream.recv(65536).startswith(b"HTTP/1.1 100 Continue")
        stream.sendall(b"{}")
        assert stream.recv(65536).startswith(b"HTTP/1.1 201 Created")


def test_filter_path(rest):
    rest("PUT", "/g/_doc/1", {"a": 1, "b": {"c": 2, "d": 3}}, 201)
    assert rest.json("GET", "/g/_doc/1?filter_path=_id,_source.b.*,-_source.b.d") == {
        "_id": "1",
        "_source": {"b": {"c": 2}},
    }
    assert rest.json("GET", "/g/_doc/1?filter_path=nothing") == {}
    assert set(rest.json("GET", "/?filter_path=-version")) == {"name", "cluster_name", "cluster_uuid", "tagline"}


def test_password(new_node):
    node = new_node(settings=["resp.password=secret"]).start()
    url = f"http://127.0.0.1:{node.http}/"
    refused = requests.get(url)
    assert refused.status_code == 401 and "Basic" in refused.headers["www-authenticate"]
    assert refused.json()["error"]["type"] == "security_exception"
    assert requests.get(url, auth=("elastic", "wrong")).status_code == 401
    for path in ["", "_metrics"]:
        for user in ["elastic", "default"]:
            assert requests.get(url + path, auth=(user, "secret")).status_code == 200
    assert requests.get(url + "_metrics").status_code == 401


# Indices


def test_create_get_delete(rest):
    body = {
        "settings": {"number_of_shards": 2, "index": {"number_of_replicas": 0, "refresh_interval": "5s"}},
        "mappings": {"properties": {"t": {"type": "text"}, "k": {"type": "keyword"}, "n": {"type": "long"}}},
        "aliases": {"al": {"routing": "1"}},
    }
    assert rest.json("PUT", "/g", body) == {"acknowledged": True, "shards_acknowledged": True, "index": "g"}
    kind, reason = rest.refused("PUT", "/g", {})
    assert kind == "resource_already_exists_exception"
    assert reason.startswith("index [g/") and reason.endswith("] already exists")
    shown = rest.json("GET", "/g")["g"]
    assert shown["mappings"] == body["mappings"]
    assert shown["aliases"] == {"al": {"index_routing": "1", "search_routing": "1"}}
    settings = shown["settings"]["index"]
    assert (settings["number_of_shards"], settings["number_of_replicas"]) == ("2", "0")
    assert settings["refresh_interval"] == "5s" and len(settings["uuid"]) == 22
    assert settings["provided_name"] == "g" and int(settings["creation_date"]) > 0
    flat = rest.json("GET", "/g/_settings?flat_settings=true")["g"]["settings"]
    assert flat["index.number_of_shards"] == "2"
    assert list(rest.json("GET", "/g/_settings/index.uuid")["g"]["settings"]["index"]) == ["uuid"]
    rest("HEAD", "/g")
    rest("HEAD", "/nope", status=404)
    rest("HEAD", "/no*", status=404)
    assert rest.refused("DELETE", "/al")[1].startswith("The provided expression [al] matches an alias")
    assert rest.json("DELETE", "/g") == {"acknowledged": True}
    assert rest.refused("DELETE", "/g", status=404) == ("index_not_found_exception", "no such index [g]")
    assert rest.json("GET", "/no*") == {}


@pytest.mark.parametrize(
    "name, why",
    [
        ("Bad", "must be lowercase"),
        ("_x", "must not start with '_'."),
        ("a%2Fb", 'must not contain the following characters [ , ", *, \\, <, |, ,, >, /, ?]'),
        ("a:b", "must not contain ':'"),
        ("x" * 256, "index name is too long, (256 > 255)"),
    ],
)
def test_names(rest, name, why):
    kind, reason = rest.refused("PUT", f"/{name}", {})
    assert kind == "invalid_index_name_exception" and reason.endswith(why)


def test_names_that_no_client_sends(shared_node, rest):
    for path, kind in [("/..", "invalid_index_name_exception"), ("/%FF", "illegal_argument_exception")]:
        connection = http.client.HTTPConnection("127.0.0.1", shared_node.http)
        connection.request("PUT", path, "{}", {"content-type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 400 and json.loads(answer.read())["error"]["type"] == kind


def test_bodies_that_are_refused(rest):
    assert rest.refused("PUT", "/g", {"settings": {"bogus": 1}})[1].startswith("unknown setting [index.bogus] please")
    assert rest.refused("PUT", "/g", {"bogus": 1}) == ("parse_exception", "unknown key [bogus] for create index")
    kind, reason = rest.refused("PUT", "/g", {"mappings": {"properties": {"x": {"type": "bogus"}}}})
    assert kind == "mapper_parsing_exception"
    assert reason == "Failed to parse mapping [_doc]: No handler for type [bogus] declared on field [x]"
    kind, _ = rest.refused("PUT", "/g", '{"settings"')
    assert kind == "json_e_o_f_exception"


def test_mappings_and_settings_change(rest):
    rest("PUT", "/g", {"mappings": {"properties": {"n": {"type": "long"}}}})
    rest("PUT", "/g/_mapping", {"properties": {"z": {"type": "keyword"}}})
    assert rest.json("GET", "/g/_mapping")["g"]["mappings"]["properties"]["z"] == {"type": "keyword"}
    assert rest.refused("PUT", "/g/_mapping", {"properties": {"n": {"type": "keyword"}}}) == (
        "illegal_argument_exception",
        "mapper [n] cannot be changed from type [long] to [keyword]",
    )
    assert rest.json("GET", "/g/_mapping/field/n") == {
        "g": {"mappings": {"n": {"full_name": "n", "mapping": {"n": {"type": "long"}}}}}
    }
    rest("PUT", "/_all/_settings", {"index": {"refresh_interval": "5s"}})
    assert rest.json("GET", "/g/_settings")["g"]["settings"]["index"]["refresh_interval"] == "5s"
    rest("PUT", "/g/_settings", {"index.refresh_interval": None})
    assert "refresh_interval" not in rest.json("GET", "/g/_settings")["g"]["settings"]["index"]
    kind, reason = rest.refused("PUT", "/g/_settings", {"index": {"number_of_shards": 3}})
    assert reason.startswith("Can't update non dynamic settings [[index.number_of_shards]] for open indices [[g/")


def test_open_and_close(rest):
    rest("PUT", "/g/_doc/1?refresh", {"n": 1}, 201)
    assert rest.json("POST", "/g/_close")["indices"] == {"g": {"closed": True}}
    assert rest.refused("GET", "/g/_doc/1") == ("index_closed_exception", "closed")
    assert rest.refused("PUT", "/g/_doc/1", {"n": 2}) == ("index_closed_exception", "closed")
    assert rest.json("POST", "/g/_open")["acknowledged"]
    assert rest.json("GET", "/g/_doc/1")["_source"] == {"n": 1}


def test_maintenance(rest):
    rest("PUT", "/g", {"settings": {"number_of_shards": 2, "number_of_replicas": 1}})
    for path in ["_refresh", "_flush", "_forcemerge?max_num_segments=1", "_cache/clear"]:
        assert rest.json("POST", f"/g/{path}")["_shards"] == {"total": 4, "successful": 2, "failed": 0}
    assert rest.json("POST", "/_refresh")["_shards"]["failed"] == 0
    assert rest.refused("POST", "/nope/_refresh", status=404)[0] == "index_not_found_exception"


def test_aliases(rest):
    rest("PUT", "/g")
    rest("PUT", "/h")
    rest("PUT", "/g/_alias/al")
    assert rest.json("GET", "/_alias/al") == {"g": {"aliases": {"al": {}}}}
    assert rest.json("GET", "/_alias/none", status=404) == {"error": "alias [none] missing", "status": 404}
    actions = [
        {"remove": {"index": "g", "alias": "al"}},
        {"add": {"indices": ["g", "h"], "alias": "al2"}},
    ]
    rest("POST", "/_aliases", {"actions": actions})
    assert rest.json("GET", "/g/_alias") == {"g": {"aliases": {"al2": {}}}}
    assert rest.refused("PUT", "/al2/_doc/1", {})[1].startswith("no write index is defined for alias [al2]")
    assert rest.refused("GET", "/al2/_doc/1")[1].startswith("alias [al2] has more than one index")
    rest("POST", "/_aliases", {"actions": [{"add": {"index": "h", "alias": "al2", "is_write_index": True}}]})
    assert rest.json("PUT", "/al2/_doc/1", {}, 201)["_index"] == "h"
    second = {"aliases": {"al2": {"is_write_index": True}}}
    kind, reason = rest.refused("PUT", "/i", second)
    assert kind == "illegal_argument_exception" and reason == "alias [al2] has more than one write index [h,i]"
    assert rest.refused("PUT", "/i", {"aliases": {"h": {}}})[0] == "invalid_alias_name_exception"
    rest("GET", "/i", status=404)
    rest("PUT", "/other/_doc/1?require_alias=true", {}, 404)
    rest("DELETE", "/g/_alias/al2")
    assert rest.json("GET", "/al2/_doc/1")["found"]
    rest("DELETE", "/g/_alias/al2", status=404)


def test_templates(rest):
    rest("PUT", "/_component_template/c", {"template": {"mappings": {"properties": {"c": {"type": "keyword"}}}}})
    rest(
        "PUT",
        "/_index_template/it",
        {
            "index_patterns": ["it-*"],
            "composed_of": ["c"],
            "priority": 5,
            "template": {"settings": {"number_of_shards": 3}, "aliases": {"all-it": {}}},
        },
    )
    rest("PUT", "/_index_template/low", {"index_patterns": ["*"], "template": {"settings": {"number_of_shards": 2}}})
    rest("PUT", "/_template/lt", {"index_patterns": ["lt-*"], "order": 1, "settings": {"number_of_shards": 4}})
    shown = rest.json("GET", "/_index_template/it")["index_templates"][0]
    assert shown["index_template"]["template"]["settings"] == {"index": {"number_of_shards": "3"}}
    assert rest.json("GET", "/_template/lt")["lt"]["settings"] == {"index": {"number_of_shards": "4"}}
    assert rest.refused("GET", "/_index_template/no", status=404) == (
        "resource_not_found_exception",
        "index template matching [no] not found",
    )
    # The first document makes the index, by its template.
    rest("PUT", "/it-1/_doc/1", {"c": "x"}, 201)
    made = rest.json("GET", "/it-1")["it-1"]
    assert made["settings"]["index"]["number_of_shards"] == "3"
    assert made["mappings"]["properties"]["c"] == {"type": "keyword"} and "all-it" in made["aliases"]
    assert rest.refused("DELETE", "/_component_template/c")[1].endswith("in use by index templates [it]")
    rest("DELETE", "/_index_template/low")
    rest("PUT", "/lt-1", {"settings": {"number_of_replicas": 0}})
    settings = rest.json("GET", "/lt-1")["lt-1"]["settings"]["index"]
    assert (settings["number_of_shards"], settings["number_of_replicas"]) == ("4", "0")


def test_analyze(rest):
    tokens = rest.json("POST", "/_analyze", {"text": "The Quick-brown foxes"})["tokens"]
    assert [token["token"] for token in tokens] == ["the", "quick", "brown", "foxes"]
    assert tokens[1] == {"token": "quick", "start_offset": 4, "end_offset": 9, "type": "<ALPHANUM>", "position": 1}
    body = {"settings": {"analysis": {"analyzer": {"mine": {"tokenizer": "whitespace", "filter": ["uppercase"]}}}}}
    rest("PUT", "/g", body)
    tokens = rest.json("GET", "/g/_analyze", {"analyzer": "mine", "text": ["a b", "c"]})["tokens"]
    assert [token["token"] for token in tokens] == ["A", "B", "C"]
    assert rest.refused("POST", "/g/_analyze", {"analyzer": "none", "text": "x"})[0] == "illegal_argument_exception"


def test_expressions(rest):
    for name in ["logs-1", "logs-2", "other"]:
        rest("PUT", f"/{name}")
    for expression, names in [
        ("logs-*", {"logs-1", "logs-2"}),
        ("logs-*,-logs-2", {"logs-1"}),
        ("_all,-o*", {"logs-1", "logs-2"}),
        ("logs-1,other", {"logs-1", "other"}),
        ("none,other?ignore_unavailable=true", {"other"}),
        ("none*", set()),
    ]:
        path = expression.replace("?", "/_settings?") if "?" in expression else f"{expression}/_settings"
        found = {name for name in rest.json("GET", f"/{path}") if not name.startswith("db")}
        assert found == names, expression
    rest("GET", "/none/_settings", status=404)
    rest("GET", "/none*/_settings?allow_no_indices=false", status=404)
    rest("PUT", "/%3Cday-%7Bnow%2Fd%7D%3E")
    (name,) = rest.json("GET", "/day-*")
    assert re.fullmatch(r"day-\d{4}\.\d\d\.\d\d", name)
    resolved = rest.json("GET", "/_resolve/index/logs-*")
    assert [index["name"] for index in resolved["indices"]] == ["logs-1", "logs-2"]


# Documents


def test_index_get_delete(rest):
    source = '{"t": "quick brown fox",  "n": 1.50}'
    answer = rest.json("PUT", "/g/_doc/1", source, 201)
    assert (answer["result"], answer["_version"], answer["_primary_term"]) == ("created", 1, 1)
    assert answer["_shards"]["successful"] == 1 and "forced_refresh" not in answer
    answer = rest.json("PUT", "/g/_doc/1?refresh=true", source)
    assert (answer["result"], answer["_version"], answer["forced_refresh"]) == ("updated", 2, True)
    assert answer["_seq_no"] == 1
    got = rest("GET", "/g/_doc/1")
    assert source in got.text and got.json()["found"]
    assert rest("GET", "/g/_source/1").text == source
    assert rest("HEAD", "/g/_doc/1").headers["content-length"] == str(len(got.content))
    rest("HEAD", "/g/_source/2", status=404)
    assert "_source" not in rest.json("GET", "/g/_doc/1?_source=false")
    assert rest.json("GET", "/g/_doc/1?_source_includes=t")["_source"] == {"t": "quick brown fox"}
    assert rest.json("GET", "/g/_doc/404", status=404) == {"_index": "g", "_type": "_doc", "_id": "404", "found": False}
    assert rest.refused("GET", "/g/_source/404", status=404) == (
        "resource_not_found_exception",
        "Document not found [g]/[404]",
    )
    error = rest.json("GET", "/nope/_doc/1", status=404)["error"]
    assert (error["resource.type"], error["index_uuid"]) == ("index_expression", "_na_")
    answer = rest.json("DELETE", "/g/_doc/1")
    assert (answer["result"], answer["_version"]) == ("deleted", 3)
    assert rest.json("DELETE", "/g/_doc/1", status=404)["result"] == "not_found"


def test_ids_and_names_of_all_kinds(rest):
    answer = rest.json("POST", "/g/_doc?refresh=wait_for", {"n": 1}, 201)
    assert len(answer["_id"]) == 20
    for id in ["a b", "a/b", "ü", "%", "x" * 512, "a+b", '"']:
        quoted = requests.utils.quote(id, safe="")
        answer = rest("PUT", f"/g/_doc/{quoted}", {"id": id}, 201)
        assert answer.json()["_id"] == id
        assert rest.json("GET", answer.headers["location"])["_source"] == {"id": id}
    rest("PUT", f"/g/_doc/{'x' * 513}", {}, 400)


def test_conflicts(rest):
    rest("PUT", "/g/_doc/1", {"n": 1}, 201)
    error = rest.json("PUT", "/g/_create/1", {"n": 1}, 409)["error"]
    assert error["reason"] == "[1]: version conflict, document already exists (current version [1])"
    assert error["type"] == "version_conflict_engine_exception"
    assert error["index"] == "g" and error["shard"] == "0" and len(error["index_uuid"]) == 22
    _, reason = rest.refused("PUT", "/g/_doc/1?if_seq_no=99&if_primary_term=1", {}, 409)
    assert reason == (
        "[1]: version conflict, required seqNo [99], primary term [1]. current document has seqNo [0] and primary term [1]"
    )
    rest("PUT", "/g/_doc/1?if_seq_no=0&if_primary_term=1", {"n": 2})
    rest("PUT", "/g/_doc/7?version=5&version_type=external", {}, 201)
    _, reason = rest.refused("PUT", "/g/_doc/7?version=5&version_type=external", {}, 409)
    assert reason == "[7]: version conflict, current version [5] is higher or equal to the one provided [5]"
    assert rest.json("PUT", "/g/_doc/7?version=5&version_type=external_gte", {})["_version"] == 5
    kind, reason = rest.refused("PUT", "/g/_doc/1?version=5", {})
    assert kind == "action_request_validation_exception" and "internal versioning" in reason


def test_documents_that_do_not_fit(rest):
    rest("PUT", "/g", {"mappings": {"properties": {"n": {"type": "long"}}}})
    error = rest.json("PUT", "/g/_doc/9", {"n": "notanumber"}, 400)["error"]
    assert error["reason"] == (
        "failed to parse field [n] of type [long] in document with id '9'. Preview of field's value: 'notanumber'"
    )
    assert error["caused_by"]["reason"] == 'For input string: "notanumber"'
    error = rest.json("PUT", "/g/_doc/9", '{"n": ', 400)["error"]
    assert (error["type"], error["reason"]) == ("mapper_parsing_exception", "failed to parse")
    assert error["caused_by"]["type"] == "json_e_o_f_exception"
    rest("PUT", "/g/_doc/9", '{"a":' * 100 + "1" + "}" * 100, 400)
    rest("PUT", "/g/_doc/9", "[1]", 400)
    rest("PUT", "/g/_doc/9", "", 400)
    rest("PUT", "/s", {"mappings": {"dynamic": "strict"}})
    assert rest.refused("PUT", "/s/_doc/1", {"f": 1})[0] == "strict_dynamic_mapping_exception"


def test_routing(rest):
    rest("PUT", "/g", {"settings": {"number_of_shards": 4}})
    rest("PUT", "/g/_doc/1?routing=r", {"n": 1}, 201)
    assert rest.json("GET", "/g/_doc/1?routing=r")["_routing"] == "r"
    rest("GET", "/g/_doc/1", status=404)
    rest("DELETE", "/g/_doc/1?routing=r")
    rest("PUT", "/g/_alias/al", {"routing": "r"})
    rest("PUT", "/al/_doc/2", {}, 201)
    assert rest.json("GET", "/g/_doc/2?routing=r")["found"]
    assert rest.refused("PUT", "/al/_doc/2?routing=s", {})[1].startswith("Alias [al] has index routing")


def test_update(rest):
    rest("PUT", "/g/_doc/1", {"n": 1, "o": {"x": 1}}, 201)
    assert rest.json("POST", "/g/_update/1", {"doc": {"n": 5}})["result"] == "updated"
    noop = rest.json("POST", "/g/_update/1", {"doc": {"n": 5}})
    assert noop["result"] == "noop" and noop["_shards"] == {"total": 0, "successful": 0, "failed": 0}
    error = rest.json("POST", "/g/_update/404", {"doc": {"n": 5}}, 404)["error"]
    assert (error["type"], error["reason"]) == ("document_missing_exception", "[404]: document missing")
    rest("POST", "/g/_update/u1", {"doc": {"n": 5}, "doc_as_upsert": True}, 201)
    script = {"source": "ctx._source.n += params.i", "params": {"i": 1}}
    answer = rest.json("POST", "/g/_update/1?_source=true", {"script": script})
    assert answer["get"]["_source"] == {"n": 6, "o": {"x": 1}}
    rest("POST", "/g/_update/1", {"script": "ctx.op = 'delete'"})
    rest("GET", "/g/_doc/1", status=404)
    kind, _ = rest.refused("POST", "/g/_update/u1", {"script": "for (;;) {}"})
    assert kind == "script_exception"


def test_update_meets_others(rest):
    """Counters that many change at once come to the sum, if retries allow it."""
    import concurrent.futures

    rest("PUT", "/g/_doc/1", {"n": 0}, 201)

    def add(_):
        body = {"script": "ctx._source.n += 1"}
        return requests.post(f"{rest.url}/g/_update/1?retry_on_conflict=1000", json=body).status_code

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert set(pool.map(add, range(80))) == {200}
    assert rest.json("GET", "/g/_doc/1")["_source"] == {"n": 80}


def test_mget(rest):
    rest("PUT", "/g/_doc/1", {"n": 1, "m": 2}, 201)
    docs = rest.json("POST", "/g/_mget", {"ids": ["1", "404"]})["docs"]
    assert [doc["found"] for doc in docs] == [True, False]
    body = {"docs": [{"_index": "nope", "_id": "1"}, {"_index": "g", "_id": "1", "_source": ["m"]}]}
    docs = rest.json("GET", "/_mget", body)["docs"]
    assert docs[0]["error"]["root_cause"][0]["reason"] == "no such index [nope]"
    assert docs[1]["_source"] == {"m": 2}
    # As the client for Java says that it wants none.
    body = {"docs": [{"_index": "g", "_id": "1", "stored_fields": None}]}
    assert rest.json("POST", "/_mget", body)["docs"][0]["_source"] == {"n": 1, "m": 2}
    assert rest.refused("POST", "/_mget", {"ids": ["1"]}) == (
        "action_request_validation_exception",
        "Validation Failed: 1: index is missing;",
    )


def bulk(rest, lines, status=200, path="/_bulk", method="POST"):
    body = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    return rest.json(method, path, body, status, headers={"content-type": "application/x-ndjson"})


def test_bulk(rest):
    rest("PUT", "/g", {"mappings": {"properties": {"n": {"type": "long"}}}})
    rest("PUT", "/g/_doc/1", {"n": 1}, 201)
    lines = [
        {"index": {"_index": "g", "_id": "b1"}},
        {"n": 1},
        {"create": {"_index": "g", "_id": "1"}},
        {"n": 1},
        "\n",
        {"update": {"_index": "g", "_id": "b1"}},
        {"doc": {"n": 3}},
        {"delete": {"_index": "g", "_id": "b1"}},
        {"delete": {"_index": "g", "_id": "zz"}},
        {"index": {"_index": "g", "_id": "b2"}},
        {"n": "bad"},
        {"index": {"_index": "Bad"}},
        {"n": 1},
        {"index": {"_index": "g"}},
        "not json\n",
        {"update": {"_index": "g", "_id": "none"}},
        {"doc": {"n": 3}},
        {"index": {"_index": "new"}},
        {"n": 1},
    ]
    answer = bulk(rest, lines)
    assert answer["errors"]
    items = [(name, item["status"]) for entry in answer["items"] for name, item in entry.items()]
    assert items == [
        ("index", 201),
        ("create", 409),
        ("update", 200),
        ("delete", 200),
        ("delete", 404),
        ("index", 400),
        ("index", 400),
        ("index", 400),
        ("update", 404),
        ("index", 201),
    ]
    conflict = answer["items"][1]["create"]["error"]
    assert conflict["reason"] == "[1]: version conflict, document already exists (current version [1])"
    assert conflict["index"] == "g" and conflict["shard"] == "0"
    assert answer["items"][5]["index"]["error"]["caused_by"]["type"] == "illegal_argument_exception"
    assert answer["items"][6]["index"]["error"]["type"] == "invalid_index_name_exception"
    assert answer["items"][3]["delete"]["_version"] == 3


def test_bulk_order_within_a_document(rest):
    lines = []
    for n in range(20):
        lines += [{"update": {"_id": "1"}}, {"script": "ctx._source.n += 1", "upsert": {"n": 1}}]
    lines += [{"index": {"_id": "1"}}, {"n": 100}, {"update": {"_id": "1"}}, {"doc": {"m": 1}}]
    answer = bulk(rest, lines, path="/g/_bulk?refresh=true", method="PUT")
    assert not answer["errors"]
    assert [item["update"]["_version"] for item in answer["items"][:20]] == list(range(1, 21))
    assert answer["items"][-1]["update"]["forced_refresh"]
    assert rest.json("GET", "/g/_doc/1")["_source"] == {"n": 100, "m": 1}


def test_bulk_that_is_none(rest):
    headers = {"content-type": "application/x-ndjson"}
    for body, kind, reason in [
        ('{"index":{"_index":"g"}}\n{"n":1}', "illegal_argument_exception", "The bulk request must be terminated by a newline [\\n]"),
        ("\n", "action_request_validation_exception", "Validation Failed: 1: no requests added;"),
        (
            '{"bogus":{"_index":"g"}}\n{"n":1}\n',
            "illegal_argument_exception",
            "Malformed action/metadata line [1], expected one of [create, delete, index, update] but found [bogus]",
        ),
    ]:
        assert rest.refused("POST", "/_bulk", body, headers=headers) == (kind, reason)
    assert rest.refused("POST", "/_bulk", '{"index"\n', headers=headers)[0] == "json_e_o_f_exception"
    # Nothing of a small request is done where a line is malformed.
    body = '{"index":{"_index":"g","_id":"1"}}\n{}\n{"bogus":{}}\n'
    rest("POST", "/_bulk", body, 400, headers=headers)
    rest("HEAD", "/g", status=404)


def test_a_large_bulk_is_streamed(rest):
    """More than one chunk, sent in pieces that cut lines anywhere."""
    count = 30_000
    body = b"".join(
        b'{"index":{"_id":"%d"}}\n{"n":%d,"t":"%s"}\n' % (n, n, b"x" * (n % 97)) for n in range(count)
    )
    pieces = (body[at : at + 7919] for at in range(0, len(body), 7919))
    answer = rest.session.post(
        rest.url + "/g/_bulk", data=pieces, headers={"content-type": "application/x-ndjson"}
    ).json()
    assert not answer["errors"]
    assert [item["index"]["_id"] for item in answer["items"]] == [str(n) for n in range(count)]
    for n in [0, 1, 12_345, count - 1]:
        assert rest.json("GET", f"/g/_doc/{n}")["_source"] == {"n": n, "t": "x" * (n % 97)}


def test_by_query(rest):
    for n in range(25):
        rest("PUT", f"/g/_doc/{n}", {"n": n}, 201)
    rest("POST", "/g/_refresh")
    body = {"query": {"range": {"n": {"gte": 20}}}, "script": "ctx._source.m = ctx._source.n * 2"}
    answer = rest.json("POST", "/g/_update_by_query?refresh&scroll_size=3", body)
    assert (answer["total"], answer["updated"], answer["batches"]) == (5, 5, 2)
    assert rest.json("GET", "/g/_doc/24")["_source"] == {"n": 24, "m": 48}
    body = {
        "source": {"index": "g", "query": {"exists": {"field": "m"}}},
        "dest": {"index": "h"},
        "script": "ctx._source.remove('n')",
    }
    answer = rest.json("POST", "/_reindex?refresh", body)
    assert (answer["total"], answer["created"], answer["failures"]) == (5, 5, [])
    assert rest.json("GET", "/h/_doc/24")["_source"] == {"m": 48}
    answer = rest.json("POST", "/g/_delete_by_query?refresh", {"query": {"range": {"n": {"lt": 10}}}})
    assert (answer["total"], answer["deleted"], answer["version_conflicts"]) == (10, 10, 0)
    rest("GET", "/g/_doc/9", status=404)
    rest("GET", "/g/_doc/10")
    # Elasticsearch 7's other name of `max_docs`, in the body and in the address.
    for path, body in [("", {"size": 2}), ("?size=2", {})]:
        body["query"] = {"match_all": {}}
        for name in ["_update_by_query", "_delete_by_query"]:
            assert rest.json("POST", f"/g/{name}{path}", body)["total"] == 2
            rest("POST", "/g/_refresh")
    answer = rest.json("POST", "/g/_delete_by_query?refresh&max_docs=3&sort=n:desc", {"query": {"match_all": {}}})
    assert answer["deleted"] == 3
    left = rest.json("GET", "/g/_search?size=100")["hits"]["hits"]
    assert max(hit["_source"]["n"] for hit in left) == 21 and len(left) == 8
    assert "[sort]" in rest.refused("POST", "/g,h/_delete_by_query?sort=n", {"query": {"match_all": {}}})[1]
    assert "pipeline" in rest.refused("POST", "/g/_update_by_query?pipeline=p", {"query": {"match_all": {}}})[1]
    assert "wait_for_completion" in rest.refused("POST", "/g/_delete_by_query?wait_for_completion=false", {"query": {"match_all": {}}})[1]


def test_types_of_elasticsearch_7(rest, new_node):
    answer = bulk(rest, [{"index": {"_id": "1"}}, {"n": 1}, {"update": {"_id": "9"}}, {"doc": {}}], path="/g/_doc/_bulk")
    assert [item["_type"] for one in answer["items"] for item in one.values()] == ["_doc", "_doc"]
    assert rest.json("POST", "/g/_refresh") and rest.json("GET", "/g/_count")["count"] == 1
    assert rest.json("POST", "/g/_doc/1/_update", {"doc": {"m": 2}})["_type"] == "_doc"
    hit = rest.json("POST", "/g/_doc/_search", {"explain": True})["hits"]["hits"][0]
    assert (hit["_index"], hit["_type"], hit["_id"]) == ("g", "_doc", "1")
    for path in ["/g/_doc/1", "/g/_explain/1"]:
        assert rest.json("GET", path)["_type"] == "_doc"
    assert rest.json("GET", "/g/_doc/404", status=404)["_type"] == "_doc"
    assert rest.json("DELETE", "/g/_doc/1")["_type"] == "_doc"
    later = Rest(new_node(settings=["rest.version=2.19.1", "rest.distribution=opensearch"]).start())
    assert "_type" not in later.json("PUT", "/g/_doc/1?refresh", {"n": 1}, 201)
    assert "_type" not in later.json("GET", "/g/_search")["hits"]["hits"][0]


# Clients


def clients(url, opensearch_host):
    yield elasticsearch7.Elasticsearch([url]), elasticsearch7.helpers
    yield elasticsearch8.Elasticsearch(url), elasticsearch8.helpers
    yield opensearchpy.OpenSearch([opensearch_host]), opensearchpy.helpers


def test_clients(rest):
    host = {"host": "127.0.0.1", "port": int(rest.url.rsplit(":", 1)[1])}
    for number, (client, helpers) in enumerate(clients(rest.url, host)):
        index = f"c{number}"
        assert client.ping() and client.info()["tagline"] == "You Know, for Search"
        client.indices.create(index=index, body={"settings": {"number_of_shards": 1}})
        assert client.indices.exists(index=index)
        assert client.index(index=index, id="1", body={"n": 1}, refresh=True)["result"] == "created"
        assert client.get(index=index, id="1")["_source"] == {"n": 1}
        assert client.exists(index=index, id="1") and not client.exists(index=index, id="2")
        client.update(index=index, id="1", body={"doc": {"m": 2}})
        assert client.get_source(index=index, id="1") == {"n": 1, "m": 2}
        actions = ({"_index": index, "_id": str(n), "_source": {"n": n}} for n in range(100))
        assert helpers.bulk(client, actions, refresh=True) == (100, [])
        actions = [{"_op_type": "create", "_index": index, "_id": "5", "n": 1}]
        done, errors = helpers.bulk(client, actions, raise_on_error=False)
        assert done == 0 and errors[0]["create"]["status"] == 409
        assert len(client.mget(index=index, body={"ids": ["1", "2"]})["docs"]) == 2
        client.indices.put_mapping(index=index, body={"properties": {"k": {"type": "keyword"}}})
        client.indices.put_settings(index=index, body={"index": {"refresh_interval": "-1"}})
        client.indices.put_alias(index=index, name=f"{index}-alias")
        assert client.indices.get_alias(index=index)[index]["aliases"] == {f"{index}-alias": {}}
        client.indices.refresh(index=index)
        client.indices.forcemerge(index=index, max_num_segments=1)
        client.delete(index=index, id="1")
        try:
            client.get(index=index, id="1")
            raise AssertionError("the document is still there")
        except (elasticsearch7.NotFoundError, elasticsearch8.NotFoundError, opensearchpy.NotFoundError):
            pass
        client.indices.delete(index=index)


def test_a_redis_client_sees_documents(shared_node, rest):
    """A row of a table that has a mapping is a document, whoever wrote it."""
    redis = shared_node.client()
    rest("PUT", "/db0", {"mappings": {"properties": {"n": {"type": "long"}}}}, status=None)
    redis.set("k", '{"n": 1}')
    assert rest.json("GET", "/db0/_doc/k")["_source"] == {"n": 1}
    redis.set("plain", "text")
    assert rest.refused("GET", "/db0/_doc/plain")[0] == "mapper_parsing_exception"


def test_the_node_lives_on(shared_node, rest):
    """Requests that are no HTTP, or end in the middle, cost only their connection."""
    for noise in [b"\x00" * 100, b"GET / HTTP/9.9\r\n\r\n", b"POST /_bulk HTTP/1.1\r\ncontent-length: 100\r\n\r\n{"]:
        with socket.create_connection(("127.0.0.1", shared_node.http), timeout=10) as stream:
            stream.sendall(noise)
            stream.shutdown(socket.SHUT_WR)
            stream.settimeout(10)
            while stream.recv(65536):
                pass
    with socket.create_connection(("127.0.0.1", shared_node.http), timeout=10) as stream:
        try:
            # A head without end: the node hangs up, with or without a word.
            stream.sendall(b"GET / HTTP/1.1\r\nx: " + b"x" * 1_000_000)
            while stream.recv(65536):
                pass
        except ConnectionError:
            pass
    assert rest.json("GET", "/")["tagline"]


def test_drain_answers_what_is_under_way(new_node):
    node = new_node().start()
    stream = socket.create_connection(("127.0.0.1", node.http), timeout=10)
    head = b"PUT /g/_doc/1 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n"
    stream.sendall(head + b"{")
    time.sleep(0.2)
    node.process.terminate()
    time.sleep(0.2)
    stream.sendall(b"}")
    assert stream.recv(65536).startswith(b"HTTP/1.1 201 Created")
    assert node.terminate() == 0


def test_writes_to_an_index_that_is_deleted_meanwhile_are_answered(rest):
    """Found by an attack: those whose record was in the log waited for ten seconds, and were of unknown outcome."""
    over, answers = threading.Event(), []

    def write(number):
        own = requests.Session()
        for turn in range(10_000):
            if over.is_set():
                return
            answer = own.put(f"{rest.url}/gone/_doc/{number}-{turn}", json={"n": turn})
            answers.append((answer.status_code, answer.text))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for _ in range(40):
        rest("PUT", "/gone", {"settings": {"number_of_shards": 3}}, status=None)
        rest("DELETE", "/gone", status=None)
    over.set()
    for writer in writers:
        writer.join()
    assert len(answers) > 100
    odd = [answer for answer in answers if answer[0] not in (200, 201, 404)]
    assert not odd, odd[:3]

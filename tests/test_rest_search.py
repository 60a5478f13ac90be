"""Searches, figures and tables over plain HTTP: what the clients' own tests do not reach, and
what has to be refused."""

import json
import re

import pytest
import requests

NDJSON = {"content-type": "application/x-ndjson"}


class Rest:
    """A node's REST, with two indices of a few documents."""

    def __init__(self, node):
        self.url = f"http://127.0.0.1:{node.http}"
        for name, shards in [("a", 1), ("b", 2)]:
            settings = {"number_of_shards": shards, "number_of_replicas": 0}
            properties = {"t": {"type": "text"}, "k": {"type": "keyword"}, "n": {"type": "long"}}
            self("PUT", f"/{name}", {"settings": settings, "mappings": {"properties": properties}})
            lines = [
                json.dumps(part)
                for n in range(20)
                for part in ({"index": {"_id": str(n)}}, {"t": f"fox number {n}", "k": "xy"[n % 2], "n": n})
            ]
            self("POST", f"/{name}/_bulk?refresh=true", "\n".join(lines) + "\n", headers=NDJSON)

    def __call__(self, method, path, body=None, status=200, headers=None):
        if body is not None and not isinstance(body, str):
            body = json.dumps(body)
        headers = headers or ({"content-type": "application/json"} if body is not None else {})
        answer = requests.request(method, self.url + path, data=body, headers=headers)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer

    def json(self, *arguments, **options):
        return self(*arguments, **options).json()

    def reason(self, method, path, body=None, status=400):
        error = self.json(method, path, body, status)["error"]
        return error["root_cause"][0]["reason"]


@pytest.fixture(scope="module")
def rest(shared_node):
    return Rest(shared_node)


def test_a_scroll_counts_all(rest):
    lines = "".join(f'{{"index":{{}}}}\n{{"n":{n}}}\n' for n in range(10_050))
    rest("POST", "/many/_bulk?refresh=true", lines, headers=NDJSON)
    search = {"size": 9000, "sort": ["n"]}
    assert rest.json("POST", "/many/_search", search)["hits"]["total"] == {"value": 10_000, "relation": "gte"}
    page, seen = rest.json("POST", "/many/_search?scroll=1m", search), []
    while page["hits"]["hits"]:
        assert page["hits"]["total"] == {"value": 10_050, "relation": "eq"}
        seen += [hit["_source"]["n"] for hit in page["hits"]["hits"]]
        page = rest.json("POST", "/_search/scroll", {"scroll_id": page["_scroll_id"], "scroll": "1m"})
    assert seen == list(range(10_050))
    rest("DELETE", "/_search/scroll", {"scroll_id": page["_scroll_id"]})
    rest("DELETE", "/many")


def test_the_uri_says_what_the_body_may(rest):
    found = rest.json("GET", "/a/_search?q=k:x&size=2&sort=n:desc&_source=n&track_total_hits=true")
    assert [hit["_source"] for hit in found["hits"]["hits"]] == [{"n": 18}, {"n": 16}]
    assert found["hits"]["total"] == {"value": 10, "relation": "eq"}
    found = rest.json("GET", "/a,b/_search?rest_total_hits_as_int=true&size=0")
    assert (found["hits"]["total"], found["_shards"]["total"]) == (40, 3)
    found = rest.json("POST", "/a/_search?typed_keys=true&size=0", {"aggs": {"m": {"max": {"field": "n"}}}})
    assert found["aggregations"] == {"max#m": {"value": 19.0}}
    assert rest.json("GET", "/none-*/_search")["hits"]["max_score"] == 0.0
    assert rest.json("GET", "/none,a/_count?ignore_unavailable=true")["count"] == 20
    found = rest.json("GET", "/a/_search?source_content_type=application/json&source={\"size\":1}")
    assert len(found["hits"]["hits"]) == 1
    assert rest.json("GET", "/b/_search?routing=3&q=n:3")["_shards"]["total"] == 1


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/a/_search?rest_total_hits_as_int=true", {"track_total_hits": 5}, "not accurate, got 5"),
        ("/a/_search?scroll=1m", {"from": 1}, "using [from] is not allowed in a scroll context"),
        ("/a/_search?scroll=1m", {"size": 0}, "[size] cannot be [0] in a scroll context"),
        ("/a/_search?scroll=2d", {}, "is too large"),
        ("/a/_search?preference=_shards:0", {}, "_shards:0"),
        ("/a/_search?search_pipeline=p", {}, "[search_pipeline] is not supported"),
        ("/b/_search?search_type=dfs_query_then_fetch", {}, "more than one shard"),
        ("/a/_search?size=x", {}, "[size]"),
        ("/a/_search?bogus=1", {}, "unrecognized parameter: [bogus]"),
        ("/a/_search", {"size": 10001}, "Result window is too large"),
        ("/a/_search", {"suggest": {}}, "[suggest] is not supported"),
        ("/a/_search", {"profile": True}, "[profile] is not supported"),
        ("/a/_search", {"indices_boost": [{"a": 2}]}, "[indices_boost] is not supported"),
        ("/a/_search/template", {"source": "{}"}, "search templates are not supported"),
        ("/_msearch/template", {}, "search templates are not supported"),
        ("/a/_rank_eval", {}, "[_rank_eval]"),
        ("/a/_count", {"size": 1}, "request does not support [size]"),
        ("/_search/scroll", {"scroll": "1m"}, "scrollId is missing"),
        ("/a/_search/point_in_time", {}, "keep alive not specified"),
        ("/a/_search", {"pit": {"id": "x"}}, "x"),
        ("/_cluster/reroute", {"commands": [{"move": {}}]}, "[move] is not supported"),
    ],
)
def test_what_is_refused(rest, path, body, words):
    assert words in rest.reason("POST", path, body)


def test_many_searches(rest):
    lines = [{}, {"query": {"term": {"k": "x"}}}, {"index": "b", "search_type": "query_then_fetch"}, {"size": 1}]
    body = "\n".join(json.dumps(line) for line in lines) + "\n"
    answers = rest.json("POST", "/a/_msearch?rest_total_hits_as_int=true", body, headers=NDJSON)
    assert [answer["hits"]["total"] for answer in answers["responses"]] == [10, 20]
    for body, words in [("{}\n{}", "terminated by a newline"), ("\n", "no requests added"), ('{"x":1}\n{}\n', "[x]")]:
        answer = rest.json("POST", "/_msearch", body, 400, headers=NDJSON)
        assert words in answer["error"]["reason"]


def test_queries_looked_at(rest):
    found = rest.json("GET", "/a/_explain/3?q=t:fox")
    assert found["matched"] and found["explanation"]["value"] > 0 and found["explanation"]["details"]
    assert not rest.json("POST", "/a/_explain/3", {"query": {"term": {"k": "x"}}})["matched"]
    assert rest.json("GET", "/a/_explain/none?q=t:fox", status=404)["matched"] is False
    assert rest.json("GET", "/a/_validate/query?q=t:fox")["valid"]
    found = rest.json("POST", "/a/_validate/query?explain=true", {"query": {"range": {"n": {"gte": "x"}}}})
    assert not found["valid"] and "For input string" in found["explanations"][0]["error"]
    assert not rest.json("POST", "/a/_validate/query", {"query": {"bogus": {}}})["valid"]
    fields = rest.json("GET", "/a,b/_field_caps?fields=k,t*")["fields"]
    assert fields["k"]["keyword"] == {"type": "keyword", "searchable": True, "aggregatable": True}
    assert set(fields) == {"k", "t"}
    assert [len(group) for group in rest.json("GET", "/b/_search_shards")["shards"]] == [1, 1]


def test_health_waits(rest):
    rest("PUT", "/_cluster/settings", {"persistent": {"action.auto_create_index": "true"}})
    health = rest.json("GET", "/_cluster/health/none?timeout=10ms", status=408)
    assert health["timed_out"] and health["status"] == "red"
    assert rest.json("GET", "/_cluster/health?wait_for_nodes=>=2&timeout=10ms", status=408)["timed_out"]
    rest("PUT", "/c", {"settings": {"number_of_replicas": 1}})
    health = rest.json("GET", "/_cluster/health/c?wait_for_status=green&timeout=10ms", status=408)
    assert (health["status"], health["unassigned_shards"]) == ("yellow", 1)
    assert rest.json("GET", "/_cluster/health?level=indices")["indices"]["a"]["status"] == "green"
    assert "unassigned" in rest.json("GET", "/_cluster/allocation/explain")["current_state"]
    rest("DELETE", "/c")
    for wrong in ["wait_for_status=blue", "wait_for_nodes=many", "wait_for_events=soon", "level=x"]:
        rest("GET", f"/_cluster/health?{wrong}", status=400)


def test_cluster_settings(rest):
    body = {"transient": {"cluster": {"routing": {"allocation": {"enable": "all", "exclude._name": "n1"}}}}}
    put = rest.json("PUT", "/_cluster/settings?flat_settings", body)
    assert put["transient"]["cluster.routing.allocation.exclude._name"] == "n1"
    nested = rest.json("GET", "/_cluster/settings")["transient"]
    assert nested["cluster"]["routing"]["allocation"]["enable"] == "all"
    assert rest.json("GET", "/_cluster/settings?include_defaults&flat_settings")["defaults"]["search.max_keep_alive"] == "24h"
    rest("PUT", "/_cluster/settings", {"transient": {"cluster.routing.*": None}})
    assert rest.json("GET", "/_cluster/settings")["transient"] == {}
    for body in [
        {"transient": {"bogus": 1}},
        {"transient": {}},
        {"other": {}},
        {"persistent": {"cluster.default_number_of_replicas": -1}},
        # What nobody reads is refused, not kept.
        {"transient": {"cluster.routing.allocation.enable": "none"}},
        {"transient": {"cluster.routing.allocation.disk.watermark.low": "85%"}},
        {"persistent": {"indices.recovery.max_bytes_per_sec": "40mb"}},
    ]:
        rest("PUT", "/_cluster/settings", body, status=400)


def test_figures(rest):
    for path in ["/_stats/bogus", "/_nodes/stats/bogus", "/_cluster/state/bogus", "/_stats?level=x"]:
        rest("GET", path, status=400)
    shards = rest.json("GET", "/b/_stats/docs?level=shards")["indices"]["b"]["shards"]
    assert sum(copies[0]["docs"]["count"] for copies in shards.values()) == 20
    assert shards["0"][0]["routing"]["primary"] is True
    node = next(iter(rest.json("GET", "/_nodes/stats/jvm,breaker,thread_pool")["nodes"].values()))
    assert {"jvm", "breakers", "thread_pool"} <= set(node) and "os" not in node
    assert node["thread_pool"]["search"]["completed"] > 0
    assert rest.json("GET", "/_nodes/nobody/stats")["_nodes"]["total"] == 0
    assert next(iter(rest.json("GET", "/_nodes/http")["nodes"].values()))["http"]["publish_address"] in rest.url
    assert "Hot threads" in rest("GET", "/_nodes/hot_threads?interval=20ms").text
    state = rest.json("GET", "/_cluster/state/routing_table,metadata/a")
    assert set(state["metadata"]["indices"]) == {"a"} and "nodes" not in state


def test_tables(rest):
    assert rest("GET", "/_cat/indices/a,b?h=i,dc&s=dc:desc,i:desc").text == "b 20\na 20\n"
    rows = rest.json("GET", "/_cat/shards/b?format=json&h=shard,docs,store&bytes=b&s=shard")
    assert [row["shard"] for row in rows] == ["0", "1"] and all(row["store"].isdigit() for row in rows)
    text = rest("GET", "/_cat/nodes?v&h=name,disk.total,cpu").text
    assert re.fullmatch(r"name +disk\.total +cpu\nnode-1 +[\d.]+[tgm]b +\d+\n", text)
    assert rest("GET", "/_cat/count/a?h=count").text == "20\n"
    assert rest("GET", "/_cat/health?help").text.startswith("epoch ")
    headers = {"accept": "application/json"}
    assert rest.json("GET", "/_cat/master", headers=headers)[0]["node"] == "node-1"
    assert rest("GET", "/_cat/count", headers={"accept": "text/plain,application/json"}).text.endswith("\n")
    assert rest.reason("GET", "/_cat/indices?bytes=x") and rest.reason("GET", "/_cat/indices?s=bogus")
    listed = rest("GET", "/_cat").text.splitlines()[1:]
    for path in listed:
        rest("GET", path.replace("{index}", "a").replace("{", "").replace("}", "") + "?v")


def test_nested_objects_are_refused_by_name(rest):
    nested = {"properties": {"c": {"type": "nested", "properties": {"a": {"type": "keyword"}}}}}
    for method, path, body in [
        ("PUT", "/nested", {"mappings": nested}),
        ("PUT", "/a/_mapping", nested),
        ("PUT", "/_index_template/nested", {"index_patterns": ["n*"], "template": {"mappings": nested}}),
        ("PUT", "/_template/nested", {"index_patterns": ["n*"], "mappings": nested}),
        ("PUT", "/nested", {"mappings": {"dynamic_templates": [{"o": {"match": "*", "mapping": {"type": "nested"}}}]}}),
    ]:
        error = rest.json(method, path, body, status=400)["error"]
        assert error["type"] == "mapper_parsing_exception" and "[nested]" in error["reason"], (path, error)
    match_all = {"match_all": {}}
    for body in [
        {"query": {"nested": {"path": "c", "query": match_all}}},
        {"aggs": {"x": {"nested": {"path": "c"}}}},
        {"aggs": {"x": {"reverse_nested": {}}}},
        {"sort": [{"n": {"order": "asc", "nested": {"path": "c"}}}]},
    ]:
        assert "nested" in json.dumps(rest.json("POST", "/a/_search", body, status=400)["error"]), body


def test_settings_that_nobody_reads_are_refused_by_name(rest):
    refused = {
        "index.routing.allocation.exclude._name": "x",
        "index.search.slowlog.threshold.query.warn": "1s",
        "index.mapping.depth.limit": 50,
        "index.max_terms_count": 10,
        "index.auto_expand_replicas": "0-all",
        "index.blocks.read": True,
    }
    for name, value in refused.items():
        error = rest.json("PUT", "/settings", {"settings": {name: value}}, status=400)["error"]
        assert name in error["reason"], error
        rest("PUT", "/a/_settings", {name: value}, status=400)
    # What Logstash, Kibana and Rally send by habit, and what is true anyway.
    usual = {
        "index.codec": "best_compression",
        "index.auto_expand_replicas": "0-1",
        "index.merge.scheduler.max_thread_count": 1,
        "index.translog.durability": "async",
        "index.mapping.total_fields.limit": 2_000,
        "index.routing.allocation.include._tier_preference": "data_content",
        "index.max_terms_count": 65_536,
    }
    rest("PUT", "/settings", {"settings": usual})
    fields = {f"f{number}": {"type": "long"} for number in range(1_500)}
    rest("PUT", "/settings/_mapping", {"properties": fields})
    more = {f"g{number}": {"type": "long"} for number in range(1_000)}
    error = rest.json("PUT", "/settings/_mapping", {"properties": more}, status=400)["error"]
    assert "Limit of total fields [2000]" in error["reason"]
    # Not below what is there.
    rest("PUT", "/settings/_settings", {"index.mapping.total_fields.limit": 1_000}, status=400)
    rest("PUT", "/settings/_settings", {"index.mapping.total_fields.limit": 3_000})
    rest("PUT", "/settings/_mapping", {"properties": more})
    rest("DELETE", "/settings")

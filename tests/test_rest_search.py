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
        "index.gc_deletes": "1h",
        "index.search.idle.after": "5s",
        "index.allocation.max_retries": 1,
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
        "index.gc_deletes": "60s",
        "index.search.idle.after": "30s",
        "index.priority": 100,
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


@pytest.fixture(scope="module")
def kinds(rest):
    """Two indices, of one shard and of three, with fields of many types."""
    properties = {
        "d": {"type": "date"},
        "s": {"type": "date", "format": "epoch_second"},
        "dn": {"type": "date_nanos"},
        "ip": {"type": "ip"},
        "p": {"type": "geo_point"},
        "n": {"type": "long"},
        "k": {"type": "keyword", "ignore_above": 3},
        "m": {"type": "long", "ignore_malformed": True},
    }
    for name, shards in [("kinds-1", 1), ("kinds-3", 3)]:
        settings = {"number_of_shards": shards, "number_of_replicas": 0}
        rest("PUT", f"/{name}", {"settings": settings, "mappings": {"properties": properties}})
        lines = []
        for n in range(12):
            document = {
                "d": f"2024-01-{1 + n // 2:02}",
                "s": 1_704_067_200 + n,
                "dn": f"2024-01-01T00:00:00.{123_456_780 + n // 2:09}Z",
                "ip": f"10.0.0.{n * 20}",
                "p": {"lat": 0, "lon": -175 + n * 30},
                "n": n,
                "k": "long" if n == 4 else f"k{n}",
                "m": "bad" if n == 3 else n,
            }
            lines += [json.dumps({"index": {"_id": str(n)}}), json.dumps(document)]
        rest("POST", f"/{name}/_bulk?refresh=true", "\n".join(lines) + "\n", headers=NDJSON)
    yield rest
    rest("DELETE", "/kinds-1,kinds-3")


def counts(rest, index, **aggregations):
    """Each aggregation's keys with their counts, or its value."""
    found = rest.json("POST", f"/{index}/_search", {"size": 0, "aggs": aggregations})["aggregations"]

    def short(answer):
        if "buckets" not in answer:
            return answer["value"]
        return {bucket.get("key_as_string", bucket["key"]): bucket["doc_count"] for bucket in answer["buckets"]}

    return {name: short(answer) for name, answer in found.items()}


def test_counts_of_terms_say_how_far_they_can_be_wrong(kinds):
    terms = {"terms": {"field": "n", "size": 2, "shard_size": 3, "show_term_doc_count_error": True}}
    bounds = {}
    for index in ["kinds-1", "kinds-3"]:
        found = kinds.json("POST", f"/{index}/_search", {"size": 0, "aggs": {"t": terms}})["aggregations"]["t"]
        own = [bucket["doc_count_error_upper_bound"] for bucket in found["buckets"]]
        bounds[index] = (found["doc_count_error_upper_bound"], own, found["sum_other_doc_count"])
    assert bounds["kinds-1"] == (0, [0, 0], 10)
    error, own, other = bounds["kinds-3"]
    # Each shard that left terms out may have one document more of those that it did not send.
    assert error in (2, 3) and all(error - 1 <= bound <= error for bound in own) and other == 10


@pytest.mark.parametrize("index", ["kinds-1", "kinds-3"])
def test_buckets_of_dates_addresses_and_places(kinds, index):
    first, second = "2024-01-01T00:00:00.000Z", "2024-01-02T00:00:00.000Z"
    found = counts(
        kinds,
        index,
        included={"terms": {"field": "d", "include": ["2024-01-01", second]}},
        excluded={"terms": {"field": "d", "exclude": ["2024-01-03", "2024-01-04", "2024-01-05", "2024-01-06"]}},
        rare={"rare_terms": {"field": "d", "max_doc_count": 2, "include": ["2024-01-02"]}},
        days={"date_range": {"field": "d", "ranges": [{"to": "2024-01-03", "key": "x"}, {"from": "now-1d", "key": "y"}]}},
        seconds={"date_range": {"field": "s", "ranges": [{"to": 1_704_067_205}, {"from": 1_704_067_205}]}},
        nanos={"date_range": {"field": "dn", "format": "yyyy", "ranges": [{"to": "2024"}, {"from": "2024"}]}},
        auto={"auto_date_histogram": {"field": "d", "buckets": 6, "format": "dd"}},
        missing={"date_range": {"field": "none", "missing": "2024-01-02", "ranges": [{"from": "2024", "key": "x"}]}},
        far={"geo_distance": {"field": "p", "origin": "0,-175", "unit": "km", "ranges": [{"to": 3400}, {"from": 3400}]}},
        net={"ip_range": {"field": "ip", "ranges": [{"mask": "10.0.0.0/25"}, {"from": "10.0.0.128"}]}},
    )
    assert found["included"] == found["excluded"] == {first: 2, second: 2}
    assert found["rare"] == {second: 2}
    assert found["days"] == {"x": 4, "y": 0}
    assert found["seconds"] == {"*-1704067205": 5, "1704067205-*": 7}
    assert found["nanos"] == {"*-2024": 0, "2024-*": 12}
    assert found["auto"] == {f"{day:02}": 2 for day in range(1, 7)}
    assert found["missing"] == {"x": 12}
    assert found["far"] == {"*-3400.0": 3, "3400.0-*": 9}
    assert found["net"] == {"10.0.0.0/25": 7, "10.0.0.128-*": 5}


@pytest.mark.parametrize("index", ["kinds-1", "kinds-3"])
def test_siblings_compute_from_every_kind_of_bucket(kinds, index):
    for kind, options in {
        "rare_terms": {"field": "d", "max_doc_count": 2},
        "auto_date_histogram": {"field": "dn"},
        "date_range": {"field": "d", "ranges": [{"to": "2024-01-03"}, {"from": "2024-01-03"}]},
        "geo_distance": {"field": "p", "origin": "0,0", "ranges": [{"to": 1e6}, {"from": 1e6}]},
        "ip_range": {"field": "ip", "ranges": [{"to": "10.0.0.9"}, {"from": "10.0.0.9"}]},
    }.items():
        aggregations = {
            "a": {kind: options, "aggs": {"m": {"max": {"field": "n"}}}},
            "dot": {"sum_bucket": {"buckets_path": "a._count"}},
            "arrow": {"sum_bucket": {"buckets_path": "a>_count"}},
            "best": {"max_bucket": {"buckets_path": "a>m"}},
        }
        found = counts(kinds, index, **aggregations)
        assert (found["dot"], found["arrow"], found["best"]) == (12, 12, 11), (kind, found)


@pytest.mark.parametrize("index", ["kinds-1", "kinds-3"])
def test_tiles_of_a_composite_are_paged_in_order(kinds, index):
    seen, after = [], {}
    while True:
        sources = [{"g": {"geotile_grid": {"field": "p", "precision": 7}}}]
        composite = {"composite": {"sources": sources, "size": 5, **after}}
        found = kinds.json("POST", f"/{index}/_search", {"size": 0, "aggs": {"c": composite}})["aggregations"]["c"]
        if not found["buckets"]:
            break
        seen += [bucket["key"]["g"] for bucket in found["buckets"]]
        after = {"after": found["after_key"]}
    columns = [int((5 + n * 30) / 360 * 128) for n in range(12)]
    assert seen == [f"7/{column}/64" for column in columns]


@pytest.mark.parametrize(
    ("aggregation", "words"),
    [
        ({"terms": {"field": "d", "include": ["soon"]}}, "failed to parse date field [soon]"),
        ({"terms": {"field": "d", "include": "2024.*"}}, "cannot support regular expression"),
        ({"terms": {"field": "_ignored"}}, "[_ignored]"),
        ({"ip_range": {"field": "ip", "missing": "x", "ranges": [{"to": "::1"}]}}, "'x' is not an IP string literal."),
        ({"geo_distance": {"field": "p", "missing": "0,0", "origin": "0,0", "ranges": [{"to": 1}]}}, "[missing] is not supported"),
        ({"date_range": {"field": "d", "ranges": [{"to": "soon"}]}}, "failed to parse date field [soon]"),
    ],
)
def test_aggregations_that_are_refused(kinds, aggregation, words):
    assert words in kinds.reason("POST", "/kinds-1/_search", {"aggs": {"x": aggregation}})


def test_a_sibling_that_leads_nowhere_is_refused(kinds):
    for path, words in [("a", "must reference either a number value"), ("a>no", "Cannot find an aggregation named [no]")]:
        aggregations = {"a": {"rare_terms": {"field": "d"}}, "x": {"avg_bucket": {"buckets_path": path}}}
        assert words in kinds.reason("POST", "/kinds-1/_search", {"aggs": aggregations})


@pytest.mark.parametrize("index", ["kinds-1", "kinds-3"])
def test_values_left_out_are_named_and_found(kinds, index):
    def ignored(query):
        hits = kinds.json("POST", f"/{index}/_search", {"query": query, "size": 20})["hits"]["hits"]
        return {hit["_id"]: hit["_ignored"] for hit in hits if "_ignored" in hit}, len(hits)

    assert ignored({"match_all": {}}) == ({"3": ["m"], "4": ["k"]}, 12)
    assert ignored({"exists": {"field": "_ignored"}}) == ({"3": ["m"], "4": ["k"]}, 2)
    assert ignored({"term": {"_ignored": "k"}}) == ({"4": ["k"]}, 1)
    assert ignored({"query_string": {"query": "_ignored:m"}}) == ({"3": ["m"]}, 1)


@pytest.mark.parametrize("index", ["kinds-1", "kinds-3"])
@pytest.mark.parametrize("style", [{}, {"format": "strict_date_optional_time_nanos"}])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_sorted_by_nanoseconds(kinds, index, style, order):
    search = {"size": 3, "sort": [{"dn": {"order": order, **style}}, {"n": order}]}
    seen, values = [], []
    while hits := kinds.json("POST", f"/{index}/_search", search)["hits"]["hits"]:
        seen += [int(hit["_id"]) for hit in hits]
        values += [hit["sort"][0] for hit in hits]
        search["search_after"] = hits[-1]["sort"]
        assert len(seen) <= 12
    assert seen == sorted(range(12), reverse=order == "desc")
    least = "2024-01-01T00:00:00.123456780Z" if style else 1_704_067_200_123_456_780
    assert min(values) == least
    # As text, also where the request asks for numbers.
    text = {"size": 2, "sort": [{"dn": "asc"}, {"n": "asc"}], "search_after": ["2024-01-01T00:00:00.123456781Z", 2]}
    hits = kinds.json("POST", f"/{index}/_search", text)["hits"]["hits"]
    assert [hit["_id"] for hit in hits] == ["3", "4"]


@pytest.mark.parametrize("index", ["kinds-1", "kinds-3"])
def test_a_search_ends_early_only_where_more_would_match(kinds, index):
    def early(**search):
        found = kinds.json("POST", f"/{index}/_search", search)
        return found.get("terminated_early"), found["hits"]["total"]

    one = {"term": {"n": 5}}
    assert early(query=one, terminate_after=1) == (False, {"value": 1, "relation": "eq"})
    assert early(query=one, terminate_after=1, sort=["n"]) == (False, {"value": 1, "relation": "eq"})
    assert early(query=one, terminate_after=1, size=0)[0] is False
    assert early(terminate_after=1)[0] is True
    assert early(query=one, terminate_after=0) == (None, {"value": 1, "relation": "eq"})
    assert early(query=one)[0] is None
    found = kinds.json("POST", f"/{index}/_count?terminate_after=1", {"query": one})
    assert (found["count"], found["terminated_early"]) == (1, False)


@pytest.mark.parametrize("index", ["kinds-1", "kinds-3"])
def test_scripts_show_values_of_their_types(kinds, index):
    scripts = {
        "plain": "doc['n'].value",
        "twice": "doc['n'].value * 2",
        "half": "doc['n'].value / 2",
        "share": "doc['n'].value / 2.0",
        "large": "doc['n'].value > 3",
        "date": "doc['d'].value",
    }
    fields = {name: {"script": script} for name, script in scripts.items()}
    search = {"query": {"term": {"n": 5}}, "script_fields": fields}
    [hit] = kinds.json("POST", f"/{index}/_search", search)["hits"]["hits"]
    assert json.dumps(hit["fields"]) == json.dumps(
        {"plain": [5], "twice": [10], "half": [2], "share": [2.5], "large": [True], "date": ["2024-01-03T00:00:00.000Z"]}
    )
    assert "_source" not in hit
    [hit] = kinds.json("POST", f"/{index}/_search", {**search, "_source": ["n"]})["hits"]["hits"]
    assert hit["_source"] == {"n": 5} and hit["fields"]["twice"] == [10]


def test_clauses_are_counted_over_the_whole_query(rest):
    rest("PUT", "/g", {"mappings": {"properties": {"t": {"type": "text"}}}})
    rest("PUT", "/g/_doc/1?refresh", {"t": "a"}, 201)
    words = {"match": {"t": " ".join(f"w{n}" for n in range(1000))}}
    refused = rest("POST", "/g/_search", {"query": {"dis_max": {"queries": [words] * 20}}}, 400)
    assert "too many nested clauses" in refused.text
    found = rest("POST", "/g/_search", {"query": {"dis_max": {"queries": [words] * 10}}}).json()
    assert found["hits"]["total"]["value"] == 0
    rest("DELETE", "/g")

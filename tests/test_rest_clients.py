"""What applications do all day, through the clients that they use: opensearch-py and the
Elasticsearch clients 7 and 8, each with its own checks of who it talks to, media types and paths."""

import elasticsearch7
import elasticsearch7.helpers
import elasticsearch8
import elasticsearch8.helpers
import opensearchpy
import opensearchpy.helpers
import pytest

DOCUMENTS = 250
MAPPINGS = {
    "properties": {
        "title": {"type": "text"},
        "kind": {"type": "keyword"},
        "size": {"type": "long"},
        "day": {"type": "date"},
    }
}


class OpenSearch:
    """Bodies go as bodies."""

    module, helpers = opensearchpy, opensearchpy.helpers

    def __init__(self, port):
        self.client = opensearchpy.OpenSearch([{"host": "127.0.0.1", "port": port}], timeout=30)

    def create(self, index, body):
        return self.client.indices.create(index=index, body=body)

    def search(self, body, **parameters):
        return self.client.search(body=body, **parameters)

    def count(self, index, body):
        return self.client.count(index=index, body=body)

    def msearch(self, lines):
        return self.client.msearch(body=lines)

    def aliases(self, actions):
        return self.client.indices.update_aliases(body={"actions": actions})

    def settings(self, body):
        return self.client.cluster.put_settings(body=body)

    def scroll(self, scroll_id):
        return self.client.scroll(body={"scroll_id": scroll_id, "scroll": "1m"})

    def clear(self, scroll_id):
        return self.client.clear_scroll(body={"scroll_id": [scroll_id]})

    def open_point(self, index):
        return self.client.create_pit(index=index, keep_alive="1m")["pit_id"]

    def close_point(self, point):
        answer = self.client.delete_pit(body={"pit_id": [point]})
        assert [pit["successful"] for pit in answer["pits"]] == [True]


class Elasticsearch7(OpenSearch):
    """As OpenSearch's, which was made from it; points in time are spelled otherwise."""

    module, helpers = elasticsearch7, elasticsearch7.helpers

    def __init__(self, port):
        self.client = elasticsearch7.Elasticsearch([f"http://127.0.0.1:{port}"], timeout=30)

    def open_point(self, index):
        return self.client.open_point_in_time(index=index, keep_alive="1m")["id"]

    def close_point(self, point):
        assert self.client.close_point_in_time(body={"id": point})["num_freed"] == 1


class Elasticsearch8(Elasticsearch7):
    """Keys of a body go as parameters of their own."""

    module, helpers = elasticsearch8, elasticsearch8.helpers

    def __init__(self, port):
        self.client = elasticsearch8.Elasticsearch(f"http://127.0.0.1:{port}", request_timeout=30)

    def create(self, index, body):
        return self.client.indices.create(index=index, **body)

    def search(self, body, **parameters):
        return self.client.search(**body, **parameters)

    def count(self, index, body):
        return self.client.count(index=index, **body)

    def msearch(self, lines):
        return self.client.msearch(searches=lines)

    def aliases(self, actions):
        return self.client.indices.update_aliases(actions=actions)

    def settings(self, body):
        return self.client.cluster.put_settings(**body)

    def scroll(self, scroll_id):
        return self.client.scroll(scroll_id=scroll_id, scroll="1m")

    def clear(self, scroll_id):
        return self.client.clear_scroll(scroll_id=scroll_id)

    def close_point(self, point):
        assert self.client.close_point_in_time(id=point)["num_freed"] == 1


@pytest.fixture(params=[OpenSearch, Elasticsearch7, Elasticsearch8], ids=lambda it: it.__name__)
def user(request, new_node):
    """A client with an index of documents that are visible."""
    user = request.param(new_node().start().http)
    settings = {"number_of_shards": 2, "number_of_replicas": 0}
    user.create("things", {"settings": settings, "mappings": MAPPINGS})
    documents = (
        {
            "_index": "things",
            "_id": str(n),
            "title": f"thing number {n} " + ("quick fox" if n % 50 == 0 else "slow dog"),
            "kind": "abc"[n % 3],
            "size": n,
            "day": f"2024-0{1 + n % 4}-15",
        }
        for n in range(DOCUMENTS)
    )
    assert user.helpers.bulk(user.client, documents, chunk_size=100) == (DOCUMENTS, [])
    user.client.indices.refresh(index="things")
    return user


def ids(answer):
    return [hit["_id"] for hit in answer["hits"]["hits"]]


def test_search(user):
    found = user.search({"query": {"match": {"title": "fox"}}, "sort": [{"size": "desc"}]}, index="things")
    assert found["hits"]["total"] == {"value": 5, "relation": "eq"}
    assert ids(found) == ["200", "150", "100", "50", "0"] and found["hits"]["max_score"] is None
    assert found["_shards"] == {"total": 2, "successful": 2, "skipped": 0, "failed": 0}
    body = {
        "query": {"bool": {"must": [{"term": {"kind": "a"}}], "filter": [{"range": {"size": {"lt": 30}}}]}},
        "size": 3,
        "sort": ["size"],
    }
    assert ids(user.search(body, index="things")) == ["0", "3", "6"]
    body = {"query": {"match": {"title": "quick fox"}}, "highlight": {"fields": {"title": {}}}, "size": 1}
    hit = user.search(body, index="things")["hits"]["hits"][0]
    assert hit["highlight"]["title"][0].endswith("<em>quick</em> <em>fox</em>") and hit["_score"] > 1
    assert user.search({}, index="things", q="title:fox", size=2)["hits"]["total"]["value"] == 5
    assert user.search({}, index="nothing-*")["hits"]["total"]["value"] == 0
    with pytest.raises(user.module.NotFoundError):
        user.search({}, index="nothing")
    refused = user.module.BadRequestError if user.module is elasticsearch8 else user.module.RequestError
    with pytest.raises(refused) as raised:
        user.search({"query": {"bogus": {}}}, index="things")
    assert "unknown query [bogus]" in str(raised.value)


def test_count_and_msearch(user):
    assert user.count("things", {"query": {"term": {"kind": "b"}}})["count"] == 83
    assert user.client.count(index="things")["count"] == DOCUMENTS
    lines = [{"index": "things"}, {"size": 0}, {"index": "nothing"}, {"size": 0}]
    one, other = user.msearch(lines)["responses"]
    assert (one["status"], one["hits"]["total"]["value"]) == (200, DOCUMENTS)
    assert (other["status"], other["error"]["type"]) == (404, "index_not_found_exception")


def test_aggregations(user):
    body = {
        "size": 0,
        "aggs": {
            "kinds": {"terms": {"field": "kind"}, "aggs": {"size": {"stats": {"field": "size"}}}},
            "months": {"date_histogram": {"field": "day", "calendar_interval": "month"}},
            "different": {"cardinality": {"field": "kind"}},
        },
    }
    answer = user.search(body, index="things")
    kinds = answer["aggregations"]["kinds"]["buckets"]
    assert [(bucket["key"], bucket["doc_count"]) for bucket in kinds] == [("a", 84), ("b", 83), ("c", 83)]
    assert kinds[0]["size"]["min"] == 0.0 and kinds[0]["size"]["max"] == 249.0
    months = answer["aggregations"]["months"]["buckets"]
    assert [bucket["doc_count"] for bucket in months] == [63, 63, 62, 62]
    assert answer["aggregations"]["different"]["value"] == 3 and answer["hits"]["hits"] == []


def test_scroll(user):
    page = user.search({"sort": ["_doc"], "size": 100}, index="things", scroll="1m")
    seen = []
    while page["hits"]["hits"]:
        assert page["hits"]["total"]["value"] == DOCUMENTS
        seen += ids(page)
        page = user.scroll(page["_scroll_id"])
    assert sorted(map(int, seen)) == list(range(DOCUMENTS))
    assert user.clear(page["_scroll_id"])["num_freed"] == 1
    with pytest.raises(user.module.NotFoundError):
        user.scroll(page["_scroll_id"])
    scanned = user.helpers.scan(user.client, index="things", size=70, query={"query": {"term": {"kind": "c"}}})
    assert sum(1 for _ in scanned) == 83


def test_point_in_time(user):
    point = user.open_point("things")
    user.client.delete(index="things", id="7", refresh=True)
    seen, after = [], None
    while True:
        body = {"size": 60, "pit": {"id": point, "keep_alive": "1m"}, "sort": [{"size": "asc"}]}
        page = user.search({**body, "search_after": after} if after else body)
        if not page["hits"]["hits"]:
            break
        assert page["pit_id"]
        seen += ids(page)
        after = page["hits"]["hits"][-1]["sort"]
    assert seen == [str(n) for n in range(DOCUMENTS)]
    assert user.client.count(index="things")["count"] == DOCUMENTS - 1
    user.close_point(point)
    with pytest.raises(user.module.NotFoundError):
        user.search({"pit": {"id": point}})


def test_aliases(user):
    few = {"add": {"index": "things", "alias": "few", "filter": {"range": {"size": {"lt": 10}}}}}
    assert user.aliases([few, {"add": {"index": "things", "alias": "all"}}])["acknowledged"]
    assert user.client.count(index="few")["count"] == 10
    assert user.client.count(index="all")["count"] == DOCUMENTS
    assert user.client.count(index="few,all")["count"] == DOCUMENTS
    assert list(user.client.indices.get_alias(name="few")["things"]["aliases"]) == ["few"]
    assert user.client.indices.exists_alias(name="few")


def test_cluster_and_figures(user):
    client = user.client
    assert client.ping() and client.info()["tagline"]
    health = client.cluster.health(wait_for_status="green", wait_for_nodes=">=1")
    assert (health["status"], health["active_primary_shards"]) == ("green", 2)
    assert user.settings({"transient": {"action.destructive_requires_name": "false"}})["acknowledged"]
    assert client.cluster.get_settings(flat_settings=True)["transient"] == {
        "action.destructive_requires_name": "false"
    }
    user.settings({"transient": {"action.destructive_requires_name": None}})
    assert client.cluster.get_settings()["transient"] == {}
    stats = client.indices.stats(index="things", metric="docs,store,search")
    assert stats["_all"]["primaries"]["docs"]["count"] == DOCUMENTS
    assert set(stats["indices"]["things"]["primaries"]) == {"docs", "store", "search"}
    node = next(iter(client.nodes.stats()["nodes"].values()))
    assert node["jvm"]["gc"]["collectors"] and node["jvm"]["mem"]["pools"]
    assert node["os"]["mem"]["total_in_bytes"] > 0 and node["process"]["open_file_descriptors"] > 0
    assert node["fs"]["total"]["total_in_bytes"] > 0 and node["indices"]["docs"]["count"] == DOCUMENTS
    name = client.cluster.state(metric="master_node")["master_node"]
    assert name in client.nodes.info(node_id=name, metric="os")["nodes"]
    assert client.cluster.stats()["indices"]["docs"]["count"] == DOCUMENTS
    rows = client.cat.indices(format="json", h="index,docs.count")
    assert list(rows) == [{"index": "things", "docs.count": str(DOCUMENTS)}]
    fields = client.field_caps(index="things", fields="*")["fields"]
    assert fields["kind"]["keyword"]["aggregatable"] and not fields["title"]["text"]["aggregatable"]

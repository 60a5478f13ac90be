"""What bench_documents.py indexes and searches: each work's documents, mapping and searches, with
the aims of its figures. It talks to no server. Documents are made as they are read, by a fixed
seed, so that both servers get the same bytes.
"""

import gzip
import itertools
import json
import pathlib
import random

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKS = ["longs", "complex", "logs", "pmc"]


def plan(name, scale):
    """A work with one `scale`th of its documents."""
    return {"longs": longs, "complex": complex_work, "logs": logs, "pmc": pmc}[name](scale)


def sample(name):
    """The documents of a sample index: every second line of its bulk request."""
    with gzip.open(ROOT / "sample" / f"{name}.bulk.gz", "rt") as lines:
        return [json.loads(line) for line in list(lines)[1::2]]


def longs(scale):
    count = 2_000_000 // scale
    aggregation = {"size": 0, "aggs": {"top": {"terms": {"field": "n", "size": 25}}}}
    return {
        "shards": 2, "properties": {"n": {"type": "long"}}, "count": count, "bulk_docs": 5000,
        "documents": ({"n": n} for n in range(count)),
        "searches": {"terms": [aggregation]}, "clients": [1, 10],
        "aims": {"throughput": 4, "docs_s": 3, "bytes": 1, "resident": 0.1},
    }


def complex_query(random_, ids):
    """A filter of 5,000 terms and a distance, three decays and an expression."""
    terms = random_.sample(range(ids), min(5000, ids))
    lat, lon = random_.uniform(-40, 60), random_.uniform(-120, 140)
    return {
        "size": 10,
        "query": {"function_score": {
            "query": {"bool": {
                "filter": [
                    {"terms": {"group": terms}},
                    {"geo_distance": {"distance": "3000km", "location": {"lat": lat, "lon": lon}}},
                ]}},
            "functions": [
                {"gauss": {"location": {"origin": {"lat": lat, "lon": lon}, "scale": "500km"}}},
                {"exp": {"population": {"origin": 100000, "scale": 50000}}},
                {"linear": {"at": {"origin": 1500000000000, "scale": "30d"}}},
                {"script_score": {"script": {
                    "lang": "expression", "source": "ln(1 + abs(doc['population']))"}}},
            ],
            "score_mode": "sum", "boost_mode": "replace"}},
    }


def complex_work(scale):
    count = 1_000_000 // scale
    random_ = random.Random(7)
    cities = sample("cities")

    def documents():
        for n in range(count):
            city = cities[n % len(cities)]
            place = city["location"]
            yield {
                "name": city["name"], "group": n % 100_000, "population": city["population"],
                "at": 1_500_000_000_000 + random_.randrange(10**10),
                "location": {
                    "lat": max(-89.9, min(89.9, place["lat"] + random_.uniform(-1, 1))),
                    "lon": max(-179.9, min(179.9, place["lon"] + random_.uniform(-1, 1))),
                },
            }

    return {
        "shards": 5, "count": count, "documents": documents(), "bulk_docs": 5000,
        "properties": {
            "name": {"type": "text"}, "group": {"type": "integer"},
            "population": {"type": "long"}, "at": {"type": "date", "format": "epoch_millis"},
            "location": {"type": "geo_point"},
        },
        # Fifty at once, so that no filter is asked for twice in a row.
        "searches": {"complex": [complex_query(random.Random(n), 100_000) for n in range(50)]},
        "clients": [1, 8],
        "aims": {"throughput": 3, "p99": 1 / 3, "docs_s": 3, "bytes": 1},
    }


def logs(scale):
    count = 1_000_000 // scale
    lines = [" ".join(str(value) for value in line.values()) for line in sample("logs")]
    return {
        "shards": 5, "count": count, "bulk_docs": 5000,
        "documents": ({"n": n, "message": lines[n % len(lines)]} for n in range(count)),
        "properties": {"n": {"type": "long"}, "message": {"type": "text"}},
        "searches": {
            "match": [{"query": {"match": {"message": "googlebot"}}}],
            "phrase": [{"query": {"match_phrase": {"message": "GET /presentations"}}}],
            "sorted": [
                {"size": 10, "sort": [{"n": "desc"}], "query": {"match": {"message": "200"}}}],
        },
        "clients": [8], "are_scores_compared": False,
        "aims": {"docs_s": 3, "bytes": 1},
    }


def pmc(scale):
    """Articles of a thousand words, whose words are as unequally frequent as words are (Zipf)."""
    count = 20_000 // scale
    random_ = random.Random(3)
    letters = "etaoinshrdlu"
    words = ["".join(random_.choices(letters, k=3 + n % 9)) for n in range(20_000)]
    # Each in about a twentieth of the articles.
    words[2000:2000] = ["physician"]
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(words))))

    def documents():
        for n in range(count):
            body = random_.choices(words, cum_weights=weights, k=1000)
            if n % 40 == 0:
                body[n % 900:n % 900] = ["newspaper", "coverage"]
            day = f"{1990 + n % 30}-{1 + n % 12:02}-{1 + n % 28:02} 12:00:00"
            yield {"name": f"PMC{n}", "journal": f"journal {n % 500}", "body": " ".join(body),
                   "timestamp": day, "pmid": n}

    return {
        "shards": 5, "count": count, "documents": documents(), "bulk_docs": 500,
        "properties": {
            "name": {"type": "keyword"}, "journal": {"type": "text"}, "body": {"type": "text"},
            "timestamp": {"type": "date", "format": "yyyy-MM-dd HH:mm:ss"},
            "pmid": {"type": "integer"},
        },
        "searches": {
            "default": [{"query": {"match_all": {}}}],
            "term": [{"query": {"term": {"body": "physician"}}}],
            "phrase": [{"query": {"match_phrase": {"body": "newspaper coverage"}}}],
            "articles_monthly_agg_uncached": [{"size": 0, "aggs": {"monthly": {
                "date_histogram": {"field": "timestamp", "calendar_interval": "month"}}}}],
            "scroll": [{"size": 100, "query": {"match_all": {}}}],
        },
        # The track's scroll: pages of 100, up to 25 of them.
        "pages": {"scroll": min(25, count // 100)},
        "clients": [1], "are_scores_compared": False,
        "aims": {"throughput": 2, "p99": 1},
    }

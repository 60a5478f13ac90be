#!/usr/bin/env python3
"""Renders the bundled sample as streams of Redis commands, and as documents.

    scripts/make_sample.py cities.ndjson.gz access_log.gz sample/

The 2,000 largest cities become hashes `city:<id>` and documents of the index `cities`, the first
2,000 lines of the access log strings `log:<n>` and documents of the index `logs`. sample/README.md
names the sources and their licences.
"""

import datetime
import gzip
import json
import pathlib
import re
import sys

CITY_COUNT = 2000
LINE_COUNT = 2000


def command(*words):
    """One command as an array of bulk strings."""
    parts = [str(w).encode() for w in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


# An Apache log line in the combined format.
LINE = re.compile(
    r'(?P<ip>\S+) \S+ \S+ \[(?P<time>[^]]+)\] "(?P<request>[^"]*)" (?P<status>\d+) (?P<size>\S+)'
    r' "(?P<referrer>[^"]*)" "(?P<agent>[^"]*)"'
)


def largest_cities(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    rows.sort(key=lambda row: (-row["population"], row["id"]))
    return rows[:CITY_COUNT]


def first_lines(path):
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        return [line.rstrip("\n") for _, line in zip(range(LINE_COUNT), lines)]


def item(name, document):
    """One document of a bulk request."""
    action = json.dumps({"index": {"_id": name}}, separators=(",", ":"))
    source = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return f"{action}\n{source}\n".encode()


def city_documents(path):
    for row in largest_cities(path):
        wanted = ("name", "country", "admin", "population", "location")
        yield item(str(row["id"]), {key: row[key] for key in wanted})


def log_documents(path):
    for number, line in enumerate(first_lines(path), 1):
        found = LINE.match(line)
        time = datetime.datetime.strptime(found["time"], "%d/%b/%Y:%H:%M:%S %z")
        document = {
            "@timestamp": time.isoformat(), "clientip": found["ip"], "request": found["request"],
            "status": int(found["status"]), "size": int(found["size"].replace("-", "0")),
            "referrer": found["referrer"], "agent": found["agent"],
        }
        yield item(str(number), document)


def cities(path):
    for row in largest_cities(path):
        yield command(
            "HSET", f"city:{row['id']}", "name", row["name"], "country", row["country"],
            "admin", row["admin"], "population", row["population"],
            "lat", row["location"]["lat"], "lon", row["location"]["lon"],
        )


def log_lines(path):
    for number, line in enumerate(first_lines(path), 1):
        yield command("SET", f"log:{number}", line)


def write(path, commands):
    # No name and no time in the header: the same input gives the same bytes.
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(b"".join(commands))


def main():
    cities_path, log_path, out = sys.argv[1:]
    write(pathlib.Path(out) / "cities.resp.gz", cities(cities_path))
    write(pathlib.Path(out) / "access_log.resp.gz", log_lines(log_path))
    write(pathlib.Path(out) / "cities.bulk.gz", city_documents(cities_path))
    write(pathlib.Path(out) / "logs.bulk.gz", log_documents(log_path))


if __name__ == "__main__":
    main()

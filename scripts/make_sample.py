#!/usr/bin/env python3
"""Renders the bundled sample as streams of Redis commands.

    scripts/make_sample.py cities.ndjson.gz access_log.gz sample/

The 2,000 largest cities become hashes `city:<id>`, the first 2,000 lines of the access log become
strings `log:<n>`. sample/README.md names the sources and their licences.
"""

import gzip
import json
import pathlib
import sys

CITY_COUNT = 2000
LINE_COUNT = 2000


def command(*words):
    """One command as an array of bulk strings."""
    parts = [str(w).encode() for w in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def cities(path):
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    rows.sort(key=lambda row: (-row["population"], row["id"]))
    for row in rows[:CITY_COUNT]:
        yield command(
            "HSET", f"city:{row['id']}", "name", row["name"], "country", row["country"],
            "admin", row["admin"], "population", row["population"],
            "lat", row["location"]["lat"], "lon", row["location"]["lon"],
        )


def log_lines(path):
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for number, line in zip(range(1, LINE_COUNT + 1), lines):
            yield command("SET", f"log:{number}", line.rstrip("\n"))


def write(path, commands):
    # No name and no time in the header: the same input gives the same bytes.
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
        packed.write(b"".join(commands))


def main():
    cities_path, log_path, out = sys.argv[1:]
    write(pathlib.Path(out) / "cities.resp.gz", cities(cities_path))
    write(pathlib.Path(out) / "access_log.resp.gz", log_lines(log_path))


if __name__ == "__main__":
    main()

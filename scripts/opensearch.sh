#!/usr/bin/env bash
# Runs OpenSearch as the peer of benchmarks: its jars from Maven Central, in a plain Java process.
#   scripts/opensearch.sh DATA_FOLDER HTTP_PORT [HEAP]     (heap 2g unless given)
# Needs a JDK of 17 or later and Maven; the jars are kept under ~/.cache/plimsoll/opensearch.
# It prints `ready` when it can answer, and runs until it is killed.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
data="${1:?data folder}"
port="${2:?HTTP port}"
heap="${3:-2g}"
cache="$HOME/.cache/plimsoll/opensearch"
mkdir -p "$cache"
stamp="$(cat "$here/opensearch/pom.xml" "$here/opensearch/Peer.java" | sha256sum | cut -c1-16)"
if [[ ! -f "$cache/$stamp/classpath" ]]; then
    echo "fetching OpenSearch from Maven Central (about 60 MB)" >&2
    mkdir -p "$cache/$stamp.new/classes"
    mvn -q -B -f "$here/opensearch/pom.xml" dependency:build-classpath \
        -Dmdep.outputFile="$cache/$stamp.new/classpath" >&2
    javac -d "$cache/$stamp.new/classes" -cp "$(cat "$cache/$stamp.new/classpath")" \
        "$here/opensearch/Peer.java" >&2
    rm -rf "${cache:?}/$stamp"
    mv "$cache/$stamp.new" "$cache/$stamp"
fi
exec java -Xms"$heap" -Xmx"$heap" -cp "$cache/$stamp/classes:$(cat "$cache/$stamp/classpath")" \
    Peer "$data" "$port"

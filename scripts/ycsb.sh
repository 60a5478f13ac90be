#!/usr/bin/env bash
# Prints the class path of YCSB with the binding in ycsb/Rows.java: its jars from Maven Central.
#   java -cp "$(scripts/ycsb.sh)" site.ycsb.Client -db Rows ...
# Needs a JDK of 17 or later and Maven, in whose own repository the jars are kept.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/env.sh"
here=$root/scripts/ycsb
folder=$cache/ycsb
stamp=$(cat "$here/pom.xml" "$here/Rows.java" | sha256sum | cut -c1-16)
if [ ! -f "$folder/$stamp/classpath" ]; then
  echo 'fetching YCSB from Maven Central' >&2
  rm -rf "$folder/$stamp.new"
  mkdir -p "$folder/$stamp.new/classes"
  mvn -q -B -f "$here/pom.xml" dependency:build-classpath -Dmdep.outputFile="$folder/$stamp.new/classpath" >&2
  javac -d "$folder/$stamp.new/classes" -cp "$(cat "$folder/$stamp.new/classpath")" "$here/Rows.java" >&2
  rm -rf "${folder:?}/$stamp"
  mv "$folder/$stamp.new" "$folder/$stamp"
fi
echo "$folder/$stamp/classes:$(cat "$folder/$stamp/classpath")"

SHELL := /bin/bash

# The chores of the tree. Everything is built in one place and with one profile (release), so that
# running, testing and linting share what they compile. RocksDB is compiled once per machine.

export CARGO_TARGET_DIR ?= $(or $(PLIMSOLL_CACHE),$(HOME)/.cache/plimsoll)/target
export DATA RESP HTTP RPC LOG ARGS TLS SEEDS FROM

.DEFAULT_GOAL := help
.PHONY: help run demo cluster build test bench-tls bench-tls-nodes bench-breakers bench-redis bench-rows bench-ycsb bench-mixes bench-distribution bench-growth bench-rally bench-failover simulate mutations soak soak-absence soak-absence-real soak-cluster soak-follow clean-data

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

run: ## build, start one node, load the sample on the first start (DATA=, RESP=, HTTP=, ARGS=)
	@scripts/run.sh

demo: build ## ninety seconds: three nodes here, one gets sick, with protections off and on
	@. scripts/env.sh && "$$plimsoll" lab demo --out "$${DATA:-data}/demo"

cluster: ## three nodes and three log servers on this machine (DATA=, RESP=, HTTP=, RPC=, LOG=, ARGS=, TLS=1)
	@scripts/cluster.sh

build: ## build the binary
	@scripts/deps.sh build && . scripts/env.sh && build_plimsoll && echo "$$plimsoll"

test: ## format, clippy, unit and property tests, tidy, end-to-end tests
	@scripts/test.sh

bench-redis: ## GET and SET beside redis-server and bare servers (ARGS="--laps 5 --json out.json")
	@scripts/deps.sh test && . scripts/env.sh && build_whole
	@python3 scripts/bench_redis.py --bare $$CARGO_TARGET_DIR/release/examples/bare_rows $(ARGS)

bench-rows: ## reads through RESP beside the same reads in-process on raw RocksDB
	@scripts/deps.sh test && . scripts/env.sh && build_whole
	@python3 scripts/bench_rows.py $$CARGO_TARGET_DIR/release/examples/raw_reads $(ARGS)

bench-ycsb: ## YCSB's workloads on hashes beside redis-server, Valkey and bare servers (ARGS="--laps 3", ARGS=--sustained)
	@scripts/deps.sh test && . scripts/env.sh && build_whole
	@python3 scripts/bench_ycsb.py $$CARGO_TARGET_DIR/release/examples/bare_rows $(ARGS)

bench-mixes: build ## read/write mixes on three nodes at each level of reads, on one, on redis-server, and on a bare RocksDB (ARGS="--quick")
	@. scripts/env.sh && $$CARGO_TARGET_DIR/release/plimsoll lab run kv-throughput --scenarios mixes $(ARGS)

bench-rally: build ## esrally and opensearch-benchmark against a fresh node, and esrally against its follower, offline, small tracks
	@scripts/deps.sh test && scripts/rally.sh

bench-documents: ## documents and searches beside OpenSearch 3.5 (ARGS="--quick")
	@scripts/deps.sh test && . scripts/env.sh && build_whole
	@python3 scripts/bench_documents.py $$CARGO_TARGET_DIR/release/plimsoll $$CARGO_TARGET_DIR/release/examples/http_load $(ARGS)

bench-distribution: ## what a search costs on one, three and five nodes (ARGS="--laps 3")
	@scripts/deps.sh test && . scripts/env.sh && build_whole
	@$$(scripts/venv.sh) scripts/bench_distribution.py $$CARGO_TARGET_DIR/release/examples/http_load $(ARGS)

test-jetstream: ## the log engine's tests alone, on real servers of two versions (three minutes)
	@scripts/deps.sh test && cargo test --release --locked -p plimsoll-log --features jetstream --test jetstream

bench-growth: build ## what a write costs on three nodes and on nine, log servers included (ARGS="--laps 3")
	@scripts/deps.sh test && $$(scripts/venv.sh) scripts/bench_growth.py $(ARGS)

bench-tls: build ## what TLS costs a node: GET, a search, handshakes, beside a node without it (ARGS="--laps 5")
	@scripts/deps.sh test && $$(scripts/venv.sh) scripts/bench_tls.py $(ARGS)

bench-tls-nodes: ## what TLS between nodes costs: a search that asks three, a copy of an index (ARGS="--laps 5")
	@scripts/deps.sh test && . scripts/env.sh && build_whole
	@$$(scripts/venv.sh) scripts/bench_tls_nodes.py $$CARGO_TARGET_DIR/release/examples/http_load $(ARGS)

bench-breakers: ## what the memory breakers cost, beside a binary without their layer (ARGS="--quick")
	@scripts/deps.sh build && . scripts/env.sh && build_layerless
	@. scripts/env.sh && $$plimsoll lab run breaker-overhead --layerless $$CARGO_TARGET_DIR/release/plimsoll-layerless $(ARGS)

simulate: ## a whole cluster in one thread on virtual time, a history a seed (SEEDS=1000, FROM=1, ARGS=--shrink)
	@. scripts/env.sh && build_whole && $$CARGO_TARGET_DIR/release/simulate --seeds $${SEEDS:-1000} --from $${FROM:-1} $(ARGS)

mutations: ## faults put into the code, one at a time, for the simulator to find (an hour; ARGS="--only 'rule 4'")
	@scripts/mutations.py $(ARGS)

bench-failover: build ## what clients notice when a node or a log server goes bad (ARGS="--seconds 10")
	@scripts/deps.sh test && $$(scripts/venv.sh) scripts/failover.py $(ARGS)

soak: build soak-cluster soak-follow soak-absence ## kill and power-loss tests, ten times as long, all faults of a cluster, absences, an upgrade
	@scripts/deps.sh test && PLIMSOLL_RUNS=1000 $$(scripts/venv.sh) -m pytest -q tests/test_kill.py tests/test_power_loss.py
	@. scripts/env.sh && build_last && PLIMSOLL_LAST_BIN=$$CARGO_TARGET_DIR/release/plimsoll-last \
	  $$(scripts/venv.sh) -m pytest -q tests/test_upgrade.py tests/test_recovery_index.py

soak-absence: build ## absences of 1, 3 and 70 delays, by four ways, of one to three nodes (45 minutes)
	@scripts/deps.sh test && PLIMSOLL_SOAK=1 $$(scripts/venv.sh) -m pytest -q tests/test_absence.py

soak-absence-real: build ## one absence of 70 minutes by each of four ways, side by side, nothing scaled
	@scripts/deps.sh test && PLIMSOLL_ABSENCE_SECONDS=$${PLIMSOLL_ABSENCE_SECONDS:-4200} \
	  $$(scripts/venv.sh) -m pytest -q tests/test_absence.py

soak-cluster: build ## every fault of a cluster ten times, on both versions of log servers (two hours)
	@scripts/deps.sh test && PLIMSOLL_SOAK=1 $$(scripts/venv.sh) -m pytest -q tests/test_cluster_faults.py

soak-follow: build ## every fault of a follower in another cluster, on JetStream too (about an hour)
	@scripts/deps.sh test && PLIMSOLL_SOAK=1 $$(scripts/venv.sh) -m pytest -q tests/test_follow_faults.py \
	  tests/test_follow_damage.py tests/test_follow_jetstream.py

clean-data: ## delete the data folder of `make run`
	rm -rf -- "$${DATA:-./data}"

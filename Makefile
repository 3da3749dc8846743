# The one way in: `make help` lists what there is.

.DEFAULT_GOAL := help
# The steps share two cores and what they build: they run one after the other, but for those that `together` is told.
ifndef TOGETHER
.NOTPARALLEL:
endif
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

CARGO ?= cargo
PYTHON ?= python3
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
FUZZ_SECONDS ?= 60
HOST := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
BUILT = $(TARGET_DIR)/$(HOST)/release/tautwire
# When the TypeScript packages were built.
TYPESCRIPT_BUILT := $(abspath $(TARGET_DIR))/typescript-built
# Tools of the Python package, and the package itself as it is developed.
PYTHON_VENV := $(abspath $(TARGET_DIR))/python-venv
# On Linux with glibc the binary is linked statically: it runs on any such machine and takes a third less memory at start.
# Packed relocations save half a megabyte of it.
RELEASE_RUSTFLAGS ?= $(if $(findstring linux-gnu,$(HOST)),-C target-feature=+crt-static $(if $(findstring x86_64,$(HOST)),-C link-arg=-Wl$(comma)-z$(comma)pack-relative-relocs))
# What the targets that measure pass on, such as `make bench-compare BENCH_ARGS='b8 --rounds 5'`.
BENCH_ARGS ?=
# What `make hostile` passes on.
HOSTILE_ARGS ?=
# For each number of threads; and what else `make soak` passes on.
SOAK_KILLS ?= 1000
SIM_SEEDS ?= 10000
SOAK_ARGS ?=
SOAK_CLUSTER_ARGS ?=
BRIDGE_KILLS ?= 200
STRESS_ARGS ?=
BRIDGE_ARGS ?=

# Crates with a lock file of their own, so that what they need never enters that of the product.
APART := bench/codec bench/contracts bench/journal bench/peers/rmqtt bench/peers/rumqttd bench/regressions bench/rtt/rust bench/rust-client bench/timing broker/fuzz clients/python tests/interop/rumqttc
# Those of them whose dependencies take seconds, not minutes.
LINTED_APART := bench/codec bench/contracts bench/journal bench/regressions bench/rtt/rust bench/rust-client bench/timing broker/fuzz clients/python tests/interop/rumqttc
SHELL_SCRIPTS = $(wildcard .ci/run tools/*.sh bench/peers/*.sh broker/fuzz/*.sh clients/go/bench/*.sh)

# Commands that the tests use, with the Debian packages they come in.
TEST_PACKAGES = g++=g++ clang=clang arm-none-eabi-gcc=gcc-arm-none-eabi,libnewlib-arm-none-eabi \
	/usr/lib32/crt1.o=gcc-multilib chromium=chromium certutil=libnss3-tools valgrind=valgrind \
	/usr/include/MQTTClient.h=libpaho-mqtt-dev /usr/include/openssl/ssl.h=libssl-dev \
	/usr/include/mbedtls/ssl.h=libmbedtls-dev javac=default-jdk-headless mvn=maven \
	strace=strace unshare=util-linux zsh=zsh fish=fish man=man-db

# What clang links with for the other platform that the broker is given away for. Debian's gcc for it would remove gcc-multilib.
CROSS_PACKAGES = clang=clang $(if $(filter aarch64-%,$(HOST)),/usr/x86_64-linux-gnu/lib/libc.a=libc6-dev-amd64-cross$(comma)libgcc-12-dev-amd64-cross$(comma)binutils-x86-64-linux-gnu,/usr/aarch64-linux-gnu/lib/libc.a=libc6-dev-arm64-cross$(comma)libgcc-12-dev-arm64-cross$(comma)binutils-aarch64-linux-gnu)
comma := ,
# Lints and fills in the chart.
HELM_VERSION := v3.16.4
# What nodes of a cluster keep their state in. Tests and measurements start servers of their own.
NATS_SERVER_VERSION := v2.15.2
NATS_SERVER := $(abspath $(TARGET_DIR))/nats-server-$(NATS_SERVER_VERSION)/nats-server
# A peer of bridges.
MOCHI := $(abspath $(TARGET_DIR))/mochi

say = @printf '\n== %s\n' '$(1)'
# Targets of which none builds what another one needs. What each says is shown when it has ended.
together = $(MAKE) --jobs=$(1) --output-sync=target TOGETHER=1 $(2)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Build and run.

.PHONY: build
build: ## build the release binary, bin/tautwire
	@tools/need.sh cargo cc
	@RUSTFLAGS="$(RELEASE_RUSTFLAGS)" $(CARGO) build --release --locked --target $(HOST) -p tautwire-server
	@mkdir -p bin
	@cmp -s $(BUILT) bin/tautwire || install -m 755 $(BUILT) bin/tautwire

.PHONY: run
run: ## build the broker for development and start it on 127.0.0.1:1883; Ctrl-C ends it. `make build` makes the fast one
	@tools/need.sh cargo cc
	@$(CARGO) build --locked -p tautwire-server
	@mkdir -p bin && install -m 755 $(TARGET_DIR)/debug/tautwire bin/tautwire
	@exec bin/tautwire serve

# Test.

.PHONY: test
test: tools lint-and-build test-rust test-spec test-supply test-go test-c test-typescript test-dashboard test-python test-examples test-docs test-generate test-differential test-scenario test-openapi test-telemetry test-hostile test-soak test-stress-short test-interop test-bridge test-nodelay test-packages test-bench test-regressions ## all checks and tests; installs what they need

# The compiler of `build` has one core at its end, and clippy needs both only now and then.
.PHONY: lint-and-build
lint-and-build:
	@$(call together,2,lint build)

.PHONY: check
check: ## format, lints and tests of what has changed since the last commit, or since SINCE=main
	@$(PYTHON) -B tools/check.py $(SINCE)

.PHONY: tools
tools:
	@tools/need.sh cargo cc python go node npm
	@tools/apt.sh $(TEST_PACKAGES)

.PHONY: lint
lint: ## formatting, clippy, the rules of this repository (tools/tidy), and licences
	$(call say,lint)
	@$(CARGO) fmt --all --check
	@for crate in $(wildcard $(addsuffix /Cargo.toml,$(APART))); do $(CARGO) fmt --manifest-path $$crate --check; done
	@$(CARGO) clippy --workspace --all-targets --locked --quiet -- -D warnings
	@$(CARGO) clippy -p tautwire-server --no-default-features --locked --quiet -- -D warnings
	@for crate in $(wildcard $(addsuffix /Cargo.toml,$(LINTED_APART))); do \
	    CARGO_TARGET_DIR=$(abspath $(TARGET_DIR))/apart $(CARGO) clippy --manifest-path $$crate --all-targets --locked --quiet -- -D warnings; \
	done
	@$(PYTHON) -B tools/tidy
	@$(PYTHON) -B tools/supply check
	@$(PYTHON) -B packaging check
	@if command -v shellcheck >/dev/null; then shellcheck $(SHELL_SCRIPTS); fi

.PHONY: test-rust
test-rust: ## unit, property, vector, conformance and hostile-input tests
	$(call say,test-rust)
	@$(PYTHON) -B tools/rust_tests.py --workspace
	@$(CARGO) test --workspace --doc --locked --quiet

.PHONY: test-spec
test-spec: .venv/ready ## vectors, their schema, the words of errors, the ledger of statements, and the tools
	$(call say,test-spec)
	@.venv/bin/python -B -m unittest discover -s spec
	@.venv/bin/python -B -m unittest discover -s tools/tidy
	@.venv/bin/python -B -m unittest discover -s tools

.PHONY: errors
errors: ## write the tables of errors in all languages from spec/errors/errors.toml
	@$(PYTHON) -B spec/errors/generate.py

.PHONY: test-supply
test-supply: .venv/ready ## licences and SBOMs, and which dependencies have known weaknesses, where those who know can be asked
	$(call say,test-supply)
	@.venv/bin/python -B -m unittest discover -s tools/supply
	@$(PYTHON) -B tools/supply advisories

.PHONY: test-examples
test-examples: build typescript ## the examples do what their pages say
	$(call say,test-examples)
	@bin/tautwire config check --config examples/tautwire.toml
	@cd examples && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --loglevel=error; }
	@cd examples && npm test --silent

.PHONY: docs
docs: .venv/ready ## the site of the documents, into target/docs: open index.html, no server needed
	@.venv/bin/python -B tools/docs build $(TARGET_DIR)/docs

.PHONY: test-docs
test-docs: build .venv/ready ## the documents: links, blocks of code, pages whose commands are run, the site
	$(call say,test-docs)
	@tools/apt.sh mosquitto=mosquitto mosquitto_sub=mosquitto-clients curl=curl jq=jq xxd=xxd openssl=openssl unshare=util-linux
	@.venv/bin/python -B -m unittest discover -s tests/docs
	@.venv/bin/python -B tests/docs/run.py
	@.venv/bin/python -B tools/docs build $(TARGET_DIR)/docs

.PHONY: test-interop
test-interop: build .venv/ready ## real clients: mosquitto, MQTT.js, paho (Python, Go, C), rumqttc; by TCP, TLS and TLS with certificates of clients; openssl; what Mosquitto leaves is taken over
	$(call say,test-interop)
	@$(PYTHON) -B tests/interop/run.py --transport tcp --transport tls --transport mtls
	@$(PYTHON) -B tests/interop/openssl/matrix.py
	@tools/apt.sh mosquitto=mosquitto
	@$(PYTHON) -B tests/moving/test_mosquitto.py

.PHONY: test-bridge
test-bridge: build $(NATS_SERVER) $(MOCHI) ## bridges to real brokers (mosquitto, nats-server, mochi-mqtt, Tautwire), which are killed, and behind bad links; short form
	$(call say,test-bridge)
	@tools/apt.sh mosquitto=mosquitto
	@$(bridge) tests/bridge/run.py

.PHONY: soak-bridge
soak-bridge: build $(NATS_SERVER) $(MOCHI) ## bridges in all tests, also to HiveMQ, and beside BRIDGE_KILLS (200) kills of both brokers, some minutes
	@tools/apt.sh mosquitto=mosquitto mvn=maven javac=default-jdk-headless
	@bench/peers/install.sh || echo 'going on without what is missing'
	@TAUTWIRE_BRIDGE_LONG=1 $(bridge) tests/bridge/run.py
	@$(bridge) tests/bridge/kills.py --kills $(BRIDGE_KILLS) $(BRIDGE_ARGS)
	@$(bridge) tests/bridge/kills.py --kills $(BRIDGE_KILLS) --peer mosquitto $(BRIDGE_ARGS)

bridge = TAUTWIRE_NATS_SERVER=$(NATS_SERVER) TAUTWIRE_MOCHI=$(MOCHI) $(PYTHON) -B

.PHONY: test-nodelay
test-nodelay: build .venv/ready ## paho (C, Python, Java) and aiomqtt do not wait for acknowledgements of TCP
	$(call say,test-nodelay)
	@$(PYTHON) -B tests/nodelay/run.py

.PHONY: typescript
typescript: ## build the TypeScript packages and their tests, if something has changed
	@cd clients/typescript && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --loglevel=error; }
	@cd clients/typescript && { [ -e packages/client/dist/esm/node.js ] && [ -e $(TYPESCRIPT_BUILT) ] && \
	    [ -z "$$(find packages *.json -name dist -prune -o \( -name '*.ts' -o -name '*.js' -path '*/scripts/*' -o -name '*.json' \) -newer $(TYPESCRIPT_BUILT) -print -quit)" ] || \
	    { npm run --silent build && mkdir -p $(TARGET_DIR) && touch $(TYPESCRIPT_BUILT); }; }

.PHONY: test-typescript
test-typescript: build typescript ## the TypeScript packages: types, tests, lint, size, a browser, other runtimes, recipes of installing
	$(call say,test-typescript)
	@$(call together,2,typescript-tests typescript-recipes)

.PHONY: typescript-tests
typescript-tests:
	@cd clients/typescript && npm test --silent && npm run --silent lint
	@cd clients/typescript && npm run --silent test:browser
	@cd clients/typescript && npm run --silent test:runtimes

# They wait for registries.
.PHONY: typescript-recipes
typescript-recipes:
	@cd clients/typescript && npm run --silent test:recipes

# Installed from the lock file when that is newer.
dashboard_modules := { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --loglevel=error; }

.PHONY: test-dashboard
test-dashboard: build $(NATS_SERVER) ## the dashboard: types, lint, what is committed is current and small, each page in Chromium before a stand-in and before the broker, accessibility
	$(call say,test-dashboard)
	@cd broker/dashboard && $(dashboard_modules)
	@cd broker/dashboard && npm run --silent check && npm run --silent lint && npm run --silent size && TAUTWIRE_NATS_SERVER=$(NATS_SERVER) TAUTWIRE=../../bin/tautwire npm test --silent

.PHONY: dashboard
dashboard: ## build the dashboard into broker/dashboard/dist, which is committed
	@cd broker/dashboard && $(dashboard_modules)
	@cd broker/dashboard && npm run --silent build && npm run --silent size

.PHONY: dashboard-screenshots
dashboard-screenshots: ## take the pictures of docs/operating/dashboard.md anew
	@cd broker/dashboard && $(dashboard_modules)
	@cd broker/dashboard && npm run --silent screenshots

.PHONY: test-go
test-go: build ## the Go module: formatting, vet, staticcheck, tests with the race detector
	$(call say,test-go)
	@cd clients/go && { unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt: $$unformatted"; exit 1; }; }
	@cd clients/go && go vet ./... && TAUTWIRE_REQUIRED=1 go test -race ./...
	@cd clients/go/bench && go vet ./... && go test ./... && cd .. && "$$(go -C bench tool -n staticcheck)" ./...

.PHONY: test-c
test-c: build ## the C library: warnings, vectors, sanitizers, fuzz inputs, examples, the broker, size
	$(call say,test-c)
	@$(MAKE) -C clients/c --silent --jobs=2 --output-sync=target test

.PHONY: test-python
test-python: build python-venv ## the Python package: types, tests, the README's examples
	$(call say,test-python)
	@cd clients/python && $(PYTHON_VENV)/bin/mypy --cache-dir $(PYTHON_VENV)/mypy
	@cd clients/python && $(PYTHON_VENV)/bin/pyright
	@cd clients/python && $(PYTHON_VENV)/bin/python -B -m unittest discover -s tests

.PHONY: python-venv
python-venv:
	@VENV=$(PYTHON_VENV) PYTHON=$(PYTHON) tools/venv.sh clients/python/requirements.txt
	@cd clients/python && VIRTUAL_ENV=$(PYTHON_VENV) CARGO_TARGET_DIR=$(abspath $(TARGET_DIR))/apart SOURCE_DATE_EPOCH=315532800 \
	    $(PYTHON_VENV)/bin/maturin develop --release --locked --quiet

.PHONY: test-generate
test-generate: build python-venv ## generated clients in five languages: compiled strictly, the same bytes, against the broker
	$(call say,test-generate)
	@$(PYTHON) -B tests/generate/run.py

.PHONY: test-differential
test-differential: ## the codecs in Rust, TypeScript, Go and C say the same of mutated packets
	$(call say,test-differential)
	@$(PYTHON) -B tests/differential/run.py

.PHONY: test-scenario
test-scenario: build ## the clients of all languages do and say the same beside a broker that fails them; requests in all pairs
	$(call say,test-scenario)
	@$(PYTHON) -B -m unittest discover -s tests/scenario
	@$(PYTHON) -B tests/scenario/run.py

.PHONY: test-openapi
test-openapi: build .venv/ready ## what the admin API answers is what its description (OpenAPI) says, on every path and for every role
	$(call say,test-openapi)
	@.venv/bin/python -B -m unittest discover -s tests/openapi

.PHONY: test-telemetry
test-telemetry: build .venv/ready ## what is sent to a collector of OpenTelemetry is right, and nobody waits for one
	$(call say,test-telemetry)
	@.venv/bin/python -B -m unittest discover -s tests/telemetry

.PHONY: test-hostile
test-hostile: build ## hostile clients: memory keeps its limits, nobody waits, nothing acknowledged is lost; short form
	$(call say,test-hostile)
	@$(PYTHON) -B tests/hostile/run.py

.PHONY: hostile
hostile: build ## all attacks of hostile clients, some minutes; HOSTILE_ARGS='--case hog' narrows it
	@$(PYTHON) -B tests/hostile/run.py --all $(HOSTILE_ARGS)

.PHONY: cluster
cluster: build $(NATS_SERVER) ## three nats-servers and three brokers on this machine, until Ctrl-C; CLUSTER_ARGS='--brokers 5'
	@tools/need.sh python
	@TAUTWIRE_NATS_SERVER=$(NATS_SERVER) TAUTWIRE=$(CURDIR)/bin/tautwire $(PYTHON) -B tools/cluster $(CLUSTER_ARGS)

.PHONY: test-cluster
test-cluster: build $(NATS_SERVER) ## nodes of a cluster on real nats-servers, which are killed and paused, and 20 histories of clients under faults; a quarter of an hour, not in `make test`
	$(call say,test-cluster)
	@TAUTWIRE_NATS_SERVER=$(NATS_SERVER) RUST_TEST_THREADS=2 $(CARGO) test --locked --quiet -p tautwire-nats
	@$(PYTHON) -B -m unittest discover -s tests/cluster
	@TAUTWIRE_NATS_SERVER=$(NATS_SERVER) TAUTWIRE=$(CURDIR)/bin/tautwire $(PYTHON) -B -m unittest discover -s tests/cluster/live
	@$(histories) --seed 20 --schedules 20

.PHONY: soak-cluster
soak-cluster: build $(NATS_SERVER) ## 200 histories of clients of a cluster under faults, two hours or so; SOAK_CLUSTER_ARGS='--minutes 60 --jobs 2'
	@$(histories) --schedules 200 $(SOAK_CLUSTER_ARGS)

# With the clients that `make test-interop` installs.
histories = tools/need.sh python node npm && tools/apt.sh strace=strace && \
	$(PYTHON) -B tests/interop/setup.py mqttjs paho-python && \
	TAUTWIRE_NATS_SERVER=$(NATS_SERVER) TAUTWIRE=$(CURDIR)/bin/tautwire $(PYTHON) -B tests/cluster/run.py

$(MOCHI): $(wildcard tests/interop/brokers/mochi/*)
	@tools/need.sh go
	@cd tests/interop/brokers/mochi && go build -o $@ .

$(NATS_SERVER):
	@tools/need.sh go
	@GOBIN=$(dir $@) GOFLAGS= go install github.com/nats-io/nats-server/v2@$(NATS_SERVER_VERSION)

.PHONY: test-soak
test-soak: build ## the broker is killed under load, and keeps what it has promised; short form
	$(call say,test-soak)
	@$(PYTHON) -B -m unittest discover -s tests/soak
	@$(PYTHON) -B tests/soak/run.py --short

.PHONY: soak
soak: build ## SOAK_KILLS (1,000) kills under load, and one before each system call of commands, some ten minutes; SOAK_ARGS='--seed 7' repeats one
	@$(PYTHON) -B tests/soak/run.py --kills $(SOAK_KILLS) $(SOAK_ARGS)
	@TAUTWIRE_FAULTS_EACH=1000 $(CARGO) test --locked --quiet -p tautwire-server --test conformance faults::killed

.PHONY: test-stress-short
test-stress-short: build .venv/ready ## parts of suites beside 10 busy processes, while their own processes are stopped for up to 600 ms at random; a minute
	$(call say,test-stress-short)
	@$(PYTHON) -B -m unittest discover -s tests/stress
	@$(PYTHON) -B tests/stress/run.py --short

.PHONY: test-stress
test-stress: build $(NATS_SERVER) .venv/ready typescript python-venv ## the same with all suites, ten times each, hours; STRESS_ARGS='--suite rust --seed 7' narrows it, and repeats a run
	@cd broker/dashboard && $(dashboard_modules)
	@cd examples && $(dashboard_modules)
	@TAUTWIRE_NATS_SERVER=$(NATS_SERVER) $(PYTHON) -B tests/stress/run.py $(STRESS_ARGS)

.PHONY: sim
sim: ## the broker core in SIM_SEEDS (10,000) random worlds, with crashes and disks that lie; SEED=7 repeats one, to the byte
	@TAUTWIRE_SIMULATION_SEEDS=$(SIM_SEEDS) $(if $(SEED),TAUTWIRE_SIMULATION_SEED=$(SEED)) cargo test --release -q -p tautwire-engine --test simulation $(if $(SEED),-- --nocapture --skip mutants)

.PHONY: interop
interop: build ## our clients against five brokers; writes docs/interoperability.md
	@$(PYTHON) -B tests/interop/matrix.py

.venv/ready: spec/requirements.txt tests/telemetry/requirements.txt tools/docs/requirements.txt tests/interop/paho-python/requirements.txt tests/nodelay/requirements.txt tools/supply/requirements.txt
	@PYTHON=$(PYTHON) tools/venv.sh $^
	@touch $@

# Packages.

.PHONY: packages
packages: typescript python-venv ## what each registry gets, into dist: npm, crates, the Go module, C, Python; the broker as archives, .deb, image, chart, formula; with SHA256SUMS
	$(call say,packages)
	@$(if $(filter host,$(TAUTWIRE_PLATFORMS)),,tools/apt.sh $(CROSS_PACKAGES))
	@tools/apt.sh /usr/share/ca-certificates/mozilla=ca-certificates
	@$(PYTHON) -B packaging build

.PHONY: test-packages
test-packages: export TAUTWIRE_PLATFORMS ?= host
test-packages: build packages-tests ## the packages, installed into empty projects; short form, for this machine's platform alone

.PHONY: packages-tests
packages-tests: packages $(NATS_SERVER)
	$(call say,test-packages)
	@tools/apt.sh cmake=cmake pkg-config=pkg-config lintian=lintian runc=runc promtool=prometheus
	@cd packaging/npm-tools && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --loglevel=error; }
	@TAUTWIRE_NATS_SERVER=$(NATS_SERVER) $(PYTHON) -B -m unittest discover -s packaging

.PHONY: test-packages-all
test-packages-all: ## test-packages, and what takes minutes: all features, source distributions, the tools of PyPI and ESP-IDF
	@VENV=$(abspath $(TARGET_DIR))/packaging-venv PYTHON=$(PYTHON) tools/venv.sh packaging/requirements.txt
	@tools/apt.sh debootstrap=debootstrap qemu-aarch64=qemu-user qemu-x86_64=qemu-user
	@if [ "$$(id -u)" = 0 ]; then tools/debian-root.sh $(TARGET_DIR)/debian-root; fi
	@[ -e $(TARGET_DIR)/helm/bin/helm ] || GOBIN=$(abspath $(TARGET_DIR))/helm/bin go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	@TAUTWIRE_PACKAGES=all TAUTWIRE_PLATFORMS=all $(MAKE) test-packages

.PHONY: versions
versions: ## write the versions of packaging/versions.toml into the manifests
	@$(PYTHON) -B packaging versions

# Measure.

# A bar that is missed in one does not keep the others from being measured.
.PHONY: bench
bench: ## all of bench-compare, bench-rtt, bench-codecs and bench-report, about two hours; BENCH_ARGS=--quick for a look
	@status=0; for step in bench-compare bench-rtt bench-codecs bench-report; do $(MAKE) $$step || status=1; done; exit $$status

.PHONY: bench-compare
bench-compare: build ## the broker beside others, all scenarios; results in bench/results
	@bench/peers/install.sh || echo 'going on without what is missing'
	@$(CARGO) run --release --locked --quiet -p tautwire-bench -- compare $(BENCH_ARGS)

.PHONY: bench-quick
bench-quick: build ## about a second a scenario, to see whether something is badly off
	@bench/peers/install.sh || echo 'going on without what is missing'
	@$(CARGO) run --release --locked --quiet -p tautwire-bench -- compare --quick $(BENCH_ARGS)

BENCHES := b1 b2 b3 b4 b5 b6 b7 b8 b9 b10 d1 d2 d3 d4 rtt-self
CLUSTER_BENCHES := c1 c2 c3 c4 c5 c6 c7 c8
.PHONY: $(addprefix bench-,$(BENCHES) $(CLUSTER_BENCHES))
$(addprefix bench-,$(BENCHES) $(CLUSTER_BENCHES)): bench-%: build
	@bench/peers/install.sh || echo 'going on without what is missing'
	@$(CARGO) run --release --locked --quiet -p tautwire-bench -- compare $* $(BENCH_ARGS)

.PHONY: bench-cluster
bench-cluster: build $(NATS_SERVER) ## several brokers as one, beside one alone and beside nats-server's own MQTT, 25 minutes; BENCH_ARGS=--quick for a look
	@TAUTWIRE_NATS_SERVER=$(NATS_SERVER) $(CARGO) run --release --locked --quiet -p tautwire-bench -- compare $(CLUSTER_BENCHES) $(BENCH_ARGS)

.PHONY: bench-nats
bench-nats: $(NATS_SERVER) ## what the thread of a node gets through three nats-servers, beside a client of NATS alone
	@TAUTWIRE_NATS_SERVER=$(NATS_SERVER) $(CARGO) run --release --locked --quiet -p tautwire-nats --example throughput

.PHONY: bench-rtt
bench-rtt: build ## round trips between clients of all kinds through three brokers
	@$(PYTHON) -B bench/rtt/run.py $(BENCH_ARGS)

.PHONY: bench-report
bench-report: ## write bench/report, and the picture and the figures of the README, from bench/results
	@$(PYTHON) -B bench/report/report.py

.PHONY: test-regressions
test-regressions: ## the instructions of the hot paths have not grown by more than 3 %, nor by more than 1 % through the feature `cluster`
	$(call say,test-regressions)
	@tools/apt.sh valgrind=valgrind
	@$(MAKE) --silent --no-print-directory -C clients/c amalgamate
	@$(PYTHON) -B -m unittest discover -s bench/regressions
	@$(PYTHON) -B bench/regressions/run.py

.PHONY: regressions-baseline
regressions-baseline: ## write the instructions of the hot paths down anew
	@tools/apt.sh valgrind=valgrind
	@$(MAKE) --silent --no-print-directory -C clients/c amalgamate
	@$(PYTHON) -B bench/regressions/run.py --write

.PHONY: test-bench
test-bench: ## the report, the round trip matrix, codecs and clients; the report is not stale
	$(call say,test-bench)
	@$(PYTHON) -B -m unittest discover -s bench/report
	@$(PYTHON) -B -m unittest discover -s bench/rtt
	@$(PYTHON) -B -m unittest discover -s bench/codecs
	@CARGO_TARGET_DIR=$(abspath $(TARGET_DIR))/apart $(CARGO) test --manifest-path bench/timing/Cargo.toml --locked --quiet

# What each stands for, of bench/codecs.
BENCH_rust := codec-rust client-rust
BENCH_typescript := codec-js msgpack-js client-js
BENCH_go := codec-go
BENCH_c := codec-c client-c
BENCH_contracts := contracts

.PHONY: bench-codecs
bench-codecs: build ## codecs, clients and contracts of all languages beside others
	@$(c_peers) || echo 'going on without what is missing'
	@$(PYTHON) -B bench/codecs/run.py $(BENCH_ARGS)

c_peers := tools/apt.sh /usr/include/MQTTClient.h=libpaho-mqtt-dev /usr/include/mosquitto.h=libmosquitto-dev

.PHONY: bench-rust
bench-rust: build ## the Rust codec beside other codecs, the Rust client beside rumqttc

.PHONY: bench-typescript
bench-typescript: build ## the TypeScript packages beside others on npm

.PHONY: bench-go
bench-go: ## the Go packets beside four other modules

.PHONY: bench-c
bench-c: build ## the C library beside paho and libmosquitto
	@$(c_peers) || echo 'going on without what is missing'
	@$(PYTHON) -B bench/codecs/run.py $(BENCH_c) $(BENCH_ARGS)

.PHONY: bench-contracts
bench-contracts: ## contracts beside libraries that parse the same bytes

bench-rust bench-typescript bench-go bench-contracts: bench-%:
	@$(PYTHON) -B bench/codecs/run.py $(BENCH_$*) $(BENCH_ARGS)

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZ_SECONDS (60)
	@broker/fuzz/run.sh $(FUZZ_SECONDS)

# Supply chain.

.PHONY: licences
licences: ## write docs/licences.md: what the binary and the packages are made of
	@$(PYTHON) -B tools/supply licences

.PHONY: sbom
sbom: ## SBOMs (CycloneDX 1.5) of the binary and the packages, and the texts of licences, into target/sbom
	@$(PYTHON) -B tools/supply sbom

.PHONY: advisories
advisories: ## known weaknesses of dependencies; asks cargo-audit, npm and govulncheck, and says which of them could not answer
	@$(PYTHON) -B tools/supply advisories

# Keep.

.PHONY: fmt
fmt: ## format all Rust code
	@$(CARGO) fmt --all
	@for crate in $(wildcard $(addsuffix /Cargo.toml,$(APART))); do $(CARGO) fmt --manifest-path $$crate; done

.PHONY: clean
clean: ## remove everything that was built or installed here
	@$(CARGO) clean --quiet
	@rm -rf bin dist .venv $(addsuffix /target,$(APART)) bench/peers/bin
	@rm -rf tests/interop/mqttjs/node_modules tests/interop/paho-go/bin
	@rm -rf clients/typescript/node_modules clients/typescript/runtimes/node_modules clients/typescript/packages/*/dist clients/typescript/packages/*/LICENSE-* packaging/npm-tools/node_modules
	@rm -rf examples/node_modules examples/live-page/dist broker/dashboard/node_modules
	@$(MAKE) -C clients/c --silent clean

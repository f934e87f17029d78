# The only command surface: everything CI does is a target here. `make` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.SUFFIXES:
.SECONDEXPANSION:

# mkfs and losetup are often outside a user's path.
export PATH := $(PATH):/usr/sbin:/sbin

CARGO ?= cargo
PYTHON ?= python3
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

# The command each test looks for, and the Debian package that brings it.
NEEDED := cc:gcc git:git losetup:mount mkfs.ext4:e2fsprogs python3:python3 setsid:util-linux strace:strace \
          xfs_io:xfsprogs openssl:openssl

include tests/tools/tools.mk

.PHONY: help
help: ## Lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup build run demo
setup: ## Installs the system packages that the tests need, or names those that are missing
	@bash tests/tools/setup.sh "$(PYTHON)" $(NEEDED)
build: ## Builds target/release/contextstore
	$(CARGO) build --locked --release --package contextstore
run: build ## Starts a server on ./contexts, until Ctrl-C
	target/release/contextstore serve --data-dir contexts
demo: NEEDED := cc:gcc python3:python3
demo: setup ## Shows an agent at work whose server is killed: builds it, needs no key and no model
	$(CARGO) build --locked --profile demo --package contextstore --no-default-features
	@target/venv/demo/bin/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear target/venv/demo
	@target/venv/demo/bin/python $(PIP_INSTALL) ./$(PYTHON_CLIENT)
	@CONTEXTSTORE_BIN=$(CURDIR)/target/demo/contextstore target/venv/demo/bin/python $(PYTHON_CLIENT)/examples/demo.py

##  The two suites

STAGE := MAKE="$(MAKE)" PYTHON="$(PYTHON)" bash tests/tools/stages.sh

.PHONY: test test-long
test: setup ## Runs every check, and every test at push size; ends with the time that each stage took
	@$(STAGE) check build-tests test-rust test-clients
test-long: setup ## Runs what `make test` leaves out or runs at push size only; needs root, 25 GB of disk and two hours
	@CONTEXTSTORE_TEST_LONG=1 $(STAGE) check-doc check-deny long-rust long-power long-python test-pythons test-typescript \
	  test-official test-packages test-go-race

##  Checks, each with a fix where a machine can make it

CHECKS := check-fmt check-python check-sync check-buf check-gen check-features check-typescript check-go

.PHONY: check fix
check: ## Runs every check in parallel, except clippy: build-tests compiles with it
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target $(CHECKS)
fix: fix-clippy fix-fmt fix-python gen-sync fix-buf fix-typescript fix-go gen ## Repairs what a machine can repair

.PHONY: check-fmt fix-fmt check-clippy fix-clippy check-doc check-deny check-advisories
check-fmt: ## Checks the format of the Rust code
	$(CARGO) fmt --all --check
fix-fmt:
	$(CARGO) fmt --all
check-clippy: ## Checks for warnings of the compiler and of clippy without building
	$(CARGO) clippy --locked --workspace --all-targets --no-default-features -- -D warnings
fix-clippy:
	$(CARGO) clippy --locked --workspace --all-targets --all-features --fix --allow-dirty --allow-staged
check-doc: ## Checks that the documentation builds without a broken link
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-default-features --no-deps
check-deny: $(CARGO_DENY) ## Checks licences, banned crates and sources of the dependencies (deny.toml); builds cargo-deny first
	$(CARGO) fetch --locked --quiet
	$(CARGO_DENY) --offline --locked --workspace check bans licenses sources
check-advisories: $(CARGO_DENY) ## Checks the dependencies for known holes; fetches the advisory database
	$(CARGO_DENY) --locked --workspace check advisories

.PHONY: check-python fix-python
check-python: target/venv/ruff/installed ## Checks the format and the lint of the Python code
	$(<D)/bin/ruff check --quiet . && $(<D)/bin/ruff format --quiet --check .
fix-python: target/venv/ruff/installed
	$(<D)/bin/ruff check --quiet --fix . && $(<D)/bin/ruff format --quiet .

.PHONY: check-sync gen-sync
check-sync: target/venv/ruff/installed ## Checks that the modules of the synchronous Python client are those made from the asynchronous ones
	$(PYTHON) $(PYTHON_CLIENT)/unasync.py $(<D)/bin/ruff --check
gen-sync: target/venv/ruff/installed ## Makes the modules of the synchronous Python client from the asynchronous ones
	$(PYTHON) $(PYTHON_CLIENT)/unasync.py $(<D)/bin/ruff

.PHONY: check-typescript fix-typescript
check-typescript: check-gen ## Checks the format, the lint and the types of the TypeScript code
	cd clients/typescript && node_modules/.bin/biome check --error-on-warnings $(BIOME) && $(TSC) --noEmit && \
	  node_modules/.bin/eslint --max-warnings 0 .
fix-typescript: $(NODE_MODULES)
	cd clients/typescript && node_modules/.bin/biome check --write $(BIOME)

.PHONY: check-go fix-go
check-go: check-gen ## Checks the Go code by gofmt and vet, and its dependencies by go.sum
	@cd clients/go && unformatted=$$($(GOFMT) -l .); \
	  [[ -z "$$unformatted" ]] || { echo "not formatted: $$unformatted" >&2; exit 1; }
	cd clients/go && $(GO_RUN) vet ./... && $(GO_RUN) mod verify
fix-go: | $(GO)
	cd clients/go && $(GOFMT) -w . && $(GO_RUN) mod tidy

##  The protocol and what is generated from it

# The protos as of the last release; compatible changes leave it as it is.
BASELINE := proto/base.binpb
GENERATED := clients/typescript/src/gen clients/go/contextstorev1

.PHONY: check-buf fix-buf fix-buf-baseline gen gen-python gen-typescript gen-go check-gen
check-buf: $(NODE_MODULES) ## Checks the format and the lint of the protos, and that they are compatible with the last release
	$(BUF) format --diff --exit-code && $(BUF) lint && $(BUF) breaking --against $(BASELINE)
fix-buf: $(NODE_MODULES)
	$(BUF) format --write
fix-buf-baseline: $(NODE_MODULES) ## Makes the protos of today the ones to stay compatible with, at a release
	$(BUF) build --exclude-source-info --output $(BASELINE)
gen: gen-python gen-typescript gen-go ## Generates the code of the clients
gen-python:
	PYTHON=$(PYTHON) $(PYTHON_CLIENT)/generate.sh
gen-typescript: $(NODE_MODULES)
	$(BUF) generate
gen-go: $(NODE_MODULES) $(PROTOC_GEN_GO)
	$(BUF) generate --template clients/go/buf.gen.yaml
check-gen: gen-typescript gen-go ## Checks that the generated code is that of the protos
	@git diff --exit-code -- $(GENERATED)
	@new=$$(git ls-files --others --exclude-standard -- $(GENERATED)); \
	  [[ -z "$$new" ]] || { echo "generated, but not committed: $$new" >&2; exit 1; }
	@rm -rf target/gen-python
	PYTHON=$(PYTHON) $(PYTHON_CLIENT)/generate.sh target/gen-python
	diff -r --exclude=__init__.py --exclude=__pycache__ target/gen-python/contextstore/v1 \
	  $(PYTHON_CLIENT)/src/contextstore/v1

.PHONY: gen-features check-features
gen-features: ## Writes docs/CLIENTS.md: which client has which feature, by the tests that show it
	$(PYTHON) tests/tools/client_features.py
check-features: ## Checks that every client has every feature, and that docs/CLIENTS.md says so
	$(PYTHON) tests/tools/client_features.py --check

##  Tests of the server

.PHONY: build-tests test-rust long-rust long-power
# Jemalloc takes four minutes of a processor to compile. `make test` does without it, `make test-long` has it.
TESTED := --no-default-features
# Clippy compiles the workspace, so its warnings cost no second build: `cargo clippy` would check 300 dependencies first.
CARGO_CLIPPY := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__ $(CARGO)
build-tests: ## Builds the server and everything that tests need, once, and fails on a warning of the compiler or of clippy
	$(CARGO_CLIPPY) build --locked --workspace $(TESTED) --bins
	$(CARGO_CLIPPY) test --locked --workspace $(TESTED) --all-targets --no-run
# The tests of `service` mostly wait for disks and sockets, so more of them run beside each other than there are processors.
test-rust: build-tests ## Runs the tests of the server and of the Rust client
	$(PYTHON) tests/oracle/test_fold.py
	$(CARGO_CLIPPY) test --locked --workspace $(TESTED) --test tidy
	$(CARGO_CLIPPY) test --locked --workspace $(TESTED) --test service -- --test-threads 4
	$(CARGO_CLIPPY) test --locked --workspace $(TESTED) --no-fail-fast --lib --test store --test pure --test long
	$(CARGO_CLIPPY) test --locked --workspace $(TESTED) --doc
long-rust: ## Runs the Rust tests at full size
	$(CARGO) build --locked --workspace --bins --profile quick
	CONTEXTSTORE_TEST_LONG=1 $(CARGO) test --locked --workspace --profile quick --no-fail-fast \
	  --test service --test store --test pure --test long -- --test-threads 2
long-power: ## Cuts the power of a file system in a file 200 times each on ext4 and XFS, and makes it give up 40 times; needs root
	$(CARGO) build --locked --package test-support --bin workload --profile quick
	for fs in ext4 xfs; do \
	  FS=$$fs WORKLOAD=$(CURDIR)/target/quick/workload bash tests/power/run.sh 200 && \
	  ERROR=1 FS=$$fs WORKLOAD=$(CURDIR)/target/quick/workload bash tests/power/run.sh 40 || exit; done

##  Tests of the clients and tools: with the server, the fake LLM and the histories that `build-tests` has built

SERVER := $(CURDIR)/target/debug/contextstore

.PHONY: test-clients test-python long-python test-pythons test-typescript test-go test-go-race test-tools test-official test-mcp
# Installs the client as a user gets it: install_python,VENV
install_python = $(UV_INSTALL) --python target/venv/$(1)/bin/python --no-deps --reinstall --no-build-isolation ./$(PYTHON_CLIENT)
# pytest,VENV,FOLDER,ARGUMENTS
pytest = $(call install_python,$(1)) && cd $(2) && \
  CONTEXTSTORE_BIN=$${CONTEXTSTORE_BIN:-$(SERVER)} $(CURDIR)/target/venv/$(1)/bin/pytest --quiet -p no:cacheprovider $(3)
# The tests of the Python client mostly wait for sockets.
BESIDE := -n 4 --dist worksteal

# They mostly wait for sockets, so two run beside each other.
CLIENTS := test-typescript test-python test-official test-tools test-go test-mcp
test-clients: ## Runs the tests of the clients in other languages and of the tools, two at a time
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target $(CLIENTS)
test-python: build-tests target/venv/high/installed target/venv/low/installed target/venv/pyright/installed ## Runs the types and tests of the Python client, with the newest and the oldest grpcio
	$(call pytest,high,$(PYTHON_CLIENT),$(BESIDE))
	cd $(PYTHON_CLIENT) && $(CURDIR)/target/venv/high/bin/mypy
	PYRIGHT_PYTHON_CACHE_DIR=target/venv/pyright/cache target/venv/pyright/bin/pyright --project $(PYTHON_CLIENT) \
	  --pythonpath target/venv/high/bin/python
	$(call pytest,low,$(PYTHON_CLIENT),-m quick $(BESIDE))
long-python: build-tests target/venv/high/installed ## Runs the long forms of the Python client's tests; among them an agent with 100 000 messages
	$(CARGO) build --locked --profile quick --package contextstore
	export CONTEXTSTORE_TEST_LONG=1; $(call pytest,high,$(PYTHON_CLIENT),$(BESIDE) --ignore tests/test_memory.py)
	export CONTEXTSTORE_TEST_LONG=1 CONTEXTSTORE_BIN=$(CURDIR)/target/quick/contextstore; \
	  $(call pytest,high,$(PYTHON_CLIENT),-s tests/test_memory.py)
test-pythons: build-tests target/venv/middle/installed ## Runs the quick tests of the Python client with a grpcio of the middle, and under every Python of this machine
	$(call pytest,middle,$(PYTHON_CLIENT),-m quick $(BESIDE))
	CONTEXTSTORE_BIN=$(SERVER) PYTHON=$(PYTHON) bash $(PYTHON_CLIENT)/pythons.sh
test-typescript: build-tests build-typescript ## Runs the tests of the TypeScript client, on both transports
	cd clients/typescript && rm -rf build && $(TSC) && $(TSC) --project ../../examples/typescript && \
	  CONTEXTSTORE_BIN=$(SERVER) node --test --test-concurrency=4 --test-reporter=spec build/test/*.test.js
	cd clients/typescript && bash test/package/run.sh ../../target/contextstore-client-*.tgz
test-go: build-tests | $(GO) ## Runs the tests of the Go client, on both transports: RACE=1 for the race detector
	cd clients/go && CONTEXTSTORE_BIN=$(SERVER) $(GO_RUN) test -count=1 -parallel 4 $(if $(RACE),-race) ./...
test-go-race: ## Runs them under the race detector
	$(MAKE) --no-print-directory test-go RACE=1
test-tools: build-tests $(NODE_MODULES) $(GRPCURL) ## Runs grpcurl and buf curl against the server, by reflection alone
	CONTEXTSTORE_BIN=$(SERVER) BUF=$(BUF) GRPCURL=$(GRPCURL) bash tests/tools/run.sh
test-official: build-tests target/venv/official/installed ## Checks what is rendered by the types of openai, anthropic and ollama: SEED=n, HISTORIES=n
	$(call pytest,official,tests/providers/python)
test-mcp: build-tests target/venv/mcp/installed ## Lists and calls the tools of `contextstore mcp` with the official MCP client
	$(call pytest,mcp,tests/mcp)

##  Packages

PACKAGES := target/packages
PROFILE ?= release
BUILT := target/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/contextstore

.PHONY: build-typescript build-wheel build-npm-server test-packages
build-typescript: $(NODE_MODULES) ## Packs the TypeScript client: target/contextstore-client-*.tgz
	@mkdir -p target && rm -f target/contextstore-client-*.tgz
	cd clients/typescript && rm -rf dist && $(TSC) --project tsconfig.dist.json && \
	  $(TSC) --project tsconfig.cjs.json && echo '{ "type": "commonjs" }' >dist/cjs/package.json && \
	  npm pack --silent --pack-destination ../../target
build-wheel: target/venv/packages/installed ## Builds the wheels of the Python client and of the server, and the client's source: target/packages
	rm -f $(PACKAGES)/*.whl $(PACKAGES)/*.tar.gz
	$(<D)/bin/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir $(PACKAGES) ./$(PYTHON_CLIENT)
	cd $(PYTHON_CLIENT) && $(CURDIR)/$(<D)/bin/hatchling build --target sdist --directory $(CURDIR)/$(PACKAGES)
	cd clients/python-bin && $(CURDIR)/$(<D)/bin/maturin build --locked --profile $(PROFILE) --out $(CURDIR)/$(PACKAGES)
build-npm-server: build-typescript ## Packs the TypeScript client and the server of this platform for npm: target/packages
	$(CARGO) build --locked --profile $(PROFILE) --package contextstore
	rm -f $(PACKAGES)/*.tgz
	node clients/npm/pack.mjs $(BUILT) $(PACKAGES)
	cp target/contextstore-client-*.tgz $(PACKAGES)
test-packages: ## Installs the packages where nothing else is, as a user would, and uses them
	$(MAKE) --no-print-directory build-wheel build-npm-server PROFILE=quick
	PYTHON=$(PYTHON) bash tests/packages/run.sh

##  Benchmarks

.PHONY: bench bench-core bench-service bench-retention bench-python-memory
bench: bench-core bench-service ## Measures beside limits and peers: ROUNDS=n, and what benches/service.rs names
bench-core: ## Measures the store alone, beside bare fdatasync and SQLite: ROUNDS=n
	$(CARGO) bench --locked --package contextstore --bench core
bench-service: target/venv/bench/installed ## Measures the service, from Rust and Python: ROUNDS=n, ONLY=names, AGAINST=binary, AWAKE=1, …
	@for peer in redis-server rg; do command -v $$peer >/dev/null || echo "$$peer is not installed; it is left out" >&2; done
	PYTHON=$(CURDIR)/$(<D)/bin/python $(CARGO) bench --locked --package contextstore --bench service
bench-retention: ## Measures what compressed contexts still know (docs/RETENTION.md, which it writes): ONLY=part, SHOW=session
	$(CARGO) bench --locked --package contextstore --bench retention
bench-python-memory: target/venv/high/installed ## Draws the memory of a Python agent, with contextstore and with a list: MESSAGES=n
	$(CARGO) build --locked --release --package contextstore
	$(call install_python,high)
	CONTEXTSTORE_BINARY=target/release/contextstore $(<D)/bin/python $(PYTHON_CLIENT)/tests/agent_memory.py \
	  plot $(or $(MESSAGES),100000) docs/agent-memory.svg

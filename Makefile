# Whetstone.  The two commands:
#   make evolve   set everything up, run an evolution on this machine, and say where to look
#   make test     set everything up and run the tests
# Each sets up what it needs once; after that neither needs a network.

PYTHON ?= python3.11
CONFIG ?= .config
EVOLVE ?= configs/cma.config
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
# pytest keeps the tests that it has compiled; without them it begins some seconds later.
unexport PYTHONDONTWRITEBYTECODE

# See workers/queues.py: how threads wait for each other.
export OMP_WAIT_POLICY ?= PASSIVE
export GOMP_SPINCOUNT ?= 2000

.DEFAULT_GOAL := help
.PHONY: help setup models evolve collect guide route-smoke quick test mutants trackers lint types check menuconfig guiconfig olddefconfig savedefconfig bench flower long faults fuzz chaos soak secrets up down compose walk k8s lock pin clean

help:            ## list the targets
	@grep -hE '^[a-z0-9 -]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9 -]+):[^#]*## /\1\t/' | expand -t 20

# Every file that is installed has a hash in constraints.txt (`make lock`).  Plain pip finds a CPU build of torch where one
# is offered; what torch needs depends on its build, so it comes first.
EXTRAS = embedded flower otel tensorboard test lint build
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCKED = $(VENV)/requirements.txt

# Modules are compiled when they are first imported: of all that is installed few ever are.
$(STAMP): export PIP_COMPILE := 0
$(STAMP): pyproject.toml constraints.txt ops/requirements.py
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is not installed; name a Python 3.11 with PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@PIP=$(BIN)/pip ops/install_torch.sh
	@$(BIN)/python ops/requirements.py $(EXTRAS) > $(LOCKED)
	$(INSTALL) --require-hashes --requirement $(LOCKED)
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

setup: $(STAMP)  ## make the environment in .venv

# The model is unpacked once, into ~/.cache/whetstone (or WHETSTONE_CACHE).
models: $(STAMP) ## fetch and unpack the embedded model
	@$(BIN)/python -m workers.embedded.models

evolve: models   ## run an evolution on the embedded farm (EVOLVE=FILE, ARGS='--set NGEN=6')
	@$(BIN)/orchestrator evolve --config $(EVOLVE) $(ARGS)

collect: models  ## find the tokens that the embedded model wastes (COLLECT=FILE, ARGS=--resume)
	@$(BIN)/orchestrator collect --config $(COLLECT) $(ARGS)

guide: models    ## let the embedded model learn rules from tickets (GUIDE=FILE, ARGS='--step ingest')
	@$(BIN)/orchestrator guide --config $(GUIDE) $(ARGS)

route-smoke: models ## gradient routing where the answer is known, and three arms of 30 steps on the embedded farm (minutes)
	WHETSTONE_RESULTS=outputs/route-smoke $(BIN)/python benchmarks/route_known_answers.py
	@$(BIN)/orchestrator route --config configs/route_smoke.yaml --gpu-jobs 2 $(ARGS)

quick: models    ## run the tests that start no process of their own (about a minute on 2 cores)
	$(PYTEST) --quick

test: models     ## run the tests, JOBS files at a time (under ten minutes on 2 cores)
	$(PYTEST)

trackers: $(STAMP) ## install MLflow and Weights & Biases, and run the tests of both (a minute)
	@$(BIN)/python ops/requirements.py mlflow wandb > $(LOCKED)
	@$(BIN)/python -c 'import mlflow, sqlalchemy, wandb' 2>/dev/null || $(INSTALL) --require-hashes --requirement $(LOCKED)
	$(BIN)/python -m pytest -m trackers tests/orchestrator/trackers

mutants: models  ## break the program in one line at a time: the tests must notice (a quarter of an hour; ARGS='3 7')
	@$(BIN)/python tests/mutants/run.py $(ARGS)

lint: $(STAMP)   ## check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)  ## check types
	$(BIN)/mypy --strict orchestrator tasks workers examples

check: lint types test ## check style, format and types, and run the tests

menuconfig:      ## edit .config in a menu (CONFIG=FILE); also guiconfig, olddefconfig, savedefconfig
menuconfig guiconfig olddefconfig savedefconfig: $(STAMP)
	@$(BIN)/python -m orchestrator.settings $@ --config $(CONFIG)

# Without the server that they start, judge.py, which needs labelled answers, and soak.py, which takes an hour.
BENCHMARKS = $(filter-out %/judge.py %/soak.py %/simulated_target.py,$(shell grep -l '^if __name__' benchmarks/*.py))

bench: models    ## run the benchmarks; results in benchmarks/results
	@for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# The embedded farm listens on a private socket; `orchestrator farm status` prints its address.
flower: $(STAMP) ## watch the farm that `orchestrator farm up` keeps, at http://127.0.0.1:5555
	@url="$$($(BIN)/orchestrator farm status --json | $(BIN)/python -c 'import json, sys; print(json.load(sys.stdin)["redis_url"] or "")')"; \
	    test -n "$$url" || { echo "make: no farm is running here; \`orchestrator farm up\` starts one" >&2; exit 1; }; \
	    if [ -z "$$FLOWER_BASIC_AUTH$$FLOWER_BASIC_AUTH_FILE" ]; then \
	        export FLOWER_BASIC_AUTH="whetstone:$$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(12))')"; \
	        echo "user name and password, until it ends: $$FLOWER_BASIC_AUTH"; \
	    fi; \
	    WHETSTONE_REDIS_URL="$$url" exec $(BIN)/orchestrator flower $(ARGS)

long: models     ## the tests of whole collections and clusterings on the farm
	$(PYTEST) -m long --timeout 1800

faults: models   ## the long tests: kill the command, or any part of its farm, at ten moments; each optimiser at six
	WHETSTONE_KILL_MOMENTS=10 $(PYTEST) -m "long or not long" tests/e2e/test_interrupted.py tests/e2e/test_deaths.py tests/e2e/test_collect_deaths.py tests/e2e/test_guide_deaths.py tests/orchestrator/routing/test_route_session.py tests/e2e/test_optimisers.py --timeout 1800

soak: models     ## small runs for an hour; memory, keys, files and descriptors stay flat (MINUTES=60)
	@$(BIN)/python benchmarks/soak.py --minutes $(MINUTES)

chaos: models    ## small runs under faults of fifteen kinds (SEED=7 FAULTS=200, three quarters of an hour)
	PYTHONPATH=tests/e2e/chaos:tests/e2e:benchmarks:. $(BIN)/python tests/e2e/chaos/chaos.py --seed $(SEED) --faults $(FAULTS)

# Compose before version 2 is a program of its own.
COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose) $(addprefix --profile ,$(PROFILE))

secrets:         ## make the passwords that containers need, for those who change them before `docker compose up`
	@ops/secrets.sh

up:              ## build the images and start a farm in containers (PROFILE=gpu, gpu-2 ...; .env has the default)
	@$(COMPOSE) up --detach --build
	@echo "Flower: http://$$($(COMPOSE) port flower 5555), name and password $$(cat secrets/flower/flower_basic_auth)"
	@echo "next: .venv/bin/orchestrator evolve (after \`make setup\`), or docker compose run --rm orchestrator evolve"

down:            ## stop it; runs, history and models stay
	@$(COMPOSE) down

compose: $(STAMP) ## test the containers: a fresh clone, a second one beside it, Retry (needs Docker; half an hour)
	WHETSTONE_COMPOSE=1 $(BIN)/python -m pytest -m long tests/e2e/test_compose_up.py tests/e2e/test_flower_compose.py

walk:            ## run every command of docs/operations.md, in containers (a quarter of an hour)
	@$(PYTHON) ops/walk.py

k8s: $(STAMP)    ## check the Kubernetes manifests against the schemas of Kubernetes and KEDA
	@$(BIN)/python ops/requirements.py k8s > $(LOCKED)
	@$(BIN)/python -c 'import kubernetes_validate' 2>/dev/null || $(INSTALL) --require-hashes --requirement $(LOCKED)
	@$(BIN)/python ops/k8s/check.py

lock: $(STAMP)   ## write constraints.txt: all dependencies, with the hashes of their files (UPGRADE=NAME)
	@$(BIN)/python ops/requirements.py lock > $(LOCKED)
	$(INSTALL) --require-hashes --requirement $(LOCKED)
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python ops/lock.py $(UPGRADE)

pin: $(STAMP)    ## write the digests of all base images into the Dockerfiles and the compose file; needs a network
	@$(BIN)/python ops/pin.py

fuzz: models     ## invalid input wherever input comes from outside: thousands of cases, counted
	$(BIN)/python -m pytest tests/fuzz --hypothesis-profile=fuzz --timeout 1800

clean:           ## remove the environment and caches; outputs stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache

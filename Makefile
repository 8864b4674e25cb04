# `make` prints what there is. Needs git, make and Python 3.11+; everything else is installed on first use, into .venv
# and the user's cache folder.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Python keeps what it compiles, also where the environment says otherwise, as in many containers. Without that each of
# the thousands of processes of a test run compiles all that it imports: `import torch` takes twice as long.
unexport PYTHONDONTWRITEBYTECODE

# The newest usable Python; `make PYTHON=/path/to/python3.12 ...` chooses another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done; true)
BIN := .venv/bin
# How many tests run at once. Each worker has a cluster of its own. Its tests wait more than they compute, so one worker
# more than there are cores ends sooner.
WORKERS ?= $(shell "$(PYTHON)" -c 'import os; print(min(4, 1 + (os.cpu_count() or 1)))')
COMPILE = "$(UV)" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
	$(foreach name,holdfast $(addprefix holdfast-,cli local model protocol research train),--no-emit-package $(name)) $(ARGS)

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Make .venv, with everything that is needed for work here
	@[ -n "$(PYTHON)" ] || { echo "make: no Python 3.11 or newer was found; install one, or use make PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" scripts/setup.py

.PHONY: demo
demo: setup ## Watch a training lose three nodes and finish, in a local cluster
	@$(BIN)/holdfast demo $(ARGS)

.PHONY: test
test: setup ## Run the tests: unit, then those that need the local cluster
	$(BIN)/python -m tests.support.repeat_failed tests/unit tests/model -m "not thorough" -n $(WORKERS) --dist worksteal $(ARGS)
	$(BIN)/holdfast local build
	$(BIN)/python -m tests.support.tools helm promtool pint
	$(BIN)/python -m tests.support.repeat_failed tests/integration tests/e2e -m "not thorough" -n $(WORKERS) --dist worksteal --durations 15 $(ARGS)

.PHONY: test-thorough
test-thorough: setup ## Run the tests that take half a minute or more each; ARGS="--choose 6 --seed TEXT" runs some of them
	$(BIN)/holdfast local build
	$(BIN)/python -m tests.support.tools helm promtool alertmanager
	$(BIN)/pytest tests -m thorough -n $(WORKERS) --dist worksteal $(ARGS)
	$(BIN)/pytest tests/unit -m "hypothesis and not thorough" --hypothesis-profile=more -n $(WORKERS) --dist worksteal $(ARGS)

.PHONY: test-node
test-node: setup ## Run the tests on real nodes: containerd, runc, kubelet and the images (needs root; half an hour)
	$(BIN)/python -m tests.support.real_node.needs
	$(BIN)/holdfast local build
	$(BIN)/python -m tests.support.tools helm containerd containerd-shim-runc-v2 ctr coredns kubelet
	$(BIN)/pytest tests/node -v --durations 5 $(ARGS)

.PHONY: test-versions
test-versions: setup ## Run the tests of frameworks with the versions of the libraries before today's (minutes)
	"$(PYTHON)" scripts/setup.py versions
	.venv-versions/bin/python -m pytest tests/integration/trainer/frameworks tests/unit/trainer/frameworks -n $(WORKERS) --dist worksteal $(ARGS)

.PHONY: lint
lint: setup ## Check style, types, layers and generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy operator images/trainer/holdfast_train images/model/holdfast_model tests/research/holdfast_research scripts
	$(BIN)/lint-imports
	$(BIN)/python -m scripts.limits
	$(BIN)/python -m scripts.generate --check
	$(MAKE) docs

.PHONY: docs
docs: setup ## Build the documentation as a site, build/docs-site/index.html; fails if a link is dead
	@"$(PYTHON)" scripts/setup.py docs
	$(BIN)/python -m scripts.docs_site $(ARGS)

.PHONY: format
format: setup ## Format the code, and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: crds
crds: setup ## Write what is generated: CRDs, files of the chart, parts of the docs and of the code
	$(BIN)/python -m scripts.generate

.PHONY: images
images: setup ## Build the container images; ARGS="operator init --arch amd64 arm64" chooses
	@$(BIN)/python -m scripts.images $(ARGS)

.PHONY: release
release: setup ## Make a release in build/release/VERSION: wheels, images, chart, CRDs, SBOMs, checksums
	@$(BIN)/python -m scripts.release $(ARGS)

.PHONY: lock
lock: ## Resolve all requirement files; ARGS=--upgrade takes the newest versions
	$(eval UV := $(shell "$(PYTHON)" scripts/setup.py uv))
	$(COMPILE) requirements/uv.in -o requirements/uv.txt
	cd requirements && $(COMPILE) go.in -o ../operator/local/holdfast_local/tools/go.txt
	$(COMPILE) requirements/build.in -o requirements/build.txt
	$(COMPILE) images/trainer/pyproject.toml -o requirements/init.txt
	$(COMPILE) pyproject.toml -o requirements/operator.txt
	$(COMPILE) images/trainer/pyproject.toml images/model/pyproject.toml --extra torch -o requirements/trainer.txt
	$(COMPILE) pyproject.toml images/trainer/pyproject.toml --all-extras --group pyproject.toml:dev -o requirements/dev.txt
	$(COMPILE) --group pyproject.toml:docs --constraint requirements/dev.txt -o requirements/docs.txt
	$(COMPILE) requirements/bench.in -o requirements/bench.txt
	$(COMPILE) --no-deps requirements/versions.in -o requirements/versions.txt
	for group in torch litgpt llamafactory torchtune; do \
	  $(COMPILE) requirements/zoo/$$group.in -o requirements/zoo/$$group.txt || exit 1; \
	done

.PHONY: test-zoo
test-zoo: setup ## Interrupt public training programs, and compare; ARGS="--list" names them, ARGS="NAME ..." chooses (minutes each)
	$(BIN)/python -m tests.zoo $(ARGS)

.PHONY: bench
bench: setup ## Measure Holdfast beside a plain Kubernetes Job, and print ratios
	$(BIN)/python -m tests.bench $(ARGS)

.PHONY: bench-checkpoint
bench-checkpoint: setup ## Measure what saves cost a training and how fast checkpoints move, beside others; writes docs/reference/benchmarks-checkpoint.md
	-@"$$("$(PYTHON)" scripts/setup.py uv)" pip install --quiet --python $(BIN)/python --require-hashes -r requirements/bench.txt
	$(BIN)/python -m tests.bench.checkpoint $(ARGS)

.PHONY: economy
economy: setup ## Simulate policies on Spot markets, write docs/reference/economy.md; TRACES=DIR adds recorded ones (minutes)
	$(BIN)/python -m holdfast_research.economy_page $(if $(TRACES),--traces "$(TRACES)") $(ARGS)

.PHONY: promise
promise: setup ## Test Deadline against 10,000 jobs on hostile markets, and 1,000 in a virtual cluster; TRACES=DIR adds recorded ones (minutes)
	$(BIN)/python -m tests.model.promise $(if $(TRACES),--traces "$(TRACES)") $(ARGS)
	$(BIN)/python -m tests.model.promise --decide --jobs 1000 $(if $(TRACES),--traces "$(TRACES)")

.PHONY: torture
torture: setup ## Kill trainers and writers 1,000 times, see that no commit is lost; ARGS="--trials 100 --seed 7" (minutes)
	$(BIN)/python -m tests.torture $(ARGS)

.PHONY: clean
clean: ## Remove .venv and caches of this folder; tools in the user's cache stay
	rm -rf .venv .venv-versions .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find operator images tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

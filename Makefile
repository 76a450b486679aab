# make demo: the main job on the shipped sample incident, without any key.   make test: checks and tests.
# make torture: the long crash tests, some half an hour.
# make test-services: tests against a real PostgreSQL server, which is installed (Debian, as root) and started.
# make live: what only a provider can confirm, looked at again; needs a key and costs under 0.05 USD.
# make test-local: tests with a real small model, which is downloaded once (98 MB).   make local: thirty runs by it.
# make agentdojo: the tasks and attacks of AgentDojo through the policy, in an environment of its own (.venv-agentdojo).
# All first make the environment .venv with the exact versions of constraints.txt, and only when these change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MADE := $(VENV)/.made
# Twice as many as there are cores: many tests wait for a deadline, a signal or a child.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 2 )))
WEIGHTS := $(VENV)/state/harness/models/smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf

.PHONY: demo test check bench torture test-services test-local local live agentdojo clean

demo: $(MADE)
	@$(BIN)/harness run oncall-triage what is going wrong -i source=skills/oncall-triage/assets/incident -m none
	@echo
	@$(BIN)/harness show last | grep '^folder: '

test: check
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

check: $(MADE)
	@$(BIN)/ruff check .
	@$(BIN)/mypy

bench: $(MADE)
	@for script in tests/bench/bench_*.py; do $(BIN)/python "$$script" || exit 1; done

torture: $(MADE)
	@$(BIN)/python tests/torture.py
	@$(BIN)/python tests/mutants.py
	@TORTURE=1 $(BIN)/python -m pytest -n $(WORKERS) tests/test_runs_kill.py tests/test_runs_strace.py tests/test_runs_machine.py

test-services: $(MADE)
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || \
		{ apt-get update -q && apt-get install -y -q --no-install-recommends postgresql; } >/dev/null || \
		{ echo "error: no PostgreSQL server; fix: as root: apt-get install postgresql" >&2; exit 1; }
	@SERVICES=1 $(BIN)/python -m pytest tests/test_tables_postgres.py

test-local: $(WEIGHTS)
	@LOCAL_WEIGHTS="$(CURDIR)/$(WEIGHTS)" $(BIN)/python -m pytest tests/test_models_real.py

local: $(WEIGHTS)
	@$(BIN)/python tests/local_seeds.py "local:$(CURDIR)/$(WEIGHTS)" 30

$(WEIGHTS): $(MADE)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[local]'
	@XDG_STATE_HOME="$(CURDIR)/$(VENV)/state" $(BIN)/harness models add smollm2-135m --yes
	@touch -c $@

live: $(MADE)
	@$(BIN)/python tests/live.py

agentdojo: .venv-agentdojo/.made
	@.venv-agentdojo/bin/python tests/agentdojo/replay.py

.venv-agentdojo/.made: pyproject.toml
	@$(PYTHON) -m venv .venv-agentdojo
	@.venv-agentdojo/bin/python -m pip install --quiet --disable-pip-version-check -e '.[agentdojo]'
	@touch $@

clean:
	@rm -rf $(VENV) .venv-agentdojo dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || \
		{ echo "error: no $(PYTHON) on PATH; fix: install Python 3.11 or newer, or: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: $(PYTHON) is older than 3.11; fix: install Python 3.11 or newer, or: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "error: $(PYTHON) cannot make an environment; fix: install its venv module (Debian: python3-venv)" >&2; exit 1; }
	@echo "making $(VENV) with the versions of constraints.txt"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

PYTHON ?= python3
BIN := .venv/bin
SKIPPED := not exhaustive and not campaign and not fresh
# The tests start hundreds of processes: without files of bytecode, each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-all pytest test-flower test-campaign test-wheel test-fresh browser-tools docs setup lint clean

# Plain averaging, its best-known remedies, the paper's algorithm and the recommended one.
RULES := fedavg,fedexp,fedau,scaffold,mifa,fedswe,keel

run: setup  ## compare seven algorithms on the embedded digits (a minute); all of them: make run ALL=1
	$(BIN)/fedswe compare examples/digits.toml --tune 0.1,1,3,10,30 --algorithms $(if $(ALL),all,$(RULES))

test: setup browser-tools  ## all checks; mypy has one thread, so the tests run beside it
	@$(MAKE) --no-print-directory --jobs 2 lint pytest

test-all:  ## also the long enumerations, and the commands of every page
	@$(MAKE) --no-print-directory test SKIPPED='not campaign and not fresh'

pytest: setup  ## tests with Flower wait much, so three workers keep two cores busy
	$(BIN)/python -m pytest -n 3 --dist worksteal --durations 25 -m '$(SKIPPED)'

test-flower: setup  ## of these, real Flower processes on loopback, killed and restarted (minutes)
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations 10 -m flower tests/flower

test-campaign: setup  ## dozens of faults on real Flower processes (half an hour)
	$(BIN)/python -m pytest -m campaign tests/flower

test-wheel: setup  ## the wheel in a new environment outside the repository, every command
	$(BIN)/python tests/wheel.py

browser-tools:  ## axe-core, which tests check the accessibility of pages with; without npm these are skipped
	@test -f .cache/npm/node_modules/axe-core/axe.min.js || ! command -v npm > /dev/null || \
		npm install --silent --no-save --no-audit --no-fund --prefix .cache/npm axe-core@4.14.0 || \
		echo "axe-core cannot be installed: tests of accessibility are skipped"

test-fresh: setup  ## README and tutorial from a clean clone in an empty environment (many minutes)
	$(BIN)/python -m pytest -m fresh tests/docs

docs: setup  ## the documentation as a site: build/docs/index.html
	$(BIN)/python -m sphinx -W --keep-going -q -c docs -d build/doctrees . build/docs

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/vulture

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e . --group dev
	touch $@

clean:
	rm -rf .venv runs build dist

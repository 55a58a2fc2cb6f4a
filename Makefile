PYTHON ?= python3
BIN := .venv/bin
# uv installs the same packages in seconds where pip takes minutes; it comes from the package index like the rest.
# Bytecode is compiled once here because importing uncompiled packages doubles every start.
.venv/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/uv pip install --quiet --compile-bytecode --constraint constraints.txt --editable '.[dev]'
	touch $@

.PHONY: env demo site test test-all lint clean
env: .venv/.ready

demo: env
	$(BIN)/reveal demo

site: env
	$(BIN)/reveal site

# Files side by side: many tests wait for a server, a browser or a clock more than they compute.
test: env
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

test-all: env
	$(BIN)/python -m pytest -m ""

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv build *.egg-info

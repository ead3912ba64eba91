# `make test` runs every check, `make demo` the main job. Both make what they need, in .venv.
PYTHON ?= python3
BIN := .venv/bin
# As many test processes as cores, each with one thread.
WORKERS ?= auto

.PHONY: test demo lint benchmarks clean

test: lint .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

demo: .venv/installed
	$(BIN)/python examples/demo.py

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

benchmarks: .venv/installed
	$(BIN)/python benchmarks/entmax.py

# Anew when what is installed changes; an editable install sees changes of Python code by itself.
.venv/installed: pyproject.toml constraints.txt CMakeLists.txt $(wildcard src/sparsefinder/attention/kernels/*)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

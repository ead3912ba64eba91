# `make test` runs every check, `make demo` the whole pipeline. Both make what they need, in .venv.
PYTHON ?= python3
BIN := .venv/bin
# As many test processes as cores, each with one thread.
WORKERS ?= auto
# Formats the page's scripts, styles and template. Fetched by npx, so nothing but node has to be there.
PRETTIER := npx --yes prettier@3.6.2

.PHONY: test test-slow demo docs lint browser wheel sanitize fuzz soak audit sbom benchmarks rivals clean

test: lint .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# What needs clusters and servers of its own, on loopback: Ray, S3, several processes that train together. Nodes have one
# processor each, and results are compared to the bit: so one thread here, too.
test-slow: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(wildcard tests/slow/test_*.py)

# Where its runs are kept.
RUNS ?= runs
demo: .venv/installed
	$(BIN)/sparsefinder run recipes/demo-mlm.yaml --runs $(RUNS)
	$(BIN)/sparsefinder run recipes/demo-mt-de.yaml --runs $(RUNS)
	$(BIN)/sparsefinder run recipes/demo-mt-fr.yaml --runs $(RUNS)

# Every method on one chart, over two teachers: docs/results/rivals.md. An hour and a half on two cores; the same command goes on.
#   make rivals MINILM=… CAUSAL=… TRAIN=train.txt VALID=valid.txt
# MINILM: an encoder as published (all-MiniLM-L6-v2); CAUSAL: a decoder with entmax; TRAIN, VALID: WikiText-2.
RIVALS := rivals-minilm-wikitext2 rivals-causal-wikitext2
TEXT = --runs $(RUNS) --set task.data.train=$(TRAIN) --set task.data.valid=$(VALID)
TIMED := sketch,sketch:r=8:steps=300,sketch:r=16:steps=300,bent-sketch:r=8:steps=300,probe:clusters=64:steps=300,distance,kmeans:clusters=32,block-topk:block=16,block-centroids:block=16,quantization,$\
sparq:r=8,loki:r=8,dsa:r=8,hash-attention:bits=32,clustered:clusters=32,quest:page=16,magicpig:bits=4,smyrf:clusters=16,minference:vertical=8,$\
flexprefill:block=16,xattention:block=16:stride=8,spargeattention:block=16,seerattention:block=16,routing,reformer,cluster-former,longformer,bigbird,strided,window
rivals: .venv/installed
	@test -n "$(MINILM)" -a -n "$(CAUSAL)" -a -n "$(TRAIN)" -a -n "$(VALID)" || { echo "make rivals: give MINILM=, CAUSAL=, TRAIN= and VALID= by path"; exit 1; }
	$(BIN)/sparsefinder run recipes/rivals-minilm-wikitext2.yaml $(TEXT) --set task.checkpoint=$(MINILM) --set accuracy=null
	$(BIN)/sparsefinder run recipes/rivals-causal-wikitext2.yaml $(TEXT) --set task.checkpoint=$(CAUSAL)
	$(BIN)/sparsefinder bench $(RUNS)/rivals-minilm-wikitext2 --methods $(TIMED) --lengths 256,512 --repeats 3 --blocks none
	$(BIN)/sparsefinder bench $(RUNS)/rivals-causal-wikitext2 --methods $(TIMED) --lengths 1024,2048 --repeats 3 --blocks none
	for run in $(RIVALS); do $(BIN)/sparsefinder report $(RUNS)/$$run || exit 1; done
	$(BIN)/sparsefinder leaderboard $(RIVALS:%=$(RUNS)/%) --chart $(RUNS)/rivals.svg --csv > $(RUNS)/rivals.csv
	$(BIN)/sparsefinder leaderboard $(RIVALS:%=$(RUNS)/%) --markdown > $(RUNS)/rivals.md
	$(BIN)/sparsefinder leaderboard $(RIVALS:%=$(RUNS)/%)

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/clang-format --dry-run --Werror src/sparsefinder/kernels/*
	@if $(PRETTIER) --version >/dev/null 2>&1; then $(PRETTIER) --check src/sparsefinder/lab/report/assets; \
	  else echo "The page's scripts were not checked: prettier takes node's npx, and a network the first time."; test "$$CI" != true; fi

# The site, into build/site: the tutorials run, and a link or a name that leads nowhere is an error.
docs: .venv/installed
	OMP_NUM_THREADS=1 NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m mkdocs build --quiet --strict

# What the tests of the report's page open it in; without one they are skipped. Debian's, unless there is one already.
browser:
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
	  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }

# What `pip install sparsefinder` gives: the wheel with nothing but its own dependencies, in an environment of its own.
WHEEL := build/wheel
wheel: .venv/installed
	rm -rf $(WHEEL)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(WHEEL) .
	$(PYTHON) -m venv $(WHEEL)/venv
	$(WHEEL)/venv/bin/python -m pip install --quiet -c constraints.txt $(WHEEL)/*.whl
	$(WHEEL)/venv/bin/python -W error tests/base_only.py
	rm -rf $(WHEEL)/venv

# The kernel's tests again, on a build that looks for bad memory accesses and undefined behaviour. Without site (-S), Python
# sees that build and not the editable install.
SANITIZED := build/sanitized
SANITIZING = LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
  ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=$(SANITIZED):$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
  $(BIN)/python -S
$(SANITIZED)/built: .venv/installed $(shell find src -name '*.py')
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --upgrade --target $(SANITIZED) --config-settings=cmake.define.SPARSEFINDER_SANITIZE=ON \
	  --config-settings=build-dir=build/sanitizing .
	touch $@

sanitize: $(SANITIZED)/built
	$(SANITIZING) -m pytest -p no:cacheprovider tests/attending/test_native.py tests/attending/test_rules.py tests/attending/test_assign.py tests/attending/test_index.py tests/finders/test_best.py

# The kernels' arguments, right and wrong, mutated by Atheris on the same build: a crash or a wrong answer ends it.
SECONDS ?= 300
fuzz: $(SANITIZED)/built
	$(SANITIZING) -m tests.fuzz.under_asan -max_total_time=$(SECONDS) -len_control=0 -max_len=4096 -print_final_stats=1

# An hour of calls from several threads: right answers, flat memory.
MINUTES ?= 60
soak: .venv/installed
	$(BIN)/python benchmarks/soak.py --minutes $(MINUTES)

# What is installed, as CycloneDX; and whether PyPI knows of anything wrong with it, which takes a network.
sbom: .venv/installed
	mkdir -p build
	$(BIN)/cyclonedx-py environment --output-reproducible --of JSON -o build/sbom.json $(BIN)/python

audit: .venv/installed
	$(BIN)/pip-audit --skip-editable --desc

benchmarks: .venv/installed
	$(BIN)/python benchmarks/entmax.py
	$(BIN)/python benchmarks/attention.py

# Anew when what is installed changes; an editable install sees changes of Python code by itself.
.venv/installed: pyproject.toml constraints.txt CMakeLists.txt $(wildcard src/sparsefinder/kernels/*)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

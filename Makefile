VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# What `make run` runs: make run RECIPE="fr-resnet164 dsp-resnet164" SEEDS=3 PROFILE=quick
RECIPE ?= bp-resnet98-k2 dsp-resnet98-k2
SEEDS ?= 3
PROFILE ?=
# Without a RECIPE three epochs: enough for a time per batch, and a few minutes in all.
SHORT_RUN = $(if $(filter file,$(origin RECIPE)),--set epochs=3 --set 'optimizer.milestones=[]')

help: ## print this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(READY) ## train BP and DSP on two blocks, then print the tables and draw the figures (a few minutes)
	$(BIN)/repro run $(RECIPE) --seeds $(SEEDS) $(if $(PROFILE),--profile $(PROFILE)) $(SHORT_RUN)
	@for table in $(TABLES); do echo; $(BIN)/repro table $$table; done
	@echo; echo "Pictures:"; $(BIN)/repro figures $(FIGURES)

# The tables and figures that speak of these recipes.
APPROXIMATED := full-% zero-% random-% top1-% sampled-% shared-topk-%
TABLES = $(if $(filter-out straggler-% bias-% gradient-gap-% $(APPROXIMATED),$(RECIPE)),accuracy speedup) \
	$(if $(filter straggler-%,$(RECIPE)),straggler) $(if $(filter bias-%,$(RECIPE)),bias) \
	$(if $(filter $(APPROXIMATED),$(RECIPE)),gradient-approximation)
FIGURES = $(if $(filter-out straggler-% bias-% gradient-gap-% $(APPROXIMATED),$(RECIPE)),loss speedup) \
	$(if $(filter straggler-%,$(RECIPE)),straggler) $(if $(filter gradient-gap-%,$(RECIPE)),gradient-gap) \
	$(if $(filter $(APPROXIMATED),$(RECIPE)),gradient-approximation)

setup: $(READY) ## make .venv and install the project with all it needs to run and to test

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: $(PYTHON) is older than Python 3.11 or missing: give another, make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up $(VENV): PyTorch and its friends, a few minutes once" >&2
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade-strategy only-if-needed -e '.[dev,docs,dist]'
	$(BIN)/repro --help > /dev/null
	@touch $@

# Two workers, a file in one of them, which makes its fixtures once; what needs quiet cores runs alone afterwards.
PYTEST := $(BIN)/python -m pytest
test: $(READY) ## run the tests
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder -m "not faults and not alone"
	$(PYTEST) -m "alone and not faults"

test-faults: $(READY) ## the slow tests of faults: every method killed and resumed for K = 1..4
	$(PYTEST) -n 2 -m faults

soak: $(READY) ## 200 tiny runs with random faults, each compared with an untouched one (resumable; a few minutes)
	$(BIN)/python -m tests.soak

check: $(READY) ## what CI runs: format, lint, types, tests
	$(BIN)/ruff format --check repro tests cli.py
	$(BIN)/ruff check repro tests cli.py
	$(BIN)/mypy
	$(MAKE) test

docs: $(READY) ## build the site of the documentation into site/ (needs no network); broken links are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "site/index.html; to search in it: $(BIN)/python -m http.server --directory site"

dist: $(READY) ## build wheel and source archive into dist/, check them, install them elsewhere and try them
	rm -rf dist
	$(BIN)/python -m build --no-isolation -o dist . > /dev/null
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m tests.site.installed dist
	@test -f LICENSE || echo "There is no LICENSE file: the package names no licence, and PyPI will show none."

tools: ## install a browser, TeX and SLURM, which some tests need (Debian, Ubuntu; as root)
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends chromium texlive-latex-recommended slurm-wlm munge

figures: $(READY) ## draw all figures that the stored runs allow into results/figures
	$(BIN)/repro figures

bench: $(READY) ## measure all benchmarks (40 minutes, quiet machine) into results/bench/all.json; OLD=FILE compares
	$(BIN)/repro bench all $(if $(OLD),--compare $(OLD))

gpu-check: $(READY) ## all checks that need a GPU, under 8 minutes, into results/bench/gpu-check.json
	$(BIN)/python -m repro.benchmarks.gpu_check

# What `make results` runs: the comparisons that the claims need, at a size for two cores (profile reference).
ACCURACY := bp-resnet98 gpipe-resnet98 dni-resnet98 fr-resnet98 ddg-resnet98 \
	dsp-resnet98 dsp-resnet98-s630 dsp-resnet98-s1470
GRADIENT_GAP := $(addprefix gradient-gap-,fr-resnet98 dsp-resnet98 dsp-resnet98-s630 dsp-resnet98-s1470 \
	dsp-resnet98-sgd dsp-resnet98-s1470-sgd bp-resnet98 bp-resnet98-sgd)
SPEED := $(addsuffix -resnet98-k2,bp gpipe fr ddg dsp)
STRAGGLERS := $(addprefix straggler-,bp-resnet98 fr-resnet98 dsp-resnet98 dsp-resnet98-s630 dsp-resnet98-s1470)
APPROXIMATION := full-resnet20 zero-resnet20-s1 random-resnet20-s1 top1-resnet20-s1 top1-resnet20-s1-paper \
	sampled-resnet20-s1 full-resnet14 full-cnn2 zero-cnn2 random-cnn2 top1-cnn2 top1-cnn2-paper sampled-cnn2
SHORT := --set epochs=3 --set optimizer.milestones=[]  # enough for a time per batch
REFERENCE := --profile reference --seeds 5 --runs results/reference

results: $(READY) ## make the reference runs again (an hour or two on a quiet machine; goes on where it was cut off)
	$(BIN)/repro run $(ACCURACY) $(REFERENCE)
	$(BIN)/repro run $(GRADIENT_GAP) $(REFERENCE)
	$(BIN)/repro run $(APPROXIMATION) $(REFERENCE)
	$(BIN)/repro run $(SPEED) $(SHORT) $(REFERENCE)
	$(BIN)/repro run fr-resnet98-free fr-resnet98-barrier --set blocks=2 $(SHORT) $(REFERENCE)
	$(BIN)/repro run $(STRAGGLERS) $(REFERENCE)
	$(BIN)/repro run bias-resnet20 $(REFERENCE)
	$(MAKE) $(patsubst %,results/reference/bench/%.json,kernels engine methods methods-timed delays gradient)
	$(BIN)/repro report --readme README.md --readme docs/results.md

# What `make async-results` runs: losses alone, so two runs at once in one process each; then short ones for times.
DELAYS := delayed-gpt delayed-gpt-d2 delayed-gpt-d4 delayed-gpt-d8
TWO_BLOCKS := bp-gpt-k2 gpipe-gpt-k2 pipedream-gpt-k2 2bw-gpt-k2 fr-gpt-k2 dsp-gpt-k2
STALE := bp-gpt bp-gpt-nadam bp-gpt-muon gpipe-gpt pipedream-gpt pipedream-gpt-nadam 2bw-gpt 2bw-gpt-muon \
	fr-gpt dsp-gpt pipedream-gpt-predicted pipedream-gpt-rescheduled pipedream-gpt-compensated $(TWO_BLOCKS)
SWEEP := $(DELAYS) bp-gpt-sgd $(addsuffix -sgd,$(DELAYS)) $(addsuffix -nadam,$(DELAYS)) \
	delayed-gpt-muon delayed-gpt-d4-muon delayed-gpt-d8-muon delayed-gpt-d4-predicted
LOSSES := --engine sequential --jobs 2 --set runtime.threads=1

async-results: $(READY) ## make the reference runs of docs/asynchronous.md (about two hours; goes on where it was cut off)
	$(BIN)/repro run $(STALE) $(REFERENCE) $(LOSSES)
	$(BIN)/repro run $(SWEEP) $(REFERENCE) $(LOSSES)
	$(BIN)/repro run $(TWO_BLOCKS) --engine processes --set epochs=1 $(REFERENCE)
	$(BIN)/repro report --readme docs/asynchronous.md

# A benchmark of several networks is stored in one file each.
BENCH_engine := --set steps=16 --set rounds=3
BENCH_kernels := --set minutes=60
# In turn, for the claims; nothing else may run meanwhile.
BENCH_methods := --set parts=real --set rounds=8
BENCH_methods-timed := --set parts=timed --set rounds=6 --set steps=200
BENCH_delays := --set blocks=2,4 --set delays=3 --set steps=400 --set stretch=0.5 --set rounds=8
BENCH_gradient := --set minutes=12
BENCH_pipeline := --set parts=scaling,delays --set minutes=12 --set rounds=1
PEERS := --set memory_format=channels_last --set rounds=2
BENCH_peers := $(PEERS) --set minutes=8
BENCH_peers-vgg19 := $(PEERS) --set minutes=12 --set steps=9 --set model=vgg19 --set batch_size=32
BENCH_peers-resnet164 := $(PEERS) --set minutes=12 --set steps=9 --set model=resnet164 --set batch_size=32
BENCH_peers-resnext29 := $(PEERS) --set minutes=12 --set steps=9 --set model=resnext29 --set batch_size=16 \
	--set image_size=16
results/reference/bench/%.json:
	$(BIN)/repro bench $(firstword $(subst -, ,$*)) $(BENCH_$*)
	@mkdir -p $(@D) && cp results/bench/$(firstword $(subst -, ,$*)).json $@

.PHONY: help run setup test check figures bench results async-results test-faults soak tools gpu-check docs dist
.DEFAULT_GOAL := help

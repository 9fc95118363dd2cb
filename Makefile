# `make quick` to look; `make results` and `make test` do everything, `make test-all` tests the most;
# `make invariants` verifies programs; `make bench` measures how fast.

PYTHON ?= python3.11
BIN := .venv/bin
INSTALLED := .venv/installed
# tests of one file share what they make, so a file stays with one worker
WORKERS := --numprocesses auto --maxprocesses 8 --dist loadfile
INSTALLED_SLURM := .venv/installed-slurm

.PHONY: quick results invariants report test test-all test-slurm bench lint

# in a directory of its own, where results of another configuration are neither used nor replaced;
# the model is fetched to where every run looks for it
quick: $(INSTALLED)
	mkdir -p quick/resources
	ln -sfn $(addprefix ../../resources/,models prompts) quick/resources
	$(BIN)/snakemake --cores all --configfile config/quick.yaml -- resources/models/smollm2-135m
	$(BIN)/snakemake --cores all --configfile config/quick.yaml --directory quick

results: $(INSTALLED)
	$(BIN)/snakemake --cores all

invariants: $(INSTALLED)
	$(BIN)/snakemake --cores all invariants

report: $(INSTALLED)
	$(BIN)/snakemake --cores all results/report.html

# `test` is what a change must pass while one works on it; `test-all` has the thousands of generated
# cases and all architectures besides
test test-all: $(INSTALLED)
	$(BIN)/snakemake --quiet --cores all resources/models/smollm2-135m
	$(BIN)/pytest $(WORKERS) $(if $(filter test,$@),-m "not long")

# a Slurm of one node, started and stopped by the tests; Debian's packages if they may be installed
test-slurm: $(INSTALLED_SLURM)
	tests/slurm/install.sh
	$(BIN)/pytest tests/slurm

# at most 15 minutes; the models are fetched beforehand, so that no download is measured
bench: $(INSTALLED)
	$(BIN)/snakemake --quiet --cores all resources/models/smollm2-135m resources/models/gemma3-270m
	$(BIN)/python benchmarks/bench.py

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --constraint constraints.txt --editable ".[test]"
	touch $@

$(INSTALLED_SLURM): $(INSTALLED)
	$(BIN)/python -m pip install --constraint constraints.txt --editable ".[slurm,test]"
	touch $@

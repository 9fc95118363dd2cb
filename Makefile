# `make quick` to look; `make results` and `make test` do everything, `make test-all` tests the most;
# `make invariants` verifies programs; `make bench` measures how fast; `make docs` builds the site.

PYTHON ?= python3.11
BIN := .venv/bin
INSTALLED := .venv/installed
# many tests wait for programs that they start, so there is one worker more than cores
COUNT := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
# tests of one file share what they make, so a file stays with one worker
WORKERS := --numprocesses $(COUNT) --maxprocesses 8 --dist loadfile --no-loadscope-reorder
# a test of faults may take a minute, so an idle worker takes tests from another
FAULT_WORKERS := --numprocesses auto --maxprocesses 8 --dist worksteal
ADDED := make test-all adds the tests marked long: more generated cases, all architectures, more workflows
FETCHED := resources/models/smollm2-135m resources/models/gemma3-270m
# distributions of this repository, which extras of llmchecker name
PLUGINS := $(patsubst %/pyproject.toml,%,$(wildcard packages/*/pyproject.toml))
# an archive that `make bundle` wrote holds all packages, which are then taken from nowhere else
PACKAGES := $(if $(wildcard wheelhouse),--no-index --find-links wheelhouse)

.PHONY: docs quick results claims paper invariants report test test-all test-faults test-slurm test-servers test-peers bench bench-servers bench-suites evaluation evaluation-quick bundle test-bundle dist lint

# damaged results are renamed and the lock of a killed run goes; a run that works there is an error
REPAIRED = $(BIN)/llmchecker repair
# a run of which each job is one line
STAGES = $(BIN)/python workflow/show_stages.py $(BIN)/snakemake --cores all

# in a directory of its own, where results of another configuration are neither used nor replaced;
# the model is fetched to where every run looks for it
quick: $(INSTALLED)
	@mkdir -p quick/resources
	@ln -sfn $(addprefix ../../resources/,models prompts suites) quick/resources
	@$(REPAIRED)
	@$(STAGES) --configfile config/quick.yaml -- resources/models/smollm2-135m
	@echo "A first answer, on one small tree:"
	@$(BIN)/llmchecker check "P=? [ F gender > 0 ]" --config config/quick.yaml \
	    --start "The player won because" --alpha 0.8 --k 5 --length 2
	@echo "All tables and figures:"
	@$(REPAIRED) quick
	@$(STAGES) --configfile config/quick.yaml --directory quick
	@$(BIN)/llmchecker summary quick

results: $(INSTALLED)
	$(REPAIRED)
	$(BIN)/snakemake --cores all
	@$(BIN)/llmchecker summary

# the paper's claims on docs/explanation/paper.md, from the results
claims: results
	cp results/tables/claims.csv resources/measured/
	$(BIN)/python docs/measured_pages.py

# the paper's own models: a forecast, then what comes from the hub, then the rest; after an interruption
# each stage goes on where it was
PAPER := config/paper.yaml
paper: $(INSTALLED)
	@$(BIN)/python workflow/forecast_paper.py $(PAPER)
	@$(REPAIRED)
	@$(STAGES) --configfile $(PAPER) --until fetch_model fetch_prompts
	@$(STAGES) --configfile $(PAPER) --resources gpu=1
	@$(BIN)/llmchecker summary

invariants: $(INSTALLED)
	$(REPAIRED)
	$(BIN)/snakemake --cores all invariants

report: $(INSTALLED)
	$(REPAIRED)
	$(BIN)/snakemake --cores all results/report.html

# `test` is what a change must pass while one works on it; `test-all` has the thousands of generated
# cases and all architectures besides; a worker's network has one thread, as workers share the cores
# the tests start Python hundreds of times; without bytecode every start compiles the modules again,
# and pytest compiles every test file for each worker
test test-all: export PYTHONDONTWRITEBYTECODE =
test test-all: $(INSTALLED)
	$(REPAIRED)
	$(BIN)/snakemake --quiet --cores all resources/models/smollm2-135m
	OMP_NUM_THREADS=1 $(BIN)/pytest $(WORKERS) $(if $(filter test,$@),-m "not long and not faults",-m "not faults")
	@[ $@ = test-all ] || echo "$(ADDED)"

# harm of every kind to a small project: damaged files, kills, full disks, too little memory;
# `make test-faults WITHOUT=interrupted` leaves out the tests with that word in their names
test-faults: $(INSTALLED)
	$(BIN)/pytest $(FAULT_WORKERS) tests/faults $(if $(WITHOUT),-k "not $(WITHOUT)")

# a Slurm of one node, started and stopped by the tests; Debian's packages if they may be installed
test-slurm: $(INSTALLED)
	tests/slurm/install.sh
	$(BIN)/pytest tests/slurm

# vLLM's and llama.cpp's servers on this machine, each in an environment of its own (4 GB)
test-servers: $(INSTALLED)
	$(REPAIRED)
	$(BIN)/snakemake --quiet --cores all resources/models/smollm2-135m
	PYTHON=$(PYTHON) tests/servers/install.sh
	$(BIN)/pytest tests/servers

# files that other tools read and write, by these tools themselves
test-peers: $(INSTALLED)
	$(REPAIRED)
	$(BIN)/snakemake --quiet --cores all resources/models/smollm2-135m
	PYTHON=$(PYTHON) tests/peers/install.sh
	$(BIN)/pytest tests/peers

# about 40 minutes on 2 cores; the models are fetched beforehand, so that no download is measured
bench: $(INSTALLED)
	$(REPAIRED)
	$(BIN)/snakemake --quiet --cores all $(FETCHED)
	$(BIN)/python benchmarks/bench.py

# the same trees in process and by both servers
bench-servers: $(INSTALLED)
	$(REPAIRED)
	$(BIN)/snakemake --quiet --cores all resources/models/smollm2-135m
	PYTHON=$(PYTHON) tests/servers/install.sh compared
	$(BIN)/python benchmarks/serving.py

# a suite of 100 requirements next to samples of `generate` and lm-evaluation-harness
bench-suites: $(INSTALLED)
	$(REPAIRED)
	$(BIN)/snakemake --quiet --cores all resources/models/smollm2-135m
	PYTHON=$(PYTHON) tests/servers/install.sh lm_eval
	$(BIN)/python benchmarks/suites.py

# the experiments of docs/explanation/evaluation.md: about four hours on 2 cores, the quick form half an hour;
# each part is kept as a file in results/evaluation/
evaluation evaluation-quick: $(INSTALLED)
	$(REPAIRED)
	$(BIN)/snakemake --snakefile benchmarks/evaluation/Snakefile --cores all $(subst -,_,$@)
	$(BIN)/python docs/evaluation_page.py results/evaluation/$(if $(filter evaluation,$@),whole,quick)

# one archive with all that a machine without a network needs
bundle: $(INSTALLED)
	$(REPAIRED)
	$(BIN)/snakemake --quiet --cores all $(FETCHED)
	mkdir -p bundle
	$(BIN)/python release/bundle.py bundle/llmchecker.tar $(FETCHED)

# unpack it, and run results and tests where there is no network; takes half an hour
test-bundle: bundle
	release/test_bundle.sh bundle/llmchecker.tar

# what PyPI takes: dist/ with the sources and a wheel of each distribution
dist: $(INSTALLED)
	for source in . $(PLUGINS); do \
	    $(BIN)/python -m build --outdir dist $(if $(PACKAGES),--no-isolation) $$source || exit 1; \
	done

# the documentation site, into site/; a page outside of the navigation or a dead link is an error
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint
	$(BIN)/lint-imports

$(INSTALLED): pyproject.toml $(PLUGINS:%=%/pyproject.toml) constraints.txt
	$(if $(PACKAGES),grep ' wheelhouse/' SHA256SUMS | sha256sum --quiet --check -)
	$(PYTHON) -m venv .venv
	@echo "Installing the pinned packages into .venv, which takes some minutes"
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet $(PACKAGES) \
	    --constraint constraints.txt --editable ".[all,docs,test]" $(PLUGINS:%=--editable %) 2> .venv/pip.log \
	    || { cat .venv/pip.log >&2; exit 1; }
	@! grep --quiet WARNING .venv/pip.log \
	    || echo "pip warned $$(grep --count WARNING .venv/pip.log) times; .venv/pip.log has the warnings"
	touch $@


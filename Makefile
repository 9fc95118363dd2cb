# Two commands do everything: `make results` and `make test`.

PYTHON ?= python3.11
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: results report test lint

results: $(INSTALLED)
	$(BIN)/snakemake --cores all

report: $(INSTALLED)
	$(BIN)/snakemake --cores all results/report.html

test: $(INSTALLED)
	$(BIN)/snakemake --quiet --cores all resources/models/smollm2-135m
	$(BIN)/pytest

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --constraint constraints.txt --editable ".[test]"
	touch $@

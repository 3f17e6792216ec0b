# Every target sets up what it needs: .venv (with uv when present, venv + pip otherwise), tools, peers.
# Set PYTHON to choose the interpreter; it must be 3.11 or newer.
.DEFAULT_GOAL := help
.PHONY: help demo test check format bench evidence docs pages tools clean
.DELETE_ON_ERROR:

BIN := .venv/bin
READY := .venv/.ready
PEERS_READY := .venv-peers/.ready

help:  ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 14

demo: $(READY)  ## Tables by Spark, a sharing server, a read-back; stays up (DEMO_EXIT=1: check and leave nothing)
	@$(BIN)/distributary demo

test: $(READY) $(PEERS_READY) tools  ## Run the tests, other engines included
	$(BIN)/pytest $(ARGS)

check: $(READY)  ## Lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache

format: $(READY)  ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) $(PEERS_READY)  ## Compare with the peers on this machine; writes docs/benchmarks.md
	$(BIN)/python bench/run.py --peers-python .venv-peers/bin/python $(ARGS)

evidence: $(READY) tools  ## Measure the full reliability figures; writes docs/evidence.md (ARGS=kills: one of them)
	$(BIN)/python tools/evidence.py $(ARGS)

pages: $(READY)  ## Write the generated pages of the docs anew
	$(BIN)/python tools/cli_page.py
	$(BIN)/python tools/client_notebook.py
	$(BIN)/python tools/obligations_page.py

docs: pages  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

tools: $(READY)  ## Install what tests need beside Python (object store servers, strace, delta-spark, PySpark 4.1), as far as it can be had here
	@tools/test_servers.sh
	@tools/delta_spark_peer.sh
	@$(BIN)/python tools/spark_matrix.py --install 4.1

$(READY): pyproject.toml tools/make_environment
	@tools/make_environment .venv --editable '.[all]' --group dev
	@touch $@

$(PEERS_READY): pyproject.toml tools/make_environment
	@tools/make_environment .venv-peers --group peers
	@touch $@

clean:  ## Remove everything that the targets made
	rm -rf .venv .venv-peers .venv-spark-peer .tools .bench site build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# Every target that needs Python makes .venv by itself, from requirements.lock (see scripts/venv.sh).

SHELL := /bin/sh
PYTHON := .venv/bin/python
IMGPROC := .venv/bin/imgproc
ARGS ?=
FOLDER ?=
# a recipe takes it from its environment: no quoting can then go wrong
export FOLDER

.DEFAULT_GOAL := help
.PHONY: help venv demo serve test test-pooler check bench chaos hosts model mutants docs lock clean

help:
	@echo 'make demo    import the samples, watch them move through the stages, search; Ctrl-C ends it'
	@echo '             (FOLDER="/path/my pictures" takes your own, ARGS="--once" adds options)'
	@echo 'make serve   API and worker on http://127.0.0.1:8000'
	@echo 'make test    all tests (ARGS="-k name" for some)'
	@echo 'make test-pooler  the integration tests through pgbouncer in transaction mode (needs it installed)'
	@echo 'make check   ruff, mypy and the import contracts'
	@echo 'make bench   the engine beside the limit and its peers, in one run (ARGS=--quick for a small one)'
	@echo 'make chaos   real workers killed, stopped and cut off: nothing lost, paid twice or stale'
	@echo 'make hosts   a database and four hosts of workers: one cut off, one slow (Linux, root, iproute2)'
	@echo 'make model   the protocol, model-checked'
	@echo 'make mutants each fence of the code removed in turn: a test must fail'
	@echo 'make docs    write the generated parts of docs/ anew'
	@echo 'make lock    write requirements.lock and benchmarks/peers.lock anew (needs uv)'
	@echo 'make clean   remove .venv, caches and reports'

venv:
	@sh scripts/venv.sh

# exec: so that no shell stands between Ctrl-C and the command, which then ends in order with exit code 0; make itself
# dies of the signal all the same, so the exit code of 'make demo' is that of an interrupted make
demo: venv
	@exec $(IMGPROC) demo $${FOLDER:+"$$FOLDER"} $(ARGS)

serve: venv
	@exec $(IMGPROC) serve $(ARGS)

# whole files to a process: the slow modules share what they set up, and begin first
test: venv
	@$(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

# Debian puts pgbouncer where only root looks
test-pooler: venv
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin" command -v pgbouncer >/dev/null || \
	  { echo 'make $@: needs pgbouncer on the PATH (Debian: apt-get install pgbouncer)' >&2; exit 2; }
	@IMGPROC_TEST_POOLER=1 $(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder tests/integration $(ARGS)

check: venv
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

# ARGS=--quick for a small run, ARGS="--only engine" for a part, ARGS=--write-docs for docs/benchmarks.md as well,
# ARGS=--compare to measure nothing and fail if the last run is a regression; peers get an environment of their own
bench: venv
	@exec $(PYTHON) -m benchmarks $(ARGS)

# needs spin and a C compiler, and says so; ARGS=--quick for the small bounds, ARGS="--only NAME" for one wrong variant
model: venv
	@exec $(PYTHON) -m formal.check $(ARGS)

# needs git; ARGS=--list names them, ARGS="--only NAME" tries one
mutants: venv
	@exec $(PYTHON) -m mutants $(ARGS)

# ARGS=--quick for a small run, ARGS="--seed N --policy quota" to repeat one
chaos: venv
	@exec $(PYTHON) -m chaos $(ARGS)

# hosts are network namespaces: needs Linux, root and iproute2, and says so (exit code 2); --jobs N for another size
hosts: venv
	@exec $(PYTHON) -m chaos.hosts $(ARGS)

docs: venv
	@$(PYTHON) scripts/make_docs.py $(ARGS)

lock:
	@command -v uv >/dev/null || { echo 'make lock: needs uv on the PATH' >&2; exit 2; }
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
	  --extra local --extra http-policy --group dev pyproject.toml -o requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
	  benchmarks/peers.in -o benchmarks/peers.lock

clean:
	rm -rf .venv .venv-peers .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist reports
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

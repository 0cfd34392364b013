# Secant: every target makes the environment it needs.
#
#   make demo    a tour: a few studies at laptop scale, their findings, and the pages
#   make test    lint, types, docs and all tests
#   make bench   speed, as ratios against named peers (ONLY=row for one row, JSON=1 for a machine)
#   make mutants plants errors in a copy of the package: which tests and which findings notice (ONLY=text for some)
#   make docs    the documentation site, in site/

# A distribution's interpreter is built for speed; those that version managers build mostly are not.
PYTHON ?= $(shell /usr/bin/python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
            && echo /usr/bin/python3 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
# Most of what the tests wait for is the compiler: it takes less than half the time if it optimises little, and what it
# has compiled is kept: for all processes, for the next time, and for other clones on the machine, as is what the type
# checker has read. Entries that nobody has read for a month go.
# Tests that compute for long ask for the level in tests/xla.flags, which takes longer to compile and less to run.
QUICK   = JAX_DISABLE_MOST_OPTIMIZATIONS=1 \
          XLA_FLAGS='$(shell cat tests/xla.flags)'
CACHE  := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/secant
# Code that calls back to the host to raise cannot be kept: a flow that goes wrong is NaN, as it is for the command.
KEEP    = EQX_ON_ERROR=nan JAX_COMPILATION_CACHE_DIR=$(CACHE)/tests-compiled \
          JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0 JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1
# Tracing makes and drops small objects without end: memory that stays with the process saves a twentieth of the time.
MEMORY  = MALLOC_TOP_PAD_=67108864 MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_MMAP_THRESHOLD_=1073741824
# One more than there are cores: some tests wait, for a browser, a cluster or a clock.
WORKERS = $$(( $$(getconf _NPROCESSORS_ONLN) + 1 ))
# Every core has a process of its own already: threads of XLA and BLAS beside it would wait for each other in loops.
ALONE   = NPROC=1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
# Byte code is kept, whatever the environment says: else every process parses the package and the tests anew.
BYTES   = PYTHONDONTWRITEBYTECODE=
PIP     = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test tests lint types pages docs bench mutants clean

demo: $(VENV)/run.stamp
	@SECANT_HOME=build/demo $(BIN)/secant tour

# Types and pages are checked beside the tests, each by one core.
test: lint
	@$(MAKE) --no-print-directory --jobs=3 tests types pages

tests: $(VENV)/dev.stamp
	@mkdir -p $(CACHE)/tests-compiled && find $(CACHE)/tests-compiled -type f -atime +30 -delete
	$(QUICK) $(KEEP) $(MEMORY) $(ALONE) $(BYTES) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-profile=ci --durations=15

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: export MYPY_CACHE_DIR = $(CACHE)/tests-types
types: $(VENV)/dev.stamp
	$(BIN)/mypy

docs: $(VENV)/dev.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The same pages under the same rules, without the index of their search, which is half of the time and has its tests.
pages: $(VENV)/dev.stamp
	NO_MKDOCS_2_WARNING=1 DOCS_SEARCH=false $(BIN)/mkdocs build --strict --quiet --site-dir build/pages

bench: $(VENV)/run.stamp
	@$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json)

mutants: $(VENV)/dev.stamp
	@$(BIN)/python -m mutants $(if $(ONLY),--only '$(ONLY)')

clean:
	rm -rf $(VENV) build site dist $(CACHE)/tests-compiled $(CACHE)/tests-types

# Two environments' worth of packages in one place: what a user installs, then what a developer adds.
$(VENV)/run.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp
	$(PIP) --editable '.[test,lint,docs]'
	@touch $@

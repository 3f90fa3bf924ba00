# The two commands of the README. Everything else is a step of theirs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MATHJAX := docs/_build/vendor/mathjax
MATHJAX_VERSION := 3.2.2
AXE := $(VENV)/axe/axe.min.js
AXE_VERSION := 4.10.3

# Without its bytecode every process of the tests would compile all sources that it imports.
unexport PYTHONDONTWRITEBYTECODE

LINT = $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
# Four workers for two cores: many tests wait for a server, a browser or a disk.
PYTEST = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 4 --dist worksteal
QUICK := tests/codes tests/linalg tests/metrics tests/hashers/test_contract.py tests/hashers/test_oracles.py
QUICK += tests/rows/test_blocks.py tests/rows/test_passes.py tests/docs/test_docstrings.py
QUICK += tests/test_compiled.py tests/test_init.py tests/test_names.py tests/test_progress.py tests/test_threads.py

.PHONY: check demo test lint suite faults docs docs-check report dist clean

demo: $(VENV)/.installed-demo
	$(BIN)/hashlearn demo

test: $(VENV)/.installed-test $(if $(shell command -v npm),$(AXE))
	@command -v chromium chromium-browser google-chrome >/dev/null || \
	  echo "No Chromium found: the tests of the page in a browser are skipped. On Debian: apt-get install chromium"
	$(MAKE) --no-print-directory -j 2 lint suite

# Beside each other: the linters use one core for a minute, and many tests wait.
lint: $(VENV)/.installed-test
	$(LINT)

# One process imports everything first: four that begin at once would each compile the same sources.
suite: $(VENV)/.installed-test
	@$(BIN)/pytest --collect-only -qq >/dev/null || true
	$(PYTEST) --durations=10

# What to run after every change: the linters and the tests of the mathematics, the methods and the public names.
check: $(VENV)/.installed-test
	$(LINT)
	$(PYTEST) $(QUICK)

# Kills, full disks, damaged files, command lines, readers beside savers, interrupts: some of them are part of the tests,
# here are many (FAULTS="--kills 100 --seconds 500"). What is done is not done again: repeat it to go on.
faults: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python -m faults $(FAULTS)

docs: $(VENV)/.installed-docs $(MATHJAX)/tex-svg.js
	OMP_NUM_THREADS=2 $(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/check_site.py

# The built site in Chromium: from the file system and below a path, light and dark, wide and narrow; needs npm.
docs-check: docs $(VENV)/.installed-test $(AXE)
	$(BIN)/python docs/check_site.py --axe $(AXE) --shots docs/_build/shots

# The technical report (docs/explanation/report.md) as docs/_build/report.pdf, printed by Chromium.
report: docs
	$(BIN)/python docs/print_report.py

# A source distribution and a wheel made from it; each is installed into an empty environment and used there.
dist: $(VENV)/.installed-dist
	rm -rf dist
	$(BIN)/python -m build --quiet --outdir dist .
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tests/smoke.py dist

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[report]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[test]'
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-docs: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[docs]'
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-dist: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build twine
	@touch $@

# Formulas are drawn by MathJax, which the pages must not fetch from another host.
$(MATHJAX)/tex-svg.js:
	mkdir -p $(MATHJAX)
	cd $(MATHJAX) && npm pack --silent mathjax@$(MATHJAX_VERSION) && tar -xzf mathjax-$(MATHJAX_VERSION).tgz --strip-components=2 package/es5/tex-svg.js
	rm $(MATHJAX)/mathjax-$(MATHJAX_VERSION).tgz

# Tests of the page look with axe-core for what some people cannot use.
$(AXE): | $(BIN)/python
	mkdir -p $(@D)
	cd $(@D) && npm pack --silent axe-core@$(AXE_VERSION) && tar -xzf axe-core-$(AXE_VERSION).tgz --strip-components=1 package/axe.min.js
	rm $(@D)/axe-core-$(AXE_VERSION).tgz

clean:
	rm -rf $(VENV) dist docs/_build docs/gallery docs/reference/generated hashlearn-demo.html .pytest_cache .mypy_cache .ruff_cache

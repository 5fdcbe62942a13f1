# Two commands do everything on a fresh machine with Python >= 3.10 and a C++ compiler:
#   make train   sets up .venv, builds, and runs the main job: text -> tokenizer -> model -> story
#   make test    sets up .venv, builds, and runs the tests
# make stages measures all stages on whole corpora, for about an hour.
# make coverage runs the tests and says which lines and branches they reach.
# make portability repeats the numerical tests as other CPUs and compilers would run them.
# make llama-cpp compiles llama.cpp (ten minutes or more) and runs exported models in it.
# make course-tests runs the course's own tests, from CS336_COURSE=DIR or fetched with git.
# PYTHON picks the interpreter (make PYTHON=python3.12 test), VENV the environment's directory.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
SOURCES = setup.py $(shell find cs336_basics -name '*.pyx' -o -name '*.pxd' -o -name '*.hpp')

.PHONY: train test coverage slow portability llama-cpp course-tests bench stages lint build clean

train: $(VENV)/built
	$(BIN)/python -m cs336_basics.train

test: $(VENV)/built
	$(BIN)/pytest tests

# Lines and branches of the package that the tests run; htmlcov/ shows them.
coverage: $(VENV)/built
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest tests
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report

slow: $(VENV)/built
	$(BIN)/pytest tests -m slow

# The numerical tests over 20 seeds under what stands in for other machines, and with clang.
portability: $(VENV)/built
	$(BIN)/python tests/portability.py

# Exported models in llama.cpp. CS336_DATA names a directory of texts that are encoded as well.
llama-cpp: $(VENV)/llama-cpp
	$(BIN)/pytest tests/formats/gguf/test_llama_cpp_runtime.py -m slow

# llama-cpp-python is published as source: pip compiles llama.cpp with CMake, here without images.
$(VENV)/llama-cpp: $(VENV)/built
	CMAKE_ARGS=-DLLAVA_BUILD=OFF $(BIN)/python -m pip install --constraint constraints.txt --no-binary llama-cpp-python llama-cpp-python
	touch $@

# The course's own tests, unchanged, with tests/adapters.py.
course-tests: $(VENV)/built
	@$(BIN)/python tests/course_tests.py

bench: $(VENV)/built
	$(BIN)/pytest benchmarks --benchmark-only

# All stages from scratch, whole corpora, with data, tables and plots. It says how long it takes;
# STAGES holds its options (make stages STAGES='--web-bytes 0').
stages: $(VENV)/built
	-grep -v '^#' benchmarks/peers/peers.txt | xargs -n 1 $(BIN)/python -m pip install --quiet
	$(BIN)/python -m benchmarks.stages.run $(STAGES)

lint: $(VENV)/built
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

build: $(VENV)/built

# The environment: pinned dependencies and the build tools, from constraints.txt. The compiled parts
# are built once, by the rule below, which also sees a change to a header.
$(VENV)/installed: constraints.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "cs336_basics needs Python 3.10 or newer; choose one with make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt setuptools cython
	CS336_SKIP_EXTENSIONS=1 $(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[test,bench,lint]'
	touch $@

# The compiled parts, in place.
$(VENV)/built: $(VENV)/installed $(SOURCES)
	$(BIN)/python setup.py --quiet build_ext --inplace
	touch $@

clean:
	rm -rf build *.egg-info .pytest_cache .coverage* htmlcov .mypy_cache .ruff_cache .hypothesis .benchmarks
	find cs336_basics -name '*.so' -delete -o -name '*.cpp' -delete

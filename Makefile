# Two commands are enough on a fresh machine with Python >= 3.10 and a C++ compiler:
#   make train   sets up .venv, builds, and runs the main job: text -> tokenizer -> model -> story
#   make test    sets up .venv, builds, and runs the tests
# make stages measures all stages on whole corpora; it takes about an hour.
# make coverage runs the tests and reports the lines and branches that they reach.
# make campaign checks what docs/guarantees.md promises and writes docs/reliability.md.
# make portability runs the numerical tests with simulated CPUs and other compilers.
# make llama-cpp compiles llama.cpp (ten minutes or more) and runs exported models in it.
# make site builds the site of the documentation in build/docs/site; it needs npm.
# make course-tests runs the course's own tests, from CS336_COURSE=DIR or fetched with git.
# PYTHON selects the interpreter (make PYTHON=python3.12 test), and VENV the environment's directory.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
SOURCES = setup.py $(shell find cs336_basics -name '*.pyx' -o -name '*.pxd' -o -name '*.hpp')

.PHONY: train test coverage slow campaign portability llama-cpp course-tests bench stages site lint build clean

train: $(VENV)/built
	$(BIN)/python -m cs336_basics.train --fast auto

test: $(VENV)/tools
	$(BIN)/pytest tests

# Writes the report to htmlcov/.
coverage: $(VENV)/tools
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest tests
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report

slow: $(VENV)/tools
	$(BIN)/pytest tests -m slow

# BUDGET is the time in minutes.
BUDGET ?= 60
campaign: $(VENV)/tools
	$(BIN)/python -m tests.campaign --minutes $(BUDGET)

portability: $(VENV)/tools
	$(BIN)/python tests/portability.py

# Set CS336_DATA to a directory of texts to encode those texts as well.
llama-cpp: $(VENV)/llama-cpp
	$(BIN)/pytest tests/formats/gguf/test_llama_cpp_runtime.py -m slow

# llama-cpp-python is a source package, so pip compiles llama.cpp with CMake, without image
# support.
$(VENV)/llama-cpp: $(VENV)/tools
	CMAKE_ARGS=-DLLAVA_BUILD=OFF $(BIN)/python -m pip install --constraint constraints.txt --no-binary llama-cpp-python llama-cpp-python
	touch $@

course-tests: $(VENV)/tools
	@$(BIN)/python tests/course_tests.py

bench: $(VENV)/tools
	$(BIN)/pytest benchmarks --benchmark-only

# STAGES sets the options of the run (make stages STAGES='--full-bytes 0').
stages: $(VENV)/tools
	-grep -v '^#' benchmarks/peers/peers.txt | xargs -n 1 $(BIN)/python -m pip install --quiet
	$(BIN)/python -m benchmarks.stages.run $(STAGES)

# Any web server can serve the site: python -m http.server --directory build/docs/site
site: $(VENV)/tools build/pyodide/pyodide.mjs
	$(BIN)/python -m tools.build_site build/docs build/pyodide

# The playground on the site runs in the browser with Pyodide, which is an npm package.
PYODIDE = pyodide-314.0.7
build/pyodide/pyodide.mjs:
	mkdir -p build/pyodide
	npm pack --silent --pack-destination build $(subst -,@,$(PYODIDE))
	tar -xzmf build/$(PYODIDE).tgz --strip-components 1 -C build/pyodide

lint: $(VENV)/tools
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

build: $(VENV)/built

# The environment: pinned dependencies and build tools from constraints.txt. `make train` needs only
# torch, the compiled extensions and the small packages of the playground, which shows the result.
# $(VENV)/tools adds the packages of the tests, benchmarks and linters.
PIP = $(BIN)/python -m pip install --quiet --constraint constraints.txt
SECONDS_SINCE = $$(($$(date +%s) - $$start)) s

# An environment keeps its interpreter, so another PYTHON is an error, even if nothing is to do.
VERSION = import sys; print(sys.implementation.name, *sys.version_info[:2])
.PHONY: same-python
same-python:
	@test ! -x $(BIN)/python || test "$(origin PYTHON)" = file || \
	test "$$($(PYTHON) -c '$(VERSION)')" = "$$($(BIN)/python -c '$(VERSION)')" || \
	{ echo "$(VENV) was made with another Python; remove it, or choose another directory with VENV=..." >&2; exit 1; }

$(VENV)/installed: constraints.txt pyproject.toml | same-python
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "cs336_basics needs Python 3.10 or newer; choose one with make PYTHON=...")'
	@echo "Installing torch and the build tools into $(VENV) ..."
	@start=$$(date +%s); $(PYTHON) -m venv $(VENV) && $(PIP) setuptools cython && \
	CS336_SKIP_EXTENSIONS=1 $(PIP) --no-build-isolation --editable '.[torch,playground]' && \
	echo "  done in $(SECONDS_SINCE)"
	@touch $@

# Compiles the extensions in place with all cores, again whenever one of their sources changes.
$(VENV)/built: $(VENV)/installed $(SOURCES)
	@echo "Compiling the extensions ..."
	@start=$$(date +%s); $(BIN)/python setup.py --quiet build_ext --inplace && \
	echo "  done in $(SECONDS_SINCE)"
	@touch $@

$(VENV)/tools: $(VENV)/built
	@echo "Installing the packages of the tests, the benchmarks and the linters into $(VENV) ..."
	@start=$$(date +%s); \
	CS336_SKIP_EXTENSIONS=1 $(PIP) --no-build-isolation --editable '.[test,bench,lint]' && \
	echo "  done in $(SECONDS_SINCE)"
	@touch $@

clean:
	rm -rf build *.egg-info .pytest_cache .coverage* htmlcov .mypy_cache .ruff_cache .hypothesis .benchmarks
	find cs336_basics -name '*.so' -delete -o -name '*.cpp' -delete

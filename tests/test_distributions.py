"""Test what the sdist and the wheel contain, and that an installation works.

pip installs the wheel, which is built from the sdist, in a new environment. The environment
contains only links to the current interpreter's copies of the declared requirements, so nothing is
downloaded. The slow tests use the compiled wheel.
"""

from __future__ import annotations

import email.parser
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.documents.blocks import read_page

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "cs336_basics"
OURS = "cs336-basics"
GENERATED = (".so", ".pyd", ".pyc", ".cpp")
NOT_IN_SDIST = (".ci/", ".github/", ".gitignore")


def run(command, directory, **variables):
    """Run a program without the project's environment variables."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("CS336_") and name not in ("PYTHONPATH", "CFLAGS", "CXXFLAGS")
    }
    return subprocess.run(
        [str(word) for word in command],
        cwd=directory,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def copy_of_the_project(directory):
    """Copy the files that a fresh checkout would have."""
    names = (".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__", "data", "runs")
    ignored = shutil.ignore_patterns(*names, ".*_cache", ".hypothesis", "*.so", "*.pyd")
    generated = {path.with_suffix(".cpp") for path in PACKAGE.rglob("*.pyx")}

    def ignore(folder, entries):
        ours = {name for name in entries if Path(folder, name) in generated}
        kept = {"data", "runs"} if Path(folder) != ROOT else set()  # ignored only in ROOT
        return (ignored(folder, entries) - kept) | ours

    return shutil.copytree(ROOT, directory, ignore=ignore)


def build(kind, source, target, **variables):
    """Build an sdist or a wheel with this environment's build tools, and return its path."""
    code = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(target)!r}))"
    done = run([sys.executable, "-c", code], source, **variables)
    assert done.returncode == 0, done.stderr
    return target / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sdist")
    return build("sdist", copy_of_the_project(directory / "project"), directory)


def unpack(sdist, directory):
    """Unpack an sdist, and return the directory of the project."""
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(directory, filter="data")
        else:
            archive.extractall(directory)
    (project,) = directory.iterdir()
    return project


@pytest.fixture(scope="module")
def unpacked(sdist, tmp_path_factory):
    """The directory of the unpacked sdist."""
    return unpack(sdist, tmp_path_factory.mktemp("unpacked"))


@pytest.fixture(scope="module")
def pure_wheel(unpacked, tmp_path_factory):
    """A wheel built from the sdist as on a machine without a C++ compiler."""
    return build("wheel", unpacked, tmp_path_factory.mktemp("pure"), CS336_SKIP_EXTENSIONS="1")


@pytest.fixture(scope="module")
def compiled_wheel(unpacked, tmp_path_factory):
    if not any(shutil.which(name) for name in (os.environ.get("CXX", ""), "c++", "g++", "cl")):
        pytest.skip("needs a C++ compiler")
    return build("wheel", unpacked, tmp_path_factory.mktemp("compiled"))


# --- contents ------------------------------------------------------------------------------------


def names_in(archive):
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            return set(file.namelist())
    with tarfile.open(archive) as file:
        return {member.name.partition("/")[2] for member in file if member.isfile()}


def test_a_wheel_contains_exactly_the_files_of_the_package(pure_wheel):
    files = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in GENERATED
    }
    suffixes = {Path(name).suffix for name in files}
    assert suffixes >= {".hpp", ".pyx", ".pyi", ".pxd", ".yaml", ".txt"}
    about = f"cs336_basics-{metadata_of(pure_wheel)['Version']}.dist-info/"
    assert {name for name in names_in(pure_wheel) if not name.startswith(about)} == files
    assert pure_wheel.name.endswith("-py3-none-any.whl")


def test_the_sdist_contains_every_file_of_the_repository(sdist):
    listed = run(["git", "ls-files"], ROOT) if shutil.which("git") else None
    if listed is None or listed.returncode != 0:
        pytest.skip("needs a git checkout")
    tracked = {
        name
        for name in listed.stdout.splitlines()
        if not name.startswith(NOT_IN_SDIST) and (ROOT / name).exists()
    }
    held = names_in(sdist)
    assert tracked - held == set()
    made = {name for name in held if name.startswith("cs336_basics.egg-info/")}
    made |= {"PKG-INFO", "setup.cfg"}
    untracked = run(["git", "ls-files", "--others", "--exclude-standard"], ROOT).stdout.splitlines()
    assert held - made - tracked - set(untracked) == set()


def metadata_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode()
    return email.parser.Parser().parsestr(text)


def requirements_of(wheel, *extras):
    """Return the wheel's requirements that apply to this system, without their markers."""
    found = []
    for requirement in map(Requirement, metadata_of(wheel).get_all("Requires-Dist")):
        marker, requirement.marker = requirement.marker, None
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found.append(requirement)
    return found


@pytest.mark.slow
def test_two_builds_give_equal_bytes(sdist, compiled_wheel, tmp_path):
    """The second build has another directory, a later time and other hashes of strings."""
    variables = {"PYTHONHASHSEED": "7"}
    project = copy_of_the_project(tmp_path / "elsewhere" / "project")
    again = build("sdist", project, tmp_path, **variables)
    assert again.read_bytes() == sdist.read_bytes()
    wheel = build("wheel", unpack(again, tmp_path / "deeper" / "still"), tmp_path, **variables)
    assert wheel.name == compiled_wheel.name
    assert wheel.read_bytes() == compiled_wheel.read_bytes()


def test_the_page_on_installing_names_every_extra(pure_wheel):
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z]+)`", "".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)))
    assert sorted(named) == sorted(metadata_of(pure_wheel).get_all("Provides-Extra"))


# --- installations -------------------------------------------------------------------------------


def distributions_for(requirements):
    """Return a dict from name to distribution, for requirements and all that they depend on.

    Skip the test if a distribution is not installed.
    """
    found = {}
    wanted = [(requirement, "") for requirement in requirements]
    while wanted:
        requirement, extra = wanted.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        if name != OURS and name not in found:
            try:
                found[name] = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                pytest.skip(f"{requirement} is not installed")
            wanted += [(Requirement(text), "") for text in found[name].requires or []]
        if name in found:
            wanted += [
                (Requirement(text), extra)
                for extra in requirement.extras
                for text in found[name].requires or []
                if f"extra == '{extra}'" in text.replace('"', "'")
            ]
    return found


def environment(directory, wheel, requirements):
    """Create an environment with a wheel and its requirements, and return its Python's path."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("needs pip")
    venv.create(directory / "venv", symlinks=os.name != "nt")
    folder = "Scripts" if os.name == "nt" else "bin"
    python = directory / "venv" / folder / "python"
    links = directory / "packages"
    links.mkdir()
    for distribution in distributions_for(requirements).values():
        for name in {file.parts[0] for file in distribution.files or []}:
            target = Path(distribution.locate_file(name))
            if name not in ("..", "__pycache__") and not name.endswith(".pth"):
                link = links / name
                if target.exists() and not link.exists():
                    link.symlink_to(target.resolve(), target.is_dir())
    found = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], directory)
    (Path(found.stdout.strip()) / "packages.pth").write_text(f"{links}\n")
    pip = [sys.executable, "-m", "pip", "--python", python]
    # Python compiles the few modules that the test imports.
    install = ["install", "--no-index", "--no-deps", "--no-compile", wheel]
    done = run([*pip, *install], directory)
    assert done.returncode == 0, done.stderr
    return python


def check_without_torch(python, directory):
    """Check that torch is not installed, and that a command's error says that it needs torch."""
    assert run([python, "-c", "import torch"], directory).returncode != 0
    done = run([python, "-m", "cs336_basics", "train"], directory)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "torch" in done.stderr


def check_light(python, directory, **variables):
    """Run the README's example and the quick check, and check the commands without torch."""
    readme = read_page(ROOT / "README.md")
    example = next(block.code for block in readme.blocks if block.kind == "python")
    assert "train_bpe(" in example
    variables["PATH"] = str(python.parent)  # hides compilers and other programs
    directory.mkdir()
    write = "from cs336_basics.data.datasets.sample import write_sample; write_sample('{}', 40_000)"
    (directory / "example.py").write_text(f"{write.format('stories.txt')}\n{example}")
    for arguments in (["example.py"], [ROOT / "tests" / "quick_check.py"]):
        done = run([python, *arguments], directory, **variables)
        assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "passed"
    assert str(python.parent.parent) in done.stdout.splitlines()[0]
    check_without_torch(python, directory)


USER_SCRIPT = """
from cs336_basics import TRAINERS, Tokenizer, train_bpe

vocab, merges = train_bpe("text.txt", 300, ["<|endoftext|>"], min_frequency=2)
train_bpe("text.txt", 300, [], min_frequency="2")  # wrong
train_bpe("text.txt", 300, [], min_freq=2)  # wrong
TRAINERS["heap"](tie_break=3)  # wrong
tokenizer = Tokenizer(vocab, merges)
ids: list[int] = tokenizer.encode("text")
text: str = tokenizer.encode("text")  # wrong
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("checker", "interpreter"), [("mypy", "--python-executable"), ("pyright", "--pythonpath")]
)
def test_type_checkers_see_an_editable_install_from_elsewhere(tmp_path, checker, interpreter):
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed")
    source = copy_of_the_project(tmp_path / "project")
    (tmp_path / "wheel").mkdir()
    wheel = build("editable", source, tmp_path / "wheel", CS336_SKIP_EXTENSIONS="1")
    python = environment(tmp_path, wheel, requirements_of(wheel))
    (tmp_path / "user").mkdir()
    script = tmp_path / "user" / "script.py"
    script.write_text(USER_SCRIPT)
    done = run([sys.executable, "-m", checker, interpreter, python, script], script.parent)
    found = re.findall(r"script\.py:(\d+):.*error", done.stdout)
    lines = USER_SCRIPT.splitlines()
    wrong = [str(number) for number, line in enumerate(lines, 1) if line.endswith("# wrong")]
    assert found == wrong, done.stdout + done.stderr


@pytest.mark.parametrize(
    "kind", ["pure_wheel", pytest.param("compiled_wheel", marks=pytest.mark.slow)]
)
def test_the_readme_and_the_quick_check_without_torch(kind, request, tmp_path):
    wheel = request.getfixturevalue(kind)
    python = environment(tmp_path, wheel, requirements_of(wheel))
    skipped = "1" if kind == "pure_wheel" else "0"
    check_light(python, tmp_path / "work", CS336_SKIP_EXTENSIONS=skipped)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="distutils finds MSVC without these variables")
def test_pip_shows_why_the_extensions_cannot_be_compiled(unpacked, tmp_path):
    # Leave out the files that another test has compiled there.
    ignored = shutil.ignore_patterns("build", "*.so", "*.pyd")
    source = shutil.copytree(unpacked, tmp_path / "source", ignore=ignored)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation"]
    missing = str(tmp_path / "no-compiler")
    done = run([*pip, "-w", tmp_path / "out", source], tmp_path, CC=missing, CXX=missing)
    assert done.returncode != 0
    assert "CS336_SKIP_EXTENSIONS=1" in done.stdout + done.stderr
    done = run(
        [*pip, "-w", tmp_path / "out", source], tmp_path,
        CC=missing, CXX=missing, CS336_SKIP_EXTENSIONS="1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [path.name.split("-", 2)[2] for path in (tmp_path / "out").iterdir()] == [
        "py3-none-any.whl"
    ]

"""Python for another architecture, from Debian's packages, run by qemu-user."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PACKAGES = ["python3", "python3-numpy", "python3-regex", "python3-requests", "python3-tqdm",
            "python3-yaml", "libstdc++6"]  # fmt: skip
PURE = ["loky", "cloudpickle"]
"""Packages without compiled code, which are copied from this environment."""


QEMU_NAMES = {"arm64": "aarch64"}
"""Debian's architectures that qemu calls differently."""


def python_of(architecture: str, folder: Path, project: Path = ROOT) -> Path:
    """Return a command that runs Python for one of Debian's architectures. Skip if it cannot.

    Args:
        architecture: Such as "s390x".
        folder: New directory, for the command and the packages (125 MB).
        project: Directory from which Python imports the project.
    """
    name = f"qemu-{QEMU_NAMES.get(architecture, architecture)}"
    qemu = shutil.which(f"{name}-static") or shutil.which(name)
    if qemu is None:
        pytest.skip(f"needs {name} (Debian package qemu-user or qemu-user-static)")
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        pytest.skip("needs apt-get and dpkg-deb")
    root = folder / "root"
    root.mkdir(parents=True)
    for package in _download(architecture, folder):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    python = next(
        path for path in (root / "usr" / "bin").glob("python3.*") if path.stem == "python3"
    )
    pure = folder / "pure"
    for name in PURE:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        shutil.copytree(spec.submodule_search_locations[0], pure / name)
    # qemu translates only some system calls, so Python gets the real paths of its files. It starts
    # other processes with this command, too.
    command = folder / "python"
    (pure / "sitecustomize.py").write_text(f"import sys\nsys.executable = {str(command)!r}\n")
    (libraries,) = root.glob("usr/lib/*-linux-gnu*/blas")
    words = [qemu, "-L", root, "-E", f"LD_LIBRARY_PATH={libraries}:{libraries.parent / 'lapack'}",
             python, "-s"]  # fmt: skip
    paths = os.pathsep.join(
        map(str, [project, pure, root / "usr" / "lib" / "python3" / "dist-packages"])
    )
    command.write_text(
        "#!/bin/sh\n"
        f"PYTHONHOME={shlex.quote(str(root / 'usr'))} PYTHONPATH={shlex.quote(paths)} exec "
        f'{shlex.join(map(str, words))} "$@"\n'
    )
    command.chmod(0o755)
    return command


def _download(architecture: str, folder: Path) -> list[Path]:
    """Download the packages and their dependencies. The system's packages are not changed."""
    (folder / "status").touch()  # no package is installed
    for part in ("lists", "archives"):
        (folder / part / "partial").mkdir(parents=True)
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "",
        "Dir::State": folder,
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder,
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    # If an update fails for one of several sources, the others may have all packages.
    subprocess.run(["apt-get", *options, "update"], capture_output=True, check=False)
    words = ["install", "--yes", "--no-install-recommends", "--download-only", *PACKAGES]
    done = subprocess.run(
        ["apt-get", *options, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"needs Debian's packages for {architecture}, which cannot be downloaded")
    return sorted((folder / "archives").glob("*.deb"))

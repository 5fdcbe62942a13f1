"""Build the compiled parts: `python setup.py build_ext --inplace`.

Environment variables:

    CS336_SKIP_EXTENSIONS=1    build only the pure-Python versions, without a C++ compiler
    CS336_DEBUG=1              enable bounds checks and disable optimization
    SOURCE_DATE_EPOCH=N        time of all files in an sdist or a wheel (default: 2026-01-01)
"""

import glob
import gzip
import os
import re
import sys
import tarfile

INSTALL = "`pip install -c constraints.txt setuptools cython`"

try:  # Python 3.12 and newer do not include setuptools.
    import setuptools
    from setuptools import Extension, setup
    from setuptools.command.build_ext import build_ext
    from setuptools.command.sdist import sdist
    from setuptools.errors import CompileError, LinkError, PlatformError
except ImportError as error:
    raise SystemExit(f"cs336_basics: setuptools is missing ({error}); run {INSTALL}.") from None

# module, sources, language
EXTENSIONS = [
    ("cs336_basics.text._utf8", ["cs336_basics/text/_utf8.pyx"], "c++"),
    (
        "cs336_basics.text._normalization",
        ["cs336_basics/text/_normalization.pyx"],
        "c++",
    ),
    ("cs336_basics.splitting._scanner", ["cs336_basics/splitting/_scanner.pyx"], "c++"),
    (
        "cs336_basics.counting._counting",
        ["cs336_basics/counting/_counting.pyx"],
        "c++",
    ),
    (
        "cs336_basics.tokenizer.encoders._encoder",
        ["cs336_basics/tokenizer/encoders/_encoder.pyx"],
        "c++",
    ),
    (
        "cs336_basics.tokenizer.encoders._decoder",
        ["cs336_basics/tokenizer/encoders/_decoder.pyx"],
        "c++",
    ),
    ("cs336_basics.formats._byte_strings", ["cs336_basics/formats/_byte_strings.pyx"], "c++"),
    ("cs336_basics.tokenizer._padding", ["cs336_basics/tokenizer/_padding.pyx"], "c++"),
    (
        "cs336_basics.tokenizer._usual_calls",
        ["cs336_basics/tokenizer/_usual_calls.pyx"],
        "c++",
    ),
    ("cs336_basics.tokenizer._vocabulary", ["cs336_basics/tokenizer/_vocabulary.pyx"], "c++"),
    ("cs336_basics.generation._inference", ["cs336_basics/generation/_inference.pyx"], "c++"),
    ("cs336_basics.bpe.v4_memoryview", ["cs336_basics/bpe/v4_memoryview.pyx"], "c++"),
    ("cs336_basics.bpe.v5_native", ["cs336_basics/bpe/v5_native.pyx"], "c++"),
]

DEBUG = os.environ.get("CS336_DEBUG", "") not in ("", "0")
SKIP = os.environ.get("CS336_SKIP_EXTENSIONS", "") not in ("", "0")
if sys.platform == "win32":
    # /utf-8, because the sources contain non-ASCII characters.
    COMPILE_ARGS = ["/std:c++17", "/utf-8", *(["/Od", "/Zi"] if DEBUG else ["/O2"])]
else:
    COMPILE_ARGS = [
        "-std=c++17",
        "-pthread",
        # -g0, because many Python builds add -g, which makes the wheel several times as large.
        *(["-O0", "-g", "-D_GLIBCXX_ASSERTIONS"] if DEBUG else ["-O3", "-g0"]),
    ]

# Two builds of the same files give the same bytes: setuptools reads this variable for wheels, and
# ReproducibleSdist for sdists. Every path that a compiler sees is relative.
EPOCH = int(os.environ.setdefault("SOURCE_DATE_EPOCH", "1767225600"))

# Headers include each other, so a change to any header rebuilds everything.
HEADERS = sorted(glob.glob("cs336_basics/native/**/*.hpp", recursive=True))

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
}


def version(package):
    """Return the major and minor version of a package."""
    major, minor = package.__version__.split(".")[:2]
    return int(major), int(re.match(r"\d*", minor)[0] or 0)


class BuildExtensions(build_ext):
    """A build_ext that runs Cython with DIRECTIVES, uses all cores and explains failures."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self):
        # Run Cython here, because neither the metadata nor the sdist needs it.
        if self.extensions:
            for extension, translated in zip(
                self.extensions, translated_by_cython(self.extensions), strict=True
            ):
                extension.sources = translated.sources
        super().run()

    def build_extension(self, extension):
        try:
            super().build_extension(extension)
        except (CompileError, LinkError, PlatformError) as error:
            # Fail instead of falling back to pure Python: pip shows the output of a build only if
            # it fails, so a package that is fifty times slower would be installed unnoticed.
            raise SystemExit(
                f"cs336_basics: cannot build {extension.name} ({error}). If a C++ compiler is "
                "missing, install one (Debian and Ubuntu: apt-get install g++; macOS: "
                "xcode-select --install; Windows: the Build Tools for Visual Studio) and repeat "
                "the command. Alternatively, set the environment variable CS336_SKIP_EXTENSIONS=1 "
                "to install the pure-Python versions, which are slower but give the same results."
            ) from None


class ReproducibleSdist(sdist):
    """An sdist whose bytes depend only on the names and the contents of its files."""

    def make_archive(self, base_name, format, root_dir=None, base_dir=None, **owners):
        if format != "gztar":
            return super().make_archive(base_name, format, root_dir, base_dir, **owners)
        path = f"{base_name}.tar.gz"
        with (
            open(path, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=EPOCH) as stream,
            tarfile.open(fileobj=stream, mode="w") as archive,
        ):
            archive.add(base_dir, filter=without_origin)  # in sorted order
        return path


def without_origin(member):
    """Remove from a member of a tar file who made it and when."""
    member.mtime = EPOCH
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def translated_by_cython(extensions):
    try:
        import Cython
        from Cython.Build import cythonize
    except ImportError:
        raise SystemExit(f"cs336_basics: Cython is missing; run {INSTALL}.") from None
    if version(Cython) < (3, 1):
        raise SystemExit(
            f"cs336_basics: Cython must be 3.1 or newer, got {Cython.__version__}; run {INSTALL}."
        )
    return cythonize(extensions, compiler_directives=DIRECTIVES, force=DEBUG, quiet=True)


def extensions():
    return [
        Extension(
            name,
            sources,
            language=language,
            include_dirs=["cs336_basics/native"],
            extra_compile_args=COMPILE_ARGS,
            depends=HEADERS,
        )
        for name, sources, language in EXTENSIONS
    ]


setup(
    # The license is here, because no form in pyproject.toml suits both setuptools 65, which
    # Python 3.11 installs in new environments, and setuptools 77, which introduced license
    # expressions.
    **{"license_expression" if version(setuptools) >= (77, 0) else "license": "MIT"},
    ext_modules=[] if SKIP else extensions(),
    cmdclass={"build_ext": BuildExtensions, "sdist": ReproducibleSdist},
)

"""Build the compiled parts: `python setup.py build_ext --inplace`."""

import glob
import os
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, PlatformError

# module, sources, language
EXTENSIONS = [
    ("cs336_basics.pretokenization._scanner", ["cs336_basics/pretokenization/_scanner.pyx"], "c++"),
    (
        "cs336_basics.pretokenization._counting",
        ["cs336_basics/pretokenization/_counting.pyx"],
        "c++",
    ),
    ("cs336_basics.tokenizer._encoder", ["cs336_basics/tokenizer/_encoder.pyx"], "c++"),
    ("cs336_basics.tokenizer._decoder", ["cs336_basics/tokenizer/_decoder.pyx"], "c++"),
    ("cs336_basics.tokenizer._hashing", ["cs336_basics/tokenizer/_hashing.pyx"], "c++"),
    ("cs336_basics.bpe.v4_memoryview", ["cs336_basics/bpe/v4_memoryview.pyx"], "c++"),
    ("cs336_basics.bpe.v5_native", ["cs336_basics/bpe/v5_native.pyx"], "c++"),
]

# CS336_DEBUG=1 builds with bounds checks and without optimization.
DEBUG = os.environ.get("CS336_DEBUG", "") not in ("", "0")
if sys.platform == "win32":
    COMPILE_ARGS = ["/std:c++17", *(["/Od", "/Zi"] if DEBUG else ["/O2"])]
else:
    COMPILE_ARGS = [
        "-std=c++17",
        "-pthread",
        *(["-O0", "-g", "-D_GLIBCXX_ASSERTIONS"] if DEBUG else ["-O3"]),
    ]

# Headers include each other: a change to any of them builds everything again.
HEADERS = sorted(glob.glob("cs336_basics/native/**/*.hpp", recursive=True))

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": DEBUG,
    "wraparound": False,
    "initializedcheck": DEBUG,
    "cdivision": True,
}


class BuildExtensions(build_ext):
    """build_ext that uses all cores, and says in one sentence what is missing."""

    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, extension):
        try:
            super().build_extension(extension)
        except (CompileError, PlatformError) as error:
            message = (
                f"cs336_basics: {extension.name} was not built ({error}). If a C++ compiler is "
                "missing, install one (Debian and Ubuntu: apt-get install g++; macOS: "
                "xcode-select --install) and run `python setup.py build_ext --inplace` again; "
                "until then the pure-Python trainers work: trainer='heap'."
            )
            # Asked for by name, a failed build is an error. As a part of `pip install`, it leaves
            # a package whose pure-Python versions work.
            if "build_ext" in sys.argv:
                raise SystemExit(message) from None
            print(message, file=sys.stderr)

    def copy_extensions_to_source(self):
        self.extensions = [
            extension
            for extension in self.extensions
            if os.path.exists(self.get_ext_fullpath(extension.name))
            or os.path.exists(os.path.join(self.build_lib, self.get_ext_filename(extension.name)))
        ]
        super().copy_extensions_to_source()


def extensions():
    try:
        from Cython.Build import cythonize
    except ImportError:
        raise SystemExit(
            "cs336_basics: Cython is missing; run `pip install -c constraints.txt cython`."
        ) from None
    return cythonize(
        [
            Extension(
                name,
                sources,
                language=language,
                include_dirs=["cs336_basics/native"],
                extra_compile_args=COMPILE_ARGS,
                depends=HEADERS,
            )
            for name, sources, language in EXTENSIONS
        ],
        compiler_directives=DIRECTIVES,
        force=DEBUG,
        quiet=True,
    )


# CS336_SKIP_EXTENSIONS=1 installs without compiling: the Makefile builds once, in place.
SKIP = os.environ.get("CS336_SKIP_EXTENSIONS", "") not in ("", "0")
setup(ext_modules=[] if SKIP else extensions(), cmdclass={"build_ext": BuildExtensions})

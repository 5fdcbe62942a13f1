"""Build the documentation site: `python -m tools.build_site DIRECTORY PYODIDE`.

DIRECTORY/pages receives the guides in docs/ and at the top of the repository, a page for each
source file and folder that a page links to, and the playground built by
`tools/build_playground.py`. zensical builds DIRECTORY/site from them. The site loads nothing from
other servers, and nothing is downloaded to build it.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.build_playground import build_playground

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "tools" / "site" / "zensical.toml"
PLAYGROUND = "cs336_basics/playground/page/index.html"
GUIDES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LANGUAGES = {".py": "python", ".pyx": "cython", ".pxd": "cython", ".hpp": "cpp"}

# Matches fenced blocks, and links, whose target is group 2.
FENCE_OR_LINK = re.compile(r"^( *`{3,}).*?^\1$|(?<=\]\()([^()\s#]+)", re.MULTILINE | re.DOTALL)
SUMMARY = re.compile(r'(?:r?"""|// )(.+?)(?:"""|$)', re.MULTILINE)


def build_site(directory: Path, pyodide: Path | None = None) -> Path:
    """Build the site and return its directory.

    Args:
        directory: Directory for the pages and the site.
        pyodide: See `build_playground`. If None, the playground on the site does not run.

    Raises:
        CalledProcessError: If zensical fails or warns.
    """
    for name in ("pages", "site"):
        shutil.rmtree(directory / name, ignore_errors=True)
    if pyodide is not None:
        build_playground(directory / "pages" / "playground", pyodide)
    write_pages(directory / "pages")
    shutil.copy(CONFIG, directory)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run(command, cwd=directory, check=True)
    return directory / "site"


def write_pages(pages: Path) -> None:
    """Write the guides and all pages and images that they link to."""
    waiting = [f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))] + [*GUIDES]
    written = set()
    while waiting:
        name = waiting.pop()
        if name in written:
            continue
        written.add(name)
        source, page = ROOT / name, pages / place(name)
        page.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir() or source.suffix in {".md", *LANGUAGES}:
            text, links = page_of(name)
            page.write_text(text, encoding="utf-8")
            waiting += links
        elif not page.exists():
            shutil.copy(source, page)


def place(name: str) -> str:
    """Return the path, relative to `pages`, of the page about a file or folder."""
    if name in GUIDES:
        return name
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    if name == PLAYGROUND:
        return "playground/index.html"
    if (ROOT / name).is_dir():
        return f"source/{name}/index.md"
    return f"source/{name}.md" if Path(name).suffix in LANGUAGES else f"source/{name}"


def page_of(name: str) -> tuple[str, list[str]]:
    """Return the page about a file or folder, and the names of the files that it links to."""
    source = ROOT / name
    if source.suffix == ".md":
        return relinked(name, source.read_text(encoding="utf-8"))
    title = f"---\nsearch:\n  exclude: true\n---\n\n# {name}\n\n"
    if source.suffix in LANGUAGES:
        code = source.read_text(encoding="utf-8")
        return f"{title}````{LANGUAGES[source.suffix]}\n{code}````\n", []
    members = [member for member in sorted(source.iterdir()) if is_shown(member)]
    links = [member.relative_to(ROOT).as_posix() for member in members]
    rows = [
        f"| [{member.name}]({href(name, link)}) | {summary(member)} |\n"
        for member, link in zip(members, links, strict=True)
    ]
    return f"{title}| file | subject |\n|---|---|\n{''.join(rows)}", links


def is_shown(path: Path) -> bool:
    """Return whether a path is a source file, or a folder that contains one."""
    if path.is_dir():
        return any(map(is_shown, path.iterdir()))
    return path.suffix in LANGUAGES and path.stat().st_size > 0


def summary(path: Path) -> str:
    """Return the first line of a file's or folder's docstring or comment."""
    if path.is_dir():
        path = path / "__init__.py"
    found = SUMMARY.search(path.read_text(encoding="utf-8")) if path.is_file() else None
    return found[1].replace("|", "\\|") if found else ""


def relinked(name: str, text: str) -> tuple[str, list[str]]:
    """Return Markdown text with its links rewritten for the site, and the names of the targets."""
    links = []

    def replaced(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[2] or ""))
        if match[2] is None or not (ROOT / target).exists():  # a fenced block or an external link
            return match[0]
        links.append(target)
        return href(name, target)

    return FENCE_OR_LINK.sub(replaced, text), links


def href(name: str, target: str) -> str:
    """Return the link from one page to another, both given as names in the repository."""
    return posixpath.relpath(place(target), posixpath.dirname(place(name)) or ".")


if __name__ == "__main__":
    target, runtime = map(Path, sys.argv[1:])
    print(f"built {build_site(target.absolute(), runtime) / 'index.html'}")

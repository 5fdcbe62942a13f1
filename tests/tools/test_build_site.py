"""The documentation site: its links, its navigation, and the absence of outside assets."""

import functools
import html.parser
import os
import re
import urllib.parse
from pathlib import Path

import pytest

from tools import build_site

DOCS = build_site.ROOT / "docs"
TAKES_ADDRESS = ("href", "src", "srcset", "data", "action")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("zensical", reason="needs the site extra")
    return build_site.build_site(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in site.rglob("*.html")}


class Page(html.parser.HTMLParser):
    """The addresses and anchors in an HTML file."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            elif name in TAKES_ADDRESS and value:
                (self.links if tag == "a" else self.loads).append(value)


def test_every_guide_is_in_the_navigation():
    named = re.findall(r'"([\w-]+\.md)"', build_site.CONFIG.read_text(encoding="utf-8"))
    guides = [path.name for path in DOCS.glob("*.md")] + [*build_site.GUIDES]
    assert sorted(named) == sorted(guides)


def test_links_out_of_the_docs_lead_to_pages_about_the_files():
    text = "[a](stages.md#heap) [b](../cs336_basics/bpe) [c](../CONTRIBUTING.md) [d](https://x.org)"
    code = "\n```\n[e](stages.md)\n```\n"
    assert build_site.relinked("docs/index.md", text + code) == (
        "[a](stages.md#heap) [b](source/cs336_basics/bpe/index.md) [c](CONTRIBUTING.md) "
        f"[d](https://x.org){code}",
        ["docs/stages.md", "cs336_basics/bpe", "CONTRIBUTING.md"],
    )
    page, links = build_site.page_of("cs336_basics/bpe")
    assert "| [v1_naive.py](v1_naive.py.md) | " in page
    assert "cs336_basics/bpe/v5_native.pyx" in links
    page, links = build_site.page_of("cs336_basics/bpe/v1_naive.py")
    assert (build_site.ROOT / "cs336_basics/bpe/v1_naive.py").read_text(encoding="utf-8") in page
    assert links == []


@pytest.mark.slow
def test_every_link_of_the_site_leads_to_a_file_and_an_anchor(site, pages):
    assert site / "index.html" in pages
    assert site / "source/cs336_basics/bpe/v1_naive.py.html" in pages

    @functools.cache
    def file_of(folder, path):
        target = Path(os.path.normpath(folder / urllib.parse.unquote(path)))
        return target / "index.html" if target.is_dir() else target

    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or path.name == "404.html":
                continue
            target = file_of(path.parent, parts.path) if parts.path else path
            assert target in pages or target.is_file(), f"{path}: {link}"
            if target in pages:
                anchor = urllib.parse.unquote(parts.fragment)
                assert anchor in pages[target].anchors, f"{path}: {link}"


@pytest.mark.slow
def test_the_site_loads_nothing_from_other_servers(site, pages):
    for path, page in pages.items():
        for address in page.loads:
            assert not urllib.parse.urlsplit(address).netloc, f"{path}: {address}"
    for path in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\W*https?:", path.read_text(encoding="utf-8")), path

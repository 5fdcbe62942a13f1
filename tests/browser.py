"""Headless Chromium, driven by selenium."""

import contextlib
import itertools
import shutil

import pytest

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
NEEDS_CHROMIUM = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"
)


@contextlib.contextmanager
def chromium(profile):
    """Yield a browser that cannot reach other machines and keeps its files in `profile`."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for word in (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
        f"--user-data-dir={profile}", "--window-size=1200,900",
    ):  # fmt: skip
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(20)
    try:
        yield driver
    finally:
        driver.quit()


# Lists texts whose contrast with their background is below 4.5:1 (WCAG 2.2, 1.4.3), controls
# smaller than 24 by 24 pixels (2.5.8), and elements that make the page scroll sideways (1.4.10).
_PROBLEMS = """
const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const numbers = c => c.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const found = [];
function check(element, style, text) {
  let back = element, behind;
  do { behind = numbers(getComputedStyle(back).backgroundColor); back = back.parentElement; }
  while (behind[3] === 0 && back);
  const front = numbers(element.closest('svg') ? style.fill : style.color);
  const values = [light(front), light(behind)].sort((a, b) => b - a).map(v => v + 0.05);
  const opaque = [front, behind].every(c => c.length === 3 || c[3] === 1) && style.opacity === '1';
  const ratio = values[0] / values[1];
  if (!opaque || ratio < 4.5) found.push(`contrast ${ratio.toFixed(2)}: ${text.slice(0, 60)}`);
}
for (const element of document.querySelectorAll('body, body *')) {
  if (!element.checkVisibility() || element.closest('option, script, style')) continue;
  const own = [...element.childNodes].map(n => n.nodeType === 3 ? n.data : '').join('').trim();
  const shown = own || element.value || '';
  if (shown && element.type !== 'range') check(element, getComputedStyle(element), shown);
  for (const part of ['::before', '::after', '::placeholder']) {
    const style = getComputedStyle(element, part);
    const text = part === '::placeholder' ? !element.value && element.placeholder
      : /^["']/.test(style.content) && style.content;
    if (text) check(element, style, text);
  }
  if (element.matches('button, select, input, textarea, summary')) {
    const box = (element.closest('label:not(.wide)') ?? element).getBoundingClientRect();
    if (box.width < 24 || box.height < 24) found.push(`small: ${element.outerHTML.slice(0, 60)}`);
  }
}
const root = document.documentElement;
const width = arguments[0];  // `innerWidth` of a phone grows with the page
if (root.scrollWidth > width) {
  const wide = [...document.querySelectorAll('body *')]
    .filter(e => e.getBoundingClientRect().right > width).map(e => e.outerHTML.slice(0, 60));
  found.push(`${root.scrollWidth} pixels wide: ${wide}`);
}
return found
"""


@contextlib.contextmanager
def device(browser, width, scheme):
    """Show the page as on a device with this width in pixels and the color scheme light or dark."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def problems_on_devices(browser, picture=lambda name: None):
    """Return problems of contrast, control size and page width on a phone and a wide screen.

    Args:
        browser: The browser.
        picture: Function that is called with a name for each combination.
    """
    found = {}
    for width, scheme in itertools.product((375, 1280), ("light", "dark")):
        with device(browser, width, scheme):
            picture(f"{width}-{scheme}")
            found[width, scheme] = browser.execute_script(_PROBLEMS, width)
    return {key: value for key, value in found.items() if value}

"""Headless Chromium, driven by selenium."""

import contextlib
import shutil
import time

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


def wait(condition, seconds=20):
    """Wait until `condition()` is true, and return its result."""
    end = time.time() + seconds
    while not (value := condition()):
        assert time.time() < end, f"the page did not reach the expected state in {seconds} s"
        time.sleep(0.05)
    return value

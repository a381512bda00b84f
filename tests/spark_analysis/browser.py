"""Opens the report in Debian's Chromium, at a given width and colour scheme."""

from __future__ import annotations

import base64
import contextlib

PHONE, DESKTOP = 390, 1280


@contextlib.contextmanager
def open_browser(chromium, chromedriver):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    try:
        yield driver
    finally:
        driver.quit()


def show(driver, path, width, scheme, media="screen"):
    """Load a file as on a screen (or paper) of this width."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == PHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    driver.get(path.as_uri())


def screenshot(driver, target, from_y=0, height=1400):
    """Write a part of the page as an image."""
    width = driver.execute_script("return document.documentElement.clientWidth")
    clip = {"x": 0, "y": from_y, "width": width, "height": height, "scale": 1}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    target.write_bytes(base64.b64decode(taken["data"]))

"""A real browser that tests of pages drive."""

import os
import time
from pathlib import Path

SECONDS_MAX = 20
FLAWS = """
const width = document.documentElement.clientWidth, pen = document.createElement("canvas").getContext("2d");
const found = document.documentElement.scrollWidth > width ? ["the page scrolls"] : [];
for (const each of document.querySelectorAll("body *")) {
  if (!each.checkVisibility() || !each.clientWidth || each.closest(".skip, .u-wrap, canvas")) continue;
  const style = getComputedStyle(each), text = (each.innerText || each.value || "").slice(0, 40);
  const report = (flaw) => found.push(`${flaw}: ${each.tagName} ${each.className} ${text}`);
  if (each.getBoundingClientRect().right > width + 1 && !each.parentElement.closest(".scroll")) report("outside");
  const isCut = each.scrollWidth > each.clientWidth + 1 && style.overflowX !== "visible" && each.innerText;
  const mayScroll = each.matches(".content, textarea") || (each.matches(".scroll") && width > 560);
  if (isCut && !mayScroll && !each.title) report("cut");
  if (!each.matches("input, select, textarea")) continue;
  if (!each.labels.length && !each.ariaLabel) report("unlabelled");
  const shown = each.value && !each.matches("select") ? "" : each.placeholder ?? each.selectedOptions?.[0]?.text ?? "";
  pen.font = style.font;
  const arrow = each.matches("select") ? 16 : 0;
  const room = each.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - arrow;
  if (pen.measureText(shown).width > room && !each.title) report(`cut field (${shown})`);
}
return found;
"""


class Browser:
    """A browser with scripts that wait."""

    def __init__(self, driver):
        self.driver = driver

    def look_like(self, theme, width):
        commands = self.driver.execute_cdp_cmd
        commands("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        commands("Emulation.setDeviceMetricsOverride", size)

    def open(self, address, script="return document.querySelector('main h1') !== null"):
        self.driver.get(address)
        self.wait(script)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, script):
        """Wait until a script returns a true value."""
        deadline = time.monotonic() + SECONDS_MAX
        while not (found := self.run(script)):
            assert time.monotonic() < deadline, f"not seen: {script}\n{self.text}"
            time.sleep(0.05)
        return found

    @property
    def text(self):
        return self.run("return document.body.innerText").replace("\xa0", " ")

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}]

    def flaws(self):
        """Return what a reader cannot see, reach or name on the page."""
        return self.run(FLAWS)

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        actions = ActionChains(self.driver)
        for key in keys:
            actions.send_keys(key)
        actions.perform()

    def picture(self, name):
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(f"{folder}/{name}.png")

    def press_button(self, label):
        """Press the last button with a label or name once it exists."""
        labels = "[each.textContent, each.ariaLabel].includes(arguments[0])"
        script = f"[...document.querySelectorAll('button')].findLast((each) => {labels})"
        deadline = time.monotonic() + SECONDS_MAX
        while not self.run(f"const found = {script}; found?.click(); return found !== undefined", label):
            assert time.monotonic() < deadline, f"no button {label}\n{self.text}"
            time.sleep(0.05)

    def fill_in(self, **fields):
        """Fill in fields of the open dialog by their labels."""
        for label, text in fields.items():
            script = """
                const label = [...document.querySelectorAll('dialog label')]
                    .find((each) => each.textContent.startsWith(arguments[0]));
                const field = label.querySelector('input, textarea, select');
                field.value = arguments[1];
                field.dispatchEvent(new Event('change'));
            """
            self.run(script, label, text)

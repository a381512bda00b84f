"""The page in Chromium: nothing overflows on a phone, and all text is readable in light, in dark and on paper."""

from __future__ import annotations

import itertools
import json

import pytest

from tests.required import require_tool
from tests.spark_analysis.browser import DESKTOP, PHONE, open_browser, show

pytestmark = [
    pytest.mark.spark,
    pytest.mark.browser,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]
CONTRAST_MIN = 4.5
"""The smallest contrast of text and background: WCAG 2.1, success criterion 1.4.3, level AA."""

COLOURS = """
const seen = [];
function behind(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!/rgba\\(.*, 0\\)|transparent/.test(colour)) return colour;
  }
  return getComputedStyle(document.documentElement).backgroundColor;
}
const kinds = "p, li, th, td, summary, h1, h2, h3, h4, a, text.tick, text.axis, .tile b, small";
for (const element of document.querySelectorAll(kinds))
  if (element.textContent.trim() && element.getClientRects().length) {
    const style = getComputedStyle(element);
    const front = element instanceof SVGElement ? style.fill : style.color;
    seen.push([front, behind(element), element.textContent.slice(0, 40)]);
  }
return seen;
"""


@pytest.fixture(scope="module")
def path(reported):
    return reported.directory / "report.html"


@pytest.fixture(scope="module")
def driver():
    with open_browser(require_tool("chromium"), require_tool("chromedriver")) as driver:
        yield driver


def channels(colour):
    """Return red, green and blue of a computed colour, 0 to 1."""
    numbers = [
        float(part) for part in colour[colour.index("(") + 1 : -1].replace("srgb", "").replace(",", " ").split()[:3]
    ]
    return [number / 255 for number in numbers] if colour.startswith("rgb") else numbers


def luminance(colour):
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(front, back):
    light, dark = sorted((luminance(front), luminance(back)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_nothing_overflows_and_all_text_is_readable(driver, path, width, scheme):
    show(driver, path, width, scheme)
    sizes = driver.execute_script("const d = document.documentElement; return [d.scrollWidth, d.clientWidth]")
    assert sizes == [width, width] or sizes[0] <= sizes[1] <= width
    cut = driver.execute_script(
        "return [...document.querySelectorAll('.scroll caption')].filter(caption =>"
        "caption.getBoundingClientRect().width > caption.closest('.scroll').clientWidth + 1).map(c => c.textContent)"
    )
    assert cut == [], "captions that end where only a scrolled table shows them"
    texts = driver.execute_script(COLOURS)
    assert len(texts) > 200
    weak = {(front, back, text) for front, back, text in texts if contrast(front, back) < CONTRAST_MIN}
    assert weak == set()
    small = driver.execute_script(
        "return [...document.querySelectorAll('.panel svg')].filter(s => s.getClientRects().length)"
        ".map(s => s.getBoundingClientRect().width / s.viewBox.baseVal.width).filter(scale => scale < 0.85).length"
    )
    assert small == 0, "drawings in which text is below 9 pixels"


def test_unfolded_tables_need_no_scrolling_on_a_desktop(driver, path):
    show(driver, path, DESKTOP, "light")
    wide = driver.execute_script(
        "return [...document.querySelectorAll('.scroll')].filter(part => part.checkVisibility() &&"
        "part.scrollWidth > part.clientWidth).map(part => [part.ariaLabel, part.scrollWidth])"
    )
    assert wide == []


def test_colours_follow_the_scheme(driver, path):
    backs = []
    for scheme in ("light", "dark"):
        show(driver, path, DESKTOP, scheme)
        backs.append(luminance(driver.execute_script("return getComputedStyle(document.body).backgroundColor")))
    assert backs[0] > 0.9
    assert backs[1] < 0.1


def test_the_page_makes_no_request_and_logs_no_error(driver, path):
    driver.get_log("performance"), driver.get_log("browser")
    show(driver, path, DESKTOP, "light")
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert asked == [path.as_uri()]
    assert driver.get_log("browser") == []


CURVES = "#latency .panels:first-of-type .panel"


def pointed(driver, path):
    """Show the latency curves and return the position of the first of them once it answers a pointer."""
    from selenium.webdriver.support.ui import WebDriverWait

    show(driver, path, DESKTOP, "light")
    to_middle = "{block: 'center', behavior: 'instant'}"  # a smooth scroll would still move the chart below
    driver.execute_script(f"document.querySelector(arguments[0]).scrollIntoView({to_middle})", CURVES)
    is_drawn = "return document.querySelector(arguments[0] + '.pointed .u-over') !== null"
    WebDriverWait(driver, 20).until(lambda _: driver.execute_script(is_drawn, CURVES))
    place = "const r = document.querySelector(arguments[0] + ' .u-over').getBoundingClientRect(); "
    return driver.execute_script(place + "return [r.x, r.y, r.width, r.height]", CURVES)


def move(driver, kind, x, y, button="left"):
    is_held = button == "left" and kind != "mouseReleased"
    event = {"type": kind, "x": x, "y": y, "button": button, "buttons": int(is_held), "clickCount": 1}
    driver.execute_cdp_cmd("Input.dispatchMouseEvent", event)


def legend(driver):
    cells = "return [...document.querySelectorAll(arguments[0] + ' .u-legend tr')].map(row => row.innerText)"
    return driver.execute_script(cells, CURVES)[: len(driver.find_elements("css selector", "#latency .legend li")) + 1]


def test_a_chart_shows_the_values_at_the_pointer(driver, path):
    from selenium.webdriver.support.ui import WebDriverWait

    x, y, width, height = pointed(driver, path)
    assert all("\N{EN DASH}" in row for row in legend(driver))
    shares = itertools.cycle((0.4, 0.5))

    def point(_):
        """Move the pointer again if the browser of a busy machine has lost an event."""
        move(driver, "mouseMoved", x + width * next(shares), y + height * 0.5, button="none")
        return any("%" in row for row in legend(driver)[1:])

    WebDriverWait(driver, 20).until(point)
    assert any(character.isdigit() for character in legend(driver)[0])


def test_a_chart_zooms_to_the_dragged_range(driver, path):
    from selenium.webdriver.support.ui import WebDriverWait

    x, y, width, height = pointed(driver, path)
    ends = "const s = document.querySelector(arguments[0]).plot.scales.x; return [s.min, s.max]"
    low, high = driver.execute_script(ends, CURVES)

    def drag(_):
        """Drag again if the browser of a busy machine has lost an event."""
        for kind, share in (("mouseMoved", 0.4), ("mousePressed", 0.4), ("mouseMoved", 0.6), ("mouseReleased", 0.6)):
            move(driver, kind, x + width * share, y + height * 0.5)
        return driver.execute_script(ends, CURVES) != [low, high]

    WebDriverWait(driver, 20).until(drag)
    found = driver.execute_script(ends, CURVES)
    assert low < found[0] < found[1] < high
    assert found[1] - found[0] == pytest.approx(0.2 * (high - low), rel=0.1)


def test_without_scripts_and_on_paper_charts_are_drawings(driver, path):
    pointed(driver, path)
    shown = (
        "const p = document.querySelector(arguments[0]); return ['svg', '.uplot'].map(it => "
        "(p.querySelector(it)?.getClientRects().length ?? 0) > 0)"
    )
    assert driver.execute_script(shown, CURVES) == [False, True]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert driver.execute_script(shown, CURVES) == [True, False]
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(driver, path, DESKTOP, "light")
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert driver.execute_script(shown, CURVES) == [True, False]


def test_the_contents_stay_visible(driver, path):
    for width in (DESKTOP, 1600):
        show(driver, path, width, "light")
        driver.execute_script("window.scrollTo({top: document.body.scrollHeight * 0.7, behavior: 'instant'})")
        place = "const r = document.querySelector('nav').getBoundingClientRect(); return [r.top, r.bottom]"
        top, bottom = driver.execute_script(place)
        assert 0 <= top < bottom <= 900


def test_print_unfolds_everything_and_does_not_cut_tables(driver, path):
    show(driver, path, DESKTOP, "light")
    assert driver.execute_script("return document.querySelectorAll('details[open]').length") == 0
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert driver.execute_script("return document.querySelectorAll('details:not([open])').length") == 0
    printed = driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
    assert printed["data"].startswith("JVBERi0"), "the beginning of a PDF"
    show(driver, path, DESKTOP, "light", media="print")
    assert driver.execute_script("return getComputedStyle(document.querySelector('nav')).display") == "none"


def test_screen_readers_get_a_description_of_each_drawing(driver, path):
    show(driver, path, DESKTOP, "light")
    names = driver.execute_script(
        "return [...document.querySelectorAll('svg[role=img]')].map(s => s.getAttribute('aria-label'))"
    )
    assert len(names) > 20
    assert all(len(name) > 20 for name in names)

"""Reports in a real browser: no errors, no requests, working tables, both themes, phones and paper."""

import base64
import io
import json
import shutil
import subprocess
import sys

import matplotlib.image
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial import cKDTree
from scipy.special import ndtri
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from jointplda.metrics import roc
from jointplda.report.content import Page
from jointplda.report.gather import system_of
from jointplda.report.page import write_page
from worlds.report_pages import EDGES, evaluated, example

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if BROWSER is None or DRIVER is None:
    pytest.skip("no chromium and chromedriver here: the browser tests are skipped", allow_module_level=True)

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1280,900"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    name = tmp_path_factory.mktemp("report") / "report.html"
    write_page(example(6), name)
    return name


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, path):
    look(browser)
    browser.get(path.as_uri())
    browser.execute_script("try { localStorage.clear() } catch {}")
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())
    return browser


def look(browser, *, width=1280, scheme="light", media=""):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def image(browser):
    png = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
    return matplotlib.image.imread(io.BytesIO(base64.b64decode(png)), format="png")[..., :3]


def column(table, index):
    """The numbers of a column from the top; what is missing is NaN."""
    rows = table.find_elements(By.CSS_SELECTOR, "tbody tr")
    texts = [row.find_elements(By.XPATH, "./*")[index].text.split("\n")[0] for row in rows]
    return np.array([np.nan if text == "–" else float(text) for text in texts])


def test_no_errors_and_no_requests(page, path):
    assert page.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]


def test_the_page_of_the_demo(browser, tmp_path):
    """The demo's own table and page: Joint PLDA below PLDA where it should be, and a page that opens."""
    command = [sys.executable, "-m", "jointplda", "demo", "--draws", "20", "--json", "--report", tmp_path / "r.html"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    parts = {name: each["parts"] for name, each in json.loads(done.stdout)["systems"].items()}
    plain, joint = parts["PLDA"], parts["Joint PLDA"]
    assert joint["pooled"]["Cllr"] < 0.6 * plain["pooled"]["Cllr"]
    assert joint["pooled"]["EER"] < 0.85 * plain["pooled"]["EER"]
    assert joint["cross / same"]["EER"] < 0.7 * plain["cross / same"]["EER"]
    automatic = parts["Joint PLDA, automatic"]["pooled"]
    assert automatic["EER"] < 1.02 * joint["pooled"]["EER"]
    assert automatic["Cllr"] < automatic["minCllr"] + 0.1
    browser.get_log("browser")
    browser.get((tmp_path / "r.html").as_uri())
    assert browser.get_log("browser") == []
    assert browser.find_element(By.TAG_NAME, "h1").text == "Joint PLDA on the bundled voices"
    assert fits(browser)
    assert len(np.unique(image(browser).reshape(-1, 3), axis=0)) > 50


@pytest.mark.parametrize("name", EDGES)
def test_little_to_show(browser, tmp_path, name):
    write_page(EDGES[name], tmp_path / "report.html")
    browser.get_log("browser")
    browser.get((tmp_path / "report.html").as_uri())
    assert browser.get_log("browser") == []
    assert fits(browser)


DET = "#det figure:first-child .plot"
ALONG = """
    const plot = document.querySelector(arguments[0]);
    const line = plot.querySelector(".s0 .line");
    const points = [];
    for (let i = 0; line && i <= 2000; i++) {
      const p = line.getPointAtLength(line.getTotalLength() * i / 2000);
      points.push([p.x, p.y]);
    }
    const ticks = [...plot.querySelectorAll("text")].filter((t) => t.getAttribute("text-anchor") === "end");
    return [points, ticks.map((t) => [Number(t.textContent), Number(t.getAttribute("y")) - 4])];
"""


def shown_page(browser, tmp_path, *kinds):
    results = {kind: evaluated(kind) for kind in kinds}
    systems = [system_of(kind, result) for kind, result in results.items()]
    write_page(Page("Scores", "", systems, channel="room"), tmp_path / "report.html")
    look(browser)
    browser.get((tmp_path / "report.html").as_uri())
    return results


@pytest.mark.parametrize("kind", ["good", "random"])
def test_a_det_curve_meets_the_diagonal_at_the_equal_error_rate(browser, tmp_path, kind):
    (result,) = shown_page(browser, tmp_path, kind).values()
    points, ticks = (np.array(each) for each in browser.execute_script(ALONG, DET))
    slope, offset = np.polyfit(ticks[:, 1], ndtri(ticks[:, 0] / 100), 1)
    assert_allclose(slope * ticks[:, 1] + offset, ndtri(ticks[:, 0] / 100), atol=0.01)
    drawn = np.stack((slope * (392 - points[:, 0]) + offset, slope * points[:, 1] + offset), axis=1)
    _, p_miss, p_fa = roc(result.scores, result.target)
    true = ndtri(np.clip(np.stack((p_fa, p_miss), axis=1), 1e-6, 1 - 1e-6))
    shares = np.linspace(0, 1, 30)[:, None, None]
    true = (true[:-1] + shares * np.diff(true, axis=0)).reshape(-1, 2)
    assert_allclose(drawn.max(axis=1).min(), true.max(axis=1).min(), atol=0.03)
    assert cKDTree(true).query(drawn)[0].max() < 0.1, "something else than the ROC is drawn"
    seen = true[(true > offset + 392 * slope).all(axis=1) & (true < offset).all(axis=1)]
    assert cKDTree(drawn).query(seen)[0].max() < 0.1, "a part of the ROC is missing"


def test_a_system_without_errors_is_a_dot_in_the_corner(browser, tmp_path):
    shown_page(browser, tmp_path, "random", "separated")
    points, _ = browser.execute_script(ALONG, DET)
    assert points == []
    dots = browser.find_elements(By.CSS_SELECTOR, f"{DET} .s0 .filled")
    where = [(float(dot.get_attribute("cx")), float(dot.get_attribute("cy"))) for dot in dots]
    assert (0.0, 392.0) in where
    assert "Without errors in the range shown: separated." in browser.find_element(By.ID, "det").text
    drawing = browser.find_element(By.CSS_SELECTOR, DET).screenshot_as_png
    pixels = matplotlib.image.imread(io.BytesIO(drawing), format="png")[..., :3]
    orange = np.abs(pixels - rgb("rgb(196, 78, 0)")).max(axis=2) < 0.1
    height, width = orange.shape
    assert orange.any()
    assert not orange[: int(0.8 * height), int(0.2 * width) :].any(), "a line crosses the plot"


def test_scores_of_targets_are_in_their_histogram(browser, tmp_path):
    shown_page(browser, tmp_path, "good")
    size = "return [...document.querySelectorAll('.panel .plot')][0].querySelector('svg').getBoundingClientRect().width"
    box = "return document.querySelector('.panel .plot .t1 .area').getBoundingClientRect().width"
    assert 0.3 < browser.execute_script(box) / browser.execute_script(size) < 0.7
    assert "Beyond the edges" not in browser.find_element(By.ID, "systems").text


@pytest.mark.parametrize("press", ["click", "keys"])
def test_sorting(page, press):
    table = page.find_element(By.CSS_SELECTOR, ".table table")
    heads = table.find_elements(By.CSS_SELECTOR, "thead th")
    names = [head.text.split("\n")[0] for head in heads]
    index = names.index("actDCF")
    before = column(table, index)
    button = heads[index].find_element(By.TAG_NAME, "button")
    for direction, sign in (("ascending", 1), ("descending", -1)):
        button.click() if press == "click" else button.send_keys(Keys.ENTER)
        values = column(table, index)
        finite = values[~np.isnan(values)]
        assert heads[index].get_attribute("aria-sort") == direction
        assert np.all(sign * np.diff(finite) >= 0)
        assert len(set(finite)) > 2
        assert np.isnan(values[len(finite) :]).all()
        assert sorted(finite) == sorted(before[~np.isnan(before)])
    assert [head.get_attribute("aria-sort") for head in heads].count("none") == len(heads) - 1


def test_sorting_by_name(page):
    table = page.find_element(By.CSS_SELECTOR, ".table table")
    table.find_element(By.CSS_SELECTOR, "thead button").click()
    names = [cell.text for cell in table.find_elements(By.CSS_SELECTOR, "tbody th")]
    assert names == sorted(names)
    assert len(names) == 6


def test_header_buttons_are_reached_by_tab(page):
    region = page.find_element(By.CSS_SELECTOR, ".scroll")
    page.execute_script("arguments[0].focus()", region)
    region.send_keys(Keys.TAB)
    focused = page.switch_to.active_element
    assert focused.tag_name == "button"
    assert focused.text == "System"


def test_theme(page):
    paper = "return getComputedStyle(document.body).backgroundColor"
    light = page.execute_script(paper)
    page.find_element(By.ID, "theme").click()
    dark = page.execute_script(paper)
    assert light != dark
    assert image(page)[5, 5].mean() < 0.3
    page.find_element(By.ID, "theme").click()
    assert page.execute_script(paper) == light
    look(page, scheme="dark")
    assert page.execute_script(paper) == light, "what was chosen stays"
    page.execute_script("delete document.documentElement.dataset.theme")
    assert page.execute_script(paper) == dark


def test_copying_without_a_clipboard(page):
    page.execute_script(
        "Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true});"
        "document.execCommand = () => false;"
    )
    page.find_element(By.CSS_SELECTOR, ".copy").click()
    text = page.find_element(By.CSS_SELECTOR, ".tools textarea").get_attribute("value")
    lines = [line.split("\t") for line in text.strip().split("\n")]
    assert len(lines) == 7
    assert {len(line) for line in lines} == {1 + 3 * 12}
    assert lines[0][:5] == ["System", "EER %", "EER % low", "EER % high", "Cllr"]
    assert lines[1][0] == "Cosine"
    assert float(lines[1][2]) < float(lines[1][1]) < float(lines[1][3])
    assert page.find_element(By.CSS_SELECTOR, ".tools [role=status]").text == "Copy the text below."


def test_copying(page):
    page.execute_script("document.execCommand = () => true; navigator.clipboard.writeText = async () => { throw 1; }")
    page.find_element(By.CSS_SELECTOR, ".copy").click()
    said = page.find_element(By.CSS_SELECTOR, ".tools [role=status]")
    WebDriverWait(page, 5).until(lambda _: said.text == "Copied.")
    assert page.find_elements(By.CSS_SELECTOR, ".tools textarea") == []


def test_parts_one_at_a_time(page):
    def visible():
        return [t.text.split("\n")[0] for t in page.find_elements(By.CSS_SELECTOR, ".part caption") if t.is_displayed()]

    assert visible() == ["Cross-channel targets against same-channel non-targets"]
    Select(page.find_element(By.CSS_SELECTOR, ".parts select")).select_by_visible_text("language = fr")
    assert visible() == ["language = fr"]


def test_systems_one_at_a_time(page):
    def visible():
        return [t.text for t in page.find_elements(By.CSS_SELECTOR, ".panel > h3") if t.is_displayed()]

    assert visible() == ["Joint PLDA"]
    page.find_element(By.CSS_SELECTOR, "label[for=tab2]").click()
    assert visible() == ["PLDA"]
    page.find_element(By.ID, "tab2").send_keys(Keys.ARROW_LEFT)
    assert visible() == ["Cosine, centred by channel"]


def test_everything_is_there_without_scripts(page, path):
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.get(path.as_uri())
        captions = page.find_elements(By.CSS_SELECTOR, ".part caption")
        assert len(captions) == 8
        assert all(caption.is_displayed() for caption in captions)
        assert not page.find_element(By.ID, "theme").is_displayed()
        assert not page.find_element(By.CSS_SELECTOR, ".parts select").is_displayed()
        assert [t.text for t in page.find_elements(By.CSS_SELECTOR, ".panel > h3") if t.is_displayed()] == [
            "Joint PLDA"
        ]
    finally:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def fits(browser):
    return browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [360, 700, 1000, 1280, 2000])
def test_never_wider_than_the_window(page, width):
    look(page, width=width)
    for opener in page.find_elements(By.CSS_SELECTOR, "summary"):
        opener.click()
    assert page.execute_script("return innerWidth") == width
    assert fits(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_not_blank(page, width, scheme):
    look(page, width=width, scheme=scheme)
    page.execute_script("document.querySelector('#det .plot').scrollIntoView()")
    colours = np.unique((image(page) * 15).astype(int).reshape(-1, 3), axis=0)
    assert len(colours) > 60
    assert np.ptp(colours, axis=0).min() >= 8


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out(page, scheme):
    look(page, scheme=scheme)
    read = "const s = getComputedStyle(arguments[0]); return [s.color, s.fill]"
    paper = rgb(page.execute_script("return getComputedStyle(document.body).backgroundColor"))
    for selector in ("h1", ".summary", "figcaption", "td small", "summary", ".legend li", "footer", ".glossary dd"):
        ink = rgb(page.execute_script(read, page.find_element(By.CSS_SELECTOR, selector))[0])
        assert contrast(ink, paper) >= 4.5, selector
    for selector in (".plot text", ".plot .strong", ".plot .name"):
        ink = rgb(page.execute_script(read, page.find_element(By.CSS_SELECTOR, selector))[1])
        assert contrast(ink, paper) >= 4.5, selector
    for k in range(9):
        line = page.find_element(By.CSS_SELECTOR, "#det .plot .line")
        page.execute_script("arguments[0].parentNode.setAttribute('class', arguments[1])", line, f"s{k}")
        stroke = rgb(page.execute_script("return getComputedStyle(arguments[0]).stroke", line))
        assert contrast(stroke, paper) >= 3.0, f"s{k}"


def rgb(text):
    return np.array([float(v) for v in text[text.index("(") + 1 : -1].split(",")[:3]]) / 255


def contrast(a, b):
    """Of WCAG 2: relative luminances, each with 0.05 for stray light."""
    light = [np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722] for c in (a, b)]
    return (max(light) + 0.05) / (min(light) + 0.05)


def test_printing(page):
    page.find_element(By.ID, "theme").click()
    pdf = base64.b64decode(page.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")
    assert pdf.count(b"/Type /Page\n") > 5
    look(page, width=720, media="print", scheme="dark")
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert all(panel.is_displayed() for panel in page.find_elements(By.CSS_SELECTOR, ".panel, .part"))
    assert not any(thing.is_displayed() for thing in page.find_elements(By.CSS_SELECTOR, "#theme, .copy, select"))
    assert fits(page)
    assert page.get_log("browser") == []

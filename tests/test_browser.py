"""The page in a real headless Chromium, driven over chromedriver's own HTTP interface (no Selenium).

Where no Chromium with chromedriver is found these tests say "browser: not run". Screenshots go to $MINIBERT_SHOTS, if set.
"""

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from minibert.predictor import Predictor
from test_predictor import make_run
from test_serve import local_server

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
if not (CHROMIUM and DRIVER):
    pytest.skip("browser: not run (no chromium with chromedriver on this machine)", allow_module_level=True)

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
SCRIPT_TEXT = "<script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\"> the plot"
TAB, ENTER, CONTROL, ARROW_RIGHT = "\ue004", "\ue007", "\ue009", "\ue014"


class Browser:
    """As much of the WebDriver protocol (W3C) as the tests need."""

    def __init__(self, profile):
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        port = None
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                port = int(line.strip().rstrip(".").split()[-1])
                break
        self.session = f"http://127.0.0.1:{port}/session"
        options = {"binary": CHROMIUM, "args": [*FLAGS, f"--user-data-dir={profile}"]}
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            answer = self._send("POST", "", {"capabilities": {"alwaysMatch": capabilities}})
        except BaseException:
            self.driver.terminate()
            raise
        self.session += "/" + answer["sessionId"]

    def _send(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.session + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as e:
            raise AssertionError(json.load(e)["value"]["message"]) from None

    def quit(self):
        try:
            self._send("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(10)
            self.driver.stdout.close()

    def open(self, url):
        self._send("POST", "/url", {"url": url})

    def script(self, code):
        return self._send("POST", "/execute/sync", {"script": code, "args": []})

    def devtools(self, command, **params):
        return self._send("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def type(self, id, text):
        element = next(iter(self._send("POST", "/element", {"using": "css selector", "value": f"#{id}"}).values()))
        self._send("POST", f"/element/{element}/clear", {})
        self._send("POST", f"/element/{element}/value", {"text": text})

    def press(self, *keys):
        """Keys held down together, in whatever has the focus."""
        actions = [{"type": "keyDown", "value": k} for k in keys] + [{"type": "keyUp", "value": k} for k in reversed(keys)]
        self._send("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def click(self, id):
        self.script(f"document.getElementById('{id}').click()")

    def text(self, id):
        """The text of an element as the user sees it; "" where it is hidden."""
        return self.script(f"const e = document.getElementById('{id}'); return e.checkVisibility() ? e.innerText : ''")

    def wait(self, code, seconds=30):
        """Until the JavaScript expression is true."""
        until = time.monotonic() + seconds
        while not self.script(f"return !!({code})"):
            assert time.monotonic() < until, f"never came true: {code}; the page says: {self.script('return document.body.innerText')}"
            time.sleep(0.1)

    def classify(self, text):
        self.type("text", text)
        self.click("go")
        self.wait("!document.getElementById('go').disabled && document.getElementById('status').textContent === ''")

    def complaints(self):
        """What the console holds against the page: errors, and refusals of its Content-Security-Policy."""
        return [entry["message"] for entry in self._send("POST", "/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

    def shoot(self, name):
        if folder := os.environ.get("MINIBERT_SHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            height = self.script("return document.documentElement.scrollHeight")
            width = self.script("return document.documentElement.clientWidth")
            self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
            (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(self._send("GET", "/screenshot")))
            self.devtools("Emulation.clearDeviceMetricsOverride")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with local_server(Predictor(make_run(tmp_path_factory.mktemp("browser") / "run"))) as running:
        yield running


@pytest.fixture
def page(browser, server):
    browser.devtools("Emulation.clearDeviceMetricsOverride")
    browser.devtools("Emulation.setEmulatedMedia", features=[])
    browser.open(f"http://127.0.0.1:{server.port}/")
    browser.wait("document.getElementById('model').textContent.includes('neg')")
    return browser


def test_typing_a_text_shows_label_bars_tokens_and_attention(page, server):
    expected, = server.predictor.predict(["the plot was dull but the acting saved it"])
    page.type("text", "the plot was dull but the acting saved it")
    page.press(CONTROL, ENTER)
    page.wait("!document.getElementById('attention').hidden")
    assert page.text("verdict") == expected["label"]
    bars = page.script("return [...document.querySelectorAll('.bars .name')].map(e => e.innerText)")
    assert sorted(bars) == ["neg", "pos"]
    widths = page.script("return [...document.querySelectorAll('.bars .fill')].map(e => e.clientWidth / e.parentElement.clientWidth)")
    assert widths == pytest.approx(sorted(expected["scores"].values(), reverse=True), abs=0.01)
    tokens = page.script("return [...document.querySelectorAll('#effect-tokens .token')].map(e => e.innerText)")
    assert tokens[0] == "[CLS]" and tokens[-1] == "[SEP]" and "dull" in tokens
    colours = page.script("return new Set([...document.querySelectorAll('#effect-tokens .token')].map(e => getComputedStyle(e).backgroundColor)).size")
    assert colours > 3
    page.shoot("light")
    assert page.complaints() == []


def test_layer_and_head_can_be_chosen_and_change_the_colours(page):
    page.classify("the plot was dull but funny")
    look = "return [...document.querySelectorAll('#attention-tokens .token')].map(e => getComputedStyle(e).backgroundColor).join()"
    mean = page.script(look)
    assert page.script("return [...document.getElementById('layer').options].length") == 2
    assert page.script("return [...document.getElementById('head').options].map(o => o.value)") == ["mean", "0", "1"]
    page.script("const head = document.getElementById('head'); head.value = '1'; head.dispatchEvent(new Event('change'))")
    assert page.script(look) != mean


def test_the_arrow_keys_walk_through_the_tokens(page):
    page.classify("the plot was dull")
    page.script("document.querySelector('#effect-tokens .token').focus()")
    assert "cannot be taken out" in page.text("effect-detail")
    page.press(ARROW_RIGHT)
    page.press(ARROW_RIGHT)
    assert page.text("effect-detail").startswith("“plot” taken out, the probability of")


def test_the_button_keeps_the_keyboards_focus(page):
    page.type("text", "the plot was dull")
    page.press(TAB)
    page.press(ENTER)
    page.wait("!document.getElementById('attention').hidden && !document.getElementById('go').disabled")
    assert page.script("return document.activeElement.id") == "go"


def test_the_parts_of_a_word_stand_together_and_within_the_line(page):
    page.classify("actingly funnyish filmmaker plotless dullness " * 6)
    page.wait("!document.getElementById('attention').hidden")
    at = page.script("""
        const box = document.getElementById('effect-tokens'), left = box.getBoundingClientRect().left;
        return [...box.children].map(e => [e.classList.contains('joins'), ...['left', 'right', 'top'].map(k => e.getBoundingClientRect()[k] - (k === 'top' ? 0 : left))])""")
    assert any(joins for joins, *_ in at) and min(left for _, left, _, _ in at) >= -0.5
    for (_, _, right, top), (joins, left, _, next_top) in zip(at, at[1:]):
        if top == next_top:  # no overlap, whose colours would add up; a gap only between words
            assert left - right == pytest.approx(0, abs=0.6) if joins else left - right > 1


def test_a_text_with_script_in_it_stays_text(page):
    page.classify(SCRIPT_TEXT)
    page.classify(SCRIPT_TEXT + "\nanother line")
    assert page.script("return document.title") == "minibert"
    assert page.script("return document.querySelectorAll('main img, main script').length") == 0
    assert SCRIPT_TEXT in page.text("rows")
    assert page.complaints() == []


def test_scripts_put_into_the_page_are_refused(page):
    """The policy is the second line of defence: even if markup got in, it could not run."""
    page.script("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title=1\">')")
    page.script("const s = document.createElement('script'); s.textContent = 'document.title = 2'; document.body.append(s)")
    time.sleep(0.3)
    assert page.script("return document.title") == "minibert"
    assert any("Content Security Policy" in message for message in page.complaints())


def test_several_lines_make_a_table(page, server):
    texts = ["the plot was dull", "a warm and funny film", "not good"]
    page.classify("\n".join(texts) + "\n\n")
    rows = page.script("return [...document.querySelectorAll('#rows tr')].map(r => [...r.cells].map(c => c.innerText))")
    assert [row[0] for row in rows] == texts
    assert [row[1] for row in rows] == [answer["label"] for answer in server.predictor.predict(texts)]
    assert page.text("many-title") == "3 texts" and page.text("verdict") == ""
    page.shoot("table")
    page.script("document.getElementById('lines').checked = false")
    page.click("go")
    page.wait("!document.getElementById('attention').hidden")
    assert page.text("rows") == ""


def test_more_lines_than_one_request_may_hold(page):
    page.script("document.getElementById('text').value = Array.from({length: 130}, (_, i) => 'text ' + i).join('\\n')")
    page.click("go")
    page.wait("document.querySelectorAll('#rows tr').length === 130")


def test_no_text_is_a_sentence(page):
    page.classify("   ")
    assert page.text("error") == "Type or paste a text first."


def test_an_error_of_the_servers_is_shown_as_its_sentence(page):
    page.script("document.getElementById('text').value = 'x'.repeat(20001)")
    page.click("go")
    page.wait("!document.getElementById('error').hidden")
    assert "20001 characters" in page.text("error") and "{" not in page.text("error")


@pytest.mark.parametrize("width", [360, 320])
def test_a_phone_needs_no_sideways_scrolling(page, width):
    page.devtools("Emulation.setDeviceMetricsOverride", width=width, height=740, deviceScaleFactor=2, mobile=True)
    page.classify("the plot was dull but the acting saved it " + "w" * 90)
    page.wait("!document.getElementById('attention').hidden")
    assert page.script("return document.documentElement.scrollWidth") <= width
    assert page.script("return parseFloat(getComputedStyle(document.getElementById('text')).fontSize)") >= 16  # else phones zoom in
    if width == 360:
        page.shoot("phone")  # which sets the width back
        page.devtools("Emulation.setDeviceMetricsOverride", width=width, height=740, deviceScaleFactor=2, mobile=True)
    page.classify("the plot was dull but the acting saved it\n" + "w" * 90)
    assert page.script("const e = document.querySelector('.scroll'); return e.scrollWidth - e.clientWidth") <= 0  # the figures are in sight
    if width == 360:
        page.shoot("phone-table")


def test_long_label_names_are_wrapped(browser, tmp_path):
    labels = ["a label named by someone who likes " + "w" * 90, "another of the kind " + "x" * 70]
    with local_server(Predictor(make_run(tmp_path / "run", labels))) as server:
        browser.devtools("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
        browser.open(f"http://127.0.0.1:{server.port}/")
        browser.wait("document.getElementById('model').textContent.includes('named')")
        for text in ("the plot was dull", "the plot was dull\nfunny"):
            browser.classify(text)
            assert browser.script("return document.documentElement.scrollWidth") <= 360
        browser.devtools("Emulation.clearDeviceMetricsOverride")


def contrast(page, id):
    """Contrast of an element's ink with the page behind it, by WCAG 2's formula."""
    return page.script("""
        const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
                             return .2126 * r + .7152 * g + .0722 * b };
        let e = document.getElementById('%s');
        const ink = light(getComputedStyle(e).color);
        while (['rgba(0, 0, 0, 0)', 'transparent'].includes(getComputedStyle(e).backgroundColor)) e = e.parentElement;
        const paper = light(getComputedStyle(e).backgroundColor);
        return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05)""" % id)


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_dark_and_light_are_readable(page, scheme):
    page.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page.classify("the plot was dull but the acting saved it")
    paper = page.script("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (max(paper) < 60) if scheme == "dark" else (min(paper) > 200)
    for id in ("verdict", "model", "effect-detail", "text", "go"):
        assert contrast(page, id) >= 4.5, id
    page.shoot(scheme + "-scheme")


def test_a_multi_label_model_shows_its_set_and_thresholds(browser, tmp_path):
    run = make_run(tmp_path / "run", ("acting", "plot", "music"), True, thresholds={"acting": 0.0, "plot": 0.0, "music": 1.0})
    with local_server(Predictor(run)) as server:
        browser.open(f"http://127.0.0.1:{server.port}/")
        browser.wait("document.getElementById('model').textContent.includes('acting')")
        browser.classify("the plot was dull")
        assert sorted(browser.text("verdict").split(", ")) == ["acting", "plot"]
        assert browser.script("return document.querySelectorAll('.bars .mark').length") == 3
        browser.shoot("multi-label")


def test_a_pair_model_asks_for_both_texts(browser, tmp_path):
    with local_server(Predictor(make_run(tmp_path / "run", text_col=["a", "b"]))) as server:
        browser.open(f"http://127.0.0.1:{server.port}/")
        browser.wait("!document.getElementById('second-field').hidden")
        browser.type("second", "a warm film")
        browser.classify("the plot was dull")
        assert browser.text("verdict") in ("neg", "pos")
        assert "warm" in browser.text("effect-tokens")


def test_a_server_that_goes_away_is_a_sentence_and_the_text_stays(browser, tmp_path):
    with local_server(Predictor(make_run(tmp_path / "run"))) as server:
        browser.open(f"http://127.0.0.1:{server.port}/")
        browser.classify("the plot was dull")
    browser.classify("is anyone there")
    assert "does not answer" in browser.text("error")
    assert browser.script("return document.getElementById('text').value") == "is anyone there"
    browser.shoot("gone")

"""Pages of a service in a browser, and what to look for on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser, Page

NAMELESS = """() => [...document.querySelectorAll("input, select, textarea")].filter((field) =>
  !field.labels?.length && !field.getAttribute("aria-label")).map((field) => field.outerHTML)"""
SHIFT = """() => new Promise((resolve) => {
  let sum = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((entry) => (sum += entry.value)))
    .observe({ type: "layout-shift", buffered: true });
  setTimeout(() => resolve(sum), 50);
})"""
BYTES = """() => [...performance.getEntriesByType("resource"),
  ...performance.getEntriesByType("navigation")].reduce((sum, one) => sum + one.transferSize, 0)"""
CUT = """() => [...document.querySelectorAll("svg text")].filter((text) => {
  const [own, all] = [text, text.closest("svg")].map((one) => one.getBoundingClientRect());
  const inside = own.left >= all.left && own.right <= all.right && own.bottom <= all.bottom;
  return getComputedStyle(text).visibility === "visible" && !inside;
}).map((text) => text.textContent)"""
SCROLLS = """() => [...document.querySelectorAll(".scroll")].filter((one) =>
  one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)
  .map((one) => one.textContent.slice(0, 40))"""
FAINT = """() => {
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const paint = (colors) => {
    pen.clearRect(0, 0, 1, 1);
    colors.forEach((color) => { pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); });
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
  };
  const light = (rgb) => rgb.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode());) {
    const element = text.parentElement;
    const seen = element.checkVisibility({ visibilityProperty: true });
    if (!text.data.trim() || !seen || element.closest(":disabled, .unseen, script")) continue;
    const grounds = [];
    for (let one = element; one; one = one.parentElement) {
      grounds.unshift(getComputedStyle(one).backgroundColor);
    }
    const style = getComputedStyle(element);
    const ink = element.closest("svg") ? style.fill : style.color;
    const [a, b] = [light(paint(grounds)), light(paint([...grounds, ink]))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${text.data.trim()}: ${contrast.toFixed(2)}`);
  }
  return found;
}"""


class Visit:
    """A page of the service in the browser, and what went wrong on it."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.errors: list[str] = []
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self._check_host(request.url))

    def _check_host(self, url: str) -> None:
        if not url.startswith((self.address, "blob:")):
            self.errors.append(f"asks {url}")

    def open(self, query: str) -> Page:
        self.page.goto(f"{self.address}/{query}")
        return self.page

    def forgive(self, part: str) -> None:
        """Takes back errors that a test provokes; there must be one."""
        assert any(part in error for error in self.errors)
        self.errors = [error for error in self.errors if part not in error]

    def state(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.page.url).query)


@contextmanager
def visiting(browser: Browser, address: str, **options: Any) -> Iterator[Visit]:
    with browser.new_context(**options) as context:
        visit = Visit(context.new_page(), address.rstrip("/"))
        visit.page.set_default_timeout(10_000)
        yield visit
        assert visit.errors == []

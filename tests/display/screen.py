"""What a browser shows of a page: its parts as they are laid out, and the picture's pixels."""

from __future__ import annotations

import shutil
import struct
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np

from tools.site_check import Browser

__all__ = ["PROGRAM", "look", "page_of"]

PROGRAM: Final = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
_THEMES: Final = {"light": ("#ffffff", "#212121"), "dark": ("#111111", "#dddddd")}
_PARTS: Final = """[...document.querySelectorAll("section")].map(part => {
  const box = part.getBoundingClientRect();
  const wide = [...part.querySelectorAll("*")].filter(e => {
    const b = e.getBoundingClientRect();
    if (!b.width || !b.height) return false;  // it is not shown
    if (b.right <= box.right + 1 && b.left >= box.left - 1) return false;
    for (let p = e.parentElement; p && p !== part; p = p.parentElement)
      if (getComputedStyle(p).overflowX !== "visible") return false;  // it scrolls, or is cut
    return true;
  });
  const outside = [...part.querySelectorAll("svg text")].filter(e => {
    const a = e.getBoundingClientRect(), b = e.ownerSVGElement.getBoundingClientRect();
    return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1
      || a.bottom > b.bottom + 1;
  });
  return {
    name: part.id, x: box.x, y: box.y + scrollY, width: box.width, height: box.height,
    text: part.innerText.trim(), wide: wide.map(e => e.outerHTML.slice(0, 80)),
    outside: outside.map(e => e.textContent), drawings: part.querySelectorAll("svg").length,
  };
})"""


def page_of(outputs: dict[str, str], theme: str) -> str:
    """Return a page with the HTML of cells one below the other, in the colours of a notebook."""
    paper, ink = _THEMES[theme]
    parts = "".join(f'<section id="{name}">{html}</section>' for name, html in outputs.items())
    style = (
        f"body {{ background: {paper}; color: {ink}; color-scheme: {theme}; width: 1000px; "
        "font: 13px/1.4 sans-serif } section { margin: 12px 0 }"
    )
    head = f'<meta charset="utf-8"><style>{style}</style>'
    return f"<!doctype html><html><head>{head}</head><body><article>{parts}</article></body></html>"


def look(html: str, folder: Path, name: str) -> tuple[dict[str, Any], np.ndarray]:
    """Open a page in a browser; return its parts by name and the picture, rows of RGB pixels."""
    assert PROGRAM is not None
    file = folder / f"{name}.html"
    file.write_text(html, encoding="utf-8")
    browser = Browser(PROGRAM, str(folder / f"profile-{name}"))
    try:
        browser.open(file.as_uri())
        parts = {part["name"]: part for part in browser.evaluate(_PARTS)}
        height = browser.evaluate("document.documentElement.scrollHeight")
        size = {"width": 1100, "height": height, "deviceScaleFactor": 1, "mobile": False}
        browser.call("Emulation.setDeviceMetricsOverride", **size)
        picture = folder / f"{name}.png"
        browser.picture(picture)
        assert browser.errors == []
    finally:
        browser.close()
    return parts, _pixels(picture.read_bytes())


def _pixels(data: bytes) -> np.ndarray:
    """Decode a PNG of 8 bits for each channel, as browsers write it."""
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8
    count = {2: 3, 6: 4}[kind]
    packed, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += length + 12
    raw = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * count)
    rows = np.zeros((height, width, count), np.uint8)
    above = np.zeros((width, count), np.int64)
    for number, row in enumerate(raw):
        rows[number] = above = _unfilter(row[0], row[1:].reshape(width, count), above)
    return rows[:, :, :3]


def _unfilter(kind: int, row: np.ndarray, above: np.ndarray) -> np.ndarray:
    given = row.astype(np.int64)
    if kind == 0:
        return given
    if kind == 1:
        return np.cumsum(given, axis=0) % 256
    if kind == 2:
        return (given + above) % 256
    left = corner = np.zeros(row.shape[1], np.int64)
    made = np.empty_like(given)
    for at in range(len(given)):
        up = above[at]
        if kind == 3:
            guess = (left + up) // 2
        else:
            away = [abs(left + up - corner - near) for near in (left, up, corner)]
            best = np.where(away[1] <= away[2], up, corner)
            guess = np.where((away[0] <= away[1]) & (away[0] <= away[2]), left, best)
        made[at] = left = (given[at] + guess) % 256
        corner = up
    return made

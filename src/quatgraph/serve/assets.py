"""The files of the web page, read once, so no request path reaches the file system."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent / "page"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page."""

    content: bytes
    type: str
    etag: str


def read_assets(folder: Path = PAGE) -> dict[str, Asset]:
    """The files by their paths: ``/`` is ``index.html``, and ``/docs`` is ``docs.html``."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in TYPES:
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            name = "/" + path.relative_to(folder).as_posix()
            found[name] = Asset(content, TYPES[path.suffix], etag)
    for page, alias in (("/index.html", "/"), ("/docs.html", "/docs")):
        if page in found:
            found[alias] = found[page]
    return found

"""Finding, downloading and verifying files."""

import hashlib
import io
import lzma
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from quatgraph.data.io import store
from quatgraph.errors import UserError

CONTENT = b"a small file\n" * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()
EXPECTED = {  # what the catalog must say of the datasets of a task
    "node": {"nodes", "edges", "features", "classes"},
    "graph": {"nodes", "edges", "features", "classes"},
    "link": {"entities", "relations", "train", "valid", "test", "negatives"},
    "text": {"documents", "train", "valid", "test", "classes", "vocabulary"},
    "vectors": {"words", "dimensions"},
}
UNPUBLISHED = {"codex-meta/entity_labels.partial.tsv", "glove6b_100d_subset.npz"}


class Handler(BaseHTTPRequestHandler):
    """Answers /good, /short, /elsewhere and /local; 404 for the rest."""

    def do_GET(self) -> None:
        if self.path in ("/elsewhere", "/local"):
            self.send_response(302)
            self.send_header("Location", "/good" if self.path == "/elsewhere" else "file:///x")
            self.end_headers()
        elif self.path in ("/good", "/short"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT if self.path == "/good" else CONTENT[:100])
        elif self.path == "/slow":
            self.server.release.wait(10)
        else:
            self.send_error(404)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.release = threading.Event()
        thread = threading.Thread(target=httpd.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.release.set()
        httpd.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUATGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("QUATGRAPH_DATA", raising=False)
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)


def list_dataset(monkeypatch: pytest.MonkeyPatch, url: str, sha256: str = DIGEST) -> None:
    """Makes ``toy`` with one file the whole catalog."""
    toy = store.Entry(
        "toy", "node", "Toy", "", "", "", "node/toy", False, {}, (store.File("a/b", url, sha256),)
    )
    monkeypatch.setattr(store, "catalog", lambda: {"toy": toy})


def leftovers(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_file_is_downloaded_once_to_the_cache(server, tmp_path, monkeypatch):
    list_dataset(monkeypatch, f"{server}/good")
    assert store.check("toy") == [("a/b", "missing")]
    assert store.read_bytes("toy", "a/b") == CONTENT
    assert leftovers(tmp_path) == [tmp_path / "cache/node/toy/a/b"]
    list_dataset(monkeypatch, f"{server}/gone")
    assert store.read_bytes("toy", "a/b") == CONTENT
    assert store.check("toy") == [("a/b", "ok")]
    assert store.fetch("toy") == {"a/b": tmp_path / "cache/node/toy/a/b"}


def test_a_redirect_is_followed_to_http_only(server, tmp_path, monkeypatch):
    list_dataset(monkeypatch, f"{server}/elsewhere")
    assert store.read_bytes("toy", "a/b") == CONTENT
    leftovers(tmp_path)[0].unlink()
    list_dataset(monkeypatch, f"{server}/local")
    with pytest.raises(UserError, match="cannot download"):
        store.fetch("toy")


def test_a_download_with_another_digest_is_refused_and_removed(server, tmp_path, monkeypatch):
    list_dataset(monkeypatch, f"{server}/good", "0" * 64)
    with pytest.raises(UserError, match=r"/good gave another file .* QUATGRAPH_DATA"):
        store.fetch("toy")
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(("page", "words"), [("gone", "404"), ("short", "100")])
def test_a_failed_download_names_its_address_and_the_way_out(
    page, words, server, tmp_path, monkeypatch
):
    list_dataset(monkeypatch, f"{server}/{page}")
    with pytest.raises(UserError, match=rf"{server}/{page} .*{words}.*QUATGRAPH_DATA"):
        store.fetch("toy")
    assert leftovers(tmp_path) == []


def test_a_silent_server_is_given_up(server, monkeypatch):
    list_dataset(monkeypatch, f"{server}/slow")
    monkeypatch.setattr(store, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(UserError, match=r"no answer within 0\.2 seconds"):
        store.fetch("toy")


def test_a_file_that_is_too_large_is_given_up(server, tmp_path, monkeypatch):
    list_dataset(monkeypatch, f"{server}/good")
    monkeypatch.setattr(store, "MAX_BYTES", 100)
    with pytest.raises(UserError, match="larger than 100 bytes"):
        store.fetch("toy")
    assert leftovers(tmp_path) == []


def test_without_a_network_the_mistake_names_the_address(monkeypatch):
    # Port 9 of this machine refuses connections as a machine without a network does.
    list_dataset(monkeypatch, "http://127.0.0.1:9/x")
    with pytest.raises(UserError, match=r"http://127\.0\.0\.1:9/x \(no connection.*QUATGRAPH_DATA"):
        store.fetch("toy")


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x"])
def test_only_http_addresses_are_opened(url, monkeypatch):
    list_dataset(monkeypatch, url)
    with pytest.raises(UserError, match="not an http address"):
        store.fetch("toy")


def test_without_a_digest_there_is_no_download(server, monkeypatch):
    list_dataset(monkeypatch, f"{server}/good", "")
    with pytest.raises(UserError, match="no known digest"):
        store.fetch("toy")


def test_a_cache_that_cannot_be_written_is_named(server, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file where a folder should be")
    list_dataset(monkeypatch, f"{server}/good")
    with pytest.raises(UserError, match="QUATGRAPH_CACHE"):
        store.fetch("toy")


def test_a_bar_is_drawn_on_a_terminal_and_nothing_elsewhere(server, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    list_dataset(monkeypatch, f"{server}/good")
    for stream, drawn in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        store.fetch("toy")
        assert ("a/b" in stream.getvalue()) == bool(stream.getvalue()) == drawn
        leftovers(tmp_path)[0].unlink()


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``QUATGRAPH_DATA`` with the folder of ``toy``, still empty."""
    folder = tmp_path / "data/node/toy/a"
    folder.mkdir(parents=True)
    monkeypatch.setenv("QUATGRAPH_DATA", str(tmp_path / "data"))
    list_dataset(monkeypatch, "http://127.0.0.1:9/x")
    return folder


def test_files_of_the_data_folder_are_taken_plain_or_packed(data_folder):
    (data_folder / "b.xz").write_bytes(lzma.compress(CONTENT))
    assert store.read_bytes("toy", "a/b") == CONTENT
    assert store.fetch("toy") == {"a/b": data_folder / "b.xz"}
    (data_folder / "b").write_bytes(CONTENT)
    assert store.fetch("toy") == {"a/b": data_folder / "b"}


def test_a_changed_file_is_refused_at_every_read(data_folder):
    (data_folder / "b").write_bytes(CONTENT)
    store.read_bytes("toy", "a/b")
    (data_folder / "b").write_bytes(CONTENT + b"!")
    with pytest.raises(UserError, match=r"a/b is not the published file .* delete or replace"):
        store.read_bytes("toy", "a/b")
    assert store.check("toy") == [("a/b", "wrong digest")]


@pytest.mark.parametrize("packed", [b"no xz at all", lzma.compress(CONTENT)[:-30]])
def test_a_damaged_packed_file_is_refused(packed, data_folder):
    (data_folder / "b.xz").write_bytes(packed)
    with pytest.raises(UserError, match=r"b\.xz is damaged"):
        store.read_bytes("toy", "a/b")
    assert store.check("toy") == [("a/b", "unreadable")]


def test_a_packed_file_cannot_fill_the_memory(data_folder, monkeypatch):
    (data_folder / "b.xz").write_bytes(lzma.compress(CONTENT))
    monkeypatch.setattr(store, "MAX_BYTES", 100)
    with pytest.raises(UserError, match="unpacks to more than 100 bytes"):
        store.read_bytes("toy", "a/b")


def test_a_data_folder_that_is_not_there_is_a_mistake(tmp_path, monkeypatch):
    monkeypatch.setenv("QUATGRAPH_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"QUATGRAPH_DATA names .*nowhere"):
        store.data_root()


def test_the_cache_follows_the_environment(monkeypatch):
    monkeypatch.delenv("QUATGRAPH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert store.cache_root() == Path("/somewhere/quatgraph")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert store.cache_root() == Path("/home/someone/.cache/quatgraph")


def test_an_unknown_dataset_or_file_gets_a_hint():
    with pytest.raises(UserError, match="no dataset 'coar'; did you mean 'cora'"):
        store.fetch("coar")
    with pytest.raises(UserError, match="no dataset 'zzz'; known are citeseer, codex-l, codex-m"):
        store.check("zzz")
    with pytest.raises(UserError, match=r"no file 'ind.cora.grap'; did you mean 'ind.cora.graph'"):
        store.read_bytes("cora", "ind.cora.grap")


def test_the_catalog_is_complete():
    for name, entry in store.catalog().items():
        assert entry.name == name
        assert all((entry.task, entry.title, entry.licence, entry.citation, entry.source))
        assert entry.statistics.keys() >= EXPECTED[entry.task]
        assert entry.builtin == (not entry.files)
        for file in entry.files:
            assert file.url.startswith("https://") or (file.path in UNPUBLISHED and not file.url)
            assert len(file.sha256) == 64
            assert not Path(file.path).is_absolute()
    assert len(store.catalog()["cora"].files) == 16


def test_an_address_may_be_that_of_a_group_or_of_one_file():
    urls = {file.path: file.url for file in store.entry("codex-s").files}
    upstream = "https://raw.githubusercontent.com/tsafavi/codex/master/data"
    assert urls["codex-s/train.txt"] == f"{upstream}/triples/codex-s/train.txt"
    assert urls["codex-meta/relations.en.json"] == f"{upstream}/relations/en/relations.json"


def test_a_file_without_an_address_is_used_where_it_is_there_and_missed_nowhere(
    data_folder, monkeypatch
):
    list_dataset(monkeypatch, "")
    assert store.check("toy") == []
    assert store.fetch("toy") == {}
    assert not store.is_present("toy", "a/b")
    (data_folder / "b.xz").write_bytes(lzma.compress(CONTENT))
    assert store.is_present("toy", "a/b")
    assert store.fetch("toy") == {"a/b": data_folder / "b.xz"}
    (data_folder / "b").write_bytes(b"something else")
    assert store.check("toy") == [("a/b", "wrong digest")]
    with pytest.raises(UserError, match="dataset 'toy' has no file 'b'"):
        store.is_present("toy", "b")


def test_the_store_loads_neither_torch_nor_numpy():
    code = (
        "import sys, quatgraph.data.io.store as store; store.catalog();"
        "print({'torch', 'numpy', 'rich', 'torch_geometric'} & sys.modules.keys())"
    )
    path = str(Path(store.__file__).parents[3])
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "set()"

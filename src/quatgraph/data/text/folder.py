"""Folders of texts: a sub-folder per label, a file per document.

The labels may be one level below folders called ``train``, ``valid`` and ``test``. A folder of
files alone holds texts without labels.
"""

from pathlib import Path

from quatgraph.data.io.files import read_text
from quatgraph.data.text.documents import SPLIT_WORDS, TextOptions, Texts
from quatgraph.errors import Mistake


def read_folder(path: Path, options: TextOptions) -> Texts:
    """Reads a folder of texts, which has no columns that the options could name."""
    folders = _list_folders(path)
    split = [folder for folder in folders if folder.name.casefold() in SPLIT_WORDS]
    if split == folders and any(map(_list_folders, folders)):
        folders = [label for part in split for label in _list_folders(part)]
    else:
        split = []
    files = [file for folder in folders for file in _list_files(folder)]
    if not folders and not options.labels_needed:
        files = _list_files(path)
    if not files:
        raise Mistake(
            f"{path} has no sub-folders with texts; put the texts of each label into a sub-folder "
            "with the name of the label"
        )
    parts = [file.parent.parent.name.casefold() for file in files]
    return Texts(
        texts=[read_text(file) for file in files],
        labels=[file.parent.name if folders else "" for file in files],
        parts=[SPLIT_WORDS[part] for part in parts] if split else None,
        ids=[file.relative_to(path).as_posix() for file in files],
        at=lambda row: str(files[row]),
    )


def _list_folders(path: Path) -> list[Path]:
    return [place for place in _list_visible(path) if place.is_dir()]


def _list_files(path: Path) -> list[Path]:
    """The files in a folder that holds no other folder."""
    if nested := _list_folders(path):
        raise Mistake(f"{nested[0]} lies within the folder of a label; put its files one level up")
    return _list_visible(path)


def _list_visible(path: Path) -> list[Path]:
    return sorted(place for place in path.iterdir() if not place.name.startswith("."))

"""Formats that are not supported, and how to convert them."""

from pathlib import Path

from quatgraph.data.io.files import first_line, unpacked_suffix
from quatgraph.errors import Mistake

_CONVERSIONS = {
    (".nt", ".nq", ".n3", ".ttl", ".trig", ".rdf", ".owl", ".jsonld"): (
        "write the triples as a .tsv file: head, relation and tail, separated by tabs"
    ),
    (".json",): (
        "write a .jsonl file, one object per line, as `jq -c '.[]'` makes of a list of objects"
    ),
    (".xlsx", ".xls", ".ods"): "save the sheet as .csv",
    (".parquet", ".feather", ".arrow", ".orc", ".h5", ".hdf5"): (
        "write the table as .csv, as pandas' to_csv(index=False) does"
    ),
    (".gml", ".graphml", ".gexf", ".net", ".mtx", ".dot"): (
        "write a folder with nodes.csv and edges.csv"
    ),
    (".zip", ".tar", ".tgz", ".bz2", ".zst", ".7z", ".rar"): "unpack it and name what it holds",
}
_FASTTEXT = "__label__"


def refuse_foreign(path: Path) -> None:
    """Refuses a file whose name or first line shows an unsupported format."""
    if not path.is_file():
        return
    suffix = unpacked_suffix(path)
    for suffixes, remedy in _CONVERSIONS.items():
        if suffix in suffixes:
            raise Mistake(f"{path} cannot be read: {suffix} files are not supported; {remedy}")
    if first_line(path).startswith(_FASTTEXT):
        raise Mistake(
            f"{path} cannot be read: fastText's format is not supported; write a .csv file with "
            "the columns text and label"
        )

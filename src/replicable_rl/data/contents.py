"""What a file holds, by its first bytes, where its name says something else."""

from __future__ import annotations

import os
from pathlib import Path

from replicable_rl.data.packed import is_packed, refusing_unreadable
from replicable_rl.errors import InvalidFile

_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_OTHERS = {
    b"PK\x03\x04": "is a zip archive, or what is kept in one, such as .xlsx and .npz. Write it as CSV or Parquet",
    b"\x28\xb5\x2f\xfd": "is packed with zstd. Unpack it, or pack it with gzip",
    b"\xfd7zXZ\x00": "is packed with xz. Unpack it, or pack it with gzip",
    b"BZh91AY&SY": "is packed with bzip2. Unpack it, or pack it with gzip",
    b"SQLite format 3\x00": "is a database of SQLite. Read its table with Ibis",
    b"\x89HDF\r\n": "is an HDF5 file. Write it as CSV or Parquet",
    b"ARROW1\x00\x00": "is an Arrow file. Write it as Parquet, or read it yourself and hand over the table",
    b"\xff\xfe": "is UTF-16. Save the file as UTF-8",
    b"\xfe\xff": "is UTF-16. Save the file as UTF-8",
}
_LOOKED_AT = max(map(len, _OTHERS))


def check_content(file: str, ending: str) -> None:
    """Refuse a file that cannot be read, is empty, or holds something else than its name says."""
    with refusing_unreadable(file), Path(file).open("rb") as stream:
        first = stream.read(_LOOKED_AT)
        stream.seek(-min(len(first), len(_PARQUET)), os.SEEK_END)
        last = stream.read()
    if not first:
        raise InvalidFile(f"{file}: is empty.")
    stem = file[: -len(ending)]
    if first.startswith(_PARQUET) and last == _PARQUET:
        if ending != ".parquet":
            raise InvalidFile(f"{file}: is a Parquet file. Rename it to {stem}.parquet.")
    elif first.startswith(_GZIP):
        if not is_packed(file):
            rename = "Unpack it" if ending == ".parquet" else f"Rename it to {file}.gz"
            raise InvalidFile(f"{file}: is packed with gzip. {rename}.")
    elif is_packed(file):
        raise InvalidFile(f"{file}: is not packed with gzip. Rename it to {file[:-3]}, or pack it.")
    for magic, said in _OTHERS.items():
        if first.startswith(magic):
            raise InvalidFile(f"{file}: {said}.")

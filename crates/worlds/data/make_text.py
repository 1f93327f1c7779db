#!/usr/bin/env python3
"""Take the bundled books out of a folder of texts of Project Gutenberg.

    python3 make_text.py FOLDER

FOLDER holds `pg11.txt.gz`, `pg98.txt.gz`, ... as README.md describes them, there or in its folder `text/gutenberg`. The
files are copied as they are, if their text is the expected one. Needs nothing but Python.
"""

import gzip
import hashlib
import shutil
import sys
from pathlib import Path

# SHA-256 of the unpacked text.
BOOKS = {
    "pg11": "89a0ec3297622e5cadd32a68311c7d08a5948444274f21dd12d151672f2a0730",
    "pg98": "5d1ba49aa66841d2ef97f50f6ff172052fb8de4c442335c03dcce5c44de30419",
    "pg345": "e9a145c513b63acde80fbf65458431c22419b9302df21f43ff811d754699c3fe",
    "pg1342": "8e997d42a86479d91bd1da3015e51bf3902bc84c3074e6d5de64777b8ea5fa46",
    "pg1661": "67475446cbaa516d8cd21d5569438c2c5450f763b7d5d17173cd3089c0cfc02d",
}


def main(folder: Path) -> None:
    if (folder / "text/gutenberg").is_dir():
        folder = folder / "text/gutenberg"
    here = Path(__file__).parent / "text"
    here.mkdir(exist_ok=True)
    for name, expected in BOOKS.items():
        source = folder / f"{name}.txt.gz"
        found = hashlib.sha256(gzip.decompress(source.read_bytes())).hexdigest()
        if found != expected:
            sys.exit(f"{source}: another text than the bundled one (SHA-256 {found})")
        shutil.copyfile(source, here / f"{name}.txt.gz")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

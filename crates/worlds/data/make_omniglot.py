#!/usr/bin/env python3
"""Reduce the Omniglot drawings to the bundled 28 x 28 bits.

    python3 make_omniglot.py FOLDER

FOLDER holds the original archives `images_background.zip` and `images_evaluation.zip`, or the same drawings as
`images_background.npz` and `images_evaluation.npz` (array `images`, bool `(classes, 20, 105, 105)`, True = paper) with
`alphabets.csv` (alphabet, first_char, last_char and more columns). Written to the folder `omniglot` beside this script:

- `omniglot-28.bits.gz`: for every character in official order and every one of its 20 drawers, 28 x 28 bits row by row,
  1 = ink, the first pixel in the highest bit of a byte: 98 bytes a drawing, compressed by gzip without a time stamp.
- `alphabets.csv`: every alphabet with the official numbers of its first and its last character.

A pixel is ink where more than half of its area in the original is. Its area is a square of 105 / 28 = 3.75 original
pixels a side; counted in quarters of an original pixel, 15 x 15 squares, the sum of ink is an integer, and a pixel is
ink where it is at least 113 of 225.

Needs numpy, and pillow for the original archives.
"""

import csv
import gzip
import hashlib
import io
import re
import sys
import zipfile
from pathlib import Path

import numpy as np

PARTS = ["images_background", "images_evaluation"]
CHARACTERS, DRAWERS, SIDE, REDUCED = 1623, 20, 105, 28
DRAWING = re.compile(r"images_\w+/([^/]+)/character\d\d/(\d{4})_(\d\d)\.png")


def from_archives(folder: Path) -> tuple[np.ndarray, dict[str, tuple[int, int]]]:
    """Ink, bool `(CHARACTERS, DRAWERS, SIDE, SIDE)`, and the alphabets: first and last character by name."""
    from PIL import Image

    ink = np.zeros((CHARACTERS, DRAWERS, SIDE, SIDE), bool)
    found = np.zeros((CHARACTERS, DRAWERS), int)
    alphabets: dict[str, tuple[int, int]] = {}
    for part in PARTS:
        with zipfile.ZipFile(folder / f"{part}.zip") as archive:
            for name in archive.namelist():
                drawing = DRAWING.fullmatch(name)
                if drawing is None:
                    continue
                alphabet, character, drawer = drawing[1], int(drawing[2]), int(drawing[3])
                with Image.open(io.BytesIO(archive.read(name))) as image:
                    ink[character - 1, drawer - 1] = np.asarray(image.convert("L")) < 128
                found[character - 1, drawer - 1] += 1
                first, last = alphabets.get(alphabet, (character, character))
                alphabets[alphabet] = (min(first, character), max(last, character))
    if not (found == 1).all():
        raise ValueError(f"{(found == 0).sum()} drawings are missing, {(found > 1).sum()} are there twice")
    return ink, alphabets


def from_arrays(folder: Path) -> tuple[np.ndarray, dict[str, tuple[int, int]]]:
    """As `from_archives`."""
    ink = np.concatenate([~np.load(folder / f"{part}.npz")["images"] for part in PARTS])
    with open(folder / "alphabets.csv", newline="") as table:
        rows = list(csv.DictReader(table))
    return ink, {row["alphabet"]: (int(row["first_char"]), int(row["last_char"])) for row in rows}


def reduce(ink: np.ndarray) -> np.ndarray:
    """Bool `(..., REDUCED, REDUCED)` of bool `(..., SIDE, SIDE)`."""
    cuts = np.arange(REDUCED)[:, None] * 15, np.arange(SIDE)[None, :] * 4
    overlap = np.clip(np.minimum(cuts[0] + 15, cuts[1] + 4) - np.maximum(cuts[0], cuts[1]), 0, None)
    return overlap @ ink.astype(np.int64) @ overlap.T >= 113


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: make_omniglot.py FOLDER (with the two original archives of Omniglot)", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    try:
        ink, alphabets = (from_archives if (folder / f"{PARTS[0]}.zip").exists() else from_arrays)(folder)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        print(f"cannot use {folder}: {error}", file=sys.stderr)
        return 2
    if ink.shape != (CHARACTERS, DRAWERS, SIDE, SIDE):
        print(f"{folder}: drawings of shape {ink.shape}", file=sys.stderr)
        return 2
    bits = b"".join(np.packbits(reduce(character).reshape(DRAWERS, -1), axis=1).tobytes() for character in ink)
    table = "alphabet,first,last\n" + "".join(
        f"{alphabet},{first},{last}\n" for alphabet, (first, last) in sorted(alphabets.items(), key=lambda row: row[1])
    )
    destination = Path(__file__).resolve().parent / "omniglot"
    destination.mkdir(exist_ok=True)
    for name, content in [
        ("omniglot-28.bits.gz", gzip.compress(bits, compresslevel=9, mtime=0)),
        ("alphabets.csv", table.encode()),
    ]:
        (destination / name).write_bytes(content)
        print(f"{hashlib.sha256(content).hexdigest()}  omniglot/{name}  {len(content)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

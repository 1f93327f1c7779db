#!/usr/bin/env python3
"""Cut the bundled MNIST subset from the four original archives.

    python3 make_mnist_subset.py FOLDER

FOLDER holds the original `train-images-idx3-ubyte.gz` and its three siblings. The first 10,000 training and the first
1,000 test digits are written to the folder `mnist` beside this script, in the same idx format. The archives are
compressed by the package `zopfli` where it is installed and by `gzip` level 9 otherwise, without a time stamp: the
same package version writes the same bytes, and any version the same digits.
"""

import gzip
import hashlib
import math
import struct
import sys
from pathlib import Path

try:
    import zopfli.gzip as zopfli_gzip
except ImportError:
    zopfli_gzip = None

# File name, MD5 of the original archive, digits to keep.
FILES = [
    ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 10_000),
    ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432", 10_000),
    ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3", 1_000),
    ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c", 1_000),
]


def first_records(idx: bytes, count: int) -> bytes:
    """The idx file that holds only the first `count` records of `idx`.

    idx: two zero bytes, element type (8: unsigned byte), number of axes, one big-endian u32 per axis, elements.
    """
    zero, element, axes = struct.unpack(">HBB", idx[:4])
    if zero != 0 or element != 8:
        raise ValueError("not an idx file of unsigned bytes")
    header = 4 + 4 * axes
    shape = struct.unpack(f">{axes}I", idx[4:header])
    if len(idx) != header + math.prod(shape) or shape[0] < count:
        raise ValueError(f"shape {shape} does not fit {len(idx)} bytes or holds fewer than {count} records")
    record = math.prod(shape[1:])
    return idx[:4] + struct.pack(f">{axes}I", count, *shape[1:]) + idx[header : header + count * record]


def compress(content: bytes) -> bytes:
    """`content` as a gzip archive with time stamp 0."""
    if zopfli_gzip is not None:
        return zopfli_gzip.compress(content, numiterations=15)
    return gzip.compress(content, compresslevel=9, mtime=0)


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: make_mnist_subset.py FOLDER (with the four original MNIST archives)", file=sys.stderr)
        return 2
    originals = Path(sys.argv[1])
    destination = Path(__file__).resolve().parent / "mnist"
    destination.mkdir(exist_ok=True)
    for name, md5, count in FILES:
        try:
            archive = (originals / name).read_bytes()
        except OSError as error:
            print(f"cannot read {originals / name}: {error.strerror}", file=sys.stderr)
            return 2
        found = hashlib.md5(archive).hexdigest()
        if found != md5:
            print(f"{originals / name}: MD5 is {found}, of the original archive it is {md5}", file=sys.stderr)
            return 2
        subset = compress(first_records(gzip.decompress(archive), count))
        (destination / name).write_bytes(subset)
        print(f"{hashlib.sha256(subset).hexdigest()}  mnist/{name}  {len(subset)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

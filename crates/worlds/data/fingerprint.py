"""Computes the fingerprints of the bundled data anew, as README.md defines them: python3 fingerprint.py

Needs the standard library only. Not here: Omniglot, whose withheld characters the program draws, and texts, which it cuts into words.
"""

import csv
import gzip
import hashlib
import json
import struct
import wave
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def number(value: int) -> bytes:
    return struct.pack("<Q", value)


def digits(folder: Path) -> str:
    sha = hashlib.sha256(b"mnemora mnist 1")
    for part in ("train", "t10k"):
        images = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())
        count, rows, columns = struct.unpack(">3I", images[4:16])
        sha.update(number(count) + number(rows) + number(columns))
        sha.update(images[16:])
        sha.update(labels[8:])
    return sha.hexdigest()


def recordings(shape: tuple[int, int, int], kind: int, parts: list[list[tuple[int, bytes]]]) -> str:
    """`parts` are training, validation and test; a recording is its number of values and their bytes."""
    sha = hashlib.sha256(b"mnemora corpus 1")
    for size in shape:
        sha.update(number(size))
    for part in parts:
        sha.update(number(len(part)))
        for count, values in part:
            sha.update(bytes([kind]) + number(count) + values)
    return sha.hexdigest()


def chorales() -> str:
    songs = json.loads(gzip.decompress((HERE / "music/jsb_chorales.json.gz").read_bytes()))

    def song(steps: list[list[int]]) -> tuple[int, bytes]:
        chords = [sum(1 << (note - 21) for note in set(step)) for step in steps]
        return len(steps), b"".join(chord.to_bytes(16, "little") for chord in chords)

    return recordings((1, 1, 88), 0, [[song(steps) for steps in songs[part]] for part in ("train", "valid", "test")])


def speech() -> str:
    def utterance(path: Path) -> tuple[int, bytes]:
        with wave.open(str(path)) as file:
            return file.getnframes(), file.readframes(file.getnframes())

    def numbers(path: Path) -> list[int]:
        return [int(word) for word in path.stem.split("-")]

    parts = [sorted((HERE / "speech" / part).glob("*.wav"), key=numbers) for part in ("train", "valid", "test")]
    return recordings((1, 1, 200), 1, [[utterance(path) for path in part] for part in parts])


def clips() -> str:
    with open(HERE / "video/index.csv", newline="") as table:
        rows = list(csv.reader(table))[1:]
    with zipfile.ZipFile(HERE / "video/gestures_64x64.npz") as archive:

        def clip(name: str) -> tuple[int, bytes]:
            array = archive.read(f"{name}.npy")
            pixels = array[10 + struct.unpack("<H", array[8:10])[0] :]
            return len(pixels), pixels

        parts = [[clip(row[0]) for row in rows if row[1] == part] for part in ("train", "valid", "test")]
    return recordings((1, 64, 64), 2, parts)


if __name__ == "__main__":
    print("mnist", digits(HERE / "mnist"))
    print("jsb-chorales", chorales())
    print("speech", speech())
    print("video", clips())

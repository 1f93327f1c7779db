#!/usr/bin/env python3
"""Take the bundled songs, utterances and clips out of the free data sets they come from.

    python3 make_recordings.py FOLDER

FOLDER holds `music/jsb_chorales.json.gz`, `speech/librispeech_subset/` (WAV files as README.md describes them) and
`video/sample_videos/clips_64x64_gray.npz`. Songs and utterances are copied as they are; clips are packed anew, without
time stamps. Needs nothing but Python.
"""

import shutil
import sys
import zipfile
from pathlib import Path

UTTERANCES = {
    "train": [
        "19-198-0000", "328-129766-0000", "403-126855-0000", "1447-130550-0000",
        "5339-14133-0000", "5561-39621-0000", "7190-90542-0000", "8226-274369-0000",
    ],
    "valid": ["367-130732-0006", "533-1066-0000"],
    "test": ["2414-128291-0009", "3005-163389-0007", "3331-159605-0004"],
}
CLIPS = {
    "train": ["brother", "eat", "help", "hungry", "learn", "milk", "student", "want"],
    "valid": ["bird", "please"],
    "test": ["no", "thanks", "yes"],
}


def main(folder: Path) -> None:
    here = Path(__file__).parent
    (here / "music").mkdir(exist_ok=True)
    shutil.copyfile(folder / "music/jsb_chorales.json.gz", here / "music/jsb_chorales.json.gz")
    for part, names in UTTERANCES.items():
        (here / "speech" / part).mkdir(parents=True, exist_ok=True)
        for name in names:
            inner = f"{part}/{name}.wav"
            shutil.copyfile(folder / "speech/librispeech_subset" / inner, here / "speech" / inner)
    (here / "video").mkdir(exist_ok=True)
    rows = ["clip,split"]
    with (
        zipfile.ZipFile(folder / "video/sample_videos/clips_64x64_gray.npz") as source,
        zipfile.ZipFile(here / "video/gestures_64x64.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed,
    ):
        for part, names in CLIPS.items():
            for name in names:
                entry = zipfile.ZipInfo(f"asl_{name}.npy")
                entry.compress_type = zipfile.ZIP_DEFLATED
                packed.writestr(entry, source.read(entry.filename), compresslevel=9)
                rows.append(f"asl_{name},{part}")
    (here / "video/index.csv").write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))

#!/usr/bin/env python3
"""Cut windows out of the two photographs that scikit-learn ships, as a test set that no setting was chosen on.

    python3 make_unseen_windows.py unseen.npz

Needs scikit-learn 1.9 (china.jpg and flower.jpg, CC BY 2.0), NumPy and Pillow. The windows are cut as `Pictures::bundled` cuts
those of the bundled photographs: the photograph is halved, then divided by 1, 2 and 3; windows of 32x32 lie 8 pixels
apart, and those that show hardly anything are left out. The archive is read by `mnemora train image-navigation --data`;
its only training picture is the first window, since a model that is only evaluated needs none.
"""

import sys
from importlib.resources import files

import numpy as np
from PIL import Image

SIDE = 32
LEAST_CONTRAST = 0.1 * 255.0


def divided(picture: np.ndarray, divisor: int) -> np.ndarray:
    """Each pixel is the mean of divisor x divisor pixels; what is left over at the edges is cut off."""
    height, width = (side // divisor for side in picture.shape[:2])
    picture = picture[: height * divisor, : width * divisor].astype(np.float64)
    return picture.reshape(height, divisor, width, divisor, 3).mean(axis=(1, 3))


def windows(picture: np.ndarray) -> list[np.ndarray]:
    found = []
    for top in range(0, picture.shape[0] - SIDE + 1, SIDE // 4):
        for left in range(0, picture.shape[1] - SIDE + 1, SIDE // 4):
            window = picture[top : top + SIDE, left : left + SIDE]
            if np.sqrt(window.reshape(-1, 3).var(axis=0).mean()) >= LEAST_CONTRAST:
                found.append(np.floor(window + 0.5).astype(np.uint8))
    return found


def main(target: str) -> None:
    found = []
    for name in ["china.jpg", "flower.jpg"]:
        with files("sklearn.datasets.images").joinpath(name).open("rb") as file:
            photograph = np.asarray(Image.open(file).convert("RGB"))
        for divisor in [2, 4, 6]:
            found += windows(divided(photograph, divisor))
    is_test = np.ones(len(found), dtype=np.uint8)
    is_test[0] = 0
    np.savez(target, images=np.stack(found), is_test=is_test)
    print(f"{target}: {len(found) - 1} windows")


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/env python3
"""Reduce the photographs that scikit-image ships to the sizes that are bundled.

    python3 make_pictures.py

Needs scikit-image 0.26 (with NumPy and imageio). Each photograph is cropped to a multiple of its factor in the middle, and
each pixel is the mean of factor x factor pixels, rounded.
"""

from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import skimage

# Photograph, part, factor.
PHOTOGRAPHS = [
    ("astronaut.png", "train", 2),
    ("hubble_deep_field.jpg", "train", 4),
    ("retina.jpg", "train", 6),
    ("rocket.jpg", "train", 2),
    ("chelsea.png", "test", 2),
    ("coffee.png", "test", 2),
]


def reduced(picture: np.ndarray, factor: int) -> np.ndarray:
    height, width = (side // factor for side in picture.shape[:2])
    top, left = ((side - factor * new) // 2 for side, new in zip(picture.shape, (height, width)))
    picture = picture[top:top + factor * height, left:left + factor * width, :3].astype(np.float64)
    blocks = picture.reshape(height, factor, width, factor, 3)
    return np.floor(blocks.mean(axis=(1, 3)) + 0.5).astype(np.uint8)


def main() -> None:
    source = Path(skimage.__file__).parent / "data"
    here = Path(__file__).parent / "pictures"
    for name, part, factor in PHOTOGRAPHS:
        (here / part).mkdir(parents=True, exist_ok=True)
        picture = reduced(imageio.imread(source / name), factor)
        target = here / part / (name.split(".")[0].replace("_", "-") + ".png")
        imageio.imwrite(target, picture, compress_level=9)
        print(target.name, picture.shape)


if __name__ == "__main__":
    main()

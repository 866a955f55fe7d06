"""Draws digits and capitals from Debian's fonts, 28 × 28, turned, sheared and scaled; the source of fonts → digits.

apt-get install $(python -m privot_lab.studies.product.font_images packages)
python -m privot_lab.studies.product.font_images DIR          # fonts_digits.npz and fonts_capitals.npz in DIR
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PACKAGES = """3270 campania cardo cegui clear-sans comic-neue dkg-handwriting essays1743 adf-accanthis adf-baskervald
adf-berenis adf-gillius adf-ikarius adf-irianis adf-libris adf-mekanus adf-oldania adf-romande adf-solothurn
adf-switzera adf-tribun adf-universalis adf-verana aenigma agave allerta anonymous-pro arapey arkpandora atarismall
averia-gwf averia-sans-gwf averia-serif-gwf b612 bebas-neue beteckna blankenburg breip cabin cabinsketch cantarell
century-catalogue cherrybomb cmu comfortaa compagnon courier-prime crosextra-caladea crosextra-carlito dancingscript
dejavu dosis dustin ebgaramond ecolier-court ecolier-lignes-court elstob engadget eurofurence f500 fantasque-sans
fanwood femkeklaver firacode freefont-ttf georgewilliams gfs-artemisia gfs-didot gfs-neohellenic gnutypewriter go
gotico-antiqua goudybookletter hack-ttf havana humor-sans inconsolata inter isabella jetbrains-mono joscelyn junction
junicode jura karla karmilla kaushanscript klaudia-berenika klee kristi lato league-mono league-spartan leckerli-one
lemonada levien-museum levien-typoscript liberation lindenhill linex linuxlibertine lobster lobstertwo manrope
millimetre monofur monoid mononoki national-park ocr-a ocr-b okolaks oldstandard open-sans opendin opendyslexic osifont
paratype play prociono quattrocento quicksand radisnoir reggae roadgeek roboto-fontface roboto-slab rocknroll
routed-gothic rufscript seto sil-andika sil-charis sil-gentium sjfonts sora stick summersby thai-tlwg-ttf tiresias
tomsontalks tuffy ubuntu-title urw-base35 vollkorn yanone-kaffeesatz yrsa-rasa yusei-magic texgyre lmodern oxygen
smc-chilanka nanum nanum-extra staypuft aoyagi-kouzan-t croscore"""
"""Debian's, each with "fonts-" before it."""
SIDE = 28


def faces() -> list[tuple[str, int]]:
    """(file, index) of every installed face that is no variable font."""
    asked = ["fc-list", "--format", "%{file}|%{index}|%{variable}\n"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout  # noqa: S603
    lines = sorted(set(listed.splitlines()))
    parts = [line.split("|") for line in lines]
    wanted = (".ttf", ".otf", ".ttc")
    return [
        (file, int(index) & 0xFFFF) for file, index, kind in parts if file.lower().endswith(wanted) and kind != "True"
    ]


def glyphs(path: str, index: int, chars: str) -> list[Any] | None:
    """One picture per character at 64 points; None for a face that lacks one, or shows two of them alike."""
    from PIL import Image, ImageDraw, ImageFont

    def drawn(font: Any, char: str) -> Any:
        box = font.getbbox(char)
        width, height = int(box[2] - box[0]), int(box[3] - box[1])
        if width <= 1 or height <= 1:
            return None
        image = Image.new("L", (width + 8, height + 8), 0)
        ImageDraw.Draw(image).text((4 - box[0], 4 - box[1]), char, font=font, fill=255)
        return image

    try:
        font = ImageFont.truetype(path, 64, index=index)
        missing, made = drawn(font, "\U0010fffd"), [drawn(font, char) for char in chars]
    except (OSError, ValueError):
        return None
    if any(image is None for image in made):
        return None
    data = [image.tobytes() for image in made]
    ink = [float(np.asarray(image).mean()) for image in made]
    odd = missing is not None and missing.tobytes() in data
    return None if odd or len(set(data)) < len(chars) or min(ink) < 8 or max(ink) > 200 else made


def placed(image: Any, dice: np.random.Generator) -> NDArray[np.uint8]:
    """The glyph in a box of 20 pixels in the middle of 28, turned ±15°, sheared ±0.3, scaled 0.8 to 1.2."""
    from PIL import Image

    turn, shear = np.deg2rad(dice.uniform(-15, 15)), dice.uniform(-0.3, 0.3)
    across, down = dice.uniform(0.8, 1.2), dice.uniform(0.8, 1.2)
    width, height = image.size
    scale = 20.0 / max(width - 8, height - 8)
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    moved = turned @ np.array([[1, shear], [0, 1]]) @ np.diag([scale * across, scale * down])
    fine = 4
    back = np.linalg.inv(moved * fine)
    start = np.array([width / 2, height / 2]) - back @ np.full(2, SIDE * fine / 2)
    terms = (back[0, 0], back[0, 1], start[0], back[1, 0], back[1, 1], start[1])
    large = image.transform((SIDE * fine, SIDE * fine), Image.Transform.AFFINE, terms, Image.Resampling.BILINEAR)
    return np.asarray(large.resize((SIDE, SIDE), Image.Resampling.BOX))


def draw_fonts(out: Path) -> None:
    """Digits (four per face) and capitals (one per face), with the number of the face for splits by font."""
    for name, chars, each in (("digits", "0123456789", 4), ("capitals", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 1)):
        dice = np.random.default_rng(0)
        seen: set[str] = set()
        x, y, font = [], [], []
        for path, index in faces():
            made = glyphs(path, index, chars)
            if made is None:
                continue
            digest = hashlib.sha256(b"".join(image.tobytes() for image in made)).hexdigest()
            if digest in seen:
                continue
            for label, image in enumerate(made):
                for _ in range(each):
                    x.append(placed(image, dice))
                    y.append(label)
                    font.append(len(seen))
            seen.add(digest)
        np.savez_compressed(out / f"fonts_{name}.npz", x=np.array(x, np.uint8), y=np.array(y, np.uint8), font=font)
        print(f"fonts_{name}.npz: {len(x)} images of {len(seen)} faces")


def main() -> None:
    """Print the packages, or draw into a folder."""
    if len(sys.argv) != 2:
        sys.exit("Usage: python -m privot_lab.studies.product.font_images packages|DIR")
    if sys.argv[1] == "packages":
        print(*(f"fonts-{name}" for name in PACKAGES.split()))
    else:
        draw_fonts(Path(sys.argv[1]))


if __name__ == "__main__":
    main()

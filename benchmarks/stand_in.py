"""Adaptation through a stand-in: fonts to digits and back, letters and clothes for choosing settings.

    apt-get install $(python benchmarks/stand_in.py packages)
    python benchmarks/stand_in.py fonts --out DIR                       # fonts_digits.npz, fonts_capitals.npz
    PYTHONPATH=src python benchmarks/stand_in.py run --data DIR --out results --pairs fonts-mnist --seeds 0,1 --jobs 6

DIR holds mnist.npz, usps.npz, fashion_mnist.npz and the two files of fonts. `run` writes one file per pair, method, ε
and seed as soon as it is done, and skips those that are there. Accuracy is on the target's test set, which takes no
part in anything.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

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
Pair = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Source rows and labels, target rows and labels (labels for baselines only), test rows and labels."""


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


def placed(image: Any, dice: np.random.Generator) -> np.ndarray:
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
        x, y, font, seen = [], [], [], set()
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


def resized(x: np.ndarray) -> np.ndarray:
    """Images in [0, 1] at 28 × 28, as rows."""
    import torch

    image = torch.from_numpy(np.asarray(x, dtype=np.float32))[:, None]
    if image.shape[-1] != SIDE:
        image = torch.nn.functional.interpolate(image, size=SIDE, mode="bilinear", align_corners=False)
    return image.clamp(0.0, 1.0).reshape(len(x), -1).numpy()


def known(folder: Path, name: str) -> tuple[np.ndarray, ...]:
    """Training rows and labels, test rows and labels."""
    if name == "digits":
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        x = resized(x.reshape(-1, 8, 8) / 16.0)
        return x[:1297], y[:1297], x[1297:], y[1297:]
    with np.load(folder / f"{name}.npz") as file:
        if name.startswith("fonts"):
            return resized(file["x"] / 255.0), file["y"].astype(np.int64), file["font"], file["font"]
        held = [file[part] for part in ("x_train", "y_train", "x_test", "y_test")]
    return resized(held[0] / 255.0), held[1].astype(np.int64), resized(held[2] / 255.0), held[3].astype(np.int64)


def warped(x: np.ndarray, seed: int, spreads: tuple[float, ...]) -> np.ndarray:
    """Every image turned, bent and shaded at random, with spreads of their own."""
    import torch

    from privot.adaptation.alignment.transformations import Warp

    random, warp, rows = torch.Generator().manual_seed(seed), Warp((SIDE, SIDE), 1), torch.from_numpy(x)
    with torch.no_grad():
        warp.spread.copy_(torch.tensor(spreads).log())
        parts = [
            warp(part, torch.randn(len(part), warp.draws(True), generator=random), 1.0, True)
            for part in torch.split(rows, 4096)
        ]
    return torch.cat(parts).numpy()


def cut_to_ink(x: np.ndarray) -> np.ndarray:
    """Cut to the ink, 16 × 16, and enlarged again: as USPS was made."""
    import torch

    made = []
    for image in x.reshape(-1, SIDE, SIDE):
        down, across = np.where(image > 0.2)
        if len(down) < 4:
            down, across = np.array([4, 23]), np.array([4, 23])
        part = torch.from_numpy(image[down.min() : down.max() + 1, across.min() : across.max() + 1])[None, None]
        part = torch.nn.functional.interpolate(part, size=(14, 12), mode="area")
        made.append(torch.nn.functional.pad(part, (2, 2, 1, 1))[0, 0].numpy())
    return resized(np.stack(made))


HAND = (0.2, 0.2, 0.25, 0.2, 0.05, 0.05, 0.3, 0.6, 0.2, 0.1)
INK = (0.15, 0.15, 0.2, 0.15, 0.02, 0.02, 0.3, 0.6, 0.2, 0.1)
SHADE = (0.15, 0.15, 0.2, 0.15, 0.1, 0.1, 0.1, 0.1, 0.3, 0.2)


def pair(folder: Path, name: str, seed: int) -> Pair:
    """The arrays of a pair. letters-hand, letters-ink, letters-few, clothes-shade and clothes-blur are for choosing."""
    if name.startswith("letters"):
        x, y, font, _ = known(folder, "fonts_capitals")
        order = np.random.default_rng(1).permutation(int(font.max()) + 1)
        ours = np.isin(font, order[: len(order) // 3])
        chosen = np.random.default_rng(2).permutation(int((~ours).sum()))
        t, ty = x[~ours][chosen], y[~ours][chosen]
        t = warped(t, 3, HAND) if name == "letters-hand" else cut_to_ink(warped(t, 3, INK))
        records = 1300 if name == "letters-few" else 10_000
        return x[ours], y[ours], t[:records], ty[:records], t[-4000:], ty[-4000:]
    if name.startswith("clothes"):
        x, y, test, labels = known(folder, "fashion_mnist")

        def changed(rows: np.ndarray, seed: int) -> np.ndarray:
            if name == "clothes-shade":
                return warped(rows, seed, SHADE)
            import torch

            image = torch.from_numpy(rows.reshape(-1, 1, SIDE, SIDE))
            for _ in range(2):
                image = torch.nn.functional.avg_pool2d(image, 3, 1, 1)
            image = torch.nn.functional.interpolate(0.7 * image, size=22, mode="area")
            return torch.nn.functional.pad(image, (3, 3, 3, 3)).reshape(len(rows), -1).numpy()

        n = 10_000
        return x[:n], y[:n], changed(x[n : 2 * n], 3), y[n : 2 * n], changed(test[:4000], 4), labels[:4000]
    a, b = name.split("-")
    sx, sy, _, _ = known(folder, "fonts_digits" if a == "fonts" else a)
    tx, ty, ex, ey = known(folder, b)
    if a == "fonts" and b == "mnist":
        some = np.random.default_rng(seed).permutation(len(tx))[:10_000]
        tx, ty = tx[some], ty[some]
    return sx, sy, tx, ty, ex, ey


def one(folder: Path, name: str, method: str, epsilon: float, seed: int, device: str) -> dict[str, Any]:
    """One run. Methods besides those of `privot adapt`: `source` and `labels` (the target's, without privacy)."""
    from privot.adaptation import DomainAdapter, choose
    from privot.vault import Vault

    x, y, target, labels, test, answers = pair(folder, name, seed)
    public = (target, labels) if method == "labels" else (x, y)
    base = "source" if method == "labels" else method
    network = "images" if base == "source" else None
    settings = choose(base, True, len(target), network, device == "cuda")
    vault = Vault(target.astype(np.float64), clip=1.0, adjacency="replace-one", budget=(epsilon, 1e-5))
    began = time.perf_counter()
    made = DomainAdapter(epsilon, 1e-5, shape=(SIDE, SIDE), settings=settings, device=device, seed=seed)
    made.fit(vault, public)
    return {
        "pair": name, "method": method, "epsilon": epsilon, "seed": seed, "target_records": len(target),
        "accuracy": 100.0 * made.score(test, answers), "seconds": round(time.perf_counter() - began, 1),
        "charged": None if made.guarantee_ is None else made.guarantee_.epsilon(),
        "standing": None if made.guarantee_ is None else str(made.guarantee_.standing),
        "checks": None if made.checks_ is None else made.checks_.to_dict(), "settings": settings.to_dict(),
    }  # fmt: skip


def run(args: Any) -> None:
    """Every run as a process of its own, `--jobs` at a time; each result is on disk as soon as it is there."""
    args.out.mkdir(parents=True, exist_ok=True)
    wanted = [
        (p, m, e, s)
        for s in args.seeds.split(",") for e in args.epsilons.split(",") for m in args.methods.split(",")
        for p in args.pairs.split(",")
    ]  # fmt: skip
    end, running = time.monotonic() + args.limit, {}
    while wanted or running:
        while wanted and len(running) < args.jobs and time.monotonic() < end:
            p, m, e, s = wanted.pop(0)
            path = args.out / f"{p}.{m}.{e}.{s}.json"
            if not path.exists():
                told = ["--pair", p, "--method", m, "--epsilon", e, "--seed", s, "--device", args.device]
                command = [sys.executable, __file__, "one", "--data", str(args.data), "--out", str(path), *told]
                running[path] = subprocess.Popen(command)  # noqa: S603
        if time.monotonic() >= end:
            wanted = []
            for process in running.values():
                process.kill()
        running = {path: process for path, process in running.items() if process.poll() is None}
        time.sleep(0.2)
    table(args.out)


def table(folder: Path) -> None:
    """Mean and standard deviation per pair, method and ε of the results that are there."""
    found: dict[tuple[str, str, float], list[float]] = {}
    for path in sorted(folder.glob("*.json")):
        held = json.loads(path.read_text())
        found.setdefault((held["pair"], held["method"], held["epsilon"]), []).append(held["accuracy"])
    for (p, m, e), values in sorted(found.items()):
        print(f"{p:14} {m:10} ε = {e:<5g} {np.mean(values):5.1f} ± {np.std(values):.1f}  ({len(values)} seeds)")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["packages", "fonts", "run", "one", "table"])
    for name in ("--data", "--out"):
        parser.add_argument(name, type=Path, default=Path())
    parser.add_argument("--pairs", default="fonts-mnist,fonts-usps,usps-mnist,mnist-usps,mnist-digits")
    parser.add_argument("--methods", default="stand-in")
    parser.add_argument("--epsilons", default="1.0")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1e9, help="seconds")
    parser.add_argument("--device", default="cuda")
    for name in ("--pair", "--method", "--epsilon", "--seed"):
        parser.add_argument(name)
    args = parser.parse_args()
    if args.what == "packages":
        print(*(f"fonts-{name}" for name in PACKAGES.split()))
    elif args.what == "fonts":
        draw_fonts(args.out)
    elif args.what == "run":
        run(args)
    elif args.what == "table":
        table(args.out)
    else:
        found = one(args.data, args.pair, args.method, float(args.epsilon), int(args.seed), args.device)
        args.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

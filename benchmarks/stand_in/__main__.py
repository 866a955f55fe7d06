"""Adaptation through a stand-in, measured.

    apt-get install $(python benchmarks/stand_in packages)
    python benchmarks/stand_in fonts --out DIR                     # fonts_digits.npz, fonts_capitals.npz
    python benchmarks/stand_in run --data DIR --out RESULTS --jobs 6 --limit 540
    python benchmarks/stand_in table --out RESULTS --page docs/results/stand-in.md

DIR holds mnist.npz, usps.npz and fonts_digits.npz; for choosing settings fonts_capitals.npz and fashion_mnist.npz (or
fashion_small.npz, its first records); for features office_caltech_surf.npz; for tables adult_train.csv.gz and
adult_test.csv.gz. `run` writes every result at once, as a line of RESULTS/*.jsonl, and does not repeat those that are
there, so a limit loses only what is under way. `--pairs` names pairs, or groups of them: digits, choosing, office,
adult, adult-choosing. Test sets take no part in anything but the scores. Run from the repository, with PYTHONPATH=src.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import adult_split
import pairs

GROUPS = {
    "digits": pairs.SHOWN, "choosing": pairs.CHOOSING, "office": pairs.OFFICE, "adult": adult_split.SHOWN,
    "adult-choosing": adult_split.CHOOSING,
}  # fmt: skip
HEAD = Path(__file__).with_name("head.md")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["packages", "fonts", "run", "table"])
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--pairs", default="digits,office")
    parser.add_argument("--methods", default="stand-in,source,real,labels,embedding,sliced")
    parser.add_argument("--epsilons", default="1,10,0.3,0.1")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1e6, help="seconds")
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--set", nargs="*", default=[], help="NAME=VALUE: settings, for trials; `table` leaves them out"
    )
    parser.add_argument("--rows", type=int, help="records of every part, for trials")
    parser.add_argument("--page", type=Path, help="with table: the file to write")
    args = parser.parse_args()
    if args.what == "packages":
        from fonts import PACKAGES

        print(*(f"fonts-{name}" for name in PACKAGES.split()))
    elif args.what == "fonts":
        from fonts import draw_fonts

        draw_fonts(args.out)
    elif args.what == "run":
        _run(args)
    else:
        from page import draw_curve, page
        from runs import done

        text = page(done(args.out), HEAD.read_text())
        if args.page is None:
            print(text)
        else:
            args.page.write_text(text)
            draw_curve(done(args.out), args.page.parent / "images" / "stand-in.png")


def _run(args: Any) -> None:
    from runs import run_all, wanted

    names = [p for word in args.pairs.split(",") for p in GROUPS.get(word, (word,))]
    epsilons, seeds = ([kind(v) for v in text.split(",")] for kind, text in ((float, args.epsilons), (int, args.seeds)))
    change = {name: json.loads(value) for name, _, value in (text.partition("=") for text in args.set)}
    runs = wanted(names, args.methods.split(","), epsilons, seeds)
    run_all(
        runs, args.data, args.out, jobs=args.jobs, limit=args.limit, device=args.device, change=change, rows=args.rows
    )


if __name__ == "__main__":
    main()

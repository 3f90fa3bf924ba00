"""All attacks, as many as you like, with a file of counts: ``make faults``.

    python -m faults --kills 2000 --corruptions 20000 --seconds 500

Every piece of work that is done is a line of the file, and is not done again: interrupt it, or let it stop after some
seconds, and repeat the command to go on. The documentation shows the counts (``python docs/tables.py``).
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

from faults.pieces import SIZES, Tally, pieces

from hashlearn.durable.files import write_text
from hashlearn.experiments.results import provenance

OUT = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "faults.jsonl"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__.splitlines()[0])
    for kind, n in SIZES.items():
        parser.add_argument(f"--{kind.replace(' ', '-')}", type=int, default=n, help="how many; by default %(default)s")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no piece after this time")
    parser.add_argument("--only", choices=SIZES, help="only this kind")
    parser.add_argument("--out", type=Path, default=OUT, help="the file of counts; by default %(default)s")
    parser.add_argument("--anew", action="store_true", help="forget the counts that are there, of --only or of all")
    options = parser.parse_args()
    if options.anew:
        kept = [line for line in _lines(options.out) if options.only not in (None, line["kind"])]
        write_text(options.out, "".join(json.dumps(line) + "\n" for line in kept))
    wanted = {kind: getattr(options, kind.replace(" ", "_")) for kind in SIZES}
    warnings.simplefilter("ignore")  # numpy warns of strange headers
    return _run_all(wanted, options)


def _run_all(wanted: dict[str, int], options: argparse.Namespace) -> int:
    done = {(line["kind"], line["name"]): line["n"] for line in _lines(options.out)}
    start = time.monotonic()
    for piece in pieces(wanted):
        if wanted[piece.kind] == 0 or options.only not in (None, piece.kind) or done.get(piece[:2], 0) >= piece.n:
            continue
        if time.monotonic() - start > options.seconds:
            print("more is to be done: repeat the command")
            break
        tally = piece.run()
        _append(options.out, piece[:3], tally)
        wrong = ", ".join(f"{n} {what}" for what, n in tally.wrong.items() if n) or "nothing wrong"
        print(f"{piece.kind}, {piece.name}: {tally.times}, {wrong}", *tally.examples, sep="\n  ", flush=True)
    return int(any(sum(line["wrong"].values()) for line in _lines(options.out)))


def _lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _append(path: Path, key: tuple[str, str, int], tally: Tally) -> None:
    line = dict(zip(("kind", "name", "n"), key)) | tally._asdict() | provenance(("numpy",))
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    sys.exit(main())

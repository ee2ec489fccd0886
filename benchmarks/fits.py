"""How well runs of CT-MLE have fitted: a line each, with scores and what is believed after the last episode.

    python benchmarks/fits.py runs/learning/runs/*

`loss` is the mean of the fit's objective over the last dynamics stage, `diffusion` the learned one over the true one
per coordinate, `fitting` the seconds of all dynamics stages.
"""

import argparse
from pathlib import Path
from typing import Any

from ctmle.lab.storage.run_folder import RunFolder


def described(records: list[dict[str, Any]]) -> str:
    last = records[-1]
    pairs = zip(last.get("diffusion_learned", ()), last.get("diffusion_true", ()), strict=True)
    ratios = [f"{learned / true:.2f}" if true > 0 else f"{learned:.3f} (true: 0)" for learned, true in pairs]
    scores = " ".join(f"{record['score']:.3f}" for record in records)
    seconds = sum(record["dynamics_seconds"] for record in records)
    diffusion = " ".join(ratios) or "-"
    return f"scores {scores}; loss {last['dynamics_loss']:.4g}; diffusion {diffusion}; fitting {seconds:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="run folders of agents that fit a model")
    for path in parser.parse_args().runs:
        records = [record for record in RunFolder.open(path).read_metrics() if "score" in record]
        fitted = bool(records) and "dynamics_loss" in records[-1]
        print(f"{Path(path).name}: {described(records) if fitted else '-'}")


if __name__ == "__main__":
    main()

"""The learned diffusion over the true one, per coordinate, after the last episode of runs of CT-MLE.

python benchmarks/diffusion.py runs/learning/runs/*
"""

import argparse

from ctmle.storage import RunFolder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="run folders of agents that learn a diffusion")
    for path in parser.parse_args().runs:
        records = RunFolder.open(path).read_metrics()
        if not records or "diffusion_learned" not in records[-1]:
            print(f"{path}: -")
            continue
        pairs = zip(records[-1]["diffusion_learned"], records[-1]["diffusion_true"], strict=True)
        ratios = [f"{learned / true:.2f}" if true > 0 else f"{learned:.3f} (true: 0)" for learned, true in pairs]
        print(f"{path}: {' '.join(ratios)}")


if __name__ == "__main__":
    main()

"""What ``smol``, or another adapted model, gives at many settings: the table of the model card.

    python tests/bench/bench_smol.py [MODEL] [--prompts 100] [--tokens 64] [--sizes 8,16,32] [--json]

Prompts are made of words that training never sees. On two CPU cores a hundred prompts take an hour or two.
"""

import argparse

from dllm_tui.cli.adapting import measure, numbers
from dllm_tui.settings import load

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model", nargs="?", default="smol")
parser.add_argument("--prompts", type=int, default=100)
parser.add_argument("--tokens", type=int, default=64)
parser.add_argument("--sizes", default="8,16,32")
parser.add_argument("--thresholds", default="0.95,0.9,0.8,0.7,0.6,0.5")
parser.add_argument("--json", action="store_true")
given = parser.parse_args()
measure(
    given.model,
    load(),
    prompts=given.prompts,
    tokens=given.tokens,
    sizes=numbers(given.sizes, "--sizes") or (8,),
    thresholds=tuple(map(float, given.thresholds.split(","))),
    as_json=given.json,
)

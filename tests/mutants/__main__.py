"""`make mutants`: plant a sample of small bugs in each package and tell which of them no close test finds.

A sample is fixed by its seed and the code. Exit code 0 says that all was judged, however many survived.
"""

import argparse
import ast
import json
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from local import guardian

from . import equivalents, scores
from .mutations import Mutant, mutants_of, signatures
from .packages import PACKAGES, ROOT, Package
from .running import Verdict, copied


def every_mutant(package: Package) -> list[Mutant]:
    """All mutants of a package, before any are argued away."""
    sources = {file: (ROOT / file).read_text(encoding="utf-8") for file in package.modules()}
    known = signatures([ast.parse(source) for source in sources.values()])
    return [one for file, source in sources.items() for one in mutants_of(file, source, known)]


def sample(package: Package, mutants: Sequence[Mutant], seed: int, count: int) -> list[Mutant]:
    """`count` of them, or all when there are fewer, in the order of the text."""
    rng = random.Random(f"{seed}/{package.name}")
    places = sorted(rng.sample(range(len(mutants)), min(count, len(mutants))))
    return [mutants[place] for place in places]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20, help="mutants of each package")
    parser.add_argument("--only", choices=[package.name for package in PACKAGES], action="append")
    parser.add_argument("--json", type=Path, help="write every verdict to this file")
    return parser.parse_args()


def main() -> int:
    """Judge the samples, print what survived, then the table."""
    arguments = _arguments()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets its background ignore it
    guardian.guard()  # whatever tests start ends with this, however it ends
    every = {package.name: every_mutant(package) for package in PACKAGES}
    entries = equivalents.read()
    left = set(equivalents.without([one for mutants in every.values() for one in mutants], entries))
    verdicts: dict[str, list[Verdict]] = {}
    with copied(ROOT) as copy:
        for package in PACKAGES:
            if arguments.only and package.name not in arguments.only:
                continue
            mutants = [one for one in every[package.name] if one in left]
            print(f"{package.name}: {len(mutants)} mutants", flush=True)
            copy.measure(package.tests, package.modules(), slow=package.slow)
            verdicts[package.name] = []
            for mutant in sample(package, mutants, arguments.seed, arguments.count):
                verdict = copy.judge(mutant)
                verdicts[package.name].append(verdict)
                if scores.survivors([verdict]):
                    lines = scores.described(verdict, (ROOT / mutant.file).read_text(encoding="utf-8"))
                    print("\n".join(lines), flush=True)
            print(scores.table({package.name: verdicts[package.name]})[2], flush=True)
    if arguments.json:
        told = {name: scores.as_json(judged) for name, judged in verdicts.items()}
        arguments.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(f"\nseed {arguments.seed}, {arguments.count} a package")
    print("\n".join(scores.table(verdicts)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

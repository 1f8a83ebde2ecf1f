"""What `import deltaic` costs beside `import numpy`, each in a fresh process: the best of eleven."""

import subprocess
import sys
import time

STATEMENTS = ("pass", "import numpy", "import deltaic", "import numpy, deltaic", "import deltaic.state.read")
ROUNDS = 11


def seconds(statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    for statement in STATEMENTS:
        seconds(statement)  # the first run reads files that later runs find in memory
    best = {statement: float("inf") for statement in STATEMENTS}
    for _ in range(ROUNDS):
        for statement in STATEMENTS:
            best[statement] = min(best[statement], seconds(statement))
    print(f"{'statement':<28} {'ms':>7} {'beyond an empty Python':>24} {'beyond numpy':>13}")
    for statement, taken in best.items():
        beyond = (taken - best["import numpy"]) * 1e3
        print(f"{statement:<28} {taken * 1e3:7.1f} {(taken - best['pass']) * 1e3:24.1f} {beyond:13.1f}")


if __name__ == "__main__":
    main()

"""A process that follows a chain and makes indexes, for tests; told what to do line by line on its input.

`go` refreshes, `ask` makes every index and says what a look-up in each gives, `counts` says how often the indexes were
built, updated and attached, `memory` what the process holds; each answer is a JSON line.
"""

import gc
import json
import sys
from typing import Any

from deltaic.consumer import Consumer
from tests.faults.arena_follower import memory


def ask(consumer: Consumer) -> list[Any]:
    lookup = consumer.lookup
    key = 33_333
    return [
        consumer["Movie"][key].title,
        lookup.hash("Movie", "year").count(1950),
        lookup.hash("Movie", ["title", "year"]).count(f"{key:012d}", 1900 + key % 120),
        lookup.prefix("Movie", "title").count("0000000123"),
        lookup.range("Movie", "score").count(100.0, 200.0),
    ]


def main() -> None:
    consumer = Consumer(sys.argv[1], share=sys.argv[2] == "share", cache_dir=False)
    for line in sys.stdin:
        answer: Any
        match line.strip():
            case "go":
                refresh = consumer.refresh()
                answer = {"version": refresh.to_version, "nbytes": consumer.state.nbytes}
                del refresh
            case "ask":
                answer = ask(consumer)
            case "counts":
                found = [index.counts for index in consumer.lookup.indexes()]
                answer = {
                    "builds": sum(one.builds for one in found),
                    "updates": sum(one.updates for one in found),
                    "attached": sum(one.attached for one in found),
                    "nbytes": consumer.lookup.nbytes,
                }
            case _:
                gc.collect()
                answer = memory()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

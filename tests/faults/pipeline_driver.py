"""A driver that runs a pipeline once: `python -m tests.faults.pipeline_driver PIPELINE.TOML [STEP]`.

With STEP it kills itself, by the signal that nobody can catch, right after the step of that number.
"""

import os
import signal
import sys


def main(file: str, last: int | None) -> None:
    from deltaic.spark.pipeline_file import read_pipeline
    from deltaic.spark.pipeline_run import PipelineRun
    from deltaic.spark.session import session

    spark = session(app_name="killed", quick_start=True)
    for number, step in enumerate(PipelineRun(read_pipeline(file), spark).run()):
        print(step.name, flush=True)
        if number == last:
            os.kill(os.getpid(), signal.SIGKILL)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)

"""A large model in Flower: memory and time of the server, Flower's FedAvg against rules of this package.

    python benchmarks/flower_server.py [MEGABYTES] [ROUNDS]

Each strategy has a process of its own with Flower's in-memory grid and three clients, which return their model at once:
what is left is the server. Peak memory is that of the process, imports included.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

STRATEGIES = ("FedAvg", "fedavg", "fedswe:k=2", "fedswe:k=2 store", "mifa store")


def measured(label: str, megabytes: int, rounds: int) -> dict[str, float]:
    import numpy as np
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp.strategy import FedAvg
    from tests.flower.grid import LocalGrid

    from fedswe.flower import Strategy

    app = ClientApp()

    @app.train()
    def train(message, context):
        arrays = {name: Array(array.numpy() * np.float32(0.9)) for name, array in message.content["arrays"].items()}
        return Message(
            RecordDict({"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 1})}), reply_to=message
        )

    start = ArrayRecord({f"layer {i}": Array(np.ones((megabytes << 20) // 40, np.float32)) for i in range(10)})
    rule, *store = label.split()
    with tempfile.TemporaryDirectory() as folder:
        options = {"store": f"{folder}/f.db"} if store else {}
        strategy = (
            FedAvg(fraction_evaluate=0.0) if label == "FedAvg" else Strategy(rule, fraction_evaluate=0.0, **options)
        )
        began = time.monotonic()
        strategy.start(LocalGrid(app, 3), start, rounds)
        seconds = (time.monotonic() - began) / rounds
    return {"seconds": seconds, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(measured(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
    else:
        size, rounds = (sys.argv + ["100", "5"][len(sys.argv) - 1 :])[1:3]
        first = None
        for label in STRATEGIES:
            words = [sys.executable, __file__, label, size, rounds]
            ended = subprocess.run(
                words, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "."}
            )
            found = json.loads(ended.stdout.splitlines()[-1])
            first = first or found
            ratios = [found[key] / first[key] for key in ("seconds", "megabytes")]
            print(
                f"{label:20s} {found['seconds']:6.2f} s a round ({ratios[0]:.2f} times FedAvg)  "
                f"{found['megabytes']:6.0f} MB ({ratios[1]:.2f} times)"
            )

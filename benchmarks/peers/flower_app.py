"""A Flower app as its PyTorch quick start builds one: a ClientApp that trains, a ServerApp that runs FedAvg.

In a module of its own, not in the script, because Ray's workers load the ClientApp by importing it.
"""

from __future__ import annotations

import time

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from workloads import LEARNING_RATE, WORKLOADS, Workload, build, train

client_app = ClientApp()


@client_app.train()
def train_client(message: Message, context: Context) -> Message:
    config = message.content["config"]
    torch.set_num_threads(config["threads"])
    workload = WORKLOADS[config["workload"]]
    model = workload.network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    train(model, optimizer, workload, context.node_config["partition-id"])
    reply = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": workload.samples}),
    }
    return Message(content=RecordDict(reply), reply_to=message)


def server_app(workload: Workload, rounds: int, threads: int, times: list[float]) -> ServerApp:
    """Times receives the moment at the start and after every round."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = FedAvg(
            fraction_train=workload.per_round / workload.clients,
            fraction_evaluate=0.0,
            min_train_nodes=workload.per_round,  # exact from round 1, when nodes are still registering
            min_available_nodes=workload.clients,
            train_metrics_aggr_fn=lambda replies, key: MetricRecord({"clients": len(replies)}),
        )

        def tick(server_round: int, arrays: ArrayRecord) -> None:
            times.append(time.perf_counter())  # the strategy calls it before the first and after every round

        result = strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(build(workload).state_dict()),
            num_rounds=rounds,
            train_config=ConfigRecord({"workload": workload.name, "threads": threads}),
            evaluate_fn=tick,
        )
        # A client that fails is only logged, and would pass for a fast one.
        replies = [metrics["clients"] for metrics in result.train_metrics_clientapp.values()]
        if replies != [workload.per_round] * rounds:
            raise RuntimeError(f"clients that replied, by round: {replies}")

    return app

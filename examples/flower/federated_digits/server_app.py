"""The server: Flower's loop with a strategy of fedswe."""

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

from federated_digits.task import Net, digits
from fedswe.flower import Strategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    run = context.run_config
    strategy = Strategy(  # was: FedAvg(
        str(run["rule"]),
        store=str(run["store"]),
        names=bool(run["names"]),
        # availability="sine",  # in a simulation: who takes part in a round
        min_available_nodes=int(run["min-available-nodes"]),
        fraction_evaluate=0.0,
    )
    torch.manual_seed(0)
    strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(Net().state_dict()),
        num_rounds=int(run["num-server-rounds"]),
        evaluate_fn=evaluate,
    )


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    """Loss and accuracy on the test half."""
    model, (x, y) = Net(), digits("test")
    model.load_state_dict(arrays.to_torch_state_dict())
    with torch.no_grad():
        out = model(x)
    loss, hits = torch.nn.functional.cross_entropy(out, y), out.argmax(1) == y
    return MetricRecord({"loss": loss.item(), "accuracy": hits.float().mean().item()})

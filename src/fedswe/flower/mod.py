"""A client mod: for rules that change the gradients of a client or count its steps, and for clients with names.

    app = ClientApp(mods=[mod])

It does two things when the server asks for them. It answers who the client is: the `name` in the node's configuration,
or the number of its partition in a simulation. And it adds a drift to every gradient of an optimiser of PyTorch, and
reports how many steps were taken at which rate (SCAFFOLD, FOCUS, FedNova and others). For that the local training must
be plain SGD with one rate: start minus end is then steps times rate times the mean gradient plus the drift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from torch.optim.optimizer import register_optimizer_step_pre_hook

from fedswe.errors import require

KEY, DRIFT = "fedswe", "fedswe.drift"  # records of a message, besides the user's


def mod(message: Message, context: Context, call_next: Callable[[Message, Context], Message]) -> Message:
    """The mod, for `ClientApp(mods=[mod])`."""
    asked: Any = message.content.get(KEY, {})
    if asked.get("who"):
        name = context.node_config.get("name", context.node_config.get("partition-id", ""))
        return Message(RecordDict({KEY: ConfigRecord({"client": str(name)})}), reply_to=message)
    if not asked.get("count"):
        return call_next(message, context)
    del message.content[KEY]
    records: list[Any] = [message.content[asked["arrays"]], message.content.pop(DRIFT, {})]
    start, drift = ({name: torch.from_numpy(array.numpy()) for name, array in r.items()} for r in records)
    steps = _Steps(start, drift)
    hook = register_optimizer_step_pre_hook(steps)
    try:
        reply = call_next(message, context)
    finally:
        hook.remove()
    require(steps.count, "no optimiser of PyTorch took a step: this rule needs torch.optim.SGD")
    reply.content[KEY] = ConfigRecord({"steps": steps.count, "lr": steps.lr})
    return reply


@dataclass
class _Steps:
    """Called before every step of every optimiser: adds the drift, and counts."""

    start: dict[str, torch.Tensor]
    drift: dict[str, torch.Tensor]
    count: int = 0
    lr: float = 0.0
    names: dict[int, str] = field(default_factory=dict)  # of parameters, by their address

    def __call__(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        require(isinstance(optimizer, torch.optim.SGD), f"{type(optimizer).__name__} is not torch.optim.SGD")
        require(not args[1:] and not kwargs, "step() must be called without a closure: it comes before the drift")
        if not self.count:
            self._match([p for group in optimizer.param_groups for p in group["params"]])
            self.lr = float(optimizer.param_groups[0]["lr"])
        for group in optimizer.param_groups:
            require(float(group["lr"]) == self.lr, "torch.optim.SGD must have one rate in all steps of a round")
            plain = not any(group[key] for key in ("momentum", "weight_decay", "maximize"))
            require(plain, "torch.optim.SGD must have no momentum and no weight decay")
            require(all(id(p) in self.names for p in group["params"]), "there must be one torch.optim.SGD only")
            for parameter in group["params"]:
                if parameter.grad is not None and self.drift:
                    drift = self.drift[self.names[id(parameter)]]
                    parameter.grad.add_(drift.to(parameter.grad).view_as(parameter.grad))
        self.count += 1

    def _match(self, parameters: list[torch.Tensor]) -> None:
        """Find the array of each parameter: before the first step it has the numbers that were received."""
        left = dict(self.start)
        for parameter in parameters:
            value = parameter.detach().cpu()
            found = [n for n, x in left.items() if x.shape == value.shape and torch.equal(x.to(value.dtype), value)]
            require(found, f"a parameter of shape {list(value.shape)} is not one of the arrays that were received")
            self.names[id(parameter)] = found[0]
            del left[found[0]]

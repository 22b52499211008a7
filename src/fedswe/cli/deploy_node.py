"""The command `fedswe deploy node`: run the node of one client."""

from __future__ import annotations

from typing import Annotated

import typer

from fedswe.cli.deploy_arguments import need_flower


def node_command(
    options: Annotated[
        list[str], typer.Argument(metavar="-- OPTIONS...", help="The options of flower-supernode, after --")
    ],
) -> None:
    """Run the node of one client: a SuperNode and its SuperExec; it ends when one of them ends or hangs."""
    need_flower()
    from fedswe.deploy.flower.node.launcher import run_node

    run_node(options)

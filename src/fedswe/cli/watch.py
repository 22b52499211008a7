"""The command `fedswe watch`: a page in the browser that follows runs and grids."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedswe.cli.console import console, stderr
from fedswe.errors import require, warn

Live = Annotated[bool, typer.Option("--live", help="Show a page in the browser that follows this, until it ends")]


def watch_command(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR]...", help="Where runs, comparisons and grids are; default: runs"),
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Default: 8765, or any that is free")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser")] = False,
) -> None:
    """Follow runs, comparisons and grids on a page in the browser, on this machine."""
    need_live()
    from fedswe.live.serve import address, listen, serve

    roots = directories or [Path("runs")]
    for root in roots:
        require(not root.is_file(), f"{root} is a file: name a directory")
        if not root.is_dir():
            warn(f"there is no directory {root} yet: the page waits for it")
    listening = listen(port)
    listening.listen()  # a browser that is opened now waits until the server is there
    console.print(f"live      {address(listening)} (Ctrl-C ends it)")
    if open_:
        import webbrowser

        webbrowser.open(address(listening))
    serve(roots, listening)


def need_live() -> None:
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    require(not missing, f"the live page needs {', '.join(missing)}: pip install 'fedswe[live]'")


def show_live(opened: ExitStack, directory: Path) -> None:
    """Serve a page that follows a directory until the stack is closed, and print its address."""
    need_live()
    from fedswe.live.beside import served_beside

    where = opened.enter_context(served_beside(directory))
    stderr.print(f"live      {where} (until this command ends; later: fedswe watch {directory})")

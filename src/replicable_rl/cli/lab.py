"""The command ``replicable-rl lab``."""

import os
from typing import Annotated

from typer import Option

from replicable_rl.cli.options import whole
from replicable_rl.cli.output import print_all


def lab_command(
    port: Annotated[
        str | None, Option(metavar="N", help="The port on this machine [default: 8017, or any free one].")
    ] = None,
    no_browser: Annotated[bool, Option("--no-browser", help="Print the address only.")] = False,
) -> int:
    """Open a page in the browser: draw a grid, move a slider, and see two runs agree or differ.

    The page is served by this machine for this machine only, and needs no network. Ctrl-C ends it.
    """
    from replicable_rl.lab.server import serve

    def tell(address: str) -> None:
        print_all(f"The lab is open at {address}\nIt answers this machine only. Ctrl-C ends it.")

    serve(None if port is None else whole("--port", port), tell, browser=not no_browser)
    print_all("The lab is closed.")
    os._exit(0)  # what open pages still compute goes on in threads that nobody else can end

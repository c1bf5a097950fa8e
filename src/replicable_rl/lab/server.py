"""Serve the page: marimo's own server, in this process, for this machine only.

Nobody else on the network reaches it, for it listens on the loopback address. Nobody else on this machine does without
the token in its address. And no page of the web that happens to be open in the same browser does: a request that was
made for another name, or that comes from another origin, is refused. The page in turn may fetch nothing from elsewhere.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicable_rl.errors import InvalidInput, check_integer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

HOST = "127.0.0.1"
PORT = 8017
_NAMES = (HOST, "localhost")
_PAGE = Path(__file__).with_name("page.py")
_POLICY = "; ".join(
    (
        "default-src 'self' data: blob:",
        "script-src 'self' 'unsafe-inline' blob:",
        "style-src 'self' 'unsafe-inline'",
        "connect-src 'self' data: blob:",
        "object-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'self'",
        "form-action 'self'",
    )
)


def serve(port: int | None, tell: Callable[[str], None], *, browser: bool = True) -> None:
    """Serve the page until Ctrl-C; ``tell`` gets its address.

    Parameters
    ----------
    port : int, optional
        None: 8017, or any free port where that is taken.
    tell : callable
        Called with the address once it can be opened.
    browser : bool
        Whether to open it in the browser, too, where there is a screen.
    """
    _need_marimo()
    listening = _bound(port)
    import uvicorn

    token = secrets.token_urlsafe(16)
    address = f"http://{HOST}:{listening.getsockname()[1]}/?access_token={token}"

    class Server(uvicorn.Server):
        """Tells its address as soon as it can be opened."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            tell(address)
            if browser and _has_screen():
                threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    config = uvicorn.Config(lab_app(token), log_level="critical", timeout_graceful_shutdown=1, lifespan="off")
    for name in ("SIGTERM", "SIGHUP"):  # to be ended, or to lose the terminal, is as good as Ctrl-C
        if signal.getsignal(number := getattr(signal, name, signal.SIGTERM)) == signal.SIG_DFL:  # nohup stays nohup
            signal.signal(number, signal.default_int_handler)
    with contextlib.closing(listening), _own_folder(), contextlib.suppress(KeyboardInterrupt):
        Server(config).run(sockets=[listening])


def lab_app(token: str) -> ASGIApp:
    """Return the page as an ASGI application."""
    import marimo

    from replicable_rl.report.page import fragment_style

    logging.getLogger("marimo").setLevel(logging.ERROR)  # it warns of a home that it cannot write to, again and again
    head = f"<style>\n{fragment_style()}\n</style>"
    made = marimo.create_asgi_app(quiet=True, token=token, html_head=head).with_app(path="", root=str(_PAGE)).build()
    return Guard(made)


class Guard:
    """Refuses what was not asked for by the page itself, and tells the browser to fetch nothing from elsewhere."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if not _ours(headers):
            await _refuse(scope, send)
            return

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                extra = (("content-security-policy", _POLICY), ("referrer-policy", "no-referrer"))
                message["headers"] = [*message.get("headers", ()), *((a.encode(), b.encode()) for a, b in extra)]
            await send(message)

        await self.app(scope, receive, guarded)


def _ours(headers: dict[str, str]) -> bool:
    """Whether a request was made for this machine, and by a page of this server.

    >>> _ours({"host": "127.0.0.1:8017"}), _ours({"host": "evil.example"})
    (True, False)
    >>> _ours({"host": "localhost:1", "origin": "http://localhost:1"}), _ours({"host": "localhost:1", "origin": "null"})
    (True, False)
    """
    host = headers.get("host", "")
    return host.rpartition(":")[0] in _NAMES and headers.get("origin", f"http://{host}") == f"http://{host}"


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"The lab answers its own page only."})


def _bound(port: int | None) -> socket.socket:
    """Return a socket on the loopback address; of several labs each has a port of its own, unless one is named."""
    asked = PORT if port is None else check_integer("lab", "--port", port, low=1, high=65_535)
    with _closed_on_error(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((HOST, asked))
        except OSError as error:
            if port is not None:
                raise InvalidInput(
                    f"lab: port {port} cannot be used ({error.strerror}). Give another one, or leave --port out."
                ) from None
            listening.bind((HOST, 0))
    return listening


@contextlib.contextmanager
def _own_folder() -> Iterator[None]:
    """Keep temporary files in a folder that is gone when the lab is closed, also if a log was just being read."""
    with tempfile.TemporaryDirectory(prefix="replicable-rl-lab-", ignore_cleanup_errors=True) as folder:
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            yield
        finally:
            tempfile.tempdir = before


@contextlib.contextmanager
def _closed_on_error(listening: socket.socket) -> Iterator[socket.socket]:
    try:
        yield listening
    except BaseException:
        listening.close()
        raise


def _has_screen() -> bool:
    """Whether a window can be opened; without one, a browser in the terminal would take the place of what we print."""
    return sys.platform in ("darwin", "win32") or any(
        name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


def _need_marimo() -> None:
    if find_spec("marimo") is None:
        raise InvalidInput("lab: marimo is not installed. Run pip install marimo.")

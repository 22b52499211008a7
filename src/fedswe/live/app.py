"""The addresses of the page, and who may ask for them: only this machine, only to read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from plotly import __file__ as plotly_file
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fedswe.live.hub import Hub
from fedswe.live.stream import events

_STATIC = Path(__file__).parent / "static"
_FILES = {
    "/": (_STATIC / "index.html", "text/html"),
    "/live.css": (_STATIC / "live.css", "text/css"),
    "/live.js": (_STATIC / "live.js", "text/javascript"),
    "/list.js": (_STATIC / "list.js", "text/javascript"),
    "/charts.js": (_STATIC / "charts.js", "text/javascript"),
    "/plotly.js": (Path(plotly_file).parent / "package_data" / "plotly.min.js", "text/javascript"),
}
_PAGES = 200  # open at once
_CURVES = 24  # of one page
_HEADERS = {
    # Plotly sets styles of elements; scripts come from this server alone, and none is in the page itself.
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def application(hub: Hub, port: int) -> ASGIApp:
    open_pages = 0

    async def stream(request: Request) -> Response:
        if open_pages >= _PAGES:
            return PlainTextResponse("too many pages are open", 503)
        ids = list(dict.fromkeys(request.query_params.getlist("id")))[:_CURVES]
        if not all(re.fullmatch("[0-9a-f]{16}", id_) for id_ in ids):
            return PlainTextResponse("no such id", 404)
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return StreamingResponse(counted(ids), media_type="text/event-stream")

    async def counted(ids: list[str]) -> AsyncIterator[str]:
        nonlocal open_pages
        if open_pages >= _PAGES:
            return  # others that asked at the same time were first
        open_pages += 1
        try:
            async for event in events(hub, ids):
                yield event
        finally:
            open_pages -= 1

    async def file(request: Request) -> Response:
        path, kind = _FILES[request.url.path]
        return FileResponse(path, media_type=kind)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(hub.run())
        yield
        hub.close()
        task.cancel()

    routes = [Route(path, file) for path in _FILES]
    return _Guard(Starlette(routes=[*routes, Route("/events", stream)], lifespan=lifespan), port)


class _Guard:
    """Refuses any method but GET and HEAD, and names that are not this machine's.

    A page of another site can make a name of its own stand for 127.0.0.1 (DNS rebinding); the browser then sends that
    name as Host.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        names = ("127.0.0.1", "localhost")
        self._app, self._hosts = app, {f"{name}:{port}" for name in names} | (set(names) if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await (self._refusal(scope) or self._app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if [host.lower() for host in headers.getlist("host")] not in [[host] for host in self._hosts]:
            return PlainTextResponse("this server answers to 127.0.0.1 and localhost only", 421)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return PlainTextResponse("open this page by its address", 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("read-only", 405, {"Allow": "GET, HEAD"})
        return None

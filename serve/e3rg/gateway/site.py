"""The web page at ``/`` and its files under ``/page``."""

from __future__ import annotations

import os
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from e3rg.gateway.files import WholeFile

_PAGE = Path(__file__).parent / "page"

# The page loads nothing from elsewhere and holds no inline code; blob: is the MediaSource of the
# video element, and the preview of a chosen portrait (https://www.w3.org/TR/CSP3/).
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        "media-src 'self' blob:; connect-src 'self'; worker-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "Permissions-Policy": "camera=(self), microphone=(self), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # Asked for anew each time (cheap: ETag), so that modules of two versions never mix.
    "Cache-Control": "no-cache",
}


def router() -> APIRouter:
    """Make the page's routes."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def page() -> WholeFile:
        return WholeFile(_PAGE / "index.html", headers=_HEADERS)

    return routes


class PageFiles(StaticFiles):
    """The page's modules and styles, with its headers."""

    def __init__(self) -> None:
        super().__init__(directory=_PAGE)

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        """Answer with a file."""
        if scope["path"].endswith("/"):
            raise HTTPException(404)
        response = super().file_response(full_path, stat_result, scope, status_code)
        if isinstance(response, FileResponse):  # and not 304
            response = WholeFile(full_path, status_code=status_code, stat_result=stat_result)
        response.headers.update(_HEADERS)
        return response

"""The API's documentation at ``/docs``: Swagger UI, from an installed package."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter, HTTPException
from fastapi.responses import Response

from e3rg.gateway.files import WholeFile

_HERE = Path(__file__).parent
# fastapi-swagger (MIT) is used for the files of Swagger UI (Apache-2.0) that it carries.
_VENDOR = Path(str(files("fastapi_swagger") / "resources"))

_FILES = {
    "start.js": _HERE / "start.js",
    "style.css": _HERE / "style.css",
    "swagger-ui-bundle.js": _VENDOR / "swagger-ui-bundle.js",
    "swagger-ui.css": _VENDOR / "swagger-ui.css",
    "icon.png": _VENDOR / "favicon-32x32.png",
}
# Swagger UI's styles hold their icons as data: addresses (https://www.w3.org/TR/CSP3/).
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; media-src blob:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def router() -> APIRouter:
    """Make the routes."""
    routes = APIRouter(prefix="/docs", include_in_schema=False)

    @routes.get("", response_class=Response)
    async def page() -> WholeFile:
        return WholeFile(_HERE / "index.html", headers=_HEADERS)

    @routes.get("/{name}", response_class=Response)
    async def file(name: str) -> WholeFile:
        if name not in _FILES:
            raise HTTPException(404, "Not Found")
        return WholeFile(_FILES[name], headers=_HEADERS)

    return routes

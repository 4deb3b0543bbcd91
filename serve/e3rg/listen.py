"""The address that is listened on: whether it can be had, and what to call it by."""

from __future__ import annotations

import socket

_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that are for binding only, and one to call in their place."""


def free_port(host: str, port: int) -> int:
    """Make sure that a port can be listened on; 0 picks one that is free.

    Args:
        host: a name, an IPv4 or an IPv6 address of this machine.
        port: 0 to 65535.

    Returns:
        The port, never 0.

    Raises:
        OSError: why it cannot be had.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError as error:  # what is no host name at all, e.g. one that is too long
        raise OSError(None, "not the name or address of a host") from error
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        return int(probe.getsockname()[1])


def is_wildcard(host: str) -> bool:
    """Whether a host stands for all addresses of this machine."""
    return host in _LOOPBACK


def base_url(host: str, port: int) -> str:
    """Address to open from this machine, e.g. ``http://127.0.0.1:8000`` for 0.0.0.0."""
    host = _LOOPBACK.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

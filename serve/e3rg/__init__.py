"""E3RG Serve: an empathetic listener, composed on Ray Serve (method: arXiv 2508.12854)."""

__version__ = "0.1.0"

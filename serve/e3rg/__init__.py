"""E3RG Serve: an empathetic listener, composed on Ray Serve (method: arXiv 2508.12854)."""

import os

__version__ = "0.1.0"

# People tell this system what they would tell nobody else: no library reports on its use. Set here,
# since each is read when its library is first imported.
for _name, _value in {
    "ORT_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}.items():
    os.environ.setdefault(_name, _value)

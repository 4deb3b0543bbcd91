"""Prepared portraits, kept for the ones last used."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from e3rg.identities.types import PortraitRef
from e3rg.stages.avatar.rig import Rig


class RigCache:
    """A least-recently-used cache in which concurrent callers share one preparation.

    Args:
        build: prepares a portrait; called in the thread that first asks for it.
        capacity: rigs kept.
    """

    def __init__(self, build: Callable[[PortraitRef], Rig], capacity: int) -> None:
        self._build = build
        self._capacity = capacity
        self._rigs: OrderedDict[PortraitRef, Future[Rig]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rigs)

    def get(self, ref: PortraitRef) -> Rig:
        """The rig of a portrait, prepared now if need be; blocks.

        Raises:
            E3RGError: what the preparation raised; it is tried anew at the next call.
        """
        with self._lock:
            future = self._rigs.get(ref)
            mine = future is None
            if future is None:
                future = self._rigs[ref] = Future()
            self._rigs.move_to_end(ref)
            while len(self._rigs) > self._capacity:
                self._rigs.popitem(last=False)
        if mine:
            try:
                future.set_result(self._build(ref))
            except BaseException as error:
                with self._lock:
                    if self._rigs.get(ref) is future:
                        del self._rigs[ref]
                future.set_exception(error)
        return future.result()

    def clear(self) -> None:
        """Drop all rigs."""
        with self._lock:
            self._rigs.clear()

"""CPU priorities between the stages of one machine."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def in_background_priority(make: Callable[[], T], niceness: int) -> T:
    """Make something whose own threads shall have a lower priority.

    On Linux a thread has its own niceness and hands it to the threads that it starts
    (setpriority(2), sched(7)); an unprivileged thread cannot raise its priority again, so ``make``
    runs in a thread that ends with it. Elsewhere it just runs.
    """

    def run() -> T:
        if niceness > 0 and sys.platform == "linux":
            thread = threading.get_native_id()
            nice = os.getpriority(os.PRIO_PROCESS, thread) + niceness
            os.setpriority(os.PRIO_PROCESS, thread, min(nice, 19))
        return make()

    with ThreadPoolExecutor(1, thread_name_prefix="make") as executor:
        return executor.submit(run).result()

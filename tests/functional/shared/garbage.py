# SPDX-License-Identifier: Apache-2.0

"""A collector of garbage that looks at what tests make, and less often.

Nova and its libraries are some 400 000 objects. By default, Python looks at
all of them several times in each test, for 0.2 seconds each time.
"""

import gc
import threading

#: How many more objects must have been made than deleted for a look at the
#: new ones; looks until one at those that outlived a look; and until one at
#: all. Python's own: 700, 10, 10.
#: A look at all after each million bounds what a long run leaves in memory,
#: but see :func:`collect_threads`.
_THRESHOLDS = (50_000, 5, 4)

#: More than a test needs.
_THREADS = 60


def install() -> None:
    """Leave out of all looks what is there by now; it stays for ever."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def collect_threads() -> None:
    """Have the threads end that former tests have left, if they are many.

    They belong to pools in cycles. Python puts a look at all off until a
    quarter as many objects are new as outlived the last one (``gc``, design of
    the collector, "Collecting the oldest generation"): after one in the midst
    of a test with millions of objects, hundreds of tests follow without. Each
    of the threads wakes a hundred times a second while Nova's test base
    starts, and hundreds of them take a whole processor.
    """
    if threading.active_count() > _THREADS:
        gc.collect()

# SPDX-License-Identifier: Apache-2.0

"""A collector of garbage that looks at what tests make, and less often.

Nova and its libraries are some 400 000 objects. By default, Python looks at
all of them several times in each test, for 0.2 seconds each time.
"""

import gc

#: How many more objects must have been made than deleted for a look at the
#: new ones; looks until one at those that outlived a look; and until one at
#: all. Python's own: 700, 10, 10.
#: A look at all after each million bounds what a long run leaves in memory.
_THRESHOLDS = (50_000, 5, 4)


def install() -> None:
    """Leave out of all looks what is there by now; it stays for ever."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)

# SPDX-License-Identifier: Apache-2.0

"""What hypothesis may try, and how long.

Runs are the same everywhere, so that a failure is not a matter of luck.
``HYPOTHESIS_PROFILE=search`` looks elsewhere each time, and longer.
"""

import functools
import operator
import os
from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import inventory

# The contracts are inherited by several test classes; that only matters to
# the database of examples, which is not used. How long examples take to make
# says more about a busy machine than about them.
_COMMON: dict[str, Any] = {
    'deadline': None,
    'database': None,
    'suppress_health_check': [
        hypothesis.HealthCheck.differing_executors,
        hypothesis.HealthCheck.too_slow,
    ],
}

hypothesis.settings.register_profile(
    'same', max_examples=150, derandomize=True, **_COMMON
)
hypothesis.settings.register_profile('search', max_examples=2000, **_COMMON)
hypothesis.settings.load_profile(os.environ.get('HYPOTHESIS_PROFILE', 'same'))

#: How many examples the profile tries.
EXAMPLES: int = hypothesis.settings().max_examples

#: As wide as the widest cache mask of today's CPUs, and a little more.
MASK_BITS = 24

_any_masks = st.integers(min_value=0, max_value=(1 << MASK_BITS) - 1)

#: A few long runs, which numbers drawn at random seldom have.
_masks_of_runs = st.lists(
    st.tuples(
        st.integers(min_value=0, max_value=MASK_BITS - 8),
        st.integers(min_value=1, max_value=8),
    ),
    min_size=1,
    max_size=4,
).map(
    lambda runs: functools.reduce(
        operator.or_, (bitmask.make_run(*run) for run in runs)
    )
)

masks = st.one_of(_any_masks, _masks_of_runs)

amounts = st.integers(min_value=-1, max_value=MASK_BITS + 1)

#: (whether to take, how many to take or which one to give back)
steps = st.lists(
    st.tuples(st.booleans(), st.integers(min_value=1, max_value=12)),
    max_size=20,
)


@st.composite
def inventories(draw: st.DrawFn) -> inventory.Inventory:
    """Any inventory that placement would store."""
    total = draw(st.integers(min_value=1, max_value=inventory.MAX_INT))
    min_unit = draw(st.integers(min_value=1, max_value=total))
    return inventory.Inventory(
        total=total,
        reserved=draw(st.integers(min_value=0, max_value=total)),
        min_unit=min_unit,
        max_unit=draw(
            st.integers(min_value=min_unit, max_value=inventory.MAX_INT)
        ),
        step_size=draw(st.integers(min_value=1, max_value=inventory.MAX_INT)),
        allocation_ratio=draw(
            st.floats(min_value=0.0625, max_value=10000, width=32)
        ),
    )

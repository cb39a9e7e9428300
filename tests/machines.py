# SPDX-License-Identifier: Apache-2.0

"""What the tests of resctrl run on: the model, or this machine's kernel."""

import os
from typing import Any

from nova_ext_resources.testing import resctrl
from tests.kernel import fixture


def make(shape: str | resctrl.Shape = 'skylake2', **options: Any) -> Any:
    """Return a fixture; see :class:`.resctrl.ResctrlFixture`.

    In a guest of ``tox -e kernel`` it is the kernel of that.
    """
    if fixture.NAME in os.environ:
        return fixture.KernelFixture(shape, **options)
    return resctrl.ResctrlFixture(shape, **options)


def is_kernel() -> bool:
    """Return whether it is a kernel."""
    return fixture.NAME in os.environ

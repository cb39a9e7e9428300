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


def list_shapes() -> dict[str, resctrl.Shape]:
    """Return the shapes that can be made here; the first one is the default.

    Of a kernel: this machine, mounted with each of its options.
    """
    if not is_kernel():
        return dict(resctrl.SHAPES)
    here = resctrl.SHAPES[os.environ[fixture.NAME]]
    return {
        name: shape
        for name, shape in resctrl.SHAPES.items()
        if shape.with_options() == here
    }


def get_default() -> str:
    """Return the name of a machine that can be made here."""
    return next(iter(list_shapes()))


def is_kernel() -> bool:
    """Return whether it is a kernel."""
    return fixture.NAME in os.environ

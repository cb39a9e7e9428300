# SPDX-License-Identifier: Apache-2.0

from tests.unit import shapes


class ShapesTest(shapes.ShapesCases):
    """In process."""

# SPDX-License-Identifier: Apache-2.0

"""The life of a server on its host, with each backend and kind of server."""

from tests.functional.virt import backends
from tests.functional.virt import life


class StaticLifeTest(backends.Static, life.LifeSuite):
    pass


class PinnedStaticLifeTest(backends.PinnedStatic, life.LifeSuite):
    pass


class RmdLifeTest(backends.Rmd, life.LifeSuite):
    pass


class ResctrlLifeTest(backends.Resctrl, life.LifeSuite):
    pass


class FloatingLifeTest(backends.Floating, life.LifeSuite):
    pass

# SPDX-License-Identifier: Apache-2.0

"""The model of resctrl, inside the process."""

from tests.unit.testing import resctrl_cases


class SchemataTest(resctrl_cases.SchemataCases):
    pass


class GroupTest(resctrl_cases.GroupCases):
    pass


class ModeTest(resctrl_cases.ModeCases):
    pass


class CpuTest(resctrl_cases.CpuCases):
    pass


class TaskTest(resctrl_cases.TaskCases):
    pass


class MonitorTest(resctrl_cases.MonitorCases):
    pass


class FileTest(resctrl_cases.FileCases):
    pass


class InterferenceTest(resctrl_cases.InterferenceCases):
    pass

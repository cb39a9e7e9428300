# SPDX-License-Identifier: Apache-2.0

"""The option of each plugin that reads sysfs."""

from oslo_config import cfg

PATH = cfg.StrOpt(
    'path',
    default='/sys',
    regex='^/',
    help="""
Where the kernel's sysfs is mounted.

Change it for tests only.
""",
)

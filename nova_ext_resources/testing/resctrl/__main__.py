# SPDX-License-Identifier: Apache-2.0

"""Mount the model from the command line."""

import sys

from nova_ext_resources.testing.resctrl import cli

if __name__ == '__main__':
    sys.exit(cli.main())

# SPDX-License-Identifier: Apache-2.0

"""Start the simulator from the command line."""

import sys

from nova_ext_resources.testing.rmd_simulator import cli

if __name__ == '__main__':
    sys.exit(cli.main())

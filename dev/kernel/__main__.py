# SPDX-License-Identifier: Apache-2.0

"""Runs ``python -m dev.kernel``."""

import sys

from dev.kernel import gate

sys.exit(gate.main())

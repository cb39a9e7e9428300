# SPDX-License-Identifier: Apache-2.0

"""Runs ``python -m dev.gate``."""

import sys

from dev.gate import gate

sys.exit(gate.main())

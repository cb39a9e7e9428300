# SPDX-License-Identifier: Apache-2.0

"""Runs ``python -m tools.gate``."""

import sys

from tools.gate import gate

sys.exit(gate.main())

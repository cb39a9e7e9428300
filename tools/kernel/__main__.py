# SPDX-License-Identifier: Apache-2.0

"""Runs ``python -m tools.kernel``."""

import sys

from tools.kernel import gate

sys.exit(gate.main())

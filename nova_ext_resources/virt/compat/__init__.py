# SPDX-License-Identifier: Apache-2.0

"""Which releases of Nova fit, and what of Nova's internals this package uses.

* ``private_api``: what of Nova this package uses, and whether Nova has it
* ``releases``: the releases of Nova that this package works with
* ``startup_checks``: refuses a start with another release or driver
"""

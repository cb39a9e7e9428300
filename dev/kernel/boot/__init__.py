# SPDX-License-Identifier: Apache-2.0

"""Starts a kernel with the root of this machine, read-only, below memory.

* ``initramfs``: the archive that the kernel starts from
* ``guest``: starts the emulator, runs commands in the guest, ends it
* ``init.c``: the first process; ``loop.sh``: what it runs
"""

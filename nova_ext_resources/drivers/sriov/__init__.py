# SPDX-License-Identifier: Apache-2.0

"""Virtual functions of network cards (SR-IOV).

* ``inventory``: one provider for each physical function
* ``missing``: interfaces that options name, and that are not there now
* ``neutron``: which devices an agent of Neutron manages
* ``owners``: which virtual functions are not ours, and why
* ``physnets``: which physical network a card is at
* ``sysfs``: reads the functions as the kernel shows them
* ``traits``: what a card can do
"""

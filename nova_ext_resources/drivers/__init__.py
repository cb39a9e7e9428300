# SPDX-License-Identifier: Apache-2.0

"""One folder per kind of resource. ``inventory`` finds it, ``enforcer`` acts.

* ``base``: the ABCs of inventory providers and enforcers
* ``fake``: cache domains that exist in the configuration only
* ``noop``: units are counted, and nothing on the host is touched
* ``rdt``: what resctrl and RMD mean by the same words
* ``resctrl``: cache and memory bandwidth by way of the kernel's resctrl
* ``rmd``: cache and memory bandwidth by way of Intel's RMD
* ``static``: resources that an operator writes into a YAML file
"""

# SPDX-License-Identifier: Apache-2.0

"""Resources that an operator defines in a YAML file.

* ``broken``: what is known of a file that cannot be read as a whole
* ``contents``: what all files define together
* ``definitions``: from the text of the file to values
* ``inventory``: reads the file again when it changes
"""

# SPDX-License-Identifier: Apache-2.0

"""Values as text that others read or have written. Without I/O.

Whatever text others have written, its reader raises only the errors that its
docstring names.

* ``foreign_data``: loads JSON and YAML of others, and reads their numbers
* ``holders``: who holds which units of a host, as a second string in Nova's
  host state
* ``host_tree``: a host as placement shows it, with what is left
* ``stats``: a host's view as one string in Nova's host state
"""

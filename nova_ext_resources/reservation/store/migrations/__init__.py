# SPDX-License-Identifier: Apache-2.0

"""What alembic runs; nothing else imports it.

* ``env``: runs migrations on the connection that it gets
* ``versions``: a module per version
"""

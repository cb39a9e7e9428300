# SPDX-License-Identifier: Apache-2.0

"""No proxies and no passwords from the environment, for any request.

requests reads the whole environment and the home folder's ``.netrc`` for each
request. All requests of these tests stay in the process or on this machine,
where a proxy could not serve them.
"""

from typing import Any

from requests import sessions


def install() -> None:
    """Have requests look for neither."""
    module: Any = sessions
    module.get_environ_proxies = find_proxies
    module.get_netrc_auth = find_password


def find_proxies(url: str, no_proxy: Any = None) -> dict[str, str]:
    return {}


def find_password(url: str, raise_errors: bool = False) -> None:
    return None

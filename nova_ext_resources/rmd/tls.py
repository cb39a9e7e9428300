# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Sessions that prove to RMD who we are, and make RMD prove it too."""

from collections.abc import Callable
import ssl
from typing import Any
from urllib import parse

from oslo_log import log as logging
import requests
from requests import adapters
import urllib3.util.ssl_

from nova_ext_resources import exception
from nova_ext_resources.rmd import writing

LOG = logging.getLogger(__name__)

_warned_of: set[str] = set()


def check_url(url: str, username: str | None) -> None:
    """Refuse, or warn of, plain http to another host.

    :raises InvalidConfiguration: a password would go over it
    """
    parts = parse.urlsplit(url)
    if parts.scheme == 'https' or parts.hostname in writing.LOOPBACK:
        return
    if username:
        raise exception.InvalidConfiguration(
            option='[ext_resources_rmd] url',
            value=url,
            reason='it would send the password in clear to another host; '
            'use https',
        )
    if url not in _warned_of:
        _warned_of.add(url)
        LOG.warning(
            'RMD is used over plain http at %(url)s, which is not this '
            'host: anybody on the way can change its workloads. Run RMD '
            'without debug mode, and use https.',
            {'url': url},
        )


class _ContextAdapter(adapters.HTTPAdapter):
    """Takes a TLS context of our own making."""

    def __init__(self, context: ssl.SSLContext) -> None:
        # Before the base class, which makes its pools right away.
        self._context = context
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self._context, **kwargs)


def _load(option: str, path: str, load: Callable[[], None]) -> None:
    try:
        load()
    except OSError as err:  # ssl.SSLError is one
        raise exception.InvalidConfiguration(
            option=f'[ext_resources_rmd] {option}',
            value=path,
            reason=f'{err}; it must be a readable PEM file',
        ) from err


def _make_context(
    ca_file: str | None, cert_file: str | None, key_file: str | None
) -> ssl.SSLContext:
    context = urllib3.util.ssl_.create_urllib3_context()
    # RMD's own tools make certificates without an Authority Key Identifier,
    # which Python 3.13 and later refuse by default. Chain, host name and
    # validity are verified all the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if ca_file:
        _load(
            'ca_file',
            ca_file,
            lambda: context.load_verify_locations(cafile=ca_file),
        )
    if cert_file:
        _load(
            'cert_file',
            cert_file,
            # The password keeps OpenSSL from asking on a terminal.
            lambda: context.load_cert_chain(
                cert_file, keyfile=key_file, password=''
            ),
        )
    return context


def make_session(
    *,
    ca_file: str | None = None,
    cert_file: str | None = None,
    key_file: str | None = None,
    username: str | None = None,
    password: str | None = None,
) -> requests.Session:
    """Make a session that trusts ``ca_file`` alone when it is given.

    :raises InvalidConfiguration: a file cannot be used
    """
    session = requests.Session()
    # Neither a proxy nor ~/.netrc comes between us and our own host.
    session.trust_env = False
    session.headers['Accept'] = 'application/json'
    session.headers['Accept-Encoding'] = 'identity'
    session.mount(
        'https://',
        _ContextAdapter(_make_context(ca_file, cert_file, key_file)),
    )
    if ca_file:
        session.verify = ca_file
    if username:
        session.auth = (username, password or '')
    return session

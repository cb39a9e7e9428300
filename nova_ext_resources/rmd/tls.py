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
import re
import ssl
from typing import Any
from urllib import parse

from oslo_config import cfg
from oslo_log import log as logging
import requests
from requests import adapters
import urllib3.util.ssl_

from nova_ext_resources import exception
from nova_ext_resources.rmd import writing

LOG = logging.getLogger(__name__)

_URL = re.compile(r'https?://[^/@\s?#]+/?')
#: What may be user and password, also where the rest is malformed.
_USER = re.compile(r'(?s)^([a-z]*:?/*).*@')

_warned_of: set[str] = set()


def check_url(url: str, username: str | None) -> None:
    """Refuse what is no address; refuse, or warn of, plain http elsewhere.

    :raises InvalidConfiguration: it is none, there are user and password
        in it, which would be logged, or a password would go over plain http
    """
    parts = _split(url)
    if parts.scheme == 'https' or parts.hostname in writing.LOOPBACK:
        return
    if username:
        raise _refuse(
            url,
            'it would send the password in clear to another host; use https',
        )
    if url not in _warned_of:
        _warned_of.add(url)
        LOG.warning(
            'RMD is used over plain http at %(url)s, which is not this '
            'host: anybody on the way can change its workloads. Run RMD '
            'without debug mode, and use https.',
            {'url': url},
        )


def _split(url: str) -> parse.SplitResult:
    masked, count = _USER.subn(r'\1***@', url)
    if count:
        raise _refuse(
            masked,
            'it would be logged with user and password; put them into '
            '[ext_resources_rmd] username and password',
        )
    reason = 'it must be like https://127.0.0.1:8443'
    if not _URL.fullmatch(url):
        raise _refuse(url, reason)
    try:
        parts = parse.urlsplit(url)
        if parts.port != 0 and parts.hostname:
            return parts
    except ValueError as err:
        reason = f'{err}; {reason}'
    raise _refuse(url, reason)


def _refuse(url: str, reason: str) -> exception.InvalidConfiguration:
    return exception.InvalidConfiguration(
        option='[ext_resources_rmd] url', value=url, reason=reason
    )


def check_credentials(options: cfg.ConfigOpts.GroupAttr) -> None:
    """Refuse half of what proves who we are: it would not be used at all.

    :raises InvalidConfiguration: a key without its certificate, or a
        password without its user
    """
    for half, other, value in (
        ('key_file', 'cert_file', options.key_file),
        ('password', 'username', '***'),
    ):
        if options[half] and not options[other]:
            raise exception.InvalidConfiguration(
                option=f'[ext_resources_rmd] {half}',
                value=value,
                reason=f'it is of no use without {other}; set that too, or '
                f'unset {half}',
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

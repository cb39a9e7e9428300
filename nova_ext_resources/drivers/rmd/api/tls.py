# SPDX-License-Identifier: Apache-2.0

"""Sessions in which this host and RMD authenticate each other."""

import re
import ssl
from typing import Any
from urllib import parse

from oslo_config import cfg
from oslo_log import log as logging
import requests
from requests import adapters
import urllib3.util.ssl_

from nova_ext_resources.drivers.rmd.api import writer_lock
from nova_ext_resources import exception

LOG = logging.getLogger(__name__)

_URL = re.compile(r'https?://[^/@\s?#]+/?')
#: What may be user and password, also where the rest is malformed.
_USER = re.compile(r'(?s)^([a-z]*:?/*).*@')

_warned_of: set[str] = set()


def _refuse(
    option: str, value: object, reason: object
) -> exception.InvalidConfiguration:
    return exception.InvalidConfiguration(
        option=f'[ext_resources_rmd] {option}', value=value, reason=reason
    )


def check_url(url: str, username: str | None) -> None:
    """Refuse what is no address; refuse, or warn of, plain http elsewhere.

    :raises InvalidConfiguration: it is none, there are user and password
        in it, which would be logged, or a password would go over plain http
    """
    parts = _split(url)
    if parts.scheme == 'https' or parts.hostname in writer_lock.LOOPBACK:
        return
    if username:
        raise _refuse(
            'url',
            url,
            'the password would go to another host in clear text; use https',
        )
    if url not in _warned_of:
        _warned_of.add(url)
        LOG.warning(
            'RMD is used over plain http at %(url)s, which is not this host: '
            'anyone on the network path can change the workloads. Run RMD '
            'without debug mode, and use https.',
            {'url': url},
        )


def _split(url: str) -> parse.SplitResult:
    masked, count = _USER.subn(r'\1***@', url)
    if count:
        raise _refuse(
            'url',
            masked,
            'this URL would be logged with user and password; set both in '
            '[ext_resources_rmd] username and password',
        )
    problem = ''
    try:
        parts = parse.urlsplit(url)
        if _URL.fullmatch(url) and parts.port != 0 and parts.hostname:
            return parts
    except ValueError as err:
        problem = f'{err}; '
    raise _refuse(
        'url', url, f'{problem}the URL must be like https://127.0.0.1:8443'
    )


class _ContextAdapter(adapters.HTTPAdapter):
    """Uses a TLS context of our own making."""

    def __init__(self, context: ssl.SSLContext) -> None:
        # Before the base class, which makes its pools right away.
        self._context = context
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self._context, **kwargs)


def _make_context(options: cfg.ConfigOpts.GroupAttr) -> ssl.SSLContext:
    context = urllib3.util.ssl_.create_urllib3_context()
    # RMD's own tools make certificates without an Authority Key Identifier,
    # which Python 3.13 and later refuse by default. Chain, host name and
    # validity are verified all the same.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    option = 'ca_file'
    try:
        if options.ca_file:
            context.load_verify_locations(cafile=options.ca_file)
        option = 'cert_file'
        if options.cert_file:
            context.load_cert_chain(
                options.cert_file,
                keyfile=options.key_file,
                # It keeps OpenSSL from asking on a terminal.
                password='',
            )
    except OSError as err:  # ssl.SSLError is one
        raise _refuse(
            option,
            options[option],
            f'{err}; the option must name a readable PEM file',
        ) from err
    return context


def make_session(options: cfg.ConfigOpts.GroupAttr) -> requests.Session:
    """Make a session from the values of ``[ext_resources_rmd]``.

    It trusts ``ca_file`` alone when that is set.

    :raises InvalidConfiguration: a file cannot be used, or there is a key
        without its certificate, or a password without its user, neither of
        which would be used
    """
    for half, other, value in (
        ('key_file', 'cert_file', options.key_file),
        ('password', 'username', '***'),
    ):
        if options[half] and not options[other]:
            raise _refuse(
                half,
                value,
                f'{half} has no effect without {other}; set {other} too, or '
                f'unset {half}',
            )
    session = requests.Session()
    # Neither a proxy nor ~/.netrc may get between this host and its RMD.
    session.trust_env = False
    session.headers['Accept'] = 'application/json'
    session.headers['Accept-Encoding'] = 'identity'
    session.mount('https://', _ContextAdapter(_make_context(options)))
    session.verify = options.ca_file or True
    if options.username:
        session.auth = (options.username, options.password or '')
    return session

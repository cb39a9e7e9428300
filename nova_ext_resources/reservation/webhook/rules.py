# SPDX-License-Identifier: Apache-2.0

"""Which URLs and addresses notifications may be sent to. Pure.

An address is judged when it is connected to, not when the subscription is
made: the owner of a name can have it name another address at any time.
"""

from collections.abc import Iterable
import dataclasses
import ipaddress
import re
from typing import TypeAlias
import urllib.parse

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Longer ones are cut off by many programs.
MAX_URL = 2000

_PORTS = {'https': 443, 'http': 80}

#: All that RFC 3986 allows in a URL.
_PLAIN = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")

#: All of IPv6 that has been given to anybody. What else a router knows leads
#: to no place of the internet.
_GIVEN = ipaddress.IPv6Network('2000::/3')

#: The last 32 bits of these are an address of IPv4, to which NAT64 leads.
_TRANSLATED = ipaddress.IPv6Network('64:ff9b::/96')

#: Not of the internet, as IANA's registries of special addresses have it.
#: Each Python knows another part of them.
_SPECIAL: tuple[Network, ...] = tuple(
    map(
        ipaddress.ip_network,
        (
            '0.0.0.0/8',
            '10.0.0.0/8',
            '100.64.0.0/10',
            '127.0.0.0/8',
            '169.254.0.0/16',
            '172.16.0.0/12',
            '192.0.0.0/24',
            '192.0.2.0/24',
            '192.88.99.0/24',
            '192.168.0.0/16',
            '198.18.0.0/15',
            '198.51.100.0/24',
            '203.0.113.0/24',
            '224.0.0.0/3',
            '2001::/23',
            '2001:db8::/32',
            '3fff::/20',
        ),
    )
)


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """The parts of a URL.

    :ivar host: a name, or an address without brackets, in lower case
    :ivar path: with the query
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        """The URL without its path, which may have a secret."""
        host = f'[{self.host}]' if ':' in self.host else self.host
        if self.port == _PORTS[self.scheme]:
            return f'{self.scheme}://{host}'
        return f'{self.scheme}://{host}:{self.port}'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What an operator allows.

    :ivar prefixes: URLs must begin with one of them, which may be of http.
        Without any, all of https are allowed
    :ivar networks: may be reached, although they are not of the internet
    """

    prefixes: tuple[Target, ...] = ()
    networks: tuple[Network, ...] = ()

    def check_url(self, url: str) -> Target:
        """Return the parts of a URL that is allowed.

        :raises ValueError: it is not, or it is none
        """
        target = parse(url)
        if self.prefixes:
            if not any(_begins(target, one) for one in self.prefixes):
                raise ValueError(
                    'the URL does not begin with one that the operator of '
                    'this cloud allows ([ext_resources_reservation] '
                    'webhook_urls)'
                )
        elif target.scheme != 'https':
            raise ValueError('it must begin with https://')
        try:
            address = ipaddress.ip_address(target.host)
        except ValueError:
            return target
        self.check_address(address)
        return target

    def check_address(self, address: Address) -> None:
        """Check that an address may be connected to.

        :raises ValueError: it may not
        """
        if any(address in one for one in self.networks):
            return
        if not _is_public(_find_meant(address)):
            raise ValueError(
                f'{address} is neither an address of the internet, nor in a '
                'network that the operator of this cloud allows '
                '([ext_resources_reservation] webhook_networks)'
            )


#: Where no operator has said anything.
PUBLIC = Rules()


def make_rules(prefixes: Iterable[str], networks: Iterable[str]) -> Rules:
    """Make rules of what an operator has written.

    :raises ValueError: it is no URL of http or https, or no network
    """
    return Rules(
        prefixes=tuple(map(parse, prefixes)),
        networks=tuple(map(ipaddress.ip_network, networks)),
    )


def hide_path(url: str) -> str:
    """Return a URL that was allowed once, without what may be a token."""
    scheme, _colon, rest = url.partition('://')
    host, _slash, path = rest.partition('/')
    host, question, _query = host.partition('?')
    return f'{scheme}://{host}/...' if path or question else url


def parse(url: str) -> Target:
    """Return the parts of a URL.

    What two programs could read in two ways is refused.

    :raises ValueError: it is none of http or https
    """
    if len(url) > MAX_URL or not _PLAIN.fullmatch(url):
        raise ValueError(
            f'it must be a URL of 1 to {MAX_URL} characters, with others than '
            "letters, digits and -._~:/?#[]@!$&'()*+,;=% written as %xx"
        )
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in _PORTS:
        raise ValueError('it must begin with https://')
    if '@' in parts.netloc or '#' in url:
        raise ValueError(
            'it must have no user, no password and no fragment; write a '
            'token into the path'
        )
    if not _is_host(parts.netloc, parts.hostname):
        raise ValueError('its host is neither a name nor an address')
    # Raises ValueError itself beyond 65535.
    port = parts.port or _PORTS[parts.scheme]
    path = parts.path or '/'
    if _has_dots(path):
        raise ValueError('its path must not have "." or ".." as a part')
    query = f'?{parts.query}' if parts.query else ''
    return Target(parts.scheme, parts.hostname or '', port, path + query)


def _is_host(netloc: str, host: str | None) -> bool:
    if not host or '%' in host or netloc.endswith(':'):
        return False
    if '[' in netloc:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return False
        return True
    # A name of digits alone, or of hex ones, is an address for inet_aton().
    if re.fullmatch(r'[0-9.]+|0x[0-9a-f.x]+', host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            return False
        return True
    return (
        re.fullmatch(r'[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?\.?', host) is not None
    )


def _has_dots(path: str) -> bool:
    plain = urllib.parse.unquote(path).replace('\\', '/')
    return any(one in ('.', '..') for one in plain.split('/'))


def _begins(target: Target, prefix: Target) -> bool:
    """Return whether a URL is one, or below it."""
    if (target.scheme, target.host, target.port) != (
        prefix.scheme,
        prefix.host,
        prefix.port,
    ):
        return False
    if target.path == prefix.path:
        return True
    path = target.path.partition('?')[0]
    folder = prefix.path.rstrip('/')
    return f'{path}/'.startswith(f'{folder}/') and _is_plain(path)


def _is_plain(path: str) -> bool:
    """Return whether all servers read the same folders in a path.

    Some decode it twice, leave out what follows a semicolon, or end it at a
    zero.
    """
    return {';', '%', '\0'}.isdisjoint(urllib.parse.unquote(path))


def _is_public(address: Address) -> bool:
    if any(address in one for one in _SPECIAL) or not address.is_global:
        return False
    return address.version == 4 or address in _GIVEN


def _find_meant(address: Address) -> Address:
    """Return an address, or the one of IPv4 that it leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour or address

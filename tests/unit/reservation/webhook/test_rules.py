# SPDX-License-Identifier: Apache-2.0

"""Tests of which URLs and addresses may be reached."""

import ipaddress

from nova_ext_resources.reservation.webhook import rules
from tests import base


class UrlTest(base.TestCase):
    def refuse(self, url: str, found: rules.Rules = rules.PUBLIC) -> str:
        return str(self.assertRaises(ValueError, found.check_url, url))

    def test_https_to_anywhere_public(self) -> None:
        found = rules.PUBLIC.check_url('https://Hooks.Example.org/a%20b?c=d')

        self.assertEqual(
            rules.Target('https', 'hooks.example.org', 443, '/a%20b?c=d'),
            found,
        )
        self.assertEqual('https://hooks.example.org', found.origin)

    def test_what_is_no_such_url(self) -> None:
        for url in (
            '',
            'http://example.org/',
            'ftp://example.org/',
            'file:///etc/passwd',
            'https://',
            'https:///path',
            'https://user@example.org/',
            'https://user:password@example.org/',
            'https://example.org/#fragment',
            'https://example.org:0x50/',
            'https://example.org:99999/',
            'https://example.org:/',
            'https://exa mple.org/',
            'https://example.org/\r\nHost: other',
            'https://example.org\\@other/',
            'https://ex%61mple.org/',
            'https://exämple.org/',
            'https://[::1/',
            'https://[fe80::1%25eth0]/',
            'https://-/',
            'https://example.org/' + 2000 * 'x',
        ):
            self.refuse(url)

    def test_addresses_in_other_spellings(self) -> None:
        for url in (
            'https://127.0.0.1/',
            'https://127.1/',
            'https://2130706433/',
            'https://0x7f000001/',
            'https://0177.0.0.1/',
            'https://[::1]/',
            'https://[::ffff:127.0.0.1]/',
            'https://169.254.169.254/latest/meta-data',
        ):
            self.refuse(url)

    def test_only_what_begins_as_the_operator_says(self) -> None:
        found = rules.make_rules(
            ['https://example.org/hooks', 'http://10.0.0.1:8080'],
            ['10.0.0.0/24'],
        )

        for url in (
            'https://example.org/hooks',
            'https://example.org/hooks/a',
            'https://example.org:443/hooks?a=b',
            'http://10.0.0.1:8080/any',
        ):
            found.check_url(url)
        for url in (
            'https://example.org/',
            'https://example.org/hooksandmore',
            'https://example.org/hooks/../other',
            'https://example.org/hooks/%2e%2e/other',
            'https://example.org.evil.net/hooks',
            'https://example.org:444/hooks',
            'http://example.org/hooks',
            'http://10.0.0.1/any',
            'https://other.org/hooks',
            # Servers read these in several ways.
            'https://example.org/hooks/..;/other',
            'https://example.org/hooks/..%3b/other',
            'https://example.org/hooks/%252e%252e/other',
            'https://example.org/hooks/.%00./other',
        ):
            self.assertIn('', self.refuse(url, found))
        # There is nothing above it.
        rules.PUBLIC.check_url('https://example.org/a;b=c?d=%25')

    def test_a_path_may_be_a_token(self) -> None:
        for url, shown in (
            ('https://example.org', 'https://example.org'),
            ('https://example.org/', 'https://example.org'),
            ('https://example.org:8/a/b?c', 'https://example.org:8/...'),
            ('https://example.org?token', 'https://example.org/...'),
            ('what is no URL', 'what is no URL'),
        ):
            self.assertEqual(shown, rules.hide_path(url).rstrip('/'))

    def test_what_an_operator_writes_wrong(self) -> None:
        for prefixes, networks in (
            (['example.org'], []),
            ([], ['10.0.0.1/24']),
            ([], ['example.org']),
        ):
            self.assertRaises(ValueError, rules.make_rules, prefixes, networks)


class AddressTest(base.TestCase):
    def test_what_is_not_of_the_internet(self) -> None:
        for text in (
            '127.0.0.1',
            '127.8.8.8',
            '0.0.0.0',
            '10.1.2.3',
            '172.16.0.1',
            '192.168.1.1',
            '100.64.0.1',
            '169.254.169.254',
            '224.0.0.1',
            '255.255.255.255',
            '192.0.0.9',
            '192.0.2.1',
            '192.88.99.1',
            '198.18.0.1',
            '240.0.0.1',
            '::',
            '::1',
            'fe80::1',
            'fec0::1',
            'fd00:ec2::254',
            'ff02::1',
            # Given to nobody, or for examples and routers only.
            '100:0:0:1::1',
            '2001::1',
            '2001:db8::1',
            '3fff::1',
            '4000::1',
            '5f00::1',
            '8000::1',
            # IPv4 in IPv6, in each way.
            '::ffff:10.1.2.3',
            '::127.0.0.1',
            '::ffff:8.8.8.8',
            '::ffff:0:127.0.0.1',
            '64:ff9b::a9fe:a9fe',
            '64:ff9b:1::a9fe:a9fe',
            '2002:7f00:1::',
        ):
            address = ipaddress.ip_address(text)
            self.assertRaises(ValueError, rules.PUBLIC.check_address, address)

    def test_what_is_of_the_internet(self) -> None:
        for text in (
            '8.8.8.8',
            '192.88.98.1',
            '2001:4860:4860::8888',
            '2600::1',
            '2002:808:808::1',
            '64:ff9b::808:808',
        ):
            rules.PUBLIC.check_address(ipaddress.ip_address(text))

    def test_what_an_operator_allows(self) -> None:
        found = rules.make_rules([], ['10.0.0.0/8', 'fd00::/8'])

        for text in ('10.1.2.3', 'fd00::1', '8.8.8.8'):
            found.check_address(ipaddress.ip_address(text))
        for text in ('127.0.0.1', '192.168.1.1'):
            self.assertRaises(
                ValueError, found.check_address, ipaddress.ip_address(text)
            )

# SPDX-License-Identifier: Apache-2.0

"""TLS and Basic authentication, with real certificates over loopback."""

import datetime
import ipaddress
import logging
import pathlib
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography import x509
from cryptography.x509 import oid
import fixtures

from nova_ext_resources.conf.drivers import rmd
from nova_ext_resources.drivers.rmd.api import client as client_mod
from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd.api import verify
from nova_ext_resources.drivers.rmd import loading
from nova_ext_resources import exception
from nova_ext_resources.testing import rmd_simulator
from nova_ext_resources.testing.rmd_simulator import server
from tests import base
from tests.unit.drivers.rmd.api import with_simulator


class Authority:
    """Signs certificates, without the extensions that RMD's tools omit."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = pathlib.Path(folder)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = make_name(name)
        self.path = str(self._folder / f'{name}.pem')
        certificate = self._sign(self._key, self._name, is_authority=True)
        self._write(self.path, certificate)

    def issue(self, name: str) -> tuple[str, str]:
        """Make a certificate for 127.0.0.1: its file and its key's."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(key, make_name(name), is_authority=False)
        path = str(self._folder / f'{name}-cert.pem')
        self._write(path, certificate)
        return path, self._write_key(f'{name}-key.pem', key)

    def issue_to_itself(self) -> tuple[str, str]:
        """Return its own certificate's file, and its key's."""
        return self.path, self._write_key('own-key.pem', self._key)

    def _write_key(self, name: str, key: ec.EllipticCurvePrivateKey) -> str:
        path = self._folder / name
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return str(path)

    def _sign(
        self,
        key: ec.EllipticCurvePrivateKey,
        name: x509.Name,
        *,
        is_authority: bool,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        hour = datetime.timedelta(hours=1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - hour)
            .not_valid_after(now + hour)
            .add_extension(
                x509.BasicConstraints(ca=is_authority, path_length=None),
                critical=True,
            )
            .add_extension(
                x509.SubjectAlternativeName(
                    [x509.IPAddress(ipaddress.ip_address('127.0.0.1'))]
                ),
                critical=False,
            )
        )
        return builder.sign(self._key, hashes.SHA256())

    @staticmethod
    def _write(path: str, certificate: x509.Certificate) -> None:
        pathlib.Path(path).write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
        )


def make_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, name)])


class SecuredTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        rmd.register_opts(self.conf)
        folder = self.make_folder()
        self.authority = Authority(folder, 'ca')
        self.stranger = Authority(folder, 'stranger')
        self.cert_file, self.key_file = self.authority.issue('rmd')

    def start_simulator(
        self,
        client_auth: str,
        users: dict[str, str] | None = None,
        **settings: Any,
    ) -> rmd_simulator.RmdSimulatorFixture:
        return self.useFixture(
            rmd_simulator.RmdSimulatorFixture(
                tls=server.Tls(
                    cert_file=self.cert_file,
                    key_file=self.key_file,
                    client_ca=self.authority.path,
                    client_auth=client_auth,  # type: ignore[arg-type]
                ),
                users=users,
                **settings,
            )
        )

    def start(
        self, client_auth: str, users: dict[str, str] | None = None
    ) -> str:
        url: str = self.start_simulator(client_auth, users).url
        return url

    def make_client(self, url: str, **options: str) -> client_mod.RmdClient:
        options['url'] = url
        for name, value in options.items():
            self.conf.set_override(name, value, 'ext_resources_rmd')
        self.conf.set_override('retries', 0, 'ext_resources_rmd')
        client = loading.from_options(self.conf.ext_resources_rmd)
        self.addCleanup(client.close)
        return client


class ClientCertificateTest(SecuredTestCase):
    def test_our_certificate_opens_rmd(self) -> None:
        url = self.start('challenge')
        cert_file, key_file = self.authority.issue('nova')
        client = self.make_client(
            url,
            ca_file=self.authority.path,
            cert_file=cert_file,
            key_file=key_file,
        )

        masks = verify.place_workload(
            client, with_simulator.make_request(with_simulator.make_uuid(), 1)
        )

        self.assertEqual({0: 0b1100000}, masks)

    def test_no_certificate_is_not_enough(self) -> None:
        client = self.make_client(
            self.start('challenge'), ca_file=self.authority.path
        )

        self.assertRaises(errors.AuthFailed, client.list_caches)

    def test_a_strangers_certificate_is_not_accepted(self) -> None:
        url = self.start('challenge')
        cert_file, key_file = self.stranger.issue('nova')
        client = self.make_client(
            url,
            ca_file=self.authority.path,
            cert_file=cert_file,
            key_file=key_file,
        )

        self.assertRaises(errors.AuthFailed, client.list_caches)


class ServerCertificateTest(SecuredTestCase):
    def refuse(self, url: str, **options: str) -> str:
        client = self.make_client(url, **options)
        err = self.assertRaises(errors.NotTrusted, client.list_caches)
        for words in (url, 'is not trusted', 'nothing was sent', 'ca_file'):
            self.assertIn(words, str(err))
        return str(err)

    def test_an_rmd_that_nobody_vouches_for_is_not_used(self) -> None:
        url = self.start('no')
        for options in ({}, {'ca_file': self.stranger.path}):
            with self.subTest(options=options):
                self.assertIn('certificate', self.refuse(url, **options))

    def test_a_certificate_that_signs_itself_is_named(self) -> None:
        self.cert_file, self.key_file = self.authority.issue_to_itself()

        reason = self.refuse(self.start('no'))

        self.assertIn('self-signed certificate', reason.replace('f s', 'f-s'))
        self.assertNotIn('_ssl.c', reason)

    def test_an_rmd_with_another_name_is_not_used(self) -> None:
        url = self.start('no').replace('127.0.0.1', 'localhost')

        reason = self.refuse(url, ca_file=self.authority.path)

        self.assertIn('localhost', reason)

    def refuse_scheme(self, url: str, right: str) -> None:
        client = self.make_client(url)

        err = self.assertRaises(errors.WrongScheme, client.list_caches)

        self.assertIn(f'RMD at {url} speaks {right}', str(err))
        self.assertIn('[ext_resources_rmd] url', str(err))

    def test_plain_http_to_tls_is_named(self) -> None:
        for client_auth in ('no', 'challenge'):
            url = self.start(client_auth)

            self.refuse_scheme(url.replace('https', 'http'), 'https')

    def test_tls_to_plain_http_is_named(self) -> None:
        fixture = self.useFixture(rmd_simulator.RmdSimulatorFixture())

        self.refuse_scheme(fixture.url.replace('http', 'https'), 'http')


class BasicTest(SecuredTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.url = self.start('no', users={'admin': 'right', 'user': 'reader'})

    def make_user(self, name: str, password: str) -> client_mod.RmdClient:
        return self.make_client(
            self.url,
            ca_file=self.authority.path,
            username=name,
            password=password,
        )

    def test_the_right_password_opens_rmd(self) -> None:
        client = self.make_user('admin', 'right')
        uuid = with_simulator.make_uuid()

        client.create_workload(with_simulator.make_request(uuid, 1))
        client.delete_workload(uuid)

        self.assertEqual((), client.list_workloads())

    def test_no_or_a_wrong_password_is_told(self) -> None:
        for client in (
            self.make_user('admin', 'wrong'),
            self.make_user('', ''),
        ):
            err = self.assertRaises(errors.AuthFailed, client.list_caches)

            self.assertNotIn('wrong', str(err).replace('no or wrong', ''))

    def test_what_policy_csv_does_not_allow_is_told(self) -> None:
        reader = self.make_user('user', 'reader')
        self.assertEqual(2, len(reader.list_caches()))

        err = self.assertRaises(
            errors.NotPermitted,
            reader.create_workload,
            with_simulator.make_request(with_simulator.make_uuid(), 1),
        )

        self.assertIn('policy.csv', str(err))

    def test_as_shipped_nobody_may_read_mba(self) -> None:
        client = self.make_user('admin', 'right')

        self.assertRaises(errors.NotPermitted, client.get_mba)


class OptionsTest(base.TestCase):
    """What is refused before RMD is asked anything."""

    def setUp(self) -> None:
        super().setUp()
        rmd.register_opts(self.conf)

    def refuse(self, **options: str) -> str:
        for name, value in options.items():
            self.conf.set_override(name, value, 'ext_resources_rmd')
        err = self.assertRaises(
            exception.InvalidConfiguration,
            loading.from_options,
            self.conf.ext_resources_rmd,
        )
        return str(err)

    def test_a_password_in_the_url_is_refused_and_told_to_nobody(self) -> None:
        log = self.useFixture(fixtures.FakeLogger(level=logging.DEBUG))
        for url in (
            'http://admin:SECRET@127.0.0.1:8081',
            'https://SECRET@rmd.example.org:8443/',
            'https://admin:SEC/RET?#@SECRET@rmd.example.org',
            'https:/admin:SECRET@rmd.example.org',
            'admin:SECRET@rmd.example.org',
            'HTTPS://admin:SECRET@rmd.example.org:x',
            'http://admin:SECRET@[::1',
        ):
            with self.subTest(url=url):
                said = self.refuse(url=url)

                for words in ('[ext_resources_rmd] url = ', '***@'):
                    self.assertIn(words, said)
                self.assertIn('username and password', said)
                self.assertNotIn('SEC', said + log.output)
                self.assertNotIn('RET', said + log.output)

    def test_what_is_no_address_is_refused(self) -> None:
        for url in (
            '',
            'rmd.example.org:8443',
            'ftp://rmd.example.org',
            'https://',
            'https://:8443',
            'https://127.0.0.1:8443/v1',
            'https://127.0.0.1:port',
            'https://127.0.0.1:99999',
            'https://[::1',
            'https://127.0.0.1 :8443',
        ):
            with self.subTest(url=url):
                said = self.refuse(url=url)

                self.assertIn('must be like https://127.0.0.1:8443', said)

    def test_a_key_without_its_certificate_is_refused(self) -> None:
        said = self.refuse(key_file='/etc/key.pem')

        self.assertIn('[ext_resources_rmd] key_file = /etc/key.pem', said)
        self.assertIn('cert_file', said)

    def test_a_password_without_its_user_is_refused(self) -> None:
        said = self.refuse(password='SECRET')

        self.assertIn('[ext_resources_rmd] password', said)
        self.assertIn('username', said)
        self.assertNotIn('SECRET', said)

    def test_a_password_in_clear_to_another_host_is_refused(self) -> None:
        said = self.refuse(
            url='http://rmd.example.org:8081', username='u', password='SECRET'
        )

        self.assertIn('use https', said)
        self.assertNotIn('SECRET', said)

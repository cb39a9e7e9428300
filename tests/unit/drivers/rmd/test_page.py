# SPDX-License-Identifier: Apache-2.0

"""The certificates that the page of RMD has a deployer make open RMD."""

import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import textwrap
from urllib import parse

from nova_ext_resources.conf.drivers import rmd
from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.drivers.rmd import loading
from nova_ext_resources.testing import rmd_simulator
from nova_ext_resources.testing.rmd_simulator import server
from tests import base

PAGE = pathlib.Path(__file__).parents[4] / 'doc/source/admin/plugins/rmd.rst'


def read_section(title: str) -> str:
    """Return the text of a section, to the next heading."""
    _before, _title, rest = PAGE.read_text(encoding='utf-8').partition(
        f'\n{title}\n{"-" * len(title)}\n'
    )
    return re.split(r'^(?:=+|-+)$', rest, maxsplit=1, flags=re.M)[0]


class CertificatesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        if not shutil.which('openssl'):
            self.skipTest('there is no openssl')
        rmd.register_opts(self.conf)
        self.text = read_section('Certificates')
        self.folder = self.make_folder()
        self.make_certificates()

    def make_certificates(self) -> None:
        """Do what the page says, as it says it."""
        [block] = re.findall(
            r'code-block:: console\n\n((?: {3}.*\n|\n)+)', self.text
        )
        commands = re.sub(r'^\$ ', '', textwrap.dedent(block), flags=re.M)
        subprocess.run(
            ['sh', '-e', '-c', commands],
            cwd=self.folder,
            check=True,
            capture_output=True,
            timeout=120,
        )

    def find(self, name: str, where: str) -> str:
        """Return a file that the table of the page has for a place."""
        rows = re.findall(
            r'^   \* - (.+)\n     - ((?:.|\n(?!   \*))+)', self.text, re.M
        )
        [files] = (
            files for files, place in rows if where in place and name in files
        )
        self.assertIn(f'``{name}``', files)
        return str(pathlib.Path(self.folder, name))

    def start(self) -> str:
        fixture = self.useFixture(
            rmd_simulator.RmdSimulatorFixture(
                tls=server.Tls(
                    cert_file=self.find('rmd-cert.pem', '``certpath``; the'),
                    key_file=self.find('rmd-key.pem', '``certpath``; the'),
                    client_ca=self.find('ca.pem', '``clientcapath``'),
                    client_auth='challenge',
                )
            )
        )
        return str(fixture.url)

    def list_workloads(self, url: str) -> None:
        options = {
            'url': url,
            'ca_file': self.find('ca.pem', '``ca_file``'),
            'cert_file': self.find('nova-cert.pem', '``cert_file``'),
            'key_file': self.find('nova-key.pem', '``key_file``'),
            'retries': 0,
        }
        for name, value in options.items():
            self.conf.set_override(name, value, 'ext_resources_rmd')
        client = loading.from_options(self.conf.ext_resources_rmd)
        self.addCleanup(client.close)
        self.assertEqual([], list(client.list_workloads()))

    def connect_strictly(self, url: str) -> None:
        """Verify as Python 3.13 does by default."""
        context = ssl.create_default_context(
            cafile=self.find('ca.pem', '``ca_file``')
        )
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.load_cert_chain(
            self.find('nova-cert.pem', '``cert_file``'),
            self.find('nova-key.pem', '``key_file``'),
        )
        parts = parse.urlsplit(url)
        with (
            socket.create_connection((parts.hostname, parts.port), 60) as raw,
            context.wrap_socket(raw, server_hostname='127.0.0.1') as secured,
        ):
            self.assertTrue(secured.getpeercert())

    def test_they_open_rmd_where_the_page_has_them_copied(self) -> None:
        url = self.start()

        self.list_workloads(url)
        self.connect_strictly(url)

    def test_the_address_must_be_that_of_the_certificate(self) -> None:
        url = self.start().replace('127.0.0.1', 'localhost')

        err = self.assertRaises(errors.RmdError, self.list_workloads, url)

        self.assertIn('certificate', str(err))

# SPDX-License-Identifier: Apache-2.0

"""An authority, and certificates of names, as strict programs want them."""

import datetime
import pathlib

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography import x509
from cryptography.x509 import oid

_HOUR = datetime.timedelta(hours=1)


class Authority:
    """Signs certificates.

    :ivar path: the file of its own
    """

    def __init__(self, folder: str) -> None:
        self._folder = pathlib.Path(folder)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _make_name('authority')
        own = self._begin(self._name, self._key, is_authority=True)
        usage = dict.fromkeys(
            (
                'digital_signature',
                'content_commitment',
                'key_encipherment',
                'data_encipherment',
                'key_agreement',
                'encipher_only',
                'decipher_only',
            ),
            False,
        )
        own = own.add_extension(
            x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage),
            critical=True,
        )
        self.path = self._write('authority.pem', own)

    def issue(self, name: str) -> tuple[str, str]:
        """Make a certificate of a host: its file and its key's."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._begin(_make_name(name), key, is_authority=False)
        made = made.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        )
        path = self._folder / f'{name}-key.pem'
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return self._write(f'{name}.pem', made), str(path)

    def _begin(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        is_authority: bool,
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        own, mine = key.public_key(), self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(own)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _HOUR)
            .not_valid_after(now + _HOUR)
            .add_extension(
                x509.BasicConstraints(ca=is_authority, path_length=None),
                critical=True,
            )
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(own), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(mine),
                critical=False,
            )
        )

    def _write(self, name: str, builder: x509.CertificateBuilder) -> str:
        path = self._folder / name
        made = builder.sign(self._key, hashes.SHA256())
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return str(path)


def _make_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, name)])

# SPDX-License-Identifier: Apache-2.0

"""By which a receiver knows that a notification is genuine. Pure.

As `Standard Webhooks <https://www.standardwebhooks.com>`_ has it, for which
there are libraries: HMAC-SHA256 of the id, the time of sending and the body.
"""

import base64
import binascii
import hashlib
import hmac
import secrets

#: How the text of a secret begins.
PREFIX = 'whsec_'

#: Bytes that a secret has; as the specification says.
LEAST, MOST = 24, 64

_BYTES = 32


def make_secret() -> str:
    """Return a secret that nobody knows yet."""
    return PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def check_secret(secret: str) -> None:
    """Check that a text is a secret.

    :raises ValueError: it is none. The message does not have it
    """
    _decode(secret)


def make_headers(
    secret: str, uuid: str, now: int, body: bytes
) -> dict[str, str]:
    """Return the headers of a notification.

    :param uuid: of the notification
    :param now: seconds since the epoch
    """
    signed = b'.'.join((uuid.encode(), str(now).encode(), body))
    digest = hmac.new(_decode(secret), signed, hashlib.sha256).digest()
    return {
        'webhook-id': uuid,
        'webhook-timestamp': str(now),
        'webhook-signature': f'v1,{base64.b64encode(digest).decode()}',
    }


def _decode(secret: str) -> bytes:
    try:
        found = base64.b64decode(
            secret.removeprefix(PREFIX).encode('ascii'), validate=True
        )
    except (binascii.Error, UnicodeError):
        found = b''
    if not secret.startswith(PREFIX) or not LEAST <= len(found) <= MOST:
        raise ValueError(
            f'it must be {PREFIX!r} and {LEAST} to {MOST} bytes in base64; '
            'leave it out to get a new one'
        )
    return found

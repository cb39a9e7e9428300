# SPDX-License-Identifier: Apache-2.0

"""Tests of signatures."""

import base64

from nova_ext_resources.reservation.webhook import signature
from tests import base


class SignatureTest(base.TestCase):
    def test_the_example_of_the_specification(self) -> None:
        # Of the libraries of Standard Webhooks.
        found = signature.make_headers(
            'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
            'msg_p5jXN8AQM9LWM0D4loKWxJek',
            1614265330,
            b'{"test": 2432232314}',
        )

        self.assertEqual(
            'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
            found['webhook-signature'],
        )
        self.assertEqual('1614265330', found['webhook-timestamp'])

    def test_new_secrets_differ_and_are_good(self) -> None:
        found = {signature.make_secret() for _number in range(9)}

        self.assertEqual(9, len(found))
        for one in found:
            signature.check_secret(one)

    def test_what_is_no_secret(self) -> None:
        good = base64.b64encode(bytes(24)).decode()
        signature.check_secret(f'whsec_{good}')
        for text in (
            '',
            good,
            'whsec_',
            'whsec_' + base64.b64encode(bytes(23)).decode(),
            'whsec_' + base64.b64encode(bytes(65)).decode(),
            f'whsec_{good}!',
            f'whsec_{good[:-1]}ä',
        ):
            err = self.assertRaises(ValueError, signature.check_secret, text)
            if len(text) > 6:
                self.assertNotIn(text[6:], str(err))
